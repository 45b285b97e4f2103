"""Usage: the columns of stages that a query names.

The invariant: a query without a use of a column means the same without the column. ``*`` names all
columns that it stands for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from deltaproduce.stages.sql.algebra.provenance import bare
from deltaproduce.stages.sql.algebra.relations import (
    Matched,
    ProjectRelation,
    Relation,
    Scan,
    Single,
)
from deltaproduce.stages.sql.algebra.scalars import Scalar
from deltaproduce.stages.sql.algebra.windows import WindowRelation


def columns_used(relations: Iterable[Relation]) -> dict[str, frozenset[str]]:
    """Return the columns that queries name of each stage, in lower case.

    Args:
        relations: the query, and those of its WITH, which it may not read.
    """
    every = dict.fromkeys(one for relation in relations for one in relation.walk())
    named = {name for one in every for name in _named(one)}
    fields_used = dict[str, set[str]]()
    for scan in every:
        if isinstance(scan, Scan):
            columns = zip(scan.columns, scan.own, strict=True)
            used = {column.lower() for column, field in columns if field.id in named}
            fields_used.setdefault(scan.feeder, set()).update(used)
    return {stage: frozenset(columns) for stage, columns in fields_used.items()}


def _named(relation: Relation) -> Iterator[str]:
    """Yield the fields that an operator names, and does not only pass on."""
    if isinstance(relation, ProjectRelation):
        for output in relation.outputs:
            if bare(output) != output.field.id:
                yield from output.scalar.fields
        return
    if isinstance(relation, WindowRelation):
        yield from (field.id for field in relation.ties)
    scalars: Iterable[Scalar] = relation.scalars
    if isinstance(relation, Matched | Single) and relation.linked is not None:
        scalars = (*scalars, *relation.linked.conditions)
    for scalar in scalars:
        yield from scalar.fields
