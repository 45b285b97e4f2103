"""Emptiness: relations that never have a row, whatever their stages have.

Such a relation stands for the rows that a linked subquery does not have.
"""

from __future__ import annotations

from functools import lru_cache

from sqlglot import exp

from deltaproduce.stages.sql.algebra.expanding import Expand, Generate
from deltaproduce.stages.sql.algebra.relations import (
    AggregateRelation,
    Distinct,
    Filter,
    Join,
    Limit,
    Matched,
    ProjectRelation,
    Relation,
    Scan,
    SetOperation,
    Single,
)
from deltaproduce.stages.sql.algebra.windows import WindowRelation


@lru_cache(maxsize=4096)
def is_none(relation: Relation) -> bool:
    """Return whether a relation never has a row."""
    match relation:
        case Scan():
            return False
        case Filter():
            return relation.condition.expression.tree == exp.false() or is_none(relation.input)
        case (
            ProjectRelation()
            | Distinct()
            | Limit()
            | Matched()
            | Single()
            | WindowRelation()
            | Expand()
        ):
            return is_none(relation.input)
        case Generate():
            return is_none(relation.input)
        case AggregateRelation():
            return bool(relation.keys) and is_none(relation.input)
        case Join():
            return _is_none_joined(relation)
        case SetOperation(kind="except"):
            return is_none(relation.left)
        case SetOperation():
            sides = (is_none(one) for one in relation.inputs)
            return all(sides) if relation.kind == "union" else any(sides)
    return False


def _is_none_joined(join: Join) -> bool:
    left, right = (is_none(one) for one in join.inputs)
    match join.kind:
        case "inner" | "semi":
            return left or right
        case "full":
            return left and right
        case "right":
            return right
    return left
