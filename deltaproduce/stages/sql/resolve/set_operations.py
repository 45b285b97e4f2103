"""UNION, INTERSECT and EXCEPT: both sides in the types that hold the values of either."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.algebra.relations import (
    ProjectRelation,
    Relation,
    SetKind,
    SetOperation,
)
from deltaproduce.stages.sql.algebra.scalars import Output, Scalar, SortKey, cast_to
from deltaproduce.stages.sql.expressions.coercion import common
from deltaproduce.stages.sql.resolve.building import Building
from deltaproduce.stages.sql.resolve.names import Named, Scope
from deltaproduce.stages.sql.resolve.ordering import directions, limited, ordinal, with_sorted
from deltaproduce.stages.sql.resolve.reading import QueryContext, Selected, TextOrigin
from deltaproduce.stages.sql.text import refused
from deltaproduce.types.data_types import DataType, NullType

_KINDS: Final[dict[type[exp.Expr], SetKind]] = {
    exp.Union: "union",
    exp.Intersect: "intersect",
    exp.Except: "except",
}


def set_operation(
    node: exp.SetOperation, left: Selected, right: Selected, reading: QueryContext
) -> Selected:
    """Return the columns and rows of a set operation, without its WITH.

    Raises:
        DefinitionError: the sides have different numbers of columns, or the order is not one of
            them.
    """
    is_open = left.is_open or right.is_open
    if is_open:
        both = reading.in_spark(node, [left.relation, right.relation], left.relation.fields)
        return Selected(both, left.columns, is_open=True)
    if len(left.columns) != len(right.columns):
        widths = f"{len(left.columns)} and {len(right.columns)}"
        raise refused(node, f"has sides with {widths} columns")
    if any(node.args.get(name) for name in ("by_name", "side", "kind", "on")):
        raise refused(node, "is not supported; name the columns on both sides, in one order")
    kinds = ([column.field.data_type for column in side.columns] for side in (left, right))
    types = [
        None if None in both else common([one for one in both if one is not None])
        for both in zip(*kinds, strict=True)
    ]
    sides = [_side(one, types, reading) for one in (left, right)]
    columns = tuple(
        Named(None, one.name, reading.field(one.name, kind))
        for one, kind in zip(left.columns, types, strict=True)
    )
    own = tuple(one.field for one in columns)
    kind, is_all = _KINDS[type(node)], not node.args.get("distinct")
    relation: Relation
    if left.links or right.links:
        relation = reading.in_spark(node, sides, own)
    else:
        relation = SetOperation(sides[0], sides[1], kind, is_all, own)
    reading.origins[relation] = TextOrigin(node)
    order, added = list[SortKey](), list[Output]()
    rows = Building(reading, relation, Scope(columns), {})
    for one in node.args["order"].expressions if node.args.get("order") else ():
        place = ordinal(one.this, len(columns))
        if place is not None:
            order.append(directions(one, columns[place].field))
            continue
        try:
            tree = rows.expression(one.this)
        except DefinitionError:
            advice = "sorts a set operation by what is not a column of it; name a column"
            raise refused(one, advice) from None
        same = [field for field in own if isinstance(tree, exp.Column) and field.id == tree.name]
        if not same:
            scalar = reading.typed(tree, own, one.this)
            added.append(Output(reading.field("order", scalar.data_type), scalar))
        order.append(directions(one, same[0] if same else added[-1].field))
    relation = with_sorted(rows.relation, added) if added else relation
    return limited(node, Selected(relation, columns, order=tuple(order)), reading)


def _side(selected: Selected, types: Sequence[DataType | None], reading: QueryContext) -> Relation:
    """Return the columns of one side in the types of both."""
    outputs = []
    for one, wanted in zip(selected.columns, types, strict=True):
        scalar, kind = Scalar.of_field(one.field), one.field.data_type
        if wanted is not None and kind != wanted and not isinstance(wanted, NullType):
            tree = exp.Null() if isinstance(kind, NullType) else one.field.tree
            scalar = Scalar.of(cast_to(tree, wanted), [one.field])
        outputs.append(Output(reading.field(one.name, scalar.data_type), scalar))
    return ProjectRelation(selected.relation, tuple(outputs))
