"""Determinism: whether the rows of a query follow from the rows of its stages."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.algebra.relations import ProjectRelation, Relation, SetOperation
from deltaproduce.stages.sql.algebra.scalars import readable
from deltaproduce.stages.sql.algebra.spark_only import InSpark, ValueInSpark
from deltaproduce.stages.sql.expressions.literals import constant_of
from deltaproduce.stages.sql.functions import PHYSICAL, VOLATILE, is_time
from deltaproduce.stages.sql.syntax import function_name, spelled
from deltaproduce.stages.sql.text import line_at

CHANGES: Final = "differs from run to run; take the value from a column"
FILLS: Final = (
    "differs from run to run, and may only fill a column of the outermost SELECT (without "
    "DISTINCT); elsewhere take the value from a source"
)


def check_determined(relation: Relation, free: Collection[str] = (), advice: str = CHANGES) -> None:
    """Refuse functions whose values differ from run to run, or depend on how rows are stored.

    Args:
        free: the columns of the outermost SELECT that may differ, by the ids of their fields.
        advice: what is wrong with a function that differs, and what to do.

    Raises:
        DefinitionError: with `line`.
    """
    filled = {*free, *_filled(relation, [*free])}
    for one in relation.walk():
        for tree, may_differ in _trees(one, filled):
            for node in tree.walk():
                wrong = _fault(node, advice, may_differ=may_differ)
                if wrong is not None:
                    raise DefinitionError(
                        f"{readable(spelled(node))!r} {wrong}", line=line_at(node)
                    )


def _filled(relation: Relation, fields: list[str]) -> Iterator[str]:
    """Yield the fields of the SELECTs that UNION ALL puts into some fields."""
    if not isinstance(relation, SetOperation) or relation.kind != "union" or not relation.is_all:
        return
    for side in (relation.left, relation.right):
        assert isinstance(side, ProjectRelation)  # of its columns, in the types of both sides
        own = zip(relation.own, side.outputs, strict=False)
        read = [
            name for field, output in own if field.id in fields for name in output.scalar.fields
        ]
        yield from read
        yield from _filled(side.input, read)


def _trees(relation: Relation, filled: Collection[str]) -> Iterator[tuple[exp.Expr, bool]]:
    """Yield the expressions of an operator, and whether they fill columns that may differ."""
    if isinstance(relation, InSpark | ValueInSpark):
        yield relation.tree, False
    if isinstance(relation, ProjectRelation):
        for output in relation.outputs:
            yield output.scalar.expression.tree, output.field.id in filled
    else:
        for scalar in relation.scalars:
            yield scalar.expression.tree, False


def _fault(node: exp.Expr, advice: str, *, may_differ: bool) -> str | None:
    name = function_name(node)
    is_column = "#" in node.name or constant_of(node) is not None
    if isinstance(node, exp.Column) and len(node.parts) == 1 and not is_column:
        name = node.name.lower()  # no column, so it calls a function without parentheses
    if name == "identifier":
        return "hides what is named; write the name itself"
    if name in PHYSICAL:
        return "depends on how rows are stored; use columns, uuid() or a surrogate key"
    if isinstance(node, exp.QueryTransform):
        return "runs a program; write a producer for it"
    if isinstance(node, exp.Placeholder):
        return "is a parameter, and there are none; write the value"
    return advice if (name in VOLATILE or is_time(node)) and not may_differ else None
