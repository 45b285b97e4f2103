"""Where tables are: what a path may not have in it."""

import pytest

from deltaproduce.errors import DefinitionError
from deltaproduce.locations import Location, Table


@pytest.mark.parametrize("parse", [Location.parse, Table.existing])
@pytest.mark.parametrize("user", ["AKIAUSER:wJalr@EXAMPLE", ":wJalr+EXAMPLE", "a:wJalr:EXAMPLE"])
def test_a_path_with_a_password_is_refused_without_showing_it(parse, user):
    with pytest.raises(DefinitionError) as caught:
        parse(f"s3a://{user}@bucket/orders")
    assert "bucket/orders" in str(caught.value)
    for secret in ("wJalr", "EXAMPLE", "AKIA"):
        assert secret not in str(caught.value)


@pytest.mark.parametrize("parse", [Location.parse, Table.existing])
@pytest.mark.parametrize(
    "path",
    [
        *("abfss://container@account.dfs.core.windows.net/lake", "hdfs://host:8020/a@b:c@d"),
        *("s3a://bucket/a:b@c", "file:///a:b@c/d", "/a://b:c@d", "a/b:c@d"),
    ],
)
def test_other_paths_are_taken_as_they_are(parse, path):
    assert parse(path).address == path
