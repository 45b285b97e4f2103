"""Stores whose tables have the library's columns between the key and the values, as was once so.

They are read, updated, and get the order of now with the next write of a whole table.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from comparing import assert_changes
from deltalake import DeltaTable
from local_stores import assert_same_here, update_both
from other_readers import READERS, of_text, rows_of
from reading_by_path import MARKING, Life, shown, visits
from selecting import chosen
from series import drawn, instructed
from test_local_series import WAYS

from deltaproduce import Store
from deltaproduce.model.layouts import Layout
from deltaproduce.testing import Oracle, plain_rows, strategies
from deltaproduce.types.columns import ORDINAL_COLUMN, Column


def before(layout: Layout) -> tuple[Column, ...]:
    """The order that content once had."""
    return (*layout.key, *layout.sources, ORDINAL_COLUMN, *layout.value)


@contextmanager
def as_before() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Layout, "shown", property(before))
        yield


def order_of(store: Store, stage: str) -> list[str]:
    """The columns of the stage's content as the head pins it."""
    path = f"{store._opened.tables.location.address}/{stage}/content"
    table = DeltaTable(path, version=store.head.pinned(stage, "content"))
    return [field.name for field in table.schema().fields]


@pytest.mark.parametrize("way", chosen(WAYS, *[*WAYS][::3]))
def test_a_store_of_before_is_read_and_updated(location: str, way: str, long_run: bool) -> None:
    """By random series, of which the first versions have the order of before."""
    number = 5_000 + list(WAYS).index(way)
    (pipeline,) = drawn(strategies.pipelines(), 1, number)
    (history,) = drawn(instructed(pipeline, 6 if long_run else 4), 1, number)
    oracle = Oracle(pipeline)
    with as_before(), Store(None, location, pipeline, **WAYS[way]) as store:
        for batch, told in history[: len(history) // 2]:
            update_both(store, oracle, pipeline, batch, **told)
        for stage in pipeline.stages:
            if store.head.pinned(stage.name, "content") is not None:
                names = [c.name for c in before(Layout.of(stage))]
                assert [name for name in order_of(store, stage.name) if name in names] == names
    with Store(None, location, pipeline, **WAYS[way]) as store:
        assert_same_here(store, oracle, pipeline, range(oracle.head + 1))
        assert store.verify(recompute=True) == ()
        for batch, told in history[len(history) // 2 :]:
            update_both(store, oracle, pipeline, batch, **told)
        assert_same_here(store, oracle, pipeline, range(oracle.head + 1))
        for stage in pipeline.stages:
            assert_changes(store, oracle, stage.name, 0, oracle.head, "net")
        assert store.rollback(1).number == oracle.rollback(1)
        assert_same_here(store, oracle, pipeline, [oracle.head])
        assert store.verify(recompute=True) == ()


BEFORE = {"visits": ["id", "_ordinal", "day", "member", "pages", "tags"]}
NOW = {"visits": ["id", "day", "member", "pages", "tags", "_ordinal"]}
BEFORE["by_member"] = ["member", "_source_id", "_ordinal", "id", "pages"]
NOW["by_member"] = ["member", "id", "pages", "_source_id", "_ordinal"]


@pytest.mark.parametrize("rewrites", chosen([False, True], True))
def test_a_write_of_a_whole_table_moves_its_columns(
    location: str, rewrites: bool, long_run: bool
) -> None:
    """In one commit, which changes nothing else of it; marks and small files leave them there.

    Other readers find columns by name, in files of both orders.
    """
    pipeline = visits(as_model=True)
    limits = replace(MARKING, replaced_percent=0) if rewrites else MARKING
    with as_before():
        life = Life(location, [None], pipeline, pipeline, random.Random(5), limits=limits)
        life.update()
    properties = DeltaTable(f"{location}/visits/content").metadata().configuration
    for stage, names in BEFORE.items():
        assert order_of(life.store, stage) == names
    for _ in range(2):
        life.update()
        for stage, names in (NOW if rewrites else BEFORE).items():
            assert order_of(life.store, stage) == names
        life.read(READERS, 8 if long_run else 4)
    found = DeltaTable(f"{location}/visits/content").metadata().configuration
    marks = {} if rewrites else {"delta.enableDeletionVectors": "true"}
    assert found == {**properties, **marks}
    for number in (2, 3):
        for stage in life.store._opened.graph.shown:
            rows = of_text(life.store.sql(stage.name, number, dialect="duckdb"))
            expected = plain_rows(life.oracle.content(stage.name, number))
            assert rows_of(rows, shown(stage, "content")) == sorted(expected, key=repr)
    assert life.store.verify(recompute=True) == ()
