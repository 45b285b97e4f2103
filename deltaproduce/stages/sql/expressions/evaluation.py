"""Evaluation: the values of a term over rows on the driver, by Arrow's kernels.

The invariant: no more is computed for a row than in Spark, so a branch not taken cannot fail.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.local.arrays import Marks
from deltaproduce.stages.sql.expressions.terms import (
    Call,
    Case,
    Constant,
    Junction,
    Reference,
    Term,
)
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.data_types import (
    BooleanType,
    DataType,
    DayTimeIntervalType,
    YearMonthIntervalType,
)
from deltaproduce.types.pandas_on_demand import in_numpy


def evaluated(term: Term, rows: pa.Table) -> pa.Array:
    """Return the values of a term, one per row.

    Args:
        rows: a table with the columns that it names, in the types of `arrow_type`.

    Raises:
        kernels.EvaluationError: a value cannot be computed.
    """
    match term:
        case Reference(name=name):
            return rows.column(name).combine_chunks()
        case Constant(value=value):
            return _constant(value, term.data_type, len(rows))
        case _ if len(rows) > 1 and not term.reads_rows:
            return pa.repeat(evaluated(term, rows.slice(0, 1))[0], len(rows))
        case Call():
            arguments = _arguments(term, rows)
            return term.kernel(_held(term.data_type), *arguments)
        case Junction():
            return _junction(term, rows)
        case Case():
            return _case(term, rows)
    raise AssertionError(term)


def holds(condition: Term, rows: pa.Table) -> Marks:
    """Return in which rows a condition is true; null is not true."""
    is_true = pc.fill_null(evaluated(condition, rows), fill_value=False)
    return in_numpy(is_true, bool)


def _held(data_type: DataType) -> pa.DataType:
    """Return the Arrow type of values; an interval is its months or its microseconds."""
    match data_type:
        case YearMonthIntervalType():
            return pa.int32()
        case DayTimeIntervalType():
            return pa.int64()
    return arrow_type(data_type)


def _constant(value: object, data_type: DataType, size: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, _held(data_type)), size)


def _arguments(term: Call, rows: pa.Table) -> Iterator[pa.Array]:
    """Yield the arguments of a call; each is computed where no earlier one is null."""
    is_open = pa.array(np.ones(len(rows), bool))
    for argument in term.arguments:
        if argument.may_fail and term.is_strict:
            values = _where(is_open, argument, rows, pa.nulls(len(rows), _held(argument.data_type)))
        else:
            values = evaluated(argument, rows)
        is_open = pc.and_(is_open, pc.is_valid(values))
        yield values


def _where(is_open: pa.Array, term: Term, rows: pa.Table, otherwise: pa.Array) -> pa.Array:
    """Return the values of a term in selected rows, and ``otherwise`` in the others."""
    marks = in_numpy(is_open, bool)
    if marks.all():
        return evaluated(term, rows)
    part = evaluated(term, rows.filter(is_open))
    if not pa.types.is_nested(otherwise.type):
        return pc.replace_with_mask(otherwise, is_open, part)
    places = np.arange(len(otherwise))
    places[marks] = len(otherwise) + np.arange(len(part))
    return pa.concat_arrays([otherwise, part]).take(pa.array(places))


def _junction(term: Junction, rows: pa.Table) -> pa.Array:
    joined = pc.or_kleene if term.settled else pc.and_kleene
    left = evaluated(term.left, rows)
    if not term.right.may_fail:
        return joined(left, evaluated(term.right, rows))
    is_open = pc.fill_null(pc.not_equal(left, term.settled), fill_value=True)
    settled = _constant(term.settled, BooleanType(), len(rows))
    return joined(left, _where(is_open, term.right, rows, settled))


def _case(term: Case, rows: pa.Table) -> pa.Array:
    left, values, places = np.arange(len(rows)), list[pa.Array](), list[np.ndarray]()
    for condition, value in term.branches:
        marks = holds(condition, rows)
        values.append(evaluated(value, rows.filter(pa.array(marks))))
        places.append(left[marks])
        rows, left = rows.filter(pa.array(~marks)), left[~marks]
    values.append(evaluated(term.otherwise, rows))
    places.append(left)
    order = np.argsort(np.concatenate(places), kind="stable")
    return pa.concat_arrays(values).take(pa.array(order))
