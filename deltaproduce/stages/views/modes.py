"""Modes: which operators of a query follow changes, and why others compute all their rows again.

An operator follows changes if the rows that its rule asks for are looked up by columns of stages.
The invariant: this depends on the query and the types of its columns alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from deltaproduce.stages.sql.algebra.expanding import Expand, Generate
from deltaproduce.stages.sql.algebra.relations import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Limit,
    Matched,
    Project,
    Relation,
    Scan,
    SetOperation,
    Single,
    Values,
)
from deltaproduce.stages.sql.algebra.scalars import Field
from deltaproduce.stages.sql.algebra.windows import Window
from deltaproduce.stages.sql.operators import expand, plain, set_operation
from deltaproduce.stages.sql.operators.changes.keys import Link
from deltaproduce.stages.sql.operators.following import is_none
from deltaproduce.stages.sql.operators.groups import by_rows
from deltaproduce.stages.sql.operators.joins import join, matched, single
from deltaproduce.stages.sql.operators.windows.window import partition_fields
from deltaproduce.types.data_types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StructType,
)

NO_DELTA_RULE: Final = "NO_DELTA_RULE"
"""This version of the library has no rule for the operator's changes."""
JOIN_WITHOUT_EQUALITY: Final = "JOIN_WITHOUT_EQUALITY"
"""No two columns of the sides must be equal, so each row of one side may join each of the other."""
GROUPS_WITHOUT_COLUMNS: Final = "GROUPS_WITHOUT_COLUMNS"
"""No column of a stage tells which rows a group has."""
WINDOW_WITHOUT_PARTITION: Final = "WINDOW_WITHOUT_PARTITION"
"""A window function without PARTITION BY, or by no column of a stage, is computed from all rows."""
SUBQUERY_WITHOUT_LINK: Final = "SUBQUERY_WITHOUT_LINK"
"""A subquery that does not depend on the row makes its value of all rows of its stages."""
ROWS_WITHOUT_COLUMNS: Final = "ROWS_WITHOUT_COLUMNS"
"""The rows that an operator asks for are not told apart by columns of stages."""
NESTED_VALUES: Final = "NESTED_VALUES"
"""A column has maps, or floats in arrays or structs, whose equal values may differ."""
NESTED_KEY: Final = "NESTED_KEY"
"""The same of a column by which rows are grouped, or compared as a whole."""
ORDER_OF_OTHER_COLUMNS: Final = "ORDER_OF_OTHER_COLUMNS"
"""The final ORDER BY names what is no column of the result, so it is not stored."""

_BY_VALUE: Final = Aggregate, Distinct, SetOperation
_Fields: TypeAlias = frozenset[str] | None
"""The fields by which rows are looked up; None for all rows."""


def reasons(relation: Relation) -> dict[int, str]:
    """Return the operators of a query that do not follow changes, by identity -> why."""
    found = ((id(one), _reason(one)) for one in relation.walk())
    return {place: reason for place, reason in found if reason is not None}


def _reason(relation: Relation) -> str | None:
    if any(_is_vague(field.data_type) for field in relation.fields):
        return NESTED_KEY if isinstance(relation, _BY_VALUE) else NESTED_VALUES
    rule = _REASONS.get(type(relation))
    return NO_DELTA_RULE if rule is None else rule(relation)


def _is_vague(kind: DataType | None, *, inside: bool = False) -> bool:
    """Return whether values of a type may be equal and not the same, inside of others."""
    match kind:
        case ArrayType():
            return _is_vague(kind.elementType, inside=True)
        case StructType():
            return any(_is_vague(field.dataType, inside=True) for field in kind)
        case FloatType() | DoubleType():
            return inside
    return isinstance(kind, MapType)


def _of_join(one: Join) -> str | None:
    linked = join.linked_fields(one)
    if not linked:
        return JOIN_WITHOUT_EQUALITY
    return _told(ROWS_WITHOUT_COLUMNS, one.left, _lefts(linked), one.right, _rights(linked))


def _of_matched(one: Matched) -> str | None:
    every = _linked(one)
    if not every:
        return SUBQUERY_WITHOUT_LINK
    return _told(ROWS_WITHOUT_COLUMNS, one.input, _lefts(every), one.subquery, _rights(every))


def _of_single(one: Single) -> str | None:
    linked = single.linked_fields(one)
    if not linked:
        return SUBQUERY_WITHOUT_LINK
    return _told(ROWS_WITHOUT_COLUMNS, one.input, _lefts(linked), one.subquery, _rights(linked))


def _of_aggregate(one: Aggregate) -> str | None:
    columns = frozenset(by_rows.copies(one).values())
    return GROUPS_WITHOUT_COLUMNS if _wholes(one.input, columns) else None


def _of_window(one: Window) -> str | None:
    return WINDOW_WITHOUT_PARTITION if _wholes(one.input, partition_fields(one)) else None


def _of_distinct(one: Distinct) -> str | None:
    every = frozenset(field.id for field in one.fields)
    return ROWS_WITHOUT_COLUMNS if _wholes(one.input, every) else None


def _of_set_operation(one: SetOperation) -> str | None:
    if one.kind == "union" and one.is_all:
        return None
    sides = ((side, frozenset(field.id for field in side.fields)) for side in one.inputs)
    return ROWS_WITHOUT_COLUMNS if any(_wholes(*side) for side in sides) else None


def _told(
    reason: str, left: Relation, lefts: _Fields, right: Relation, rights: _Fields
) -> str | None:
    return reason if _wholes(left, lefts) or _wholes(right, rights) else None


_REASONS: Final[Mapping[type[Relation], Callable[..., str | None]]] = MappingProxyType(
    {
        Scan: lambda _: None,
        Values: lambda _: None,
        Project: lambda _: None,
        Filter: lambda _: None,
        Join: _of_join,
        Matched: _of_matched,
        Single: _of_single,
        Aggregate: _of_aggregate,
        Distinct: _of_distinct,
        SetOperation: _of_set_operation,
        Window: _of_window,
        Expand: lambda _: None,
        Generate: lambda _: None,
    }
)


_COPIES: Final[Mapping[type[Relation], Callable[..., Mapping[str, str]]]] = MappingProxyType(
    {Project: plain.copies, Aggregate: by_rows.copies, Expand: expand.copies}
)
"""The fields by which an operator is looked up -> those that they copy of its one input."""


def _wholes(relation: Relation, fields: _Fields) -> bool:
    """Return whether a look-up by some fields reads all rows of a stage."""
    if is_none(relation) or isinstance(relation, Values):
        return False
    if isinstance(relation, Scan):
        return not fields
    return any(_wholes(one, by) for one, by in _asked(relation, fields or frozenset()))


def _asked(relation: Relation, fields: frozenset[str]) -> Iterator[tuple[Relation, _Fields]]:
    """Yield what a look-up by fields asks of the operator's inputs."""
    copies = _COPIES.get(type(relation))
    if copies is not None:
        yield relation.inputs[0], _named(fields, copies(relation))
        return
    match relation:
        case Filter() | Distinct() | Generate():
            (input_,) = relation.inputs
            yield input_, _within(fields, input_.fields)
        case SetOperation():
            for side in relation.inputs:
                yield side, _named(fields, set_operation.renamed(relation, side))
        case Join():
            yield from _asked_of_join(relation, fields)
        case Matched() | Single():
            yield relation.input, _within(fields, relation.input.fields)
            yield relation.subquery, _rights(_linked(relation))
        case Window():
            yield from _asked_of_window(relation, fields)
        case Limit():
            yield relation.input, None


def _asked_of_join(one: Join, fields: frozenset[str]) -> Iterator[tuple[Relation, _Fields]]:
    linked = join.linked_fields(one)
    lefts, rights = (_within(fields, side.fields) for side in one.inputs)
    if len(lefts) >= len(rights):
        yield from ((one.left, lefts), (one.right, _rights(linked) if lefts else None))
    else:
        yield from ((one.left, _lefts(linked)), (one.right, rights))


def _linked(one: Matched | Single) -> tuple[Link, ...]:
    if isinstance(one, Single):
        return single.linked_fields(one)
    linked, compared = matched.linked_fields(one)
    return *linked, *compared


def _asked_of_window(one: Window, fields: frozenset[str]) -> Iterator[tuple[Relation, _Fields]]:
    by = partition_fields(one)
    yield one.input, fields & by or _within(fields, one.input.fields)
    yield one.input, by


def _lefts(linked: Iterable[Link]) -> frozenset[str]:
    return frozenset(one.left.id for one in linked)


def _rights(linked: Iterable[Link]) -> frozenset[str]:
    return frozenset(one.right.id for one in linked)


def _within(fields: frozenset[str], own: Iterable[Field]) -> frozenset[str]:
    return fields & {field.id for field in own}


def _named(fields: frozenset[str], names: Mapping[str, str]) -> frozenset[str]:
    return frozenset(names[field] for field in fields if field in names)
