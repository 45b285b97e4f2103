"""File systems: the one that an address belongs to, and object store settings from variables."""

import pytest

from deltaproduce.engines.file_systems.choice import directory
from deltaproduce.engines.file_systems.object_store import ObjectStore
from deltaproduce.engines.file_systems.this_machine import ThisMachine


@pytest.mark.parametrize("address", ["/srv/lake", "file:/srv/lake", "file:///srv/lake"])
def test_a_path_is_on_this_machine(address: str) -> None:
    found = directory(address)
    assert found is not None
    assert found.file_system == ThisMachine()
    assert (found.path, found.uri, found.named("a/b")) == (
        "/srv/lake",
        "/srv/lake",
        "file:/srv/lake/a/b",
    )
    assert found.inside(found.named("a/b")) == "a/b"


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_bucket_is_in_an_object_store(scheme: str) -> None:
    found = directory(f"{scheme}://lake/shop")
    assert found is not None
    assert isinstance(found.file_system, ObjectStore)
    assert (found.path, found.uri, found.named("a/b")) == (
        "lake/shop",
        "s3://lake/shop",
        "s3a://lake/shop/a/b",
    )
    assert found.inside(found.named("a/b")) == "a/b"


@pytest.mark.parametrize("address", ["hdfs://name/a", "abfss://lake@account/a", "s3://", "dbfs:/a"])
def test_other_places_are_for_spark(address: str) -> None:
    assert directory(address) is None


@pytest.mark.parametrize("odd", ["a#b", "a%20b", "../b", "a//b", "a/.", "a?b", "[a]"])
def test_delta_rs_takes_no_signs_that_mean_something_in_a_url(odd: str) -> None:
    found = directory(f"s3://lake/{odd}")
    assert found is not None
    assert not found.is_taken


@pytest.mark.parametrize("plain", ["a b", "a=b/c", "ä.b", "a..b"])
def test_delta_rs_takes_others(plain: str) -> None:
    found = directory(f"s3://lake/{plain}")
    assert found is not None
    assert found.is_taken


def test_the_environment_says_where_the_service_is_and_who_asks() -> None:
    found = ObjectStore.of_environment(
        {
            "aws_endpoint_url": "http://127.0.0.1:9000",
            "AWS_DEFAULT_REGION": "eu",
            "AWS_ACCESS_KEY_ID": "me",
            "AWS_SECRET_ACCESS_KEY": "hush",
            "AWS_SESSION_TOKEN": "",
            "AWS_CONDITIONAL_PUT": "disabled",
            "AWS_S3_ALLOW_UNSAFE_RENAME": "true",
        }
    )
    assert found == ObjectStore("http://127.0.0.1:9000", "eu", "me", "hush")
    assert "hush" not in repr(found)
    told = found.storage_options
    assert told["AWS_ENDPOINT_URL"] == "http://127.0.0.1:9000"
    assert told["AWS_SECRET_ACCESS_KEY"] == "hush"
    assert told["AWS_CONDITIONAL_PUT"] == "etag"
    assert told["AWS_S3_ALLOW_UNSAFE_RENAME"] == "false"
    assert "AWS_SESSION_TOKEN" not in told


def test_a_session_reads_here_what_it_would_read_itself() -> None:
    assert ThisMachine().serves_sessions(is_local=True)
    assert not ThisMachine().serves_sessions(is_local=False)
    assert ObjectStore(key="me").serves_sessions(is_local=False)
    assert not ObjectStore().serves_sessions(is_local=False)


@pytest.mark.parametrize(
    ("error", "silent"),
    [
        (OSError("AWS Error NETWORK_CONNECTION during GetObject operation"), True),
        (OSError("AWS Error ACCESS_DENIED during GetObject operation"), True),
        (OSError("\x1b[31m↳\x1b[0m Generic S3 error\n  timed out"), True),
        (OSError("Operation not supported\n an error occurred while loading credentials"), True),
        (FileNotFoundError("Path does not exist"), False),
        (OSError("Generic S3 error: NoSuchKey"), False),
        (OSError("Couldn't deserialize thrift"), False),
    ],
)
def test_who_cannot_be_reached_is_told_from_what_is_damaged(error: OSError, silent: bool) -> None:
    said = ObjectStore().silence(error)
    assert (said is not None) == silent
    assert said is None or said.isprintable()
    assert ThisMachine().silence(error) is None
