"""Provenance: which fields of a relation copy a column of a stage.

The invariant: in each row, a field with a provenance has the value of that column in the one row of
the stage that the row is made from, or null where an outer join has padded it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from deltaproduce.stages.sql.algebra.relations import (
    AggregateRelation,
    ProjectRelation,
    Relation,
    Scan,
    SetOperation,
    Values,
)
from deltaproduce.stages.sql.algebra.scalars import Output
from deltaproduce.stages.sql.algebra.spark_only import InSpark, ValueInSpark


def copied(relation: Relation) -> dict[str, tuple[Scan, str]]:
    """Return the fields of a relation that copy a column of a stage -> the scan, and the column."""
    match relation:
        case Scan():
            pairs = zip(relation.fields, relation.columns, strict=True)
            return {field.id: (relation, column) for field, column in pairs}
        case SetOperation() | Values() | InSpark():
            return {}
        case ValueInSpark():  # a view over them is kept by all columns
            return {}
        case ProjectRelation():
            return _renamed(relation.outputs, copied(relation.input))
        case AggregateRelation():
            return _renamed(relation.keys, copied(relation.input))
    columns = dict[str, tuple[Scan, str]]()
    for one in relation.inputs:
        columns |= copied(one)
    own = {field.id for field in relation.fields}
    return {name: origin for name, origin in columns.items() if name in own}


def bare(output: Output) -> str | None:
    """Return the field that an expression consists of; None if it is more than a field."""
    tree = output.scalar.expression.tree.unnest()
    return tree.name if isinstance(tree, exp.Column) else None


def _renamed(
    outputs: Iterable[Output], known: Mapping[str, tuple[Scan, str]]
) -> dict[str, tuple[Scan, str]]:
    pairs = ((output.field.id, bare(output)) for output in outputs)
    return {name: known[field] for name, field in pairs if field is not None and field in known}
