"""Costs of look-ups: how the rows of a relation that have some keys are found in stages.

A look-up goes through operators down to stages (`looked_up` of each operator's module), and is as
dear as the dearest one of a stage.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Final, TypeAlias

from deltaproduce.stages.sql.algebra.emptiness import is_none
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
from deltaproduce.stages.sql.algebra.scalars import Field
from deltaproduce.stages.sql.algebra.windows import WindowRelation
from deltaproduce.stages.sql.operators import expand, plain, set_operation
from deltaproduce.stages.sql.operators.changes.keys import JoinKey
from deltaproduce.stages.sql.operators.groups import by_rows
from deltaproduce.stages.sql.operators.joins import join, matched, single
from deltaproduce.stages.sql.operators.windows.window import partition_fields
from deltaproduce.storage.parquet.shared_lookups import Wanted

Fields: TypeAlias = frozenset[str] | None
"""The fields by which rows are looked up; None for all rows."""

SMALL: Final = 20_000
"""The most rows of a side that is joined without an equality."""


class Cost(IntEnum):
    """What is read of a stage to find rows: nothing, those rows, columns of all rows, all rows."""

    NOTHING = 0
    SEEK = 1
    SCAN = 2
    ALL = 3


@dataclass(frozen=True, slots=True)
class Places:
    """What is known of the stages that rows are looked up in.

    Attributes:
        keys: the names of their key columns.
        singles: those that have one row.
        ordered: those that have rows in the order of a limit.
        requests: if not None, gets each look-up in a stage that `cost` comes to.
    """

    keys: Mapping[str, tuple[str, ...]]
    singles: Collection[str] = ()
    ordered: Collection[str] = ()
    requests: list[Wanted] | None = None

    def cost(self, relation: Relation, fields: Fields) -> Cost:
        """Return what a look-up by some fields reads of the dearest stage."""
        if is_none(relation) or self.is_small(relation):
            return Cost.NOTHING
        if isinstance(relation, Limit) and self._finds_first(relation, fields):
            return Cost.SEEK
        if isinstance(relation, Scan):
            return self._of_scan(relation, fields or frozenset())
        rows = _requests(relation, fields or frozenset())
        return max((self.cost(one, by) for one, by in rows), default=Cost.NOTHING)

    def _finds_first(self, limit: Limit, fields: Fields) -> bool:
        """Return whether the first rows are found in the order of a stage."""
        by = {field.id for field in limit.partition}
        return limit.count is not None and self.is_ordered(limit) and by <= (fields or frozenset())

    def is_small(self, relation: Relation) -> bool:
        """Return whether a relation has few rows, whatever stages have."""
        match relation:
            case Values():
                return True
            case ProjectRelation() | Filter() | Distinct():
                return self.is_small(relation.input)
            case AggregateRelation():
                is_one = not relation.keys and is_none(relation.input)
                return is_one or self.is_small(relation.input)
            case Limit(count=int(count), partition=()):
                return relation.offset + count <= SMALL and self.is_ordered(relation)
            case Join():
                return all(map(self.is_small, relation.inputs))
            case Scan():
                return relation.feeder in self.singles
        return False

    def is_ordered(self, limit: Limit) -> bool:
        """Return whether the rows of a limit's input are stored in its order."""
        return isinstance(limit.input, Scan) and limit.input.feeder in self.ordered

    def _of_scan(self, scan: Scan, fields: frozenset[str]) -> Cost:
        pairs = zip(scan.fields, scan.columns, strict=True)
        by = frozenset(column for field, column in pairs if field.id in fields)
        if self.requests is not None:
            self.requests.append(Wanted(scan.feeder, by, frozenset(scan.columns)))
        if not fields:
            return Cost.ALL
        first = self.keys.get(scan.feeder, ())[:1]
        return Cost.SEEK if by & {*first} else Cost.SCAN


_COPIES: Final[Mapping[type[Relation], Callable[..., Mapping[str, str]]]] = MappingProxyType(
    {ProjectRelation: plain.copies, AggregateRelation: by_rows.copies, Expand: expand.copies}
)
"""The fields by which an operator is looked up -> those that they copy of its one input."""


def _requests(relation: Relation, fields: frozenset[str]) -> Iterator[tuple[Relation, Fields]]:
    """Yield what a look-up by fields asks of the operator's inputs."""
    copies = _COPIES.get(type(relation))
    if copies is not None:
        yield relation.inputs[0], named(fields, copies(relation))
        return
    match relation:
        case Filter() | Distinct() | Generate():
            (input_,) = relation.inputs
            yield input_, within(fields, input_.fields)
        case SetOperation():
            for side in relation.inputs:
                yield side, named(fields, set_operation.renamed(relation, side))
        case Join():
            yield from _requests_of_join(relation, fields)
        case Matched() | Single():
            yield relation.input, within(fields, relation.input.fields)
            yield relation.subquery, rights(_linked(relation))
        case WindowRelation():
            yield from _of_partitions(relation, partition_fields(relation), fields)
        case Limit() if relation.partition:
            by = frozenset(field.id for field in relation.partition)
            yield from _of_partitions(relation, by, fields)
        case Limit():
            yield relation.input, None


def _of_partitions(
    one: WindowRelation | Limit, by: frozenset[str], fields: frozenset[str]
) -> Iterator[tuple[Relation, Fields]]:
    yield one.input, fields & by or within(fields, one.input.fields)
    yield one.input, by


def _linked(one: Matched | Single) -> tuple[JoinKey, ...]:
    if isinstance(one, Single):
        return single.linked_fields(one)
    linked, compared = matched.linked_fields(one)
    return *linked, *compared


def _requests_of_join(one: Join, fields: frozenset[str]) -> Iterator[tuple[Relation, Fields]]:
    linked = join.linked_fields(one)
    of_left, of_right = (within(fields, side.fields) for side in one.inputs)
    if len(of_left) >= len(of_right):
        yield from ((one.left, of_left), (one.right, rights(linked) if of_left else None))
    else:
        yield from ((one.left, lefts(linked)), (one.right, of_right))


def lefts(linked: Iterable[JoinKey]) -> frozenset[str]:
    """Return the fields of the left side of links."""
    return frozenset(one.left.id for one in linked)


def rights(linked: Iterable[JoinKey]) -> frozenset[str]:
    """Return the fields of the right side of links."""
    return frozenset(one.right.id for one in linked)


def within(fields: frozenset[str], own: Iterable[Field]) -> frozenset[str]:
    """Return those of some fields that a relation has."""
    return fields & {field.id for field in own}


def named(fields: frozenset[str], names: Mapping[str, str]) -> frozenset[str]:
    """Return fields by the names that an input has for them."""
    return frozenset(names[field] for field in fields if field in names)
