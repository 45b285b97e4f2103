"""Window functions: each row with the values of its functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.local.arrays import Numbers
from deltaproduce.stages.sql.algebra.scalars import Scalar
from deltaproduce.stages.sql.algebra.windows import ENDS, OFFSETS, WindowCall, WindowRelation
from deltaproduce.stages.sql.operators.changes.keys import LookupKeys
from deltaproduce.stages.sql.operators.changes.rules import RelationChanges, both, nothing
from deltaproduce.stages.sql.operators.changes.signed import Signed
from deltaproduce.stages.sql.operators.computing import Computing
from deltaproduce.stages.sql.operators.windows.aggregates import aggregated
from deltaproduce.stages.sql.operators.windows.partitions import WindowPartitions
from deltaproduce.stages.sql.states.functions.plans import Doubles
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.pandas_on_demand import in_numpy


def whole(window: WindowRelation, rows: pa.Table, computing: Computing) -> pa.Table:
    """Return all rows with the values of the functions."""
    parts = WindowPartitions.of(window, rows, computing)
    for field, call in window.calls:
        values = _values(window, call, parts, computing)
        rows = rows.append_column(field.id, parts.as_given(values))
    return rows


def change(window: WindowRelation, changes: RelationChanges) -> Signed:
    """Return the change: the partitions of changed rows, made of their rows before and after."""
    touched = changes.change(window.input)
    if not len(touched):
        return nothing(window, changes)
    keys = LookupKeys.of(touched.rows, partition_fields(window))
    before, after = both(window.input, keys, touched, changes)
    return Signed.between(*(whole(window, rows, changes.computing) for rows in (before, after)))


def looked_up(window: WindowRelation, keys: LookupKeys, changes: RelationChanges) -> pa.Table:
    """Return the rows before that have one of the keys, from all rows of their partitions."""
    fields = partition_fields(window)
    own = keys.within(window.input.fields)
    if own is not None and not fields.intersection(own.fields):
        own = LookupKeys.of(changes.before(window.input, own), sorted(fields))
    elif own is not None:
        own = keys.within([one for one in window.input.fields if one.id in fields])
    values = whole(window, changes.before(window.input, own), changes.computing)
    return keys.of_rows(values)


def partition_fields(window: WindowRelation) -> frozenset[str]:
    """Return the fields that are equal in the rows of a partition."""
    trees = (one.expression for one in window.partition)
    return frozenset(one.column for one in trees if one.column is not None)


def _values(
    window: WindowRelation, call: WindowCall, parts: WindowPartitions, computing: Computing
) -> pa.Array:
    """Return the values of a function, for the rows in order."""
    fields = window.input.fields

    def value(scalar: Scalar) -> pa.Array:
        return computing.value(scalar, parts.rows, fields)

    if call.aggregate is not None:
        frames = parts.frames(call.frame, fields, computing)
        return aggregated(call.aggregate, parts, *frames, fields, computing)
    assert call.data_type is not None
    if call.function in OFFSETS:
        default = value(call.arguments[1]) if len(call.arguments) > 1 else None
        return _at_distance(call, value(call.arguments[0]), default, parts)
    if call.function in ENDS:
        frames = parts.frames(call.frame, fields, computing)
        return _of_frame(call, value(call.arguments[0]), *frames)
    values = _PLACES[call.function or ""](parts, call.number)
    return pa.array(values).cast(arrow_type(call.data_type))


def _row_number(parts: WindowPartitions, _: int) -> Numbers:
    return np.arange(len(parts)) - parts.begins + 1


def _rank(parts: WindowPartitions, _: int) -> Numbers:
    return parts.peers_begin - parts.begins + 1


def _dense_rank(parts: WindowPartitions, _: int) -> Numbers:
    groups = np.cumsum(np.arange(len(parts)) == parts.peers_begin)
    return groups - groups[parts.begins] + 1 if len(parts) else groups


def _percent_rank(parts: WindowPartitions, _: int) -> Doubles:
    others = np.maximum(parts.ends - parts.begins - 1, 1)  # a row alone has the rank 0
    ranks: Doubles = (parts.peers_begin - parts.begins) / others
    return ranks


def _cume_dist(parts: WindowPartitions, _: int) -> Doubles:
    shares: Doubles = (parts.peers_end - parts.begins) / (parts.ends - parts.begins)
    return shares


def _ntile(parts: WindowPartitions, buckets: int) -> Numbers:
    """Return the number of each row's bucket; the first ones have a row more if need be."""
    least, more = np.divmod(parts.ends - parts.begins, buckets)
    place = np.arange(len(parts)) - parts.begins
    wide = more * (least + 1)
    late = more + (place - wide) // np.maximum(least, 1)
    numbers: Numbers = np.where(place < wide, place // (least + 1), late) + 1
    return numbers


_PLACES: Final[Mapping[str, Callable[[WindowPartitions, int], Numbers | Doubles]]] = (
    MappingProxyType(
        {
            "row_number": _row_number,
            "rank": _rank,
            "dense_rank": _dense_rank,
            "percent_rank": _percent_rank,
            "cume_dist": _cume_dist,
            "ntile": _ntile,
        }
    )
)
"""What the functions of the place of a row return."""


def _at_distance(
    call: WindowCall, values: pa.Array, default: pa.Array | None, parts: WindowPartitions
) -> pa.Array:
    """Return the value of LAG and LEAD: that of the row at a distance, or the default."""
    at = np.arange(len(parts)) + call.number
    if call.ignores_nulls:
        at = _among_valid(values, call.number, parts)
    missing = (at < parts.begins) | (at >= parts.ends)
    shifted = values.take(pa.array(at, mask=missing))
    return shifted if default is None else pc.if_else(pa.array(missing), default, shifted)


def _among_valid(values: pa.Array, distance: int, parts: WindowPartitions) -> Numbers:
    """Return the place of the valid value at a distance among the valid ones; -1 without one."""
    valid = np.flatnonzero(in_numpy(values.is_valid(), bool))
    here = np.arange(len(parts))
    if distance < 0:
        index = valid.searchsorted(here, "left") + distance
    else:
        index = valid.searchsorted(here, "right") + distance - 1
    there = (index >= 0) & (index < len(valid))
    places = np.full(len(parts), -1)
    places[there] = valid[index[there]]
    return places


def _of_frame(call: WindowCall, values: pa.Array, begin: Numbers, end: Numbers) -> pa.Array:
    """Return the value of one row of each frame; null if it has no such row."""
    last = call.function == "last_value"
    if not call.ignores_nulls:
        at = end - 1 if last else begin + max(call.number, 1) - 1
        return values.take(pa.array(at, mask=(at < begin) | (at >= end)))
    valid = np.flatnonzero(in_numpy(values.is_valid(), bool))
    if last:
        index = valid.searchsorted(end, "left") - 1
    else:
        index = valid.searchsorted(begin, "left") + max(call.number, 1) - 1
    there = (index >= 0) & (index < len(valid))
    at = np.full(len(values), -1)
    at[there] = valid[index[there]]
    return values.take(pa.array(at, mask=(at < begin) | (at >= end)))
