"""The translation of error texts into damage of a store's tables."""

import pytest

from deltaproduce import CorruptStoreError, StorageError
from deltaproduce.engines.spark.sessions.damage import noticed, table_of, tells_of_damage

PLACES = {"leaf/content": "/lake/a store/leaf/content", "leaf/updates": "s3://b/lake/leaf/updates"}


def places():
    return PLACES


@pytest.mark.parametrize(
    ("said", "table"),
    [
        ("[FAILED_READ_FILE.FILE_NOT_EXIST] file:/lake/a%20store/leaf/content/p.parquet", 0),
        ("PATH_NOT_FOUND file:/lake/a store/leaf/content/_delta_log/00.json", 0),
        ("FAILED_READ_FILE s3://b/lake/leaf/updates/p.parquet", 1),
        ("FAILED_READ_FILE file:/lake/a%20store/leaf/content2/p.parquet", None),
        ("FAILED_READ_FILE file:/data/of/the/user.parquet", None),
    ],
)
def test_a_table_is_known_by_the_path_of_a_file(said, table):
    error = ValueError("outer")
    error.__cause__ = RuntimeError(said)
    name = None if table is None else list(PLACES)[table]
    assert tells_of_damage(error)
    assert table_of(error, places) == name
    with pytest.raises(ValueError if name is None else CorruptStoreError) as found, noticed(places):
        raise error
    if name is not None:
        assert found.value.table == name
        assert found.value.__cause__ is error


def test_relative_places_are_known():
    said = RuntimeError("FAILED_READ_FILE file:/home/lake/shop/leaf/content/p.parquet")
    for place in (
        "lake/shop/leaf/content",
        "./lake/shop/leaf/content",
        "../lake/shop/leaf/content",
    ):
        assert table_of(said, lambda place=place: {"found": place}) == "found"


def test_other_errors_stay_what_they_are():
    asked = []
    with pytest.raises(ZeroDivisionError), noticed(lambda: asked.append(1) or PLACES):
        raise ZeroDivisionError("in /lake/a store/leaf/content/p.parquet")
    with pytest.raises(CorruptStoreError) as found, noticed(places):
        raise CorruptStoreError("FAILED_READ_FILE", table="mine")
    assert found.value.table == "mine"
    assert not asked


def test_a_store_that_cannot_be_written_is_not_damaged():
    """Java says of a disk that is read only that a file is not found."""
    said = "FileNotFoundException: /lake/a store/leaf/content/p.parquet (Read-only file system)"
    with pytest.raises(StorageError), noticed(places):
        raise StorageError("cannot be written") from RuntimeError(said)
