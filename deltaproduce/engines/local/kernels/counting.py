"""Counts of a comparison's rows on the driver.

Each row has one of few combinations of marks. So the rows are counted once, by their combination,
and each of the `Counts` adds up those of the combinations that it counts.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from deltaproduce.engines.marks import COUNTED, Counts
from deltaproduce.types.pandas_on_demand import in_numpy

_MARKS: Final = tuple(sorted({name for which in COUNTED.values() for name in which}))
"""The columns that say which rows count; each is 0 or 1."""


def counts_of(rows: pa.Table, keys: int | None = None) -> Counts:
    """Return the counts of a comparison's rows.

    Args:
        keys: the number of keys of the comparison; if None, all keys of the rows count.
    """
    combinations = np.zeros(len(rows), np.int64)
    for place, name in enumerate(_MARKS):
        combinations += in_numpy(rows.column(name)).astype(np.int64) << place
    counted = np.bincount(combinations, minlength=1 << len(_MARKS))
    counts = dict(zip(COUNTED, (_counting() @ counted).tolist(), strict=True))
    if keys is not None:
        counts["keys"] = keys
    return Counts(**counts, bytes=rows.nbytes)


@cache
def _counting() -> NDArray[np.int64]:
    """Return for each of the counts, and each combination of marks, whether it counts (0 or 1)."""
    every = np.arange(1 << len(_MARKS))
    counting = np.ones((len(COUNTED), len(every)), np.int64)
    for row, which in zip(counting, COUNTED.values(), strict=True):
        for name, value in which.items():
            row *= (every >> _MARKS.index(name)) & 1 == int(value)
    return counting
