"""Hashes of rows tell whether two sets of rows are the same."""

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deltaproduce as dp
from deltaproduce.engines.choice import Engines
from deltaproduce.engines.local.arrays import factorize
from deltaproduce.engines.local.kernels.row_hashes import row_hashes, summed
from deltaproduce.model.limits import Limits
from deltaproduce.stages.partitioned.digests import (
    digests,
    digests_stage,
    in_halves,
    of_halves,
)

NESTED = pa.struct([("xs", pa.list_(pa.float64())), ("m", pa.map_(pa.string(), pa.int64()))])
VALUES: list[tuple[list[Any], pa.DataType]] = [
    ([0, 1, -1, 2**31 - 1, None], pa.int32()),
    (["", "a", "b", "ab", "ba", "aab", "aba", "é", "\x00", None], pa.string()),
    ([b"", b"\x00", b"\x00\x00", b"\xff", None], pa.binary()),
    ([True, False, None], pa.bool_()),
    ([Decimal("1.00"), Decimal("-1.00"), Decimal("1e20"), None], pa.decimal128(38, 2)),
    ([datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None], pa.date32()),
    ([-(2**63), 0, 2**63 - 1, None], pa.timestamp("us", tz="UTC")),
    ([0.0, -0.0, 1.5, math.inf, math.nan, None], pa.float64()),
    ([0.0, -0.0, 1.5, math.nan, None], pa.float32()),
    ([[], [1], [1, 1], [1, 2], [2, 1], [None], None], pa.list_(pa.int64())),
    (
        [
            {"xs": [0.0], "m": [("a", 1), ("b", 2)]},
            {"xs": [-0.0], "m": [("b", 2), ("a", 1)]},
            {"xs": [0.0], "m": [("a", 2), ("b", 1)]},
            {"xs": None, "m": []},
            {"xs": [], "m": None},
            None,
        ],
        NESTED,
    ),
]


@pytest.mark.parametrize(("values", "kind"), VALUES)
def test_equal_values_have_equal_hashes_and_others_not(
    values: list[Any], kind: pa.DataType
) -> None:
    """However Arrow has them: in chunks, in slices, or in another order."""
    column = pa.chunked_array([pa.array(values, kind), pa.array(values[::-1], kind)])
    rows = pa.table({"x": column})
    hashes, codes = row_hashes(rows), factorize([column])
    assert (np.equal.outer(hashes, hashes) == np.equal.outer(codes, codes)).all()
    for first in range(len(values)):
        assert (row_hashes(rows.slice(first, 3)) == hashes[first : first + 3]).all()


ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "ab"]), st.integers(-1, 2), st.none() | st.integers(0, 1)),
    max_size=6,
)


@given(ROWS, ROWS)
def test_sums_are_equal_for_the_same_rows_only(
    some: list[tuple[Any, ...]], others: list[tuple[Any, ...]]
) -> None:
    sums = [
        summed(hashes, np.zeros(len(hashes), np.int64), 1)[0]
        for hashes in (row_hashes(table(rows)) for rows in (some, others))
    ]
    assert (sums[0] == sums[1]) == (sorted(map(repr, some)) == sorted(map(repr, others)))


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    kinds = (pa.string(), pa.int64(), pa.int64())
    return pa.table(
        {f"c{n}": pa.array([row[n] for row in rows], kind) for n, kind in enumerate(kinds)}
    )


def test_a_hash_is_the_same_on_every_machine() -> None:
    """Stores keep sums of them."""
    rows = pa.table({"day": ["2022-03-31"], "n": pa.array([7], pa.int64())})
    assert row_hashes(rows).tolist() == [17706882092590782866]


@pytest.mark.parametrize("partition", ["day, store", None])
def test_digests_that_tasks_of_spark_add_up_are_those_of_the_driver(partition: str | None) -> None:
    """However the rows are shared out among batches: halves of sums do not overflow."""
    shop = dp.Pipeline("shop")
    sales = shop.source(
        "sales", key="day string, store string, n bigint", value="x double", partition=partition
    )
    rows = pa.table(
        {
            "day": ["a", "b", None, "a"] * 50,
            "store": ["c", "c", "d", "e"] * 50,
            "n": pa.array(range(200), pa.int64()),
            "_ordinal": pa.array([0] * 200, pa.int64()),
            "x": [float(n % 7) for n in range(200)],
        }
    )
    read = (*sales.schema.key, *sales.schema.value)
    by = digests_stage(sales).schema.key.columns
    parts = pa.Table.from_batches(
        in_halves(rows.select([c.name for c in read]).to_batches(max_chunksize=7), read, by)
    )
    names = [c.name for c in by]
    summed_up = parts.group_by(names).aggregate(
        [(name, "sum") for name in parts.column_names if name not in names]
    )
    table = pa.table(
        {name: summed_up.column(f"{name}_sum") for name in ("digest_rows", "_low", "_high")}
    )
    for name in names:
        table = table.append_column(name, summed_up.column(name))
    wanted = digests(rows, sales, Engines.opened(None, Limits()))
    found = of_halves(table, by)
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, wanted.to_pylist()))
    assert len(found) == (4 if partition else 1)
