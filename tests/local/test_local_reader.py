"""Stores that are read without the pipeline that made them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from local_stores import WAYS, as_rows, shop

import deltaproduce as dp
from deltaproduce.testing import strategies


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A store of two versions, of which the second one deletes an order."""
    location = str(tmp_path / "shop")
    with dp.Store(None, location, shop()) as store:
        rows = [{"id": i, "customer": "ab"[i % 2], "amount": i} for i in range(6)]
        store.update({"orders": rows}, update_id="first")
        store.update({"orders": [{"id": 5, "_change_type": "delete"}]})
    return location


def test_it_says_which_stages_there_are(place: str) -> None:
    reader = dp.open(place)
    assert list(reader.stages) == ["orders", "by_customer", "totals"]
    orders, totals = reader.stages["orders"], reader.stages["totals"]
    assert (orders.key, orders.value) == ("id bigint", "customer string, amount bigint")
    assert orders.is_source
    assert not totals.is_source
    assert totals.definition is not None
    assert "sum(amounts)" in totals.definition
    assert reader.head.number == 2
    assert [version.update_id for version in reader.versions()] == ["first", None]
    assert "customer string" in str(reader)


def test_content_is_that_of_the_store_without_its_own_columns(place: str) -> None:
    wanted = [{"customer": "a", "total": 6}, {"customer": "b", "total": 4}]
    assert dp.open(place).content("totals", ordered=True).to_pylist() == wanted
    assert sorted(dp.read(place, "totals").to_pylist(), key=str) == wanted
    before = dp.read(place, "totals", 1, True)
    assert before.schema.names == ["customer", "total", "_source_customer", "_ordinal"]
    found = dp.open(place).lookup("totals", ["b"], version=1)
    assert found.rows.to_pylist() == [{"customer": "b", "total": 9}]
    assert dp.open(place).key_mappings("totals").num_rows == 2


def test_what_happened_is_that_of_the_store(place: str) -> None:
    reader = dp.open(place)
    with dp.Store(None, place, shop()) as store:
        for stage in ("orders", "totals"):
            assert same(reader.updates(stage), store.updates(stage))
            assert same(reader.changes(stage, 0), store.changes(stage, 0))
            assert reader.sql(stage) == store.sql(stage)
        assert reader.diff(1, 2).as_dict() == store.diff(1, 2).as_dict()


def test_a_version_that_comes_later_is_seen(place: str) -> None:
    reader = dp.open(place)
    assert reader.head.number == 2
    with dp.Store(None, place, shop()) as store:
        store.update({"orders": [{"id": 9, "customer": "c", "amount": 1}]})
    assert reader.head.number == 3
    assert len(reader.content("totals")) == 3


def test_a_stage_that_was_removed_is_read_as_of_its_time(place: str) -> None:
    smaller = dp.Pipeline("shop")
    smaller.source("orders", key="id bigint", value="customer string, amount bigint")
    with dp.Store(None, place, smaller) as store:
        store.update({"orders": [{"id": 9, "customer": "c", "amount": 1}]})
    reader = dp.open(place)
    assert list(reader.stages) == ["orders"]
    assert len(reader.content("totals", 2)) == 2
    assert len(reader.content("totals")) == 0


def test_where_there_is_no_store_nothing_is_read(tmp_path: Path, place: str) -> None:
    for wrong in (tmp_path / "elsewhere", Path(place) / "orders"):
        with pytest.raises(dp.NotFoundError, match="there is no store at"):
            dp.open(wrong)
        with pytest.raises(dp.NotFoundError):
            dp.read(wrong, "orders")
    assert not (tmp_path / "elsewhere").exists()
    with pytest.raises(dp.NotFoundError, match="'order'"):
        dp.read(place, "order")
    with pytest.raises(dp.NotFoundError, match="version 7"):
        dp.read(place, "orders", 7)
    with pytest.raises(dp.SessionError):
        dp.open("schema")
    with pytest.raises(dp.NotFoundError, match="no key mappings"):
        dp.open(place).key_mappings("orders")
    with pytest.raises(dp.InvalidArgumentError, match="internal"):
        dp.read(place, "orders", None, "yes")  # type: ignore[arg-type]


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_reader_reads_what_the_store_reads(
    tmp_path_factory: pytest.TempPathFactory, way: str, data: st.DataObject
) -> None:
    """For each stage and version of a random series: content, updates, look-ups, differences."""
    pipeline = data.draw(strategies.pipelines())
    history = data.draw(strategies.histories(pipeline))
    location = str(tmp_path_factory.mktemp("lake") / "store")
    with dp.Store(None, location, pipeline, limits=WAYS[way]) as store:
        for batch in history:
            store.update(as_rows(pipeline, batch))
        if not store.head.number:
            return
        reader, last = dp.open(location), store.head
        assert [one.number for one in reader.versions()] == [one.number for one in store.versions()]
        for name in reader.stages:
            for version in store.versions():
                if name not in version.stages:
                    continue
                number = version.number
                assert same(
                    reader.content(name, number, internal=True), store.content(name, number)
                )
                assert same(reader.updates(name, number), store.updates(name, number))
            if reader.stages[name].key:  # else it has one row over all
                keys = store.content(name).select(named(reader.stages[name].key))
                sought = reader.lookup(name, keys, internal=True)
                assert same(sought.rows, store.content(name))
        found, wanted = (one.diff(0, last.number).as_dict()["stages"] for one in (reader, store))
        assert str(found) == str({name: wanted[name] for name in reader.stages})


def named(ddl: str) -> list[str]:
    """The names of columns in DDL."""
    from deltaproduce.types.columns import stored_key

    return list(stored_key(ddl).names)


def same(one: pa.Table, other: pa.Table) -> bool:
    """Whether two tables have the same columns and the same rows, in any order."""
    return bool(one.schema == other.schema and rows(one) == rows(other))


def rows(table: pa.Table) -> list[str]:
    """The rows as texts, of which NaN equals NaN."""
    return sorted(map(repr, table.to_pylist()))
