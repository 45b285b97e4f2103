"""The columns that a query's clauses can name, and which of them hold the source key.

A `Relation` is the result of a query, a `Frame` what the FROM of a SELECT offers to its other
clauses. Both hold the *provenance* of each source key column: where its value can be found.

The invariant: for every row, the provenance of a source key column is the value of that column in
all the feeder rows that the row comes from. If a frame does not know, or would have to guess, there
is no provenance, so a mistake refuses a query and never accepts one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.syntax import function_name
from deltaproduce.stages.sql.text import Edit, SelectList
from deltaproduce.types.ddl import identifier

NOTHING: Final[frozenset[int]] = frozenset()

_COALESCE: Final = frozenset({"coalesce", "ifnull", "nvl"})


@dataclass(frozen=True, slots=True)
class Output:
    """A column that a query returns.

    Attributes:
        name: its name; None if Spark generates one.
        holds: the positions of the source key columns whose value it has.
    """

    name: str | None
    holds: frozenset[int] = NOTHING


@dataclass(frozen=True, slots=True)
class Relation:
    """The result of a query, a feeder or a constant table.

    Attributes:
        outputs: its columns.
        width: the number of source key columns; 0 if it reads no feeder, so that its rows are the
            same for every key.
        lists: the select lists that need more columns if the relation needs them.
        edits: the edits of its text.
        hidden: names of columns added in front to hold the source key; none if the others hold it.
    """

    outputs: tuple[Output, ...]
    width: int = 0
    lists: tuple[SelectList, ...] = ()
    edits: tuple[Edit, ...] = ()
    hidden: tuple[str, ...] = ()

    def unheld(self) -> frozenset[int]:
        """Return the source key columns that no visible column holds."""
        return frozenset(range(self.width)).difference(*(output.holds for output in self.outputs))


@dataclass(frozen=True, slots=True)
class Field:
    """A column that clauses can name.

    Attributes:
        name: its name.
        table: the table name or alias that may qualify it; None if there is none.
        origin: the number of its relation.
        position: its position there.
    """

    name: str
    table: str | None
    origin: int
    position: int

    @property
    def sql(self) -> str:
        """The column as SQL."""
        prefix = "" if self.table is None else f"{identifier(self.table)}."
        return prefix + identifier(self.name)


Provenance: TypeAlias = tuple[tuple[Field, ...], ...]
"""One group of fields, each of which holds the source key column; after full joins several groups,
each of which holds it or null, and at least one holds it."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The columns that the FROM of a SELECT offers.

    Attributes:
        columns: the columns that can be named without their table, in the order of ``*``.
        merged: the columns that must be qualified, because USING or NATURAL merged them.
        hidden: the columns that the user cannot name.
        keys: the provenance of each source key column; empty if no feeder is in it.
        partial: further fields of each source key column, which hold it or null.
    """

    columns: tuple[Field, ...] = ()
    merged: tuple[Field, ...] = ()
    hidden: tuple[Field, ...] = ()
    keys: tuple[Provenance, ...] = ()
    partial: tuple[tuple[Field, ...], ...] = ()

    @classmethod
    def of(cls, relation: Relation, *, table: str | None, origin: int) -> "Frame":
        """Return the frame of a FROM with one relation, whose columns all have names."""
        columns = [Field(o.name or "", table, origin, i) for i, o in enumerate(relation.outputs)]
        hidden = [Field(name, table, origin, -1 - i) for i, name in enumerate(relation.hidden)]
        keys = []
        for key in range(relation.width):
            holding = zip(columns, relation.outputs, strict=True)
            held = tuple(field for field, output in holding if key in output.holds)
            keys.append((held + tuple(hidden[key : key + 1]),))
        return cls(tuple(columns), (), tuple(hidden), tuple(keys), ((),) * relation.width)

    def of_table(self, table: str) -> tuple[Field, ...]:
        """Return the columns of ``table.*``."""
        fields = [f for f in (*self.columns, *self.merged) if same_name(f.table, table)]
        return tuple(sorted(fields, key=lambda field: (field.origin, field.position)))

    def has(self, field: Field) -> bool:
        """Return whether a column is one of the frame's."""
        return field in self.columns or field in self.merged

    def found(self, names: Sequence[str]) -> list[tuple[Field, int]]:
        """Return the fields that a dotted name can mean, and how many of its parts name them.

        As in Spark, the first part is a table if that table has such a column, and otherwise a
        column; further parts are fields of its struct.
        """
        if len(names) > 1:
            fields = [f for f in self.of_table(names[0]) if same_name(f.name, names[1])]
            if fields:
                return [(field, 2) for field in fields]
        return [(field, 1) for field in self.columns if same_name(field.name, names[0])]

    def fields_of(self, expression: exp.Expr | None) -> tuple[Field, ...]:
        """Return the field of an expression, or the fields of its ``coalesce``, or none."""
        match expression:
            case exp.Paren() | exp.Alias():
                return self.fields_of(expression.this)
            case exp.Column():
                names = names_of(expression)
                found = self.found(names)
                return (found[0][0],) if [used for _, used in found] == [len(names)] else ()
            case exp.Anonymous(expressions=[_, _, *_]) if function_name(expression) in _COALESCE:
                parts = [self.fields_of(part) for part in expression.expressions]
                return tuple(field for (field,) in parts) if all(map(_is_one, parts)) else ()
        return ()

    def holds(self, fields: Sequence[Field]) -> frozenset[int]:
        """Return the source key columns that a field, or the ``coalesce`` of several, holds."""
        return frozenset(
            key
            for key, groups in enumerate(self.keys)
            if fields
            and all(any(field in group for group in groups) for field in fields)
            and all(any(field in group for field in fields) for group in groups)
        )

    def holds_or_null(self, fields: Sequence[Field]) -> frozenset[int]:
        """Return the source key columns that a field or ``coalesce`` holds if it is not null."""
        return frozenset(
            key
            for key in range(len(self.keys))
            if fields and all(field in self.fields_of_key(key) for field in fields)
        )

    def fields_of_key(self, key: int) -> tuple[Field, ...]:
        """Return the fields that hold a source key column or null."""
        return tuple(field for group in self.keys[key] for field in group) + self.partial[key]

    def key_sql(self, key: int) -> str:
        """Return an SQL expression for a source key column."""
        return self.sql([_first(group, self._can_name) for group in self.keys[key]])

    def key_name(self, key: int) -> str:
        """Return the user's name for a source key column, for messages."""
        visible = [[f for f in group if f not in self.hidden] for group in self.keys[key]]
        if not all(visible):
            return "the source key, which a subquery in FROM leaves out,"
        return self.sql([_first(group, self._can_name) for group in visible])

    def sql(self, fields: Sequence[Field]) -> str:
        """Return a field, or the ``coalesce`` of several, as SQL.

        Raises:
            DefinitionError: a field's name is ambiguous.
        """
        for field in fields:
            if not self._can_name(field):
                message = (
                    f"the source key is in {field.name!r}, and so is another column's name; give "
                    "each table in FROM an alias, or rename the other column"
                )
                raise DefinitionError(message)
        spelled = [field.sql for field in fields]
        return spelled[0] if len(spelled) == 1 else f"coalesce({', '.join(spelled)})"

    def _can_name(self, field: Field) -> bool:
        names = [name for name in (field.table, field.name) if name is not None]
        return field in self.hidden or [found for found, _ in self.found(names)] == [field]


def names_of(node: exp.Expr) -> list[str]:
    """Return the parts of a dotted name, or the one part of a name."""
    return [part.name for part in node.parts] if isinstance(node, exp.Column) else [node.name]


def same_name(name: str | None, other: str) -> bool:
    """Compare names as Spark does, ignoring case."""
    return name is not None and name.lower() == other.lower()


def _is_one(fields: tuple[Field, ...]) -> bool:
    return len(fields) == 1


def _first(group: Sequence[Field], is_good: Callable[[Field], bool]) -> Field:
    return next(filter(is_good, group), group[0])
