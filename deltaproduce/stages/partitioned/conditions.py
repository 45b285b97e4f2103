"""Conditions: the partitions of a feeder whose rows a query can read, found from its text.

For each place where a query names a feeder in a FROM, this collects the conditions that a row must
meet: the WHERE of that SELECT, the ON of inner joins, and the ON of outer joins on the side that
they do not keep. The invariant: a row of a partition that does not meet them cannot change the
query's rows. `links` finds the partitions that meet them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pyspark.sql.types import DataType
from sqlglot import exp

from deltaproduce.stages.partitioned.frames import ONE_SIDED, Frame, Item, Side
from deltaproduce.stages.sql.expressions.expression import Expression


@dataclass(frozen=True, slots=True)
class Part:
    """A condition on partitions: a tree of AND, OR and NOT over its leaves.

    Attributes:
        operator: ``and``, ``or``, ``not``; ``of nulls``, evaluated with null in all partition
            columns, and ``of own nulls``, but for those that ``USING`` merges with columns of other
            items; for a leaf ``is``, or ``is not`` if it must be false.
        parts: its operands.
        leaf: an expression over the partition columns and the scope; None if it reads anything
            else.
    """

    operator: str
    parts: tuple[Part, ...] = ()
    leaf: Expression | None = None

    def where(self, *, false: bool = False) -> Part:
        """Return a condition that holds where this may be true, or false; it has no NOT.

        A part that does not depend on the partition may be both: it counts as true, and under NOT
        as false.
        """
        match self.operator:
            case "not":
                return self.parts[0].where(false=not false)
            case "and" | "or":
                is_and = (self.operator == "and") != false
                parts = tuple(part.where(false=false) for part in self.parts)
                return Part("and" if is_and else "or", parts)
        return Part("is not" if false else "is", leaf=self.leaf)

    @property
    def columns(self) -> frozenset[str]:
        """The names that its leaves read."""
        own = () if self.leaf is None else self.leaf.columns
        return frozenset(own).union(*(part.columns for part in self.parts))


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that rows of a feeder must meet.

    Attributes:
        unless_null: whether it counts only if a row of nulls, which an outer join adds for missing
            rows, does not meet it; also where a merged column has the value of the other side.
    """

    part: Part
    unless_null: bool


@dataclass(frozen=True, slots=True)
class Read:
    """One place where a query reads a feeder.

    Attributes:
        feeder: its name.
        columns: its partition columns, with their types.
    """

    feeder: str
    columns: tuple[tuple[str, DataType], ...]
    conditions: tuple[Condition, ...]


def conditions_of(
    item: Item, select: exp.Select, frame: Frame, names: Mapping[str, str]
) -> tuple[Condition, ...]:
    """Return the conditions for rows of one item of a SELECT's FROM.

    Args:
        frame: the columns that the SELECT's expressions can name.
        names: the names of the scope, by lower-case name.
    """
    return tuple(
        Condition(_part(tree, item, frame, names), unless_null)
        for tree, unless_null in _above(item, select)
    )


_BOTH: Final[tuple[Side, ...]] = ("left", "right")
_LIMITED: Final[Mapping[str, tuple[Side, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(("", "SEMI"), _BOTH),
        **dict.fromkeys(("LEFT", "ANTI"), ("right",)),
        "RIGHT": ("left",),
        "FULL": (),
    }
)
"""The sides of a join whose rows do not matter if they do not meet its ON."""

_NULLABLE: Final[Mapping[str, tuple[Side, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(("", "SEMI", "ANTI"), ()),
        "LEFT": ("right",),
        "RIGHT": ("left",),
        "FULL": _BOTH,
    }
)
"""The sides of a join that it fills with nulls where no row matches."""


def _above(item: Item, select: exp.Select) -> Iterator[tuple[exp.Expr, bool]]:
    """Yield the conditions above an item, and whether nulls may have replaced its rows there."""
    nullable = False
    for join, side in item.joins:
        kind, on = join.kind if join.kind in ONE_SIDED else join.side, join.args.get("on")
        if on is not None and side in _LIMITED[kind]:
            yield on, nullable
        nullable = nullable or side in _NULLABLE[kind]
    where = select.args.get("where")
    if where is not None:
        yield where.this, nullable


def _part(node: exp.Expr, item: Item, frame: Frame, names: Mapping[str, str]) -> Part:
    match node:
        case exp.Paren():
            return _part(node.this, item, frame, names)
        case exp.And() | exp.Or():
            sides = (_part(side, item, frame, names) for side in (node.this, node.expression))
            return Part("and" if isinstance(node, exp.And) else "or", tuple(sides))
        case exp.Not():
            return Part("not", (_part(node.this, item, frame, names),))
        case exp.Between() if not node.args.get("symmetric"):
            low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
            high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
            sides = (_part(side, item, frame, names) for side in (low, high))
            return Part("and", tuple(sides))
    return Part("is", leaf=_leaf(node, item, frame, names))


def _leaf(node: exp.Expr, item: Item, frame: Frame, names: Mapping[str, str]) -> Expression | None:
    """Return a condition on the item's partition columns and the scope; None if it reads others."""
    if node.find(exp.Query, exp.Window, exp.Lambda):
        return None
    tree, read = node.copy(), list[str]()
    for column in [*tree.find_all(exp.Column)]:
        name = column.name.lower()
        of = _partition_column(column, item, frame)
        if of is not None:
            is_merged = len(column.parts) == 1 and frame.merges(item, name)
            read.append(merged_name(of) if is_merged else column_name(of))
        elif frame.found(column) is None and len(column.parts) == 1 and name in names:
            read.append(names[name])
        else:
            return None
        named = exp.column(exp.to_identifier(read[-1], quoted=True))
        tree = named if column is tree else tree
        column.replace(named)
    return Expression(tree.sql("spark"), tuple(dict.fromkeys(read)), tree)


def _partition_column(column: exp.Column, item: Item, frame: Frame) -> str | None:
    """Return the partition column of an item that a column refers to; None if it is another."""
    found = frame.found(column)
    if found is None or item.feeder is None:
        return None
    first, *others = (part.name.lower() for part in column.parts)
    if others:
        is_own = found[0] is item and item.alias == first and len(others) == 1
    else:
        is_own = found[0] in frame.items and frame.among(item, first)
    own = item.column(found[1]) if is_own else None
    return own if own in item.feeder.partition else None


def column_name(name: str) -> str:
    """Return a partition column's name in a leaf, distinct from names of the scope."""
    return f"_partition_{name}"


def merged_name(name: str) -> str:
    """Return its name in a leaf where it is one with a column of another item of the FROM."""
    return f"_merged_{name}"
