"""Narrowing: rows that are told from all others by a constant, of which a table has few.

``WHERE p_brand = 'Brand#23'`` leaves a small share of the rows, and so does a join with what it
leaves. How small is not known when a view is planned.
"""

from __future__ import annotations

from sqlglot import exp

from deltaproduce.stages.sql.algebra.relations import (
    Filter,
    Join,
    Matched,
    ProjectRelation,
    Relation,
    Single,
)
from deltaproduce.stages.sql.resolve.reading import conjuncts


def is_narrowed(relation: Relation) -> bool:
    """Return whether a column of each row, or of a row that it is joined with, is a constant."""
    match relation:
        case Filter():
            conditions = conjuncts(relation.condition.expression.tree)
            return any(map(_names_value, conditions)) or is_narrowed(relation.input)
        case ProjectRelation() | Matched() | Single():
            return is_narrowed(relation.inputs[0])
        case Join(kind="inner" | "semi"):
            return any(map(is_narrowed, relation.inputs))
        case Join(kind="left" | "anti"):
            return is_narrowed(relation.left)
        case Join(kind="right"):
            return is_narrowed(relation.right)
    return False


def _names_value(condition: exp.Expr) -> bool:
    """Return whether a condition compares a column with a constant, or with some of a list."""
    match condition.unnest():
        case exp.EQ(this=one, expression=other):
            sides = {type(one.unnest()), type(other.unnest())}
            return exp.Column in sides and exp.Literal in sides
        case exp.In(this=one) as among:
            listed = {type(each) for each in among.expressions}
            return isinstance(one.unnest(), exp.Column) and listed == {exp.Literal}
    return False
