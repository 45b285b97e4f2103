"""PIVOT: groups by the columns that it does not name, with a column for each value and aggregate.

The invariant: a column is null where no row has its value, also one that counts; but if an
aggregate is of a type that Spark cannot write in place, such as text, counts are 0 there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from deltaproduce.stages.sql.algebra.relations import AggregateRelation, ProjectRelation
from deltaproduce.stages.sql.algebra.scalars import Output, columns_in
from deltaproduce.stages.sql.resolve.building import Building
from deltaproduce.stages.sql.resolve.groups.grouping import grouped, is_aggregate
from deltaproduce.stages.sql.resolve.names import Named
from deltaproduce.stages.sql.resolve.reading import Selected, TextOrigin
from deltaproduce.types.data_types import (
    BooleanType,
    DatetimeType,
    DoubleType,
    FloatType,
    NumericType,
)

_IN_PLACE: Final = NumericType | BooleanType | DatetimeType
"""Types of which Spark writes a value in place."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a PIVOT: an aggregate over the rows that have some values."""

    name: str
    call: exp.Expr
    condition: exp.Expr


def pivoted(pivot: exp.Expr, rows: Building) -> Selected | None:
    """Return the groups of a PIVOT; None if only Spark computes it.

    Args:
        rows: the rows that are pivoted.

    Raises:
        DefinitionError: it names something unknown.
    """
    columns = _columns(pivot)
    by = [*_by(pivot)]
    if columns is None or not by:
        return None
    named = [rows.expression(one) for one in by]
    if any(isinstance(_type_of(tree, rows), FloatType | DoubleType | None) for tree in named):
        return None
    read = {c.name for one in pivot.expressions for c in columns_in(rows.expression(_argued(one)))}
    read |= {column.name for tree in named for column in columns_in(tree)}
    kept = [one for one in rows.scope.columns if one.field.id not in read]
    keys = [_named(one) for one in kept]
    calls = [_filtered(column) for column in columns]
    counts = [_filtered(column, is_count=True) for column in columns]
    every = [*keys, *calls, *counts]
    select = exp.Select(expressions=every, group=exp.Group(expressions=[k.copy() for k in keys]))
    grouped_rows = grouped(select, rows, select.expressions)
    if grouped_rows is None or not isinstance(grouped_rows.relation, AggregateRelation):
        return None
    rows.reading.origins[grouped_rows.relation] = TextOrigin(pivot)
    of_keys, of_calls, of_counts = (
        [grouped_rows.expression(one) for one in select.expressions[begin:end]]
        for begin, end in (
            (0, len(keys)),
            (len(keys), len(keys) + len(calls)),
            (len(keys) + len(calls), len(every)),
        )
    )
    kinds = [call.data_type for _, call in grouped_rows.relation.calls]
    if any(isinstance(kind, _IN_PLACE) is False for kind in kinds):
        values = of_calls
    else:
        values = [_unless_none(*pair) for pair in zip(of_calls, of_counts, strict=True)]
    names = [*(one.name for one in kept), *(column.name for column in columns)]
    outputs, result = list[Output](), list[Named]()
    for name, tree in zip(names, [*of_keys, *values], strict=True):
        scalar = rows.reading.typed(tree, grouped_rows.relation.fields, pivot)
        outputs.append(Output(rows.reading.field(name, scalar.data_type), scalar))
        result.append(Named(None, name, outputs[-1].field))
    relation = ProjectRelation(grouped_rows.relation, tuple(outputs))
    return Selected(relation, tuple(result))


def _columns(pivot: exp.Expr) -> list[_Column] | None:
    """Return the columns; None if only Spark knows their names, or what they are."""
    fields = pivot.args.get("fields") or []
    if len(fields) != 1 or not isinstance(fields[0], exp.In):
        return None
    calls = [(one.unalias(), one.alias) for one in pivot.expressions]
    if not all(is_aggregate(call) and (name or len(calls) == 1) for call, name in calls):
        return None
    columns = list[_Column]()
    for value in fields[0].expressions:
        of_value = _value(value)
        if of_value is None:
            return None
        name, tree = of_value
        condition = _equal([*_by(pivot)], tree)
        if condition is None:
            return None
        for call, own in calls:
            whole = name if len(calls) == 1 else f"{name}_{own}"
            columns.append(_Column(whole, call, condition))
    return columns


def _value(node: exp.Expr) -> tuple[str, exp.Expr] | None:
    """Return the name of a value, and the value; None if only Spark names it."""
    if isinstance(node, exp.PivotAlias):
        return node.args["alias"].name, node.this
    is_named = isinstance(node, exp.Literal) and (node.is_string or node.is_int)
    return (node.name, node) if is_named else None


def _by(pivot: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the columns whose values become columns."""
    for one in pivot.args.get("fields") or []:
        yield from one.this.expressions if isinstance(one.this, exp.Tuple) else [one.this]


def _equal(by: Sequence[exp.Expr], value: exp.Expr) -> exp.Expr | None:
    values = value.expressions if isinstance(value, exp.Tuple) else [value]
    if len(values) != len(by):
        return None
    pairs = [
        exp.NullSafeEQ(this=one.copy(), expression=exp.Paren(this=other.copy()))
        for one, other in zip(by, values, strict=True)
    ]
    condition: exp.Expr = pairs[0]
    for one in pairs[1:]:
        condition = exp.And(this=condition, expression=one)
    return condition


def _filtered(column: _Column, *, is_count: bool = False) -> exp.Expr:
    """Return the aggregate over the rows that have the values, or their number."""
    call = column.call.copy()
    if is_count:
        call = exp.Anonymous(this="count", expressions=[exp.Star()])
    condition = column.condition.copy()
    if isinstance(call, exp.Filter):
        inner = exp.Paren(this=call.expression.this.copy())
        condition = exp.And(this=condition, expression=inner)
        call = call.this.copy()
    return exp.Filter(this=call, expression=exp.Where(this=condition))


def _unless_none(value: exp.Expr, count: exp.Expr) -> exp.Expr:
    """Return a value; null if no row counts."""
    is_any = exp.GT(this=count, expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=is_any, true=value)])


def _argued(call: exp.Expr) -> exp.Expr:
    """Return what an aggregate names, as an expression of one row."""
    named = [one.copy() for one in call.find_all(exp.Column) if not isinstance(one.this, exp.Star)]
    return exp.Tuple(expressions=named)


def _named(one: Named) -> exp.Column:
    table = None if one.table is None else exp.to_identifier(one.table, quoted=True)
    return exp.Column(this=exp.to_identifier(one.name or "", quoted=True), table=table)


def _type_of(tree: exp.Expr, rows: Building) -> object:
    return rows.reading.typed(tree, rows.relation.fields, tree).data_type
