"""Rows that are looked up once in a version: those of some keys are what a filter keeps."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest

from deltaproduce.engines.local.arrays import distinct, isin_rows
from deltaproduce.storage.parquet.shared_lookups import Room, Wanted

BY = (("n",), ("n", "d"), ("d", "n", "day"), ("t",), ("n", "t"))


def table(chance: np.random.Generator, rows: int, *, nulls: bool) -> pa.Table:
    numbers, days = chance.integers(-9, 9, rows), chance.integers(0, 5, rows)
    columns: dict[str, Any] = {
        "n": pa.array(numbers),
        "d": pa.array([Decimal(int(n)) / 4 for n in numbers % 6], pa.decimal128(9, 2)),
        "day": pa.array(days.astype(np.int32)).cast(pa.date32()),
        "t": pa.array(["xyz"[n % 3] for n in numbers]),
        "v": pa.array(np.arange(rows)),
    }
    if nulls:
        gone = pa.array(chance.random(rows) < 0.2)
        for name in ("n", "day"):
            kind = columns[name].type
            columns[name] = pa.compute.if_else(gone, pa.scalar(None, kind), columns[name])
    return pa.concat_tables([pa.table(columns).slice(0, 30), pa.table(columns).slice(30)])


@pytest.mark.parametrize("order", ["", "n", "day"])
@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("by", BY, ids=" ".join)
@pytest.mark.parametrize("seed", range(3))
def test_rows_of_keys_are_those_that_a_filter_keeps(
    seed: int, by: tuple[str, ...], nulls: bool, order: str
) -> None:
    """In their order, also if all rows were read first, and whatever was asked before."""
    chance = np.random.default_rng(seed)
    stored, reads = table(chance, 100, nulls=nulls), list[pa.Table | None]()
    if order:
        stored = stored.sort_by(order).set_column(4, "v", pa.array(np.arange(100)))
        stored = pa.concat_tables([stored.slice(0, 40), stored.slice(40)])

    def read(columns: Any, keys: pa.Table | None) -> pa.Table:
        reads.append(keys)
        if keys is None:
            return stored.select(list(columns))
        marks = isin_rows(stored.select(keys.column_names), keys)
        return stored.filter(pa.array(marks)).select(list(columns))

    wanted = [Wanted("f", frozenset(by), frozenset({*by, "v"}))]
    for reads_all in (None, lambda *_: True):
        lookups = Room().begin(wanted, lambda _: None)["f"]
        for _ in range(4):
            keys = distinct(table(chance, 12, nulls=nulls).select(by))
            found = lookups.rows([*by, "v"], keys, read, reads_all)
            expected = stored.filter(pa.array(isin_rows(stored.select(by), keys)))
            in_order = found if reads_all else found.sort_by("v")
            assert in_order.equals(expected.select(found.column_names))
    assert reads.count(None) == 1
