"""Frames: what the names of columns in one SELECT stand for.

A frame has the items of a FROM, and those of the SELECT that it stands in. The invariant: a name
that is a column of an item is that column, whatever the scope calls so; a name that no item and no
alias has is the scope's, or is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from pyspark.sql.types import DataType, NullType
from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.syntax import spelled
from deltaproduce.stages.sql.text import start_of
from deltaproduce.types.columns import Column

Outputs: TypeAlias = tuple[tuple[str, DataType], ...]
"""The columns of rows: names and types; of type `NullType` if only Spark knows it."""

UNKNOWN: Final = NullType()


@dataclass(frozen=True, slots=True)
class Feeder:
    """A stage as a query sees it.

    Attributes:
        columns: those that the query can name, in order.
        partition: which of them its partitions are named by.
    """

    name: str
    columns: tuple[Column, ...]
    partition: tuple[str, ...] = ()

    @property
    def outputs(self) -> Outputs:
        """The columns, with the types that are known."""
        return tuple((c.name, c.data_type if c.is_known else UNKNOWN) for c in self.columns)


Side: TypeAlias = Literal["left", "right"]


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """A table, subquery or generator of a FROM.

    Attributes:
        alias: what its columns are qualified by, in lower case.
        outputs: its columns; None if only Spark knows them.
        feeder: the stage that it is; None if it is none.
        joins: the joins above it, from the inside out, and on which side of each it is.
    """

    alias: str
    outputs: Outputs | None
    feeder: Feeder | None = None
    joins: tuple[tuple[exp.Join, Side], ...] = ()

    def has(self, name: str) -> bool:
        """Whether a column has this name, in lower case."""
        return any(output.lower() == name for output, _ in self.outputs or ())


@dataclass(frozen=True, slots=True)
class Frame:
    """What a SELECT's expressions can name.

    Attributes:
        items: those of its FROM.
        aliases: the names of its columns, in lower case.
        outer: the SELECT in whose expressions it stands.
    """

    items: tuple[Item, ...] = ()
    aliases: frozenset[str] = field(default_factory=frozenset)
    outer: Frame | None = None

    def found(self, column: exp.Column) -> tuple[Item, str] | None:
        """The item that a column is of, and its name there in lower case; None if it is of none.

        Of several items, the first.

        Raises:
            DefinitionError: an item that is named has no such column.
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
        """Whether an item is the only one here with a column of this name."""
        return [one for one in self.items if one.has(name)] == [item]

    @property
    def is_known(self) -> bool:
        """Whether the columns of all items are known, here and outside."""
        own = all(item.outputs is not None for item in self.items)
        return own and (self.outer is None or self.outer.is_known)

    def calls(self, name: str) -> bool:
        """Whether a SELECT, this one or an outer one, calls a column so."""
        outer = self.outer is not None and self.outer.calls(name)
        return name in self.aliases or outer


def starred(node: exp.Expr, items: Sequence[Item]) -> Outputs | None:
    """The columns that ``*`` or ``a.*`` stands for; None if only Spark knows them."""
    wanted = node.table.lower() if isinstance(node, exp.Column) else ""
    found: list[tuple[str, DataType]] = []
    for item in items:
        if wanted in {"", item.alias}:
            if item.outputs is None:
                return None
            found += item.outputs
    return tuple(found)


def is_star(node: exp.Expr) -> bool:
    """Whether a column of a SELECT is ``*`` or ``a.*``."""
    return isinstance(node, exp.Star) or (
        isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
    )


def scope_name(
    column: exp.Column, frame: Frame, names: Mapping[str, str], lambdas: Iterable[str]
) -> str | None:
    """The name in the scope that a column stands for; None if it stands for something else.

    Args:
        names: those of the scope, by lower-case name.
        lambdas: the lower-case names of parameters around it.

    Raises:
        DefinitionError: it stands for nothing.
    """
    name = column.parts[0].name.lower()
    if frame.found(column) is not None or name in lambdas:
        return None
    if len(column.parts) == 1 and name in names:
        return names[name]
    if frame.is_known and not frame.calls(name) and not _is_word(column):
        columns = ", ".join(output for item in frame.items for output, _ in item.outputs or ())
        raise DefinitionError(
            f"{spelled(column)!r} is no column of what is read, nor a name of the scope; columns: "
            f"{columns or 'none'}",
            column=column.name,
            line=_line(column),
        )
    return None


def _check_has(item: Item, name: str, column: exp.Column) -> None:
    if item.outputs is None or item.has(name):
        return
    whose = item.alias if item.feeder is None else item.feeder.name
    columns = ", ".join(output for output, _ in item.outputs)
    raise DefinitionError(
        f"{spelled(column)!r} is not there: {whose!r} has the columns {columns}",
        column=column.name,
        line=_line(column),
    )


def _line(column: exp.Column) -> int:
    return int(column.parts[0].meta["line"])


def _is_word(column: exp.Column) -> bool:
    """Recognises the ``DAY`` of ``datediff(DAY, a, b)``, and names of arguments."""
    parent = column.parent
    if isinstance(parent, exp.Anonymous) and len(parent.expressions) > 1:
        return parent.expressions[0] is column
    return isinstance(parent, exp.Kwarg)


def place_of(column: exp.Column) -> tuple[int, int]:
    """Where a column without qualifier stands in the text."""
    identifier = column.parts[0]
    return start_of(identifier), int(identifier.meta["end"]) + 1
