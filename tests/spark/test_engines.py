"""Both engines do the same with the same rows; `test_arrow_changes` tests the comparisons."""

from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from selecting import chosen
from series import drawn

from deltaproduce.engines.change_feed import ALONE, PAIRED, TIMES, FeedMode, feed_columns
from deltaproduce.engines.choice import Engines, is_local
from deltaproduce.engines.engine import Engine, FeederPart, Rows
from deltaproduce.engines.marks import AFTER
from deltaproduce.engines.spark.frames import fetched
from deltaproduce.model.layouts import Layout
from deltaproduce.model.limits import Limits
from deltaproduce.testing import plain_rows
from deltaproduce.testing.strategies import keys, values
from deltaproduce.times.zones import zone_of
from deltaproduce.types.atoms import arrow_schema, arrow_type
from deltaproduce.types.columns import (
    CHANGE_TYPE,
    ORDINAL,
    ORDINAL_COLUMN,
    POSITION,
    VERSION,
    VERSION_COLUMN,
    Column,
    row_schema,
)
from deltaproduce.types.data_types import LongType
from deltaproduce.types.row_writers import rows_writer

SCHEMA = row_schema(
    "b binary, d date desc, n bigint",
    "x double, a decimal(38,10), t string, f boolean, moment timestamp, "
    "tags map<string,array<string>>, s struct<i:int,t:string>",
    stage="made",
)
LAYOUT = Layout(SCHEMA, tuple(row_schema("c string desc", "v int", stage="feeder").key))
NUMBER = Column("id", LongType())
NUMBERED = Layout(row_schema("b binary, d date desc", "id bigint, t string", stage="numbered"))


@pytest.fixture(params=chosen(range(3), 0, 1))
def made(request: pytest.FixtureRequest, spark: SparkSession) -> pa.Table:
    """Rows of content, whose keys have few values, in no order."""
    seed, zone = request.param, zone_of(spark.conf.get("spark.sql.session.timeZone"))
    some = drawn(keys(SCHEMA.key), 12, seed)
    chosen = np.random.default_rng(seed).integers(0, len(some), 60)
    arrays = rows_writer(SCHEMA.key, zone)([some[i] for i in chosen])
    arrays += rows_writer(SCHEMA.value, zone)(drawn(values(SCHEMA.value), 60, seed))
    arrays += [pa.array([None if i % 5 == 0 else "ab"[i % 2] for i in range(60)])]
    arrays += [pa.array(np.random.default_rng(seed).permutation(60))]
    return pa.table(arrays, [c.name for c in LAYOUT.content])


@pytest.fixture
def engines(spark: SparkSession) -> Engines:
    return Engines(spark, Limits(plan_rows=20))


def both(
    engines: Engines, rows: pa.Table, columns: Sequence[Column] = LAYOUT.content
) -> list[tuple[Engine[Any], Rows]]:
    """The rows with the engine that works on them, on the driver and in Spark."""
    there = engines.frame(rows, columns)
    found = [(engines.of(rows), rows), (engines.of(there), there)]
    assert [is_local(given) for _, given in found] == [True, False]
    return found


def in_order(rows: Rows, columns: Sequence[Column]) -> list[str]:
    table = fetched(rows, columns) if isinstance(rows, DataFrame) else rows
    return list(map(repr, plain_rows([tuple(row.values()) for row in table.to_pylist()])))


def assert_same(here: Rows, there: Rows, columns: Sequence[Column], *, ordered: bool) -> None:
    found, expected = in_order(here, columns), in_order(there, columns)
    assert len(found) > 0
    assert found == expected if ordered else sorted(found) == sorted(expected)


def test_rows_are_brought_put_together_and_marked(engines: Engines, made: pa.Table) -> None:
    few = [*LAYOUT.key, ORDINAL_COLUMN]
    columns = (*few, VERSION_COLUMN)
    found = []
    for engine, rows in both(engines, made):
        together = engine.concat([rows, made], few)
        found.append(engine.with_all(together, VERSION_COLUMN, 7))
    assert_same(found[0], found[1], columns, ordered=False)
    assert engines.of(made).computed(found[0])[1] == engines.of(found[1]).computed(found[1])[1]


def test_rows_of_keys_are_found(engines: Engines, made: pa.Table) -> None:
    wanted = made.slice(0, 7)
    here, there = (
        engine.semi_join(rows, engine.here(wanted, LAYOUT.key), LAYOUT.key)
        for engine, rows in both(engines, made)
    )
    assert 7 <= len(here) < len(made)
    assert_same(here, there, LAYOUT.content, ordered=False)


def test_rows_of_other_keys_are_found_in_any_columns(engines: Engines, made: pa.Table) -> None:
    """Also in columns that the key is not among."""
    gone = made.slice(0, 7)
    for columns in (LAYOUT.content, LAYOUT.value):
        here, there = (
            engine.anti_join(rows, columns, gone, LAYOUT.key)
            for engine, rows in both(engines, made)
        )
        assert 0 < len(here) <= len(made) - 7
        assert_same(here, there, columns, ordered=False)


def test_rows_are_picked(engines: Engines, made: pa.Table) -> None:
    here, there = (
        engine.select(rows, LAYOUT.key, {ORDINAL: 3}) for engine, rows in both(engines, made)
    )
    assert_same(here, there, LAYOUT.key, ordered=False)


def test_rows_are_there_once(engines: Engines, made: pa.Table) -> None:
    here, there = (engine.distinct(rows, LAYOUT.sources) for engine, rows in both(engines, made))
    assert len(here) == 3
    assert_same(here, there, LAYOUT.sources, ordered=False)


@pytest.mark.parametrize("mode", get_args(FeedMode))
@pytest.mark.parametrize("with_rows_before", [True, False])
def test_feeds_are_the_same(
    engines: Engines, made: pa.Table, mode: FeedMode, with_rows_before: bool
) -> None:
    """Of keys that came, changed, were put in another order, went, and of others."""
    twice = made.set_column(made.column_names.index(ORDINAL), ORDINAL, [range(60, 120)])
    rows = pa.concat_tables([made, twice])
    before, numbers = rows.slice(0, 70) if with_rows_before else None, range(4, 8)
    moments = pa.array([None, *numbers], pa.timestamp("us", tz="UTC"))
    times = pa.table([pa.array([3, *numbers]), moments], [c.name for c in TIMES])
    here, there = (
        engine.feed(before, updates, LAYOUT, times, since=3, mode=mode)
        for engine, updates in both(engines, told(rows, numbers), LAYOUT.updates)
    )
    assert here.schema == arrow_schema(feed_columns(LAYOUT))
    only_new = mode == "net" and not with_rows_before
    words = {*ALONE.values(), *PAIRED.values()}
    assert {*here.column(CHANGE_TYPE).to_pylist()} == ({ALONE[AFTER]} if only_new else words)
    assert_same(here, there, feed_columns(LAYOUT), ordered=False)


def told(made: pa.Table, versions: Sequence[int]) -> pa.Table:
    """Updates: in each version each key has some of its rows, in some order, or none and goes."""
    places: dict[str, list[int]] = {}
    for place, row in enumerate(made.select([c.name for c in LAYOUT.key]).to_pylist()):
        places.setdefault(repr(row), []).append(place)
    random = np.random.default_rng(len(places))
    parts = []
    for version in versions:
        for own in places.values():
            kept = random.permutation(own)[: random.integers(0, len(own) + 1)]
            if random.random() < 0.6:
                parts.append(update(made, kept, own[0], version))
    return pa.concat_tables(parts)


def update(made: pa.Table, kept: Sequence[int], of_key: int, version: int) -> pa.Table:
    """A key's rows in a version, or that it has none."""
    rows = made.take(pa.array(kept if len(kept) else [of_key]))
    filled = {
        VERSION: pa.array([version] * len(rows)),
        CHANGE_TYPE: pa.array(["update" if len(kept) else "delete"] * len(rows)),
        POSITION: pa.array(range(len(rows)), pa.int64()),
    }
    if not len(kept):
        filled |= {c.name: pa.nulls(1, arrow_type(c.data_type)) for c in LAYOUT.value}
    names = [c.name for c in LAYOUT.updates]
    return pa.table([filled.get(n) if n in filled else rows.column(n) for n in names], names)


def test_files_are_in_order(engines: Engines, made: pa.Table) -> None:
    order = (*LAYOUT.key, *LAYOUT.sources, ORDINAL_COLUMN)
    here, there = (
        engine.write_layout(rows, len(made), LAYOUT.key, order)
        for engine, rows in both(engines, made)
    )
    assert_same(here, there, LAYOUT.content, ordered=True)


def test_several_parts_are_read_as_one(engines: Engines, made: pa.Table) -> None:
    """A key's rows of the first part come before those of the second."""
    columns = (*LAYOUT.key, Column("_input", LongType()), *LAYOUT.value)
    names = tuple(c.name for c in LAYOUT.key), tuple(c.name for c in LAYOUT.value)
    order = (*LAYOUT.key, *LAYOUT.sources, ORDINAL_COLUMN)
    nothing = (None,) * len(LAYOUT.value)
    found = []
    for engine, rows in both(engines, made):
        parts = [
            FeederPart(rows, LAYOUT.content, order, (*names[0], 0, *names[1])),
            FeederPart(made.slice(10), LAYOUT.content, order, (*names[0], 1, *nothing)),
        ]
        found.append(engine.by_key(parts, columns, LAYOUT.key))
    by_key = [sorted_by_key(rows, columns) for rows in found]
    assert by_key[0] == by_key[1]


def sorted_by_key(rows: Rows, columns: Sequence[Column]) -> dict[str, list[str]]:
    """The rows of each key, in their order; those of one key stand together."""
    table = fetched(rows, columns) if isinstance(rows, DataFrame) else rows
    found: dict[str, list[str]] = {}
    last = ""
    for row in table.to_pylist():
        key = repr([row[c.name] for c in LAYOUT.key])
        assert key == last or key not in found
        last = key
        found.setdefault(key, []).append(repr(plain_rows([tuple(row.values())])))
    return found


def test_new_keys_get_the_next_numbers(engines: Engines, made: pa.Table) -> None:
    key = [c.name for c in NUMBERED.key]
    names = [c.name for c in NUMBERED.content]
    rows = made.select([*key, "t", ORDINAL]).append_column("id", pa.nulls(len(made), pa.int64()))
    rows = rows.select(names).cast(
        pa.schema([(c.name, arrow_type(c.data_type)) for c in NUMBERED.content])
    )
    old, last = engines.of(rows).give_numbers(
        rows.slice(0, 0), rows.slice(0, 20), NUMBERED, "id", 0
    )
    there = engines.frame(rows, NUMBERED.content)
    answers = [
        engines.of(given).give_numbers(old, given, NUMBERED, "id", last) for given in (rows, there)
    ]
    assert answers[0][1] == answers[1][1] >= last > 0
    assert_same(answers[0][0], answers[1][0], NUMBERED.content, ordered=False)


def test_no_rows_of_nested_columns_are_a_frame(engines: Engines, made: pa.Table) -> None:
    """Also where a filter has left no chunk of them."""
    nothing = made.filter(pa.array([False] * len(made)))
    assert engines.frame(nothing, LAYOUT.content).collect() == []
