"""The rows that a comparison removes and adds, in some of their columns.

Stages read different columns of a step, and a row often changes in a few of them only. The
invariant: the rows before without those that go, and with those that come, are the rows after.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.local.arrays import Marks, Numbers, bits, codes
from deltaproduce.engines.marks import AFTER, BEFORE, KEY_BEFORE, SIDE, Which
from deltaproduce.types.pandas_on_demand import in_numpy


def moved(
    compared: pa.Table, columns: Sequence[str], key: Sequence[str], which: Which
) -> tuple[pa.Table, pa.Table]:
    """Return the removed and the added rows of a comparison, in some columns.

    If the last row of a key before and its first row after are the same, bit by bit, neither is
    returned. These are the only ones of most keys.

    Args:
        compared: as `comparing.compare` returns it: in the order of keys, rows before come first.
        columns: those that are wanted.
        key: the key columns.
        which: the marks that the rows have.
    """
    side = in_numpy(compared.column(SIDE))
    wanted = np.ones(len(compared), bool)
    for name, value in which.items():
        wanted &= in_numpy(compared.column(name), bool) == value
    first = np.flatnonzero(
        wanted[:-1]
        & wanted[1:]
        & (side[:-1] == BEFORE)
        & (side[1:] == AFTER)
        & in_numpy(compared.column(KEY_BEFORE), bool)[1:]
    )
    for name in columns:
        if name not in key and len(first):
            first = first[_are_same(compared.column(name), first)]
    wanted[first] = wanted[first + 1] = False
    rows = compared.select(list(columns))
    gone, added = (rows.filter(pa.array(wanted & (side == one))) for one in (BEFORE, AFTER))
    return gone, added


def _are_same(column: pa.ChunkedArray, first: Numbers) -> Marks:
    """Mark the places at which a value is the same as the next one, bit by bit."""
    rows = pa.table({"value": bits(column)}).combine_chunks()
    one, next_one = (rows.take(pa.array(places)).column(0) for places in (first, first + 1))
    if pa.types.is_nested(column.type):
        numbers = codes(pa.chunked_array([*one.chunks, *next_one.chunks]))
        same: Marks = numbers[: len(first)] == numbers[len(first) :]
        return same
    are_equal = pc.fill_null(pc.equal(one, next_one), fill_value=False)
    are_null = pc.and_(pc.is_null(one), pc.is_null(next_one))
    return in_numpy(pc.or_(are_equal, are_null), bool)
