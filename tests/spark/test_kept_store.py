"""A store that earlier code has made: current code reads, continues and repairs it.

tests/stores/README.md describes the store.
"""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import plain_store
import pytest
from comparing import read_by_delta_rs
from kept import (
    HERE,
    SCHEMA,
    TABLES,
    UNFINISHED,
    arrive,
    contents,
    kept,
    register,
    rows_of,
    sale,
)
from pyspark.sql import SparkSession
from selecting import long

from deltaproduce import Store
from deltaproduce.storage import failpoints
from deltaproduce.testing import plain_rows


def as_now(tables: dict[str, Any]) -> dict[str, Any]:
    """The rows of tables with the columns of content in the order of now.

    Then they were key, source key, ordinal and values. Keys and source keys have one column each.
    """
    library = {stage.name: 2 if stage.feeders else 1 for stage in kept().stages}
    found = dict(tables)
    for name, width in library.items():
        rows = tables[f"{name}/content"]
        found[f"{name}/content"] = [
            [*row[:1], *row[1 + width :], *row[1 : 1 + width]] for row in rows
        ]
    return found


EXPECTED: dict[str, Any] = json.loads((HERE / "store.json").read_text())
EXPECTED["versions"] = {n: as_now(tables) for n, tables in EXPECTED["versions"].items()}
EXPECTED["finished"] = as_now(EXPECTED["finished"])


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path) -> Iterator[Store]:
    """The store, unpacked, and the table of others in the session's catalog."""
    with zipfile.ZipFile(HERE / "store.zip") as found:
        found.extractall(tmp_path)
    register(spark, tmp_path)
    yield Store(spark, str(tmp_path / "store"), kept())
    spark.sql(f"DROP SCHEMA {SCHEMA} CASCADE")


def held(store: Store, number: int, *, kinds: tuple[str, ...] = TABLES) -> dict[str, Any]:
    """What a version has, as the format says that it is to be read; the store where Spark must.

    What comes from a table of others is read by Spark alone, so only of the head.
    """
    (version,) = (found for found in store.versions() if found.number == number)
    found = {}
    for stage in kept().stages:
        if stage.name == "arrived" and number != store.head.number:
            continue
        for table in kinds if stage.feeders else set(kinds) - {"key_mappings"}:
            rows: Any = None  # the columns of a table of others are known to a session alone
            if stage.name != "arrived":
                location = store._opened.tables.location
                rows = plain_store.rows_of(location, version, stage.name, stage, table)
            if rows is None:
                rows = getattr(store, table)(stage.name, number, ordered=True).collect()
            found[f"{stage.name}/{table}"] = rows_of(rows)
    return found


def test_all_versions_are_what_they_were(store: Store, long_run: bool) -> None:
    """As the format says that they are to be read; and the head as the store reads it.

    In a short run the store gets the files' rows from delta-rs, not from Spark.
    """
    assert [str(version.number) for version in store.versions()] == [*EXPECTED["versions"]]
    assert store.update_ids() == EXPECTED["update_ids"]
    for number, expected in EXPECTED["versions"].items():
        found = held(store, int(number))
        assert found == {place: expected[place] for place in found}, f"version {number}"
    head = store.head.number
    reader = store if long_run else read_by_delta_rs(store)
    assert contents(reader, kept(), head) == EXPECTED["versions"][str(head)]


def test_no_stage_is_another_one(store: Store) -> None:
    assert [step.stage.name for step in store.plan()] == []
    assert store.update() == store.head


def test_a_small_update_follows(store: Store) -> None:
    """A customer gets another name: in place of the update that was not finished."""

    def joined(number: int) -> list[Any]:
        rows: list[Any] = read_by_delta_rs(store).content("joined", number, ordered=True).collect()
        return rows

    head = store.head.number
    before = joined(head)
    version = store.update({"names": [{"customer": "a", "name": "Zoe"}]})
    assert (version.number, version.update_id) == (head + 1, None)
    assert version.stages["joined"].changed_keys == 2
    after = joined(head + 1)
    (moved,) = [row for row in before if row["_source_customer"] == "a"]
    assert [(row["name"], row["total"]) for row in after if row["_source_customer"] == "a"] == [
        ("Zoe", moved["total"])
    ]
    assert {*before} - {moved} < {*after}
    assert plain_rows(joined(head)) == plain_rows(before)


@long
def test_it_goes_on(spark: SparkSession, store: Store) -> None:
    """The unfinished update is done anew, and once; then come others, and a rollback.

    What was given for it was told by a digest that is made otherwise now.
    """
    head, reached = store.head.number, list[str]()
    with failpoints.armed(lambda when, name, _: reached.append(f"{when} {name}")):
        version = store.update(UNFINISHED[1], UNFINISHED[0])
    assert version.number == head + 1
    assert {"before restore", "before commit"} <= {*reached}
    assert store.update(UNFINISHED[1], UNFINISHED[0]) == version
    assert held(store, version.number) == EXPECTED["finished"]
    arrive(spark, "(4, 'w')")
    store.update({"web": [sale(3, None), sale(40, "d", "4.00")]})
    assert store.content("by_place").where("place = 'w'").count() == 1
    store.rollback(head)
    expected = EXPECTED["versions"][str(head)]
    found = held(store, store.head.number, kinds=("content", "key_mappings"))
    assert found == {place: expected[place] for place in found}


@long
def test_it_is_verified_refreshed_and_vacuumed(store: Store) -> None:
    assert store.verify() == ()
    assert store.refresh("by_customer").stages["by_customer"].changed_keys == 0
    assert store.vacuum(keep_versions=1, unfinished_hours=0).versions
    assert store.verify(recompute=True) == ()
