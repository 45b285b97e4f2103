"""ORDER BY, LIMIT and OFFSET.

Rows that are equal in the order are ordered by all columns, from left to right, nulls first: then
the first rows are the same whoever computes them. For Spark, the text gets these columns by their
numbers (`TextEdit`); those that Spark does not order, such as maps, as text.

The LIMIT of a subquery that depends on the row around it leaves the first rows for each such row.
They are numbered among those that are equal in what links them (`first_of_each`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from sqlglot import TokenType, exp

from deltaproduce.stages.sql.algebra.relations import Filter, Limit, ProjectRelation, Relation
from deltaproduce.stages.sql.algebra.scalars import Field, Output, Scalar, SortKey, columns_in
from deltaproduce.stages.sql.algebra.windows import (
    Frame,
    FrameBound,
    OrderKey,
    WindowCall,
    WindowRelation,
    is_ordered,
)
from deltaproduce.stages.sql.resolve.reading import (
    First,
    QueryContext,
    Selected,
    TextOrigin,
    rebuilt,
)
from deltaproduce.stages.sql.resolve.ties import as_text
from deltaproduce.stages.sql.syntax import spelled
from deltaproduce.stages.sql.text import TextEdit, refused, start_of
from deltaproduce.types.data_types import IntegerType
from deltaproduce.types.ddl import identifier


def ordinal(node: exp.Expr, columns: int) -> int | None:
    """Return the position of the column that a number in ORDER BY names; None for no number.

    Raises:
        DefinitionError: there is no such column.
    """
    if isinstance(node, exp.Literal) and node.is_int:
        if not 0 < int(node.name) <= columns:
            raise refused(node, f"is the number of no column; there are {columns}")
        return int(node.name) - 1
    if isinstance(node, exp.Var) and node.name.upper() == "ALL":
        raise refused(node, "is not supported in ORDER BY; name the columns")
    return None


def with_sorted(relation: Relation, added: Sequence[Output]) -> Relation:
    """Return rows with what an order needs beside their fields."""
    return ProjectRelation(relation, (*map(Output.copy, relation.fields), *added))


def directions(node: exp.Expr, field: Field) -> SortKey:
    """Return a field with the direction that ORDER BY says."""
    return SortKey(field, bool(node.args.get("desc")), bool(node.args.get("nulls_first")))


def limited(node: exp.Expr, selected: Selected, reading: QueryContext) -> Selected:
    """Return the rows that LIMIT and OFFSET of a query leave.

    Raises:
        DefinitionError: there is no ORDER BY, so which rows they leave is not defined.
    """
    limit, offset = node.args.get("limit"), node.args.get("offset")
    if limit is None and offset is None:
        return selected
    clauses = [one for one in (limit, offset) if one is not None]
    if not selected.order:
        advice = "without ORDER BY takes rows at random; write ORDER BY … before it"
        reading.leave_to_spark(clauses[0], advice)
    if any(_number(one) is None for one in clauses):
        reading.leave_to_spark(clauses[0], "needs a whole number")
        for one in clauses:
            rebuilt(one.expression, reading.constant)
    elif selected.order:
        return _first(node, selected, _number(limit), _number(offset) or 0, reading)
    return replace(
        selected, relation=reading.in_spark(node, [selected.relation], selected.relation.fields)
    )


def _first(
    node: exp.Expr, selected: Selected, count: int | None, skipped: int, reading: QueryContext
) -> Selected:
    """Return the first rows in an order that is broken nowhere."""
    _break_ties(node, selected, reading)
    if not selected.links:
        return replace(selected, relation=Limit(selected.relation, selected.order, count, skipped))
    first = First(selected, count, skipped, node.args.get("limit") or node.args["offset"])
    by = linked_by(selected)
    if by is None or selected.by_links is not None or reading.is_lenient:
        relation = reading.in_spark(node, [selected.relation], selected.relation.fields)
        return replace(selected, relation=relation, first=first)
    return replace(selected, relation=first_of_each(first, selected.relation, by, reading))


def linked_by(selected: Selected) -> list[Scalar] | None:
    """Return what the links of a query ask to be equal, over its rows; None if it is more."""
    own, by = {field.id for field in selected.relation.fields}, list[Scalar]()
    for link in selected.links:
        sides = (link.tree.this, link.tree.expression)
        is_equality = isinstance(link.tree, exp.EQ | exp.NullSafeEQ)
        mine = [one for one in sides if is_equality and own >= {c.name for c in columns_in(one)}]
        if len(mine) != 1:
            return None
        by.append(Scalar.of(mine[0], selected.relation.fields))
    return by


def first_of_each(
    first: First, rows: Relation, by: Sequence[Scalar], reading: QueryContext
) -> Relation:
    """Return those rows of a query that are among the first ones with equal values.

    Args:
        rows: the query's rows, perhaps with other fields.
        by: the values.
    """
    selected, text = first.selected, spelled(first.node)
    number = reading.field("place", IntegerType())
    frame = Frame(by_rows=False, start=FrameBound("unbounded"), end=FrameBound("current"))
    call = WindowCall("row_number", (), frame, 0, False, None, text, IntegerType(), True)
    order = tuple(
        OrderKey(Scalar.of(key.field.tree, [key.field]), key.descending, key.nulls_first)
        for key in selected.order
    )
    ties = tuple(dict.fromkeys(one.field for one in selected.columns))
    window = WindowRelation(rows, ((number, call),), tuple(by), order, ties)
    reading.origins[window] = TextOrigin(first.node)
    relation: Relation = window
    if first.skipped:
        low = exp.GT(this=number.tree, expression=exp.Literal.number(first.skipped))
        relation = Filter(relation, Scalar.of(low, [number], text))
    if first.count is not None:
        last = exp.Literal.number(first.skipped + first.count)
        high = exp.LTE(this=number.tree, expression=last)
        relation = Filter(relation, Scalar.of(high, [number], text))
    return relation


def break_last_ties(node: exp.Expr, selected: Selected, reading: QueryContext) -> None:
    """Order the rows that a final ORDER BY leaves equal, for Spark."""
    if selected.order and node.args.get("limit") is None and node.args.get("offset") is None:
        reading.edits.append(
            TextEdit(reading.text.end, reading.text.end, _ties(selected, is_lenient=False))
        )


def _break_ties(node: exp.Expr, selected: Selected, reading: QueryContext) -> None:
    """Add the columns to ORDER BY, in front of LIMIT and OFFSET."""
    numbers = [
        start_of(clause.expression)
        for name in ("limit", "offset")
        if (clause := node.args.get(name)) is not None
    ]
    first = min(numbers)
    words = [
        token.start
        for token in reading.text.tokens
        if token.token_type in {TokenType.LIMIT, TokenType.OFFSET} and token.start < first
    ]
    reading.edits.append(
        TextEdit(words[-1], words[-1], f"{_ties(selected, is_lenient=reading.is_lenient)} ")
    )


def _ties(selected: Selected, *, is_lenient: bool) -> str:
    names = Counter((one.name or "").lower() for one in selected.columns)
    texts = list[str]()
    for place, column in enumerate(selected.columns, start=1):
        kind, name = column.field.data_type, column.name or ""
        if kind is not None and not is_ordered(kind):
            texts += [as_text(identifier(name))] if name and names[name.lower()] == 1 else []
        elif kind is not None or not is_lenient:
            texts.append(str(place))
    return "".join(f", {text} ASC NULLS FIRST" for text in texts)


def _number(clause: exp.Expr | None) -> int | None:
    if clause is None:
        return None
    number = clause.expression
    is_plain = isinstance(number, exp.Literal) and number.is_int
    return int(number.name) if is_plain else None
