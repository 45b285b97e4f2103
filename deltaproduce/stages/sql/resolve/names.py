"""Names: the columns that the clauses of a SELECT can name.

The invariant: a name means what it means in Spark. Case does not count; a name of several parts is
a table and its column if that table has such a column; a column of the SELECT itself comes before
one of the query around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.algebra.scalars import Field
from deltaproduce.stages.sql.syntax import AS_OF
from deltaproduce.stages.sql.text import refused
from deltaproduce.types.excerpts import meant


@dataclass(frozen=True, slots=True)
class Named:
    """A column that can be named.

    Attributes:
        table: the table name or alias that may qualify it; None if there is none.
        name: None if Spark generates a name.
    """

    table: str | None
    name: str | None
    field: Field


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns of a FROM.

    Attributes:
        columns: those that can be named without a table, in the order of ``*``.
        merged: those that must be qualified, because USING or NATURAL merged them.
        outer: the scope of the query around a subquery.
        is_open: whether there are columns that only Spark knows.
    """

    columns: tuple[Named, ...] = ()
    merged: tuple[Named, ...] = ()
    outer: Scope | None = None
    is_open: bool = False

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of its columns, each once."""
        return tuple(dict.fromkeys(one.field for one in (*self.columns, *self.merged)))

    def within(self, outer: Scope | None) -> Scope:
        """Return the same columns in a subquery of a query."""
        return replace(self, outer=outer)

    def beside(self, other: Scope) -> Scope:
        """Return the columns of two sides of a join."""
        return Scope(
            self.columns + other.columns,
            self.merged + other.merged,
            self.outer or other.outer,
            self.is_open or other.is_open,
        )

    def of_table(self, table: str) -> list[Named]:
        """Return the columns of ``table.*``."""
        own = [one for one in (*self.columns, *self.merged) if _same(one.table, table)]
        return sorted(own, key=lambda one: _number(one.field))

    def find(self, node: exp.Expr) -> tuple[Field, int] | None:
        """Return the field that a name means, and how many of its parts name it; None if none.

        Raises:
            DefinitionError: it may mean several.
        """
        names = [part.name for part in node.parts] if isinstance(node, exp.Column) else [node.name]
        columns: list[Named] = []
        used = 1
        if len(names) > 1:
            columns = [one for one in self.of_table(names[0]) if _same(one.name, names[1])]
            used = 2
        if not columns:
            columns, used = [one for one in self.columns if _same(one.name, names[0])], 1
        if len({one.field.id for one in columns}) > 1:
            raise refused(node, "may mean several columns; put the table's name before it")
        if columns:
            return columns[0].field, used
        return None if self.outer is None else self.outer.find(node)

    def resolves_to(self, one: Named) -> bool:
        """Return whether its table and name mean a column, and nothing else."""
        columns = [] if one.table is None else self.of_table(one.table)
        columns = [other for other in columns if _same(other.name, one.name or "")]
        first = one.name if one.table is None else one.table
        columns = columns or [other for other in self.columns if _same(other.name, first or "")]
        return [other.field for other in columns] == [one.field]

    @property
    def may_have_more(self) -> bool:
        """Whether a name that means nothing may be a column that only Spark knows."""
        return self.is_open or (self.outer is not None and self.outer.may_have_more)

    @property
    def known(self) -> list[str]:
        """The names of its columns."""
        return [one.name for one in self.columns if one.name is not None]


def unknown(node: exp.Expr, names: Sequence[str]) -> DefinitionError:
    """Return the error for a name that means nothing."""
    if node.name.lower() == AS_OF:
        raise refused(node, "is the date of a version, which only views have; name a column")
    error = refused(node, f"is not a column here; {meant(node.name, names)}")
    return DefinitionError(str(error), column=node.name, line=error.line)


def _same(name: str | None, other: str) -> bool:
    return name is not None and name.lower() == other.lower()


def _number(field: Field) -> int:
    return int(field.id.rpartition("#")[2])
