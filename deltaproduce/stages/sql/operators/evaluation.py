"""Evaluation: the rows of a relation from the contents of stages.

Each operator is computed as a whole. `Stream` computes a relation part by part, in the rows of one
scan: what is beside that scan is computed once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
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
    uses = Counter(_inputs(relation))
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


@dataclass(frozen=True, slots=True)
class Stream:
    """A relation whose rows are those that each row of one scan makes by itself.

    Attributes:
        scan: the scan.
        path: the operators from the one that reads it up to the relation itself.
    """

    scan: Scan
    path: tuple[Relation, ...]

    @staticmethod
    def of(relation: Relation, sizes: Mapping[str, int]) -> Stream | None:
        """Return how a relation is computed in parts of its largest stage; None if it is not.

        Args:
            sizes: how many rows the stages have, by name.
        """
        streams = _streams(relation, Counter(_inputs(relation)))
        return max(streams, key=lambda one: sizes[one.scan.feeder], default=None)

    @property
    def beside(self) -> tuple[Relation, ...]:
        """The other inputs of the operators on the path."""
        on_path = {id(self.scan), *map(id, self.path)}
        return tuple(one for top in self.path for one in top.inputs if id(one) not in on_path)

    def rows(
        self, content: pa.Table, beside: Mapping[int, pa.Table], computing: Computing
    ) -> pa.Table:
        """Return the rows that some rows of the scanned stage make.

        Args:
            content: these rows.
            beside: the rows of each relation that is `beside`, by identity.

        Raises:
            QueryError: an expression fails for a row.
        """
        below: Relation = self.scan
        rows = plain.scanned(self.scan, content)
        for one in self.path:
            inputs = (rows if given is below else beside[id(given)] for given in one.inputs)
            rows, below = _WHOLE[type(one)](one, *inputs, computing=computing), one
        return rows


def _inputs(relation: Relation) -> Iterator[int]:
    """Yield each input of each operator of a relation, by identity, as often as it is one."""
    return (id(given) for one in relation.walk() for given in one.inputs)


def _streams(relation: Relation, uses: Mapping[int, int]) -> Iterator[Stream]:
    """Yield the scans each of whose rows makes rows of a relation by itself."""
    if isinstance(relation, Scan):
        yield Stream(relation, ())
        return
    for one in _each_row(relation):
        if uses[id(one)] == 1:
            for stream in _streams(one, uses):
                yield Stream(stream.scan, (*stream.path, relation))


def _each_row(relation: Relation) -> tuple[Relation, ...]:
    """Return the inputs each of whose rows makes rows by itself, whatever others of it are."""
    match relation:
        case ProjectRelation() | Filter() | Generate() | Expand() | Matched() | Single():
            return relation.inputs[:1]
        case Join(kind="inner"):
            return relation.inputs
        case Join(kind="left" | "semi" | "anti"):
            return (relation.left,)
        case Join(kind="right"):
            return (relation.right,)
    return ()


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
