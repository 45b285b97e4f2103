"""What a step removes and adds, in some columns, makes the rows after of those before."""

from __future__ import annotations

import math
from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltaproduce.engines.local.kernels.comparing import compare
from deltaproduce.engines.local.kernels.moving import moved
from deltaproduce.engines.marks import KEY_DIFFERS, ROW_DIFFERS
from deltaproduce.model.layouts import Layout
from deltaproduce.types.atoms import arrow_schema
from deltaproduce.types.columns import ORDINAL, row_schema

SCHEMA = row_schema("k string, n int", "x double, s string, l array<int>, i int", stage="t")
COLUMNS = ("k", "n", "x", "s", "l", "i")


def some_rows(random: Random, most: int) -> list[dict[str, Any]]:
    """Rows of a few keys, with up to so many of each; none is equal to another one."""
    keys = random.sample([(k, n) for k in ("a", None) for n in range(5)], random.randrange(10))
    return [
        {
            "k": k,
            "n": n,
            ORDINAL: ordinal,
            "x": random.choice([0.0, -0.0, 1.5, math.nan, None]),
            "s": random.choice(["", "y", None]),
            "l": random.choice([[1], [1, None], [], None]),
            "i": random.randrange(1 << 30),
        }
        for k, n in keys
        for ordinal in range(random.randint(1, most))
    ]


def bag(table: pa.Table) -> Counter[Any]:
    rows = zip(*(map(repr, column.to_pylist()) for column in table.columns), strict=True)
    return Counter(rows)


@pytest.mark.parametrize("most", [1, 3])
def test_rows_before_and_what_moves_make_the_rows_after(most: int) -> None:
    """Bit by bit; and nothing goes and comes in the one row of a key."""
    random, layout, fewer = Random(most), Layout(SCHEMA), 0
    for _ in range(300):
        before, after = (
            pa.Table.from_pylist(some_rows(random, most), schema=arrow_schema(layout.content))
            for _ in range(2)
        )
        compared = compare(before, np.zeros(len(before), bool), after, layout)
        columns = random.sample(COLUMNS, random.randint(1, len(COLUMNS)))
        which = {ROW_DIFFERS: True, KEY_DIFFERS: True}
        gone, added = moved(compared, columns, SCHEMA.key.names, which)
        assert not bag(gone) - bag(before.select(columns))
        assert bag(before.select(columns)) - bag(gone) + bag(added) == bag(after.select(columns))
        every = compared.filter(pc.and_(compared[ROW_DIFFERS], compared[KEY_DIFFERS]))
        fewer += len(every) - len(gone) - len(added)
        if most == 1 and {"k", "n"} <= {*columns}:
            assert not bag(gone) & bag(added)
    assert fewer > 100
