"""Frames: the columns that names in one SELECT refer to.

A frame has the items of a FROM, and those of the enclosing SELECT. The invariant: a name of an
item's column is that column, whatever the scope defines, and so is an alias of a SELECT where Spark
resolves it; a name without item or alias is a name of the scope, or refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from pyspark.sql.types import DataType, NullType
from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.syntax import spelled
from deltaproduce.stages.sql.text import line_at, start_of
from deltaproduce.types.columns import Column
from deltaproduce.types.excerpts import meant

Outputs: TypeAlias = tuple[tuple[str, DataType], ...]
"""The columns of rows: names and types; `NullType` if only Spark knows the type."""

UNKNOWN: Final = NullType()


@dataclass(frozen=True, slots=True)
class Feeder:
    """A stage as a query sees it.

    Attributes:
        columns: the columns that the query can name, in order.
        partition: the partition columns among them.
    """

    name: str
    columns: tuple[Column, ...]
    partition: tuple[str, ...] = ()

    @property
    def outputs(self) -> Outputs:
        """The columns, with the types that are known."""
        return tuple((c.name, c.data_type if c.is_known else UNKNOWN) for c in self.columns)


Side: TypeAlias = Literal["left", "right"]

ONE_SIDED: Final = frozenset({"SEMI", "ANTI"})
"""Joins that return only rows of the left side."""


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """A table, subquery or generator of a FROM.

    Attributes:
        alias: the qualifier of its columns, in lower case.
        outputs: its columns; None if only Spark knows them.
        feeder: the stage that it names; None if it names none.
        joins: the joins above it, from the inside out, and its side in each.
    """

    alias: str
    outputs: Outputs | None
    feeder: Feeder | None = None
    joins: tuple[tuple[exp.Join, Side], ...] = ()

    def has(self, name: str) -> bool:
        """Return whether a column has this name, in lower case."""
        return self.type_of(name) is not None

    def type_of(self, name: str) -> DataType | None:
        """Return the type of the column of this lower-case name; None if there is none."""
        return next((kind for own, kind in self.outputs or () if own.lower() == name), None)

    def column(self, name: str) -> str | None:
        """Return the feeder's column that a lower-case name refers to; None if there is none."""
        both = zip(self.outputs or (), self.feeder.outputs if self.feeder else (), strict=False)
        return next((theirs for (own, _), (theirs, _) in both if own.lower() == name), None)

    @property
    def is_hidden(self) -> bool:
        """Whether a semi or anti join looks into it, so that it is invisible outside the ON."""
        return any(join.kind in ONE_SIDED and side == "right" for join, side in self.joins)

    def is_merged(self, name: str) -> bool:
        """Return whether a join above merges all columns of this lower-case name."""
        return any(name in _using(join) or join.method == "NATURAL" for join, _ in self.joins)


@dataclass(frozen=True, slots=True)
class Relation:
    """The rows of a FROM, or of a part of it.

    Attributes:
        outputs: the columns of ``*``; None if only Spark knows.
    """

    items: tuple[Item, ...] = ()
    outputs: Outputs | None = ()

    @staticmethod
    def of(item: Item) -> Relation:
        """Return the relation of one item."""
        return Relation((item,), item.outputs)

    def joined(self, other: Relation, join: exp.Join) -> Relation:
        """Join another relation to it."""
        items = (*self._under(join, "left"), *other._under(join, "right"))
        return Relation(items, _of_join(self.outputs, other.outputs, join))

    def _under(self, join: exp.Join, side: Side) -> Iterator[Item]:
        """Yield the items below one more join."""
        for item in self.items:
            yield replace(item, joins=(*item.joins, (join, side)))

    def beside(self, item: Item) -> Relation:
        """Add the columns of a generator (``LATERAL VIEW``)."""
        known = self.outputs is not None and item.outputs is not None
        outputs = (*(self.outputs or ()), *(item.outputs or ())) if known else None
        return Relation((*self.items, item), outputs)

    def starred(self, star: exp.Expr) -> Outputs | None:
        """Return the columns of ``*`` or ``a.*``, without those of its EXCEPT."""
        found = self.outputs
        if isinstance(star, exp.Column):
            alias = star.table.lower()
            named = [item.outputs for item in self.items if item.alias == alias]
            found, star = named[0] if named else None, star.this
        if found is None:
            return None
        left_out = {node.name.lower() for node in star.args.get("except_") or ()}
        return tuple((name, kind) for name, kind in found if name.lower() not in left_out)


@dataclass(frozen=True, slots=True)
class Frame:
    """The columns that a SELECT's expressions can name.

    Attributes:
        items: the items of its FROM.
        aliases: the aliases that can be named there, in lower case.
        outer: the SELECT whose expressions contain it.
    """

    items: tuple[Item, ...] = ()
    aliases: frozenset[str] = field(default_factory=frozenset)
    outer: Frame | None = None

    def found(self, column: exp.Column) -> tuple[Item, str] | None:
        """Return a column's item, and its name there in lower case; None if it belongs to none.

        If several items have it, the first.

        Raises:
            DefinitionError: the item that it names has no such column.
        """
        first, *others = (part.name.lower() for part in column.parts)
        frame: Frame | None = self
        while frame is not None:
            for item in frame.items if others else ():
                if item.alias == first:
                    _check_has(item, others[0], column)
                    return item, others[0]
            for item in frame.items:
                if item.has(first):
                    return item, first
            frame = frame.outer
        return None

    def among(self, item: Item, name: str) -> bool:
        """Return whether an unqualified name is a column of an item and of no other.

        A column that ``USING`` merges belongs to each of its items, since all joined rows share its
        value.
        """
        others = [one for one in self.items if one is not item and one.has(name)]
        return item.has(name) and all(one.is_hidden or _are_one(item, one, name) for one in others)

    def merges(self, item: Item, name: str) -> bool:
        """Return whether ``USING`` merges a column of an item, which is `among`, with another."""
        return any(one is not item and one.has(name) and not one.is_hidden for one in self.items)

    @property
    def is_known(self) -> bool:
        """Whether the columns of all items are known, here and outside."""
        own = all(item.outputs is not None for item in self.items)
        return own and (self.outer is None or self.outer.is_known)

    def calls(self, name: str) -> bool:
        """Return whether a SELECT, this one or an outer one, defines this alias."""
        outer = self.outer is not None and self.outer.calls(name)
        return name in self.aliases or outer


def _using(join: exp.Join) -> list[str]:
    """Return the names in a join's USING, in lower case."""
    return [node.name.lower() for node in join.args.get("using") or ()]


def _are_one(item: Item, other: Item, name: str) -> bool:
    """Return whether columns of two items are merged, with one type."""
    merged = item.is_merged(name) and other.is_merged(name)
    return merged and item.type_of(name) == other.type_of(name)


def _of_join(left: Outputs | None, right: Outputs | None, join: exp.Join) -> Outputs | None:
    """Return the columns of a join, as in Spark: those that USING and NATURAL merge come first."""
    one_sided = join.kind in ONE_SIDED
    names = _using(join)
    if left is None or (right is None and not (one_sided and join.method != "NATURAL")):
        return None
    right = right or ()
    mine, others = ({name.lower(): (name, kind) for name, kind in side} for side in (left, right))
    if join.method == "NATURAL":
        names = [name for name in mine if name in others]
    keys = [_key(mine.get(name), others.get(name), join) for name in names]
    rest = left if one_sided else (*left, *right)
    merged = [key for key in keys if key is not None]
    return (*merged, *((name, kind) for name, kind in rest if name.lower() not in names))


def _key(
    left: tuple[str, DataType] | None, right: tuple[str, DataType] | None, join: exp.Join
) -> tuple[str, DataType] | None:
    """Return the column that a join merges two into; None if Spark will refuse it."""
    if join.side == "RIGHT":
        return right
    if join.side == "FULL" and left is not None and right is not None and left[1] != right[1]:
        return left[0], UNKNOWN
    return left


def is_star(node: exp.Expr) -> bool:
    """Return whether a column of a SELECT is ``*`` or ``a.*``."""
    return isinstance(node, exp.Star) or (
        isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
    )


def scope_name(
    column: exp.Column, frame: Frame, names: Mapping[str, str], lambdas: Iterable[str]
) -> str | None:
    """Return the name of the scope that a column refers to; None if it refers to something else.

    Args:
        names: the names of the scope, by lower-case name.
        lambdas: the lower-case names of enclosing lambda parameters.

    Raises:
        DefinitionError: it refers to nothing.
    """
    name = column.parts[0].name.lower()
    if frame.found(column) is not None or name in frame.aliases or name in lambdas:
        return None
    if len(column.parts) == 1 and name in names:
        return names[name]
    if frame.is_known and not frame.calls(name) and not _is_word(column):
        columns = (output for item in frame.items for output, _ in item.outputs or ())
        beside = ", nor a name of the scope" if names else ""
        advice = meant(column.name, (*columns, *names.values()))
        raise DefinitionError(
            f"{spelled(column)!r} is no column of what is read{beside}; {advice}",
            column=column.name,
            line=line_at(column),
        )
    return None


def _check_has(item: Item, name: str, column: exp.Column) -> None:
    if item.outputs is None or item.has(name):
        return
    whose = item.alias if item.feeder is None else item.feeder.name
    advice = meant(name, (output for output, _ in item.outputs))
    raise DefinitionError(
        f"{spelled(column)!r} is not there: {whose!r} has no column {name!r}; {advice}",
        column=column.name,
        line=line_at(column),
    )


def _is_word(column: exp.Column) -> bool:
    """Return whether a column is a unit, as in ``datediff(DAY, a, b)``, or an argument's name."""
    parent = column.parent
    if isinstance(parent, exp.Anonymous) and len(parent.expressions) > 1:
        return parent.expressions[0] is column
    return isinstance(parent, exp.Kwarg)


def place_of(column: exp.Column) -> tuple[int, int]:
    """Return the position of an unqualified column in the text."""
    identifier = column.parts[0]
    return start_of(identifier), int(identifier.meta["end"]) + 1
