"""Names and addresses: their meaning, refusals, and the bounds of a store."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaproduce.errors import CorruptStoreError, DefinitionError
from deltaproduce.model.layouts import CONTENT, KINDS
from deltaproduce.storage.locations import Location, StoreTable, is_relative
from deltaproduce.types.ddl import identifier

AT_A_PATH = Location("/lake", in_catalog=False)
IN_A_CATALOG = Location("`shop`", in_catalog=True)


@pytest.mark.parametrize(
    "name", ["..", ".", "", "../x", "x/..", "x/../content", "/etc/x", "a/b/c", "x/", "/", "./x"]
)
def test_no_name_leads_out_of_a_store(name: str) -> None:
    with pytest.raises(CorruptStoreError):
        AT_A_PATH.named(name)


@pytest.mark.parametrize("kind", ["..", "", "x", "../content", "Content", "_versions"])
@pytest.mark.parametrize("location", [AT_A_PATH, IN_A_CATALOG])
def test_a_stage_has_no_other_kinds_of_tables(location: Location, kind: str) -> None:
    with pytest.raises(CorruptStoreError):
        location.table("orders", kind)


@given(st.text(min_size=1), st.sampled_from(KINDS))
def test_every_table_of_a_stage_is_two_steps_below_the_store(stage: str, kind: str) -> None:
    try:
        table = AT_A_PATH.table(stage, kind)
    except CorruptStoreError:
        assert stage in {".", ".."}
        return
    top, folder, last = table.address.removeprefix("/lake/").partition("/")
    assert table.address.startswith("/lake/")
    assert (folder, last) == ("/", kind)
    assert top not in {"", ".", ".."}
    assert re.fullmatch(r"[A-Za-z0-9'!$&()+,;=@._~-]+", top)


ODD = st.text(st.sampled_from("aé~7E%2 '"), min_size=1, max_size=4)


@given(ODD, ODD)
def test_two_stages_have_two_folders(one: str, other: str) -> None:
    names = {AT_A_PATH.table(stage, CONTENT).name for stage in (one, other)}
    assert len(names) == len({one, other})


@given(st.text(min_size=1))
def test_a_quoted_name_ends_where_it_ends(name: str) -> None:
    """Every backtick in it is doubled, so none of it is read as what comes after a name."""
    quoted = identifier(name)
    assert (quoted[0], quoted[-1]) == ("`", "`")
    assert quoted[1:-1].replace("``", "").count("`") == 0
    assert quoted[1:-1].replace("``", "`") == name


@pytest.mark.parametrize(
    "text",
    ["/lake/t@v0", "/lake/t@V12", "/lake/t@20200101000000000", "s3://b/t@v1/", "file:/a\nb@v3"],
)
def test_a_table_is_not_named_with_a_version(text: str) -> None:
    """Delta would read the table /lake/t, at its version 0."""
    with pytest.raises(DefinitionError) as caught:
        StoreTable.existing(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["/lake/t@v0/t", "/lake/t@v", "/lake/t@2020", "/lake/@v0x", "/@"])
def test_other_signs_are_part_of_a_path(text: str) -> None:
    assert StoreTable.existing(text).address.endswith(text)


@pytest.mark.parametrize("text", ["/lake/${x}", "/lake/${env:HOME}/t", "s3://${spark.x}/lake"])
def test_spark_would_replace_a_variable_in_any_text(text: str) -> None:
    for parse in (StoreTable.existing, Location.parse):
        with pytest.raises(DefinitionError) as caught:
            parse(text)
        assert repr(text) in str(caught.value)
    assert Location.parse("/lake/$x{y}").address == "/lake/$x{y}"


REFUSED = ["a b", "a'b", 'a"b', "a;b", "ünï", "a-b", "a`b", "a*b", "a\nb", "spark_catalog.a-b"]
REFUSED += ["a b.c", "c.a b", "--", "c.ü", "spark_catalog.a;DROP TABLE x", "a@v0"]


@pytest.mark.parametrize("text", REFUSED)
def test_a_schema_that_spark_cannot_hold_is_refused(text: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        Location.parse(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    "text", ["shop", "_shop", "1a", "`shop`", "spark_catalog.shop", "my-catalog.the-schema"]
)
def test_others_are_taken(text: str) -> None:
    assert Location.parse(text).in_catalog


@pytest.mark.parametrize("stage", ["Y__runs", "Y__Runs", "y__KEY_MAPPINGS", "Y__upDates"])
def test_a_stage_in_a_catalog_does_not_end_as_tables_of_others_do(stage: str) -> None:
    """Names in a catalog have no case: Y__Runs would be the runs of Y."""
    with pytest.raises(DefinitionError) as caught:
        IN_A_CATALOG.check(["Y", stage])
    assert caught.value.stage == stage
    AT_A_PATH.check(["Y", stage])


def test_a_folder_with_a_version_log_is_another_store() -> None:
    paths = ["a/content", "a/runs", "b/content", "b/_versions", "c/other", "a.b/updates"]
    paths += ["a b/content", "%C3%A9/content", "é/content", "a~/content", "a~7e/content"]
    found = AT_A_PATH.among(paths)
    assert [table.name for table in found] == ["a/content", "a/runs", "a.b/updates"]
    assert found[0] == AT_A_PATH.table("a", CONTENT)


@pytest.mark.parametrize("parse", [Location.parse, StoreTable.existing])
@pytest.mark.parametrize("user", ["AKIAUSER:wJalr@EXAMPLE", ":wJalr+EXAMPLE", "a:wJalr:EXAMPLE"])
def test_a_path_with_a_password_is_refused_without_showing_it(parse, user):
    with pytest.raises(DefinitionError) as caught:
        parse(f"s3a://{user}@bucket/orders")
    assert "bucket/orders" in str(caught.value)
    for secret in ("wJalr", "EXAMPLE", "AKIA"):
        assert secret not in str(caught.value)


@pytest.mark.parametrize("parse", [Location.parse, StoreTable.existing])
@pytest.mark.parametrize(
    "path",
    [
        *("abfss://container@account.dfs.core.windows.net/lake", "hdfs://host:8020/a@b:c@d"),
        *("s3a://bucket/a:b@c", "file:///a:b@c/d", "/a:/b:c@d", "/a/b:c@d"),
    ],
)
def test_other_paths_are_taken_as_they_are(parse, path):
    assert parse(path).address == path


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path.cwd()


@pytest.mark.parametrize(
    ("text", "below"),
    [
        ("lake/library", "lake/library"),
        ("./lake", "lake"),
        ("lake/", "lake"),
        ("lake//library/", "lake/library"),
        ("lake/./other/../library", "lake/library"),
        ("./", "."),
        (".", "."),
        ("..", ".."),
        ("../lake", "../lake"),
        ("~/lake", "~/lake"),
        (" lake /x ", " lake /x "),
    ],
)
def test_a_relative_path_is_one_of_the_current_directory(here: Path, text: str, below: str) -> None:
    whole = os.path.abspath(here / below)
    assert is_relative(text)
    assert Location.parse(text) == Location(whole, in_catalog=False)
    assert StoreTable.existing(text) == StoreTable(whole, whole, in_catalog=False)


def test_a_location_stays_where_it_was(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location = Location.parse("lake/library")
    monkeypatch.chdir("/")
    assert location.table("words", "content").address == f"{here}/lake/library/words/content"
    assert Location.parse(location.address) == location


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("/lake/library", "/lake/library"),
        ("/lake/library/", "/lake/library"),
        ("/lake/x/../library/.", "/lake/library"),
        ("/", "/"),
        ("s3a://bucket/lake/../x", "s3a://bucket/lake/../x"),
        ("s3a://bucket/lake/", "s3a://bucket/lake"),
        ("file:/lake", "file:/lake"),
        ("dbfs:/lake", "dbfs:/lake"),
    ],
)
def test_a_whole_path_needs_no_directory(text: str, address: str) -> None:
    assert not is_relative(text)
    assert Location.parse(text) == Location(address, in_catalog=False)
    assert StoreTable.existing(text).address == address


@pytest.mark.parametrize(
    ("text", "address"), [("lake", "`lake`"), ("main.lake", "`main`.`lake`"), ("`lake`", "`lake`")]
)
def test_without_a_slash_it_is_a_schema(text: str, address: str) -> None:
    assert not is_relative(text)
    assert Location.parse(text) == Location(address, in_catalog=True)


@pytest.mark.parametrize("text", ["", "a.b.c", "a.", ".a"])
def test_some_texts_are_no_location(text: str) -> None:
    with pytest.raises(DefinitionError):
        Location.parse(text)


@given(st.text(st.characters(exclude_categories=["C"]), min_size=1).map("./{}".format))
def test_parsing_what_was_parsed_changes_nothing(text: str) -> None:
    location = Location.parse(text)
    assert os.path.isabs(location.address)
    assert Location.parse(location.address) == location
    table = StoreTable.existing(text)
    assert StoreTable.existing(table.name) == table
