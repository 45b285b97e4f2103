"""The driver and Spark check stored rows the same way, right or wrong."""

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from selecting import chosen

from deltaproduce.engines.local.arrays import same_rows
from deltaproduce.engines.local.engine import LocalEngine
from deltaproduce.engines.marks import FAULTS, PAIR_FAULTS
from deltaproduce.engines.spark.engine import SparkEngine
from deltaproduce.engines.spark.frames import fetched
from deltaproduce.model.layouts import Layout
from deltaproduce.model.limits import Limits
from deltaproduce.types.atoms import arrow_schema
from deltaproduce.types.columns import Column, row_schema

KEYS = 600
KINDS = ["add", "add", "update", "update", "delete", "delete", "x", None]
KEY = "k bigint desc, t string"
VALUES = "x double, tags map<string,int>"
SCHEMA = row_schema(KEY, VALUES, stage="made")
SOURCES = tuple(
    Column(f"_source_{c.name}", c.data_type, c.nullable, c.descending)
    for c in row_schema("n bigint desc, c string", "v int", stage="feeder").key
)
LAYOUTS = {"a stage": Layout(SCHEMA, SOURCES), "a source": Layout(SCHEMA)}
HEAD = 4


def value(chance: random.Random) -> dict[str, Any]:
    """One of few, some of which are equal though they do not look so."""
    entries = [("a", chance.choice([1, None])), ("b", 2)]
    chance.shuffle(entries)
    return {
        "x": chance.choice([0.0, -0.0, float("nan"), None]),
        "tags": entries if chance.random() < 0.3 else None,
    }


def stored(chance: random.Random) -> Iterator[dict[str, Any]]:
    """Rows of content, of which many pairs are numbered from 0; no two have the same place."""
    for number in range(KEYS):
        places = [*range(chance.choice([1, 2, 3]))]
        if chance.random() < 0.3:
            places = chance.sample([-1, 0, 1, 2, 5, None], 3)
        for place in places:
            of = {"_source_n": chance.choice([0, 1, None]), "_source_c": "c", "_ordinal": place}
            yield {**key(number), **of, **value(chance)}


def told(chance: random.Random) -> Iterator[dict[str, Any]]:
    """Updates, of which some follow each other; each says once what has become of its key."""
    for number in range(KEYS):
        for version in chance.sample([1, 2, 3, 4, 5, -1, None], chance.choice([1, 2, 3])):
            more = chance.choice([[], [], [1], [1, 2], [2], [1, 1], [-1, None]])
            for place in (0, *more):
                kinds = ["update", "update", "add", "delete", "x", None] if place else KINDS
                kind = chance.choice(kinds)
                values = {} if kind == "delete" and chance.random() < 0.8 else value(chance)
                step = {"_version": version, "_change_type": kind, "_position": place}
                yield {**key(number), **step, **values}


def key(number: int) -> dict[str, Any]:
    """A key of a number; nulls are values too."""
    return {"k": number or None, "t": "" if number % 3 else None}


def table(rows: Iterable[dict[str, Any]], columns: Sequence[Column]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), arrow_schema(columns))


@pytest.mark.parametrize("name", chosen(LAYOUTS, "a stage"))
def test_rows_are_checked_as_in_spark(spark: SparkSession, name: str, long_run: bool) -> None:
    layout, here, there = LAYOUTS[name], LocalEngine(), SparkEngine(spark, Limits())
    chance = random.Random(len(name))
    content, updates = table(stored(chance), layout.content), table(told(chance), layout.updates)
    counts = here.faults(updates, layout, HEAD)
    assert tuple(counts) == FAULTS
    assert all(counts.values())
    assert counts == there.faults(updates, layout, HEAD)
    mappings = content.select([c.name for c in layout.pair]).slice(KEYS // 2)
    for pairs in (mappings, None):
        counts = here.pair_faults(content, pairs, layout)
        assert tuple(counts) == PAIR_FAULTS
        assert all(counts.values()) or pairs is None
        assert counts == there.pair_faults(content, pairs, layout)
    fold = here.folded(updates, layout)
    assert len(fold) > KEYS // 2
    assert same_rows(fold, fetched(there.folded(updates, layout), layout.content))
    of_both = pa.concat_tables([fold.slice(KEYS // 2), content.slice(0, KEYS // 2)])
    differing = set()
    few, none = updates.slice(0, KEYS), updates.slice(0, 0)
    for complete in (True, False):
        for some in (updates, few, none, None) if long_run else (updates, few):
            for rows in (of_both, content.slice(0, 0), None) if long_run else (of_both, None):
                found = here.unfolded(some, rows, layout, complete=complete)
                assert found == there.unfolded(some, rows, layout, complete=complete)
                differing.add(found)
    assert len(differing) > (5 if long_run else 2)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_fold_is_what_its_updates_come_to(name: str) -> None:
    layout, here = LAYOUTS[name], LocalEngine()
    right = (row for row in told(random.Random(7)) if row["_position"] == 0 and row["_version"])
    updates = table(right, layout.updates)
    fold = here.folded(updates, layout)
    assert not here.unfolded(updates, fold, layout, complete=True)
    assert here.unfolded(updates, fold.slice(1), layout, complete=True) == 1


def test_some_rows_are_drawn(spark: SparkSession) -> None:
    """Each once, and so many if there are so many; by either engine."""
    columns = SCHEMA.key.columns
    rows = table((key(number % 9) for number in range(40)), columns)
    renamed = rows.rename_columns(["a", "b"])
    for engine in (LocalEngine(), SparkEngine(spark, Limits())):
        for most in (4, 20):
            given = [engine.here(rows, columns), renamed] if most == 4 else [rows]
            found = engine.computed(engine.sample(given, columns, most))
            drawn = found[0] if isinstance(found[0], pa.Table) else fetched(found[0], columns)
            assert found[1] == min(most, 9) == len(set(map(str, drawn.to_pylist())))
