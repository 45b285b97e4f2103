"""GROUP BY: aggregate functions over the rows of each group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.local.arrays import (
    Numbers,
    factorize,
    firsts_of,
    order_codes,
)
from deltaproduce.stages.sql.algebra.calls import COUNTS, AggregateExpression
from deltaproduce.stages.sql.algebra.provenance import bare
from deltaproduce.stages.sql.algebra.relations import AggregateRelation
from deltaproduce.stages.sql.algebra.scalars import Field
from deltaproduce.stages.sql.operators.changes.keys import LookupKeys
from deltaproduce.stages.sql.operators.changes.rules import RelationChanges, both, nothing
from deltaproduce.stages.sql.operators.changes.signed import Signed
from deltaproduce.stages.sql.operators.computing import Computing, QueryError, normal
from deltaproduce.stages.sql.states.functions import multisets
from deltaproduce.stages.sql.states.measures import GroupError
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import Column
from deltaproduce.types.pandas_on_demand import in_numpy

_VALUE: Final = "value"


def whole(aggregate: AggregateRelation, rows: pa.Table, computing: Computing) -> pa.Table:
    """Return one row for each group; without keys one row, also over no rows."""
    fields = aggregate.input.fields
    keys = [normal(computing.value(key.scalar, rows, fields)) for key in aggregate.keys]
    if keys:
        groups = factorize(pa.chunked_array([key]) for key in keys)
        firsts = firsts_of(groups)
        size = len(firsts)
    else:
        groups, firsts, size = np.zeros(len(rows), np.int64), np.zeros(0, np.int64), 1
    arrays = {
        key.field.id: values.take(pa.array(firsts))
        for key, values in zip(aggregate.keys, keys, strict=True)
    }
    for field, call in aggregate.calls:
        arguments = counted_arguments(call, rows, fields, computing, groups)
        arrays[field.id] = _values(call, arguments, groups, size)
    return pa.table(arrays)


def counted_arguments(
    call: AggregateExpression,
    rows: pa.Table,
    fields: Sequence[Field],
    computing: Computing,
    groups: Numbers | None = None,
) -> list[pa.Array]:
    """Return a function's arguments, one per row; null where a row does not count.

    Args:
        groups: the group of each row, of which equal arguments count once with DISTINCT.
    """
    arguments = [computing.value(one, rows, fields) for one in call.arguments]
    counted = None if call.where is None else computing.holds(call.where, rows, fields)
    if call.is_distinct:
        assert groups is not None
        counted = _firsts(arguments, groups, counted)
    return arguments if counted is None else _counted(arguments, counted)


def change(aggregate: AggregateRelation, changes: RelationChanges) -> Signed:
    """Return the change: the groups of changed rows, made of their rows before and after."""
    touched = changes.change(aggregate.input)
    if not len(touched):
        return nothing(aggregate, changes)
    keys = LookupKeys.of(touched.rows, copies(aggregate).values())
    before, after = both(aggregate.input, keys, touched, changes)
    return Signed.between(*(whole(aggregate, rows, changes.computing) for rows in (before, after)))


def looked_up(aggregate: AggregateRelation, keys: LookupKeys, changes: RelationChanges) -> pa.Table:
    """Return the rows before that have one of the keys: whole groups."""
    rows = changes.before(aggregate.input, keys.named(copies(aggregate)))
    return keys.of_rows(whole(aggregate, rows, changes.computing))


def copies(aggregate: AggregateRelation) -> dict[str, str]:
    """Return the keys -> the fields of its input that they copy."""
    pairs = ((key.field.id, bare(key)) for key in aggregate.keys)
    return {field: copied for field, copied in pairs if copied is not None}


def _values(
    call: AggregateExpression, arguments: Sequence[pa.Array], groups: Numbers, size: int
) -> pa.Array:
    """Return a function's value for each group.

    Raises:
        QueryError: a value does not fit its type.
    """
    assert call.data_type is not None
    wanted = arrow_type(call.data_type)
    if not len(groups):
        return _of_nothing(call, wanted).take(pa.array(np.zeros(size, np.int64)))
    if call.function == "count":
        return _count(arguments, groups, size)
    if call.is_end:
        return ends(arguments[0], groups, size, is_greatest=call.function == "max")
    function = call.planned
    if function.ordered is not None:
        return multisets.answers_of_values(arguments[::-1], groups, size, function.ordered)
    (values,) = arguments
    signs = np.ones(len(groups), np.int64)
    try:
        states = [
            one.settled(one.here(values if one.arguments else None, signs, groups, size))
            for one in function.measures
        ]
        return function.finish(states)
    except GroupError as error:
        raise QueryError(call.text, str(error)) from error


def _of_nothing(call: AggregateExpression, wanted: pa.DataType) -> pa.Array:
    """Return a function's value over no rows, as a column of one row."""
    if call.function in COUNTS:
        return pa.array([0], wanted)
    ordered = None if call.is_end else call.planned.ordered
    return pa.nulls(1, wanted) if ordered is None else multisets.nothing(ordered)


def _count(arguments: Sequence[pa.Array], groups: Numbers, size: int) -> pa.Array:
    """Return the number of rows in which no argument is null."""
    for values in arguments:
        valid = in_numpy(pc.is_valid(values), bool)
        groups, arguments = groups[valid], [one.filter(pa.array(valid)) for one in arguments]
        if len(arguments) > 1:
            return _count(arguments[1:], groups, size)
    return pa.array(np.bincount(groups, minlength=size).astype(np.int64))


def ends(values: pa.Array, groups: Numbers, size: int, *, is_greatest: bool) -> pa.Array:
    """Return the least or the greatest value of each group; null if it has none."""
    values = normal(values)
    there = np.flatnonzero(in_numpy(pc.is_valid(values), bool))
    rows = pa.table({_VALUE: values.take(pa.array(there))})
    (codes,) = order_codes(rows, [Column(_VALUE, None)])  # type: ignore[arg-type]
    order = np.lexsort((-codes if is_greatest else codes, groups[there]))
    own = groups[there][order]
    begins = np.append(True, own[1:] != own[:-1])[: len(own)]
    places = np.full(size, -1)
    places[own[begins]] = there[order[begins]]
    return values.take(pa.array(places, mask=places < 0))


def _firsts(
    arguments: Sequence[pa.Array], groups: Numbers, counted: np.ndarray | None
) -> np.ndarray:
    """Return which rows are the first of their group with equal arguments, of those that count."""
    columns = [pa.chunked_array([pa.array(groups)])]
    columns += [pa.chunked_array([normal(one)]) for one in arguments]
    if counted is not None:  # the others are no first ones
        columns.append(pa.chunked_array([pa.array(counted)]))
    marks = np.zeros(len(groups), bool)
    marks[firsts_of(factorize(columns))] = True
    return marks if counted is None else marks & counted


def _counted(arguments: Sequence[pa.Array], counted: np.ndarray) -> list[pa.Array]:
    """Return arguments that are null where a row does not count, so that no group is empty."""
    if not arguments:
        return [pa.array(counted, mask=~counted)]
    return [pc.if_else(pa.array(counted), one, pa.scalar(None, one.type)) for one in arguments]
