"""The changes that a database lacks are known or said to be unknown; altered tables are noticed."""

from __future__ import annotations

import shutil
from pathlib import Path

import psycopg
import pytest
from copies import assert_same, rows, run
from pages import link, site

import deltaproduce as dp
from deltaproduce import ConflictError, DefinitionError, Pipeline, Store, SyncError, postgres

STAGES = ["links", "pages"]


def refused(store: Store, address: str, pipeline: Pipeline, expected: str) -> None:
    """A sync that is refused changes nothing, and one that may gives all rows anew."""
    before = rows(address, "_deltaproduce_sync")
    with pytest.raises(SyncError, match=expected):
        postgres.Sync(store, address).run()
    assert rows(address, "_deltaproduce_sync") == before
    synced = postgres.Sync(store, address, on_break="reload").run()
    assert all(table.reason for table in synced.tables if table.stage == "links")
    assert_same(store, pipeline, address, [stage.name for stage in pipeline.stages])
    assert not any(table.reason for table in postgres.Sync(store, address).run().tables)


def test_the_position_of_another_store(address: str, tmp_path: Path) -> None:
    for name in ("one", "other"):
        store = Store(None, f"{tmp_path}/{name}", site)
        store.update({"links": [link(1, "a", name)]})
        if name == "one":
            postgres.Sync(store, address).run()
    refused(store, address, site, "another store")


def test_a_store_that_was_set_back_or_replaced(address: str, tmp_path: Path) -> None:
    """From a backup: first it has not the version, and then another of the same number."""
    place, backup = f"{tmp_path}/store", f"{tmp_path}/backup"
    store = Store(None, place, site)
    store.update({"links": [link(1, "a", "b")]})
    shutil.copytree(place, backup)
    store.update({"links": [link(2, "b", "c")]})
    postgres.Sync(store, address).run()
    shutil.rmtree(place)
    shutil.copytree(backup, place)
    store = Store(None, place, site)
    with pytest.raises(SyncError, match="set back"):
        postgres.Sync(store, address).run()
    store.update({"links": [link(3, "b", "d")]})
    refused(store, address, site, "replaced by another")


def test_a_rollback_of_the_store_is_a_version_like_others(address: str, tmp_path: Path) -> None:
    store = Store(None, f"{tmp_path}/store", site)
    store.update({"links": [link(1, "a", "b"), link(2, "b", "c")]})
    store.update({"links": [link(1), link(2, "b", "d")]})
    sync = postgres.Sync(store, address)
    sync.run()
    store.rollback(1)
    links, _ = sync.run().tables
    assert (links.deleted, links.inserted, links.reason) == (1, 2, "")
    assert_same(store, site, address, STAGES)


def test_versions_that_were_dropped(address: str, tmp_path: Path) -> None:
    store = Store(None, f"{tmp_path}/store", site)
    store.update({"links": [link(1, "a", "b")]})
    postgres.Sync(store, address).run()
    store.update({"links": [link(1)]})
    store.update({"links": [link(2, "c", "d")]})
    store.vacuum(keep_versions=1)
    refused(store, address, site, "dropped by a vacuum")


def orders(value: str) -> Pipeline:
    made = Pipeline("shop")
    links = made.source("links", key="id bigint", value="origin string")

    @made.producer(links, key="origin string", value=value)
    def totals(_, origins):
        for one in origins:
            yield one, (1, 1) if "," in value else 1

    return made


def test_other_columns_and_another_function(address: str, tmp_path: Path) -> None:
    """Another function is a version like others; other columns are another table."""
    place, given = f"{tmp_path}/store", {"links": [{"id": 1, "origin": "a"}]}
    with Store(None, place, orders("n int")) as store:
        store.update(given)
        postgres.Sync(store, address).run()
    other = orders("n int, m int")
    with Store(None, place, other) as store:
        store.update({"links": [{"id": 2, "origin": "b"}]})
        with pytest.raises(SyncError, match="other columns"):
            postgres.Sync(store, address).run()
        assert {row[0] for row in rows(address, "totals")} == {"a"}
        postgres.Sync(store, address, on_break="reload").run()
        assert sorted(rows(address, "totals")) == [("a", 1, 1), ("b", 1, 1)]
        assert_same(store, other, address, ["links", "totals"])


@pytest.mark.parametrize(
    ("done", "expected"),
    [
        ("DROP TABLE links", "dropped"),
        ("ALTER TABLE links ADD COLUMN more int", "columns .* more integer"),
        ("ALTER TABLE links RENAME COLUMN origin TO source", "columns .* source text"),
        ("ALTER TABLE links ALTER COLUMN id TYPE int", "columns .* id integer"),
        ("INSERT INTO links VALUES (7, 'a', 'b')", "has 3 rows, and the last sync left 2"),
        ("DELETE FROM links WHERE id = 1", "has 1 rows, and the last sync left 2"),
        (
            "ALTER TABLE links RENAME TO old; CREATE TABLE links (LIKE old)",
            "made anew by someone else",
        ),
    ],
)
def test_a_table_that_someone_altered(
    address: str, tmp_path: Path, done: str, expected: str
) -> None:
    store = Store(None, f"{tmp_path}/store", site)
    store.update({"links": [link(1, "a", "b"), link(2, "b", "c")]})
    postgres.Sync(store, address).run()
    store.update({"links": [link(2), link(3, "c", "d")]})
    run(address, done)
    refused(store, address, site, expected)


def test_a_table_of_someone_else_is_left_alone(address: str, tmp_path: Path) -> None:
    store = Store(None, f"{tmp_path}/store", site)
    store.update({"links": [link(1, "a", "b")]})
    run(address, "CREATE TABLE pages (mine text)", "INSERT INTO pages VALUES ('mine')")
    for on_break in ("raise", "reload"):
        with pytest.raises(SyncError, match="no sync has made") as caught:
            postgres.Sync(store, address, on_break=on_break).run()
        assert caught.value.stage == "pages"
    assert rows(address, "pages") == [("mine",)]
    odd = 'a "schema" of 100%'
    postgres.Sync(store, address, schema=odd).run()
    assert_same(store, site, address, STAGES, odd)
    store.update({"links": [link(1)]})
    postgres.Sync(store, address, schema=odd).run()
    assert_same(store, site, address, STAGES, odd)


def test_an_empty_store_is_tables_without_rows(address: str, tmp_path: Path) -> None:
    store = Store(None, f"{tmp_path}/store", site)
    sync = postgres.Sync(store, address)
    assert sync.run().version == 0
    assert_same(store, site, address, STAGES)
    store.update({"links": [link(1, "a", "b")]})
    sync.run()
    assert_same(store, site, address, STAGES)


def test_two_syncs_at_once_wait_or_fail(address: str, tmp_path: Path) -> None:
    store = Store(None, f"{tmp_path}/store", site)
    store.update({"links": [link(1, "a", "b")]})
    with psycopg.connect(address) as other:
        other.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended('deltaproduce sync public', 0))"
        )
        with pytest.raises(ConflictError, match="another sync"):
            postgres.Sync(store, address, wait_seconds=0.1).run()
        other.rollback()
        postgres.Sync(store, address, wait_seconds=0.1).run()
        other.rollback()
        other.execute("LOCK TABLE links IN ROW EXCLUSIVE MODE")
        store.update({"links": [link(1)]})
        with pytest.raises(ConflictError, match="a lock on one of its tables"):
            postgres.Sync(store, address, wait_seconds=0.1).run()
    postgres.Sync(store, address).run()
    assert_same(store, site, address, STAGES)


def test_what_postgres_cannot_have_is_said_before_anything_is_written(
    address: str, tmp_path: Path
) -> None:
    store = Store(None, f"{tmp_path}/store", site)
    store.update({"links": [link(1, "a", "b")]})
    sync = postgres.Sync(store, address)
    sync.run()
    before = {table: rows(address, table) for table in (*STAGES, "_deltaproduce_sync")}
    store.update({"links": [link(2, "b", "c\0d")]})
    with pytest.raises(SyncError, match="NUL") as caught:
        sync.run()
    error = caught.value
    assert (error.stage, error.column, error.keys) == ("links", "target", ((2,),))
    assert {table: rows(address, table) for table in before} == before


@pytest.mark.parametrize(
    ("key", "value", "column"),
    [
        ("id bigint", "m map<struct<a:int>,int>", "m"),
        ("id bigint", "m array<struct<n:map<array<int>,int>>>", "m"),
        ("id bigint", "xmin int", "xmin"),
        ("ö" * 32 + " bigint", "n int", "ö" * 32),
    ],
)
def test_columns_that_cannot_be_are_refused_at_once(
    tmp_path: Path, key: str, value: str, column: str
) -> None:
    """Without a server."""
    pipeline = Pipeline("odd")
    pipeline.source("rows", key=key, value=value)
    with pytest.raises(DefinitionError) as caught:
        postgres.Sync(Store(None, f"{tmp_path}/store", pipeline), "postgresql://nowhere")
    assert (caught.value.stage, caught.value.column) == ("rows", column)


def test_a_source_that_forgets_is_refused(tmp_path: Path) -> None:
    pipeline = Pipeline("days")
    pipeline.source(
        "rows", key="day date", value="n int", retain=dp.window("day", last=2), expire="forget"
    )
    with pytest.raises(DefinitionError, match="forgets"):
        postgres.Sync(Store(None, f"{tmp_path}/store", pipeline), "postgresql://nowhere")


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    store = Store(None, f"{tmp_path}/store", site)
    with pytest.raises(SyncError, match="not reached"):
        postgres.Sync(store, f"postgresql:///x?host={tmp_path}").run()
