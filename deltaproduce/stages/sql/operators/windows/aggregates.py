"""Aggregate functions over frames: by differences of running states, or of the ends of ranges.

The invariant: a value is that of the function over the rows of the frame alone (`groups.by_rows`),
bit by bit: running states are exact, and no sum on the way overflows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.local.arrays import Numbers, order_codes
from deltaproduce.stages.sql.algebra.calls import AggregateExpression
from deltaproduce.stages.sql.algebra.scalars import Field
from deltaproduce.stages.sql.operators.computing import Computing, QueryError, normal
from deltaproduce.stages.sql.operators.groups.by_rows import counted_arguments
from deltaproduce.stages.sql.operators.windows.partitions import WindowPartitions
from deltaproduce.stages.sql.states.measures import GroupError
from deltaproduce.stages.sql.states.running import of_frames
from deltaproduce.types.columns import Column
from deltaproduce.types.pandas_on_demand import in_numpy

_VALUE = "value"


def aggregated(
    call: AggregateExpression,
    parts: WindowPartitions,
    begin: Numbers,
    end: Numbers,
    fields: Sequence[Field],
    computing: Computing,
) -> pa.Array:
    """Return the value of a function over each row's frame, for the rows in order.

    Args:
        begin: where each frame begins.
        end: the place after its last row.

    Raises:
        QueryError: an argument fails for a row, or a value does not fit its type.
    """
    arguments = counted_arguments(call, parts.rows, fields, computing)
    if call.function == "count":
        return pa.array(_counted(arguments, len(parts), begin, end))
    (values,) = arguments
    if call.is_end:
        return _ends(values, begin, end, is_greatest=call.function == "max")
    function = call.planned
    try:
        return function.finish([of_frames(one, values, begin, end) for one in function.measures])
    except GroupError as error:
        raise QueryError(call.text, str(error)) from error


def _counted(arguments: Sequence[pa.Array], size: int, begin: Numbers, end: Numbers) -> Numbers:
    """Return the number of rows of each frame in which no argument is null."""
    valid = np.ones(size, bool)
    for values in arguments:
        valid &= in_numpy(pc.is_valid(values), bool)
    running = np.concatenate([[0], np.cumsum(valid)])
    counts: Numbers = running[end] - running[begin]
    return counts


def _ends(values: pa.Array, begin: Numbers, end: Numbers, *, is_greatest: bool) -> pa.Array:
    """Return the least or greatest value of each frame; null if it has none.

    Values are compared by their ranks. A range of rows is two overlapping ones of 2**n rows, whose
    greatest ranks are those of two ranges of half the size.
    """
    values = normal(values)
    if not len(values):
        return values
    valid = in_numpy(pc.is_valid(values), bool)
    (codes,) = order_codes(pa.table({_VALUE: values}), [Column(_VALUE, None)])  # type: ignore[arg-type]
    ranks, where = np.unique(codes if is_greatest else -codes, return_inverse=True)
    where = where + 1
    where[~valid] = 0
    first = np.zeros(len(ranks) + 1, np.int64)
    first[where] = np.arange(len(values))
    places = _greatest(where, begin, end)
    return values.take(pa.array(first[places], mask=places == 0))


def _greatest(ranks: Numbers, begin: Numbers, end: Numbers) -> Numbers:
    """Return the greatest of the numbers in each range; 0 for an empty one."""
    places = np.zeros(len(begin), np.int64)
    sizes = end - begin
    level = np.frexp(np.maximum(sizes, 1))[1] - 1
    of_level, width = ranks.astype(np.int64), 1
    for n in range(int(level.max(initial=0)) + 1):
        stretches = np.flatnonzero((level == n) & (sizes > 0))
        places[stretches] = np.maximum(of_level[begin[stretches]], of_level[end[stretches] - width])
        wider = of_level.copy()
        wider[: len(wider) - width] = np.maximum(of_level[:-width], of_level[width:])
        of_level, width = wider, 2 * width
        if width > len(ranks):
            break
    return places
