"""The counts of a comparison's rows on the driver."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from deltaproduce.engines.local.kernels.counting import counts_of
from deltaproduce.engines.marks import COUNTED, SIDE


@pytest.mark.parametrize("rows", [0, 1, 50, 3_000])
def test_each_count_is_that_of_the_rows_with_its_marks(rows: int) -> None:
    random = np.random.default_rng(rows)
    names = sorted({name for which in COUNTED.values() for name in which})
    table = pa.table(
        {
            name: pa.array(random.integers(0, 2, rows), pa.int32())
            if name == SIDE
            else pa.array(random.integers(0, 2, rows).astype(bool))
            for name in names
        }
    )
    counts = counts_of(table)
    for counted, which in COUNTED.items():
        wanted = [row for row in table.to_pylist() if all(row[n] == v for n, v in which.items())]
        assert getattr(counts, counted) == len(wanted)
    assert counts.bytes == table.nbytes
    assert counts_of(table, 7).keys == 7
