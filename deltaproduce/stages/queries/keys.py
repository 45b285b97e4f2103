"""The fields that hold the source key of a relation's rows.

The invariant: for every row, a source key column has the value of the fields that `SourceKeyFields`
says, in all the feeder rows that the row comes from. If that is not certain, no field holds it, so
a mistake refuses a query and never accepts one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from sqlglot import exp

from deltaproduce.stages.sql.algebra.relations import JoinKind
from deltaproduce.stages.sql.syntax import function_name

NOTHING: Final[frozenset[int]] = frozenset()
_COALESCE: Final = frozenset({"coalesce", "ifnull", "nvl"})

Holding: TypeAlias = tuple[tuple[str, ...], ...]
"""One group of fields, each of which holds a source key column; after full joins several groups,
each of which holds it or null, and at least one holds it; no group if it is not known"""


@dataclass(frozen=True, slots=True)
class SourceKeyFields:
    """The fields that hold source key columns, by their ids.

    Attributes:
        columns: for each source key column the fields that hold it; empty if no feeder is read, so
            that the rows are the same for every key.
        partial: further fields of each source key column, which hold it or null.
    """

    columns: tuple[Holding, ...] = ()
    partial: tuple[tuple[str, ...], ...] = ()

    @staticmethod
    def of(columns: Sequence[Holding]) -> SourceKeyFields:
        """Return keys without further fields."""
        return SourceKeyFields(tuple(columns), ((),) * len(columns))

    def __len__(self) -> int:
        """Return the number of source key columns."""
        return len(self.columns)

    @property
    def are_held(self) -> bool:
        """Whether fields hold all source key columns."""
        return all(self.columns)

    def fields_of(self, column: int) -> tuple[str, ...]:
        """Return the fields that hold a source key column or null."""
        return (
            tuple(field for group in self.columns[column] for field in group)
            + (self.partial[column])
        )

    def holds(self, fields: Sequence[str]) -> frozenset[int]:
        """Return the source key columns that a field, or the ``coalesce`` of several, holds."""
        return frozenset(
            column
            for column, groups in enumerate(self.columns)
            if fields
            and groups
            and all(any(field in group for group in groups) for field in fields)
            and all(any(field in group for field in fields) for group in groups)
        )

    def holds_or_null(self, fields: Sequence[str]) -> frozenset[int]:
        """Return the source key columns that a field or ``coalesce`` holds if it is not null."""
        return frozenset(
            column
            for column in range(len(self))
            if fields and all(field in self.fields_of(column) for field in fields)
        )

    def renamed(self, names: Mapping[str, Sequence[str]]) -> SourceKeyFields:
        """Return the keys over other fields that have the same values.

        Args:
            names: field -> those that have its values.
        """

        def group_of(group: Sequence[str]) -> tuple[str, ...]:
            return tuple(name for field in group for name in names.get(field, ()))

        columns = []
        for groups in self.columns:
            fields = tuple(map(group_of, groups))
            columns.append(fields if all(fields) else ())
        return SourceKeyFields(tuple(columns), tuple(map(group_of, self.partial)))


def fields_of(tree: exp.Expr | None) -> tuple[str, ...]:
    """Return the field that an expression is, or the fields of its ``coalesce``, or none."""
    match tree:
        case exp.Paren():
            return fields_of(tree.this)
        case exp.Column():
            return (tree.name,)
        case exp.Anonymous(expressions=[_, _, *_]) if function_name(tree) in _COALESCE:
            parts = [fields_of(part) for part in tree.expressions]
            return tuple(field for (field,) in parts) if all(map(_is_one, parts)) else ()
    return ()


def equal_keys(
    condition: exp.Expr,
    left: SourceKeyFields,
    mine: Sequence[str],
    right: SourceKeyFields,
    other: Sequence[str],
) -> frozenset[int]:
    """Return the source key columns that are equal where two expressions are.

    With ``=``, null equals nothing, so it suffices that a field holds the key or null.
    """
    if isinstance(condition, exp.NullSafeEQ):
        return left.holds(mine) & right.holds(other)
    return left.holds_or_null(mine) & right.holds_or_null(other)


def equated(tree: exp.Expr) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yield the fields of both sides of an equality, each of them first once."""
    if isinstance(tree, exp.EQ | exp.NullSafeEQ):
        sides = fields_of(tree.this), fields_of(tree.expression)
        yield sides
        yield sides[::-1]


def joined(left: SourceKeyFields, right: SourceKeyFields, kind: JoinKind) -> SourceKeyFields:
    """Return the keys of the rows of a join by equal source keys, or with constants."""
    if kind in {"semi", "anti"}:
        return left
    columns = _merged(left, right, kind)
    partial = tuple(
        tuple(field for side in (left, right) if side.columns for field in side.fields_of(column))
        for column in range(len(columns))
    )
    return SourceKeyFields(columns, partial)


def _merged(left: SourceKeyFields, right: SourceKeyFields, kind: JoinKind) -> tuple[Holding, ...]:
    if not left.columns or not right.columns:
        return left.columns or right.columns
    match kind:
        case "left":
            return left.columns
        case "right":
            return right.columns
        case "full":
            both = zip(left.columns, right.columns, strict=True)
            return tuple((*mine, *other) for mine, other in both)
    return tuple(map(_either, left.columns, right.columns))


def _either(left: Holding, right: Holding) -> Holding:
    """Return the fields of either side of an inner join that hold a source key column."""
    if len(left) == len(right) == 1:
        return (left[0] + right[0],)
    return left if len(left) == 1 else right


def _is_one(fields: tuple[str, ...]) -> bool:
    return len(fields) == 1
