"""Evaluation: the rows of a relation from the contents of stages, each operator as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa

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
    Values,
)
from deltaproduce.stages.sql.algebra.windows import WindowRelation
from deltaproduce.stages.sql.operators import (
    distinct,
    expand,
    generate,
    limit,
    plain,
    set_operation,
)
from deltaproduce.stages.sql.operators.computing import Computing
from deltaproduce.stages.sql.operators.groups import by_rows
from deltaproduce.stages.sql.operators.joins import join, matched, single
from deltaproduce.stages.sql.operators.windows import window


def rows_of(relation: Relation, contents: Mapping[str, pa.Table], computing: Computing) -> pa.Table:
    """Return the rows of a relation that the driver computes, in columns named by its fields.

    Args:
        contents: the rows of the stages that it scans, by name.

    Raises:
        QueryError: it fails for a row.
    """
    results = dict[int, pa.Table]()
    uses = dict[int, int]()
    for one in relation.walk():
        for given in one.inputs:
            uses[id(given)] = uses.get(id(given), 0) + 1
    for one in relation.walk():
        if isinstance(one, Scan):
            results[id(one)] = plain.scanned(one, contents[one.feeder])
        else:
            inputs = [results[id(given)] for given in one.inputs]
            results[id(one)] = _WHOLE[type(one)](one, *inputs, computing=computing)
        for given in one.inputs:
            uses[id(given)] -= 1
            if not uses[id(given)]:
                del results[id(given)]
    return results[id(relation)]


def rows_of_operator(
    relation: Relation, rows: Callable[[Relation], pa.Table], computing: Computing
) -> pa.Table:
    """Return the rows of a relation that is no scan.

    Args:
        rows: finds those of its inputs.
    """
    return _WHOLE[type(relation)](relation, *map(rows, relation.inputs), computing=computing)


_WHOLE: Final[Mapping[type[Relation], Callable[..., pa.Table]]] = MappingProxyType(
    {
        Values: plain.values,
        ProjectRelation: plain.projected,
        Filter: plain.filtered,
        Join: join.whole,
        Matched: matched.whole,
        Single: single.whole,
        AggregateRelation: by_rows.whole,
        Distinct: distinct.whole,
        SetOperation: set_operation.whole,
        Limit: limit.whole,
        WindowRelation: window.whole,
        Expand: expand.whole,
        Generate: generate.whole,
    }
)
"""What returns all rows of an operator, from it and all rows of its inputs."""
