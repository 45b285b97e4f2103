"""The driver and Spark read a batch the same way, and refuse it in the same words."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from selecting import long
from series import drawn

from deltaproduce import InvalidChangesError, Limits, Pipeline
from deltaproduce.engines.choice import Engines, is_local
from deltaproduce.model.graph import Source
from deltaproduce.stages.batches import Batch
from deltaproduce.stages.sources.given.contents import DELETES, IGNORED, UPSERTS
from deltaproduce.stages.sources.given.in_spark import batch_of_frame
from deltaproduce.stages.sources.given.kind import Given
from deltaproduce.stages.sources.given.required import unchecked
from deltaproduce.testing import plain_rows
from deltaproduce.testing.strategies import keys, values
from deltaproduce.times.zones import zone_of
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import CHANGE_TYPE, CHANGE_TYPE_COLUMN, ORDINAL, ORDINAL_COLUMN
from deltaproduce.types.excerpts import shown
from deltaproduce.types.row_writers import rows_writer

KEY = "d date desc, b binary, n bigint, moment timestamp"
VALUE = (
    "x double, y float, a decimal(38,10), t string, f boolean, at timestamp, raw binary, "
    "tags map<string,array<string>>, s struct<i:int NOT NULL,t:string>, "
    "p array<struct<x:double NOT NULL>>"
)
PARTS = (
    "s struct<i: int NOT NULL>, p array<struct<x: struct<y: int NOT NULL>>>, "
    "m map<string, array<struct<z: int NOT NULL>>>"
)
SIZE = 400


def source(key: str = KEY, value: str = VALUE) -> Source:
    return Pipeline("p").source("orders", key=key, value=value)


def in_all_ways(
    table: pa.Table, made: Source, spark: SparkSession
) -> list[Batch | InvalidChangesError]:
    """What becomes of rows that are given in Arrow, and as a DataFrame whose rows come, or stay.

    Few come in the job that computes them, more in files.
    """
    controls = [c for c in (CHANGE_TYPE_COLUMN, ORDINAL_COLUMN) if c.name in table.column_names]
    few, more, many = (
        Engines(spark, limits)
        for limits in (Limits(), Limits(fetched_bytes=0), Limits(local_rows=0))
    )
    frame = few.frame(table, (*made.schema.key, *made.schema.value, *controls))
    found: list[Batch | InvalidChangesError] = []
    for form, engines in ((table, few), (frame, few), (frame, more), (frame, many)):
        try:
            found.append(Given().taken(form, made, engines))
        except InvalidChangesError as error:
            found.append(error)
    return found


def rows_of(batch: Batch) -> pa.Table:
    return batch.engines.table(batch.rows, Batch.columns(batch.source))


def rows_by_key(batch: Batch, *, ordinals: bool) -> list[str]:
    found = rows_of(batch)
    rows = found.to_pylist()
    names = [n for n in found.column_names if ordinals or n != ORDINAL]
    key = batch.source.schema.key.names
    in_order = sorted(rows, key=lambda row: (repr([row[n] for n in key]), row[ORDINAL]))
    return list(map(repr, plain_rows([[row[n] for n in names] for row in in_order])))


@pytest.mark.parametrize(
    ("ordered", "typed"), [(True, True), pytest.param(True, False, marks=long), (False, True)]
)
def test_rows_are_taken_alike(spark: SparkSession, ordered: bool, typed: bool) -> None:
    """With each control column or without it."""
    made, random = source(), np.random.default_rng(ordered)
    clock = zone_of(spark.conf.get("spark.sql.session.timeZone") or "UTC")
    some = drawn(keys(made.schema.key), 60, int(ordered))
    chosen = random.integers(0, len(some), SIZE)
    arrays = rows_writer(made.schema.key, clock)([some[i] for i in chosen])
    arrays += rows_writer(made.schema.value, clock)(drawn(values(made.schema.value), SIZE, 1))
    table = pa.table(arrays, list(made.schema.names))
    numbers = {key: number for number, key in enumerate(dict.fromkeys(map(repr, some)))}
    kinds = [
        str(random.choice(IGNORED if i % 9 == 0 else DELETES if number % 4 == 0 else UPSERTS))
        for i, number in enumerate(numbers[repr(some[place])] for place in chosen)
    ]
    if typed:
        table = table.append_column(CHANGE_TYPE, pa.array(kinds))
    if ordered:
        given = [None if n == 3 else int(n) for n in random.integers(0, 5, SIZE)]
        table = table.append_column(ORDINAL, pa.array(given, pa.int64()))
    here, *others = in_all_ways(table, made, spark)
    assert isinstance(here, Batch), here
    for batch, is_here in zip(others, (True, True, False), strict=True):
        assert isinstance(batch, Batch), batch
        assert is_local(batch.rows) == is_here
        assert rows_of(here).schema.types == rows_of(batch).schema.types
        assert here.count == batch.count
        assert SIZE / 2 < here.count < SIZE if typed else here.count == SIZE
        assert rows_by_key(here, ordinals=ordered) == rows_by_key(batch, ordinals=ordered)
        assert (here.digest() == batch.digest()) == is_here
    assert here.digest() != Given().taken(table.slice(0, SIZE - 1), made, here.engines).digest()


def test_rows_are_refused_alike(spark: SparkSession, long_run: bool) -> None:
    """In a short run with a null in one part of those that take none."""
    made = source("n bigint NOT NULL, moment timestamp", f"v int NOT NULL, t string, {PARTS}")
    row: dict[str, Any] = {"n": 1, "moment": 0, "v": 1, CHANGE_TYPE: "add", ORDINAL: 0}
    row |= dict.fromkeys(("t", "s", "p", "m"))
    delete, null = {**row, CHANGE_TYPE: "delete"}, {**row, "v": None}
    parts = {"s": {"i": None}, "p": [None, {"x": {"y": None}}], "m": [("a", [{"z": None}])]}
    null_parts = [{**row, name: value} for name, value in parts.items() if long_run or name == "p"]
    wrong: list[list[dict[str, Any]]] = [
        [row, {**row, CHANGE_TYPE: "put"}],
        [row, {**row, CHANGE_TYPE: None}, {**null, CHANGE_TYPE: None, "n": 5, "moment": None}],
        [row, {**row, "n": None}, {**delete, "n": None}],
        [row, null, {**null, "n": 2, "moment": 10**15}, {**delete, "v": None, "n": 3}],
        [delete, row, {**row, "n": 2}, {**delete, "n": 3}],
        [{**r, "n": n} for n in range(4) for r in (row, delete)],
        *([row, wrong, {**delete, **parts, "n": 5}] for wrong in null_parts),
    ]
    columns = unchecked((*made.schema.key, *made.schema.value))
    types = {c.name: arrow_type(c.data_type) for c in columns}
    schema = pa.schema([*types.items(), (CHANGE_TYPE, pa.string()), (ORDINAL, pa.int64())])
    for rows in wrong:
        here, *others = in_all_ways(pa.Table.from_pylist(rows, schema), made, spark)
        assert isinstance(here, InvalidChangesError)
        for there in others:
            assert isinstance(there, InvalidChangesError)
            for name in ("source", "column", "columns"):
                assert getattr(here, name) == getattr(there, name)
            assert 0 < len(here.keys) == len(there.keys)
            assert set(here.keys) == set(there.keys)
            assert said(here) == said(there)
    deletes = pa.Table.from_pylist([{**delete, **parts}, {**delete, "n": 2}], schema)
    for batch in in_all_ways(deletes, made, spark):
        assert isinstance(batch, Batch)
        assert [row["s"] for row in rows_of(batch).to_pylist()] == [None, None]


def said(error: InvalidChangesError) -> str:
    """The message without the keys, whose order is Spark's."""
    assert "known: " in str(error) or shown(error.keys) in str(error)
    return str(error).replace(shown(error.keys), "…")


def test_many_rows_are_taken_as_few_are(spark: SparkSession) -> None:
    made = source("n bigint", "t string")
    table = pa.table({"n": [2, 1, 2, 3], "t": list("abcd"), ORDINAL: [2, 0, 1, 0]})
    few, many = (
        Given().taken(table, made, Engines(spark, Limits(local_rows=1, local_parts=most)))
        for most in (4, 3)
    )
    assert is_local(few.rows)
    assert not is_local(many.rows)
    rows = many.engines.table(many.rows, Batch.columns(made))
    in_order = [("n", "ascending"), (ORDINAL, "ascending")]
    assert rows.sort_by(in_order).equals(few.rows.sort_by(in_order))
    assert batch_of_frame(many.rows.drop("_is_delete"), made, few.engines).digest() == few.digest()
