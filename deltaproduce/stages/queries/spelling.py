"""Spelling: how the text of a query names the fields that hold a source key, and the edits for it.

Spark runs the user's text, to which the columns that return the source key are added. The
invariant: an added name means the field that it stands for at its place; a field that no name
reaches there is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.queries.keys import Holding, SourceKeyFields
from deltaproduce.stages.sql.resolve import Named, Scope
from deltaproduce.stages.sql.text import TextEdit, end_of, start_of
from deltaproduce.types.ddl import identifier


@dataclass(frozen=True, slots=True)
class SelectList:
    """The place where columns can be added to a SELECT, before its own.

    Attributes:
        start: the position of its first column.
        keys: the source key columns as SQL expressions that are valid there.
        ordinals: the positions of the numbers in its GROUP BY, which count its columns.
    """

    start: int
    keys: tuple[str, ...]
    ordinals: tuple[tuple[int, int], ...] = ()

    def with_columns(self, text: str, columns: Mapping[str, str]) -> Iterator[TextEdit]:
        """Yield the edits that put ``columns``, expressions by name, before the others."""
        added = "".join(f"{sql} AS {identifier(name)}, " for name, sql in columns.items())
        yield TextEdit(self.start, self.start, added)
        for start, end in self.ordinals:
            yield TextEdit(start, end, str(int(text[start:end]) + len(columns)))


@dataclass
class Spelling:
    """The names of a query's fields.

    Attributes:
        names: those that the user gave, by the fields' ids.
        hidden: those of added columns, by the fields' ids.
        groups: the keys of GROUP BY that are a ``coalesce``: their fields, by the keys' ids.
    """

    names: Mapping[str, Named]
    hidden: dict[str, Named] = field(default_factory=dict)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def key(self, holding: Holding, scope: Scope) -> str:
        """Return a source key column as SQL, where the columns of a FROM can be named.

        Raises:
            DefinitionError: a field's name is ambiguous.
        """
        fields = [
            next((one for one in group if self._reaches(one, scope)), group[0]) for group in holding
        ]
        for one in self._all(fields):
            if not self._reaches(one, scope):
                raise DefinitionError(
                    f"the source key is in {self._named(one)!r}, and so is another column's name; "
                    "give each table in FROM an alias, or rename the other column"
                )
        return self.sql(fields)

    def name(self, holding: Holding) -> str:
        """Return the user's name for a source key column, for messages."""
        visible = [[one for one in group if one not in self.hidden] for group in holding]
        if not all(visible):
            return "the source key, which a subquery in FROM leaves out,"
        return self.sql([group[0] for group in visible])

    def sql(self, fields: Sequence[str]) -> str:
        """Return a field, or the ``coalesce`` of several, as SQL."""
        spelled = [self._qualified(one) for one in self._all(fields)]
        return spelled[0] if len(spelled) == 1 else f"coalesce({', '.join(spelled)})"

    def _all(self, fields: Sequence[str]) -> list[str]:
        return [part for one in fields for part in self.groups.get(one, (one,))]

    def _reaches(self, one: str, scope: Scope) -> bool:
        if one in self.hidden:
            return True
        if one in self.groups:
            return all(self._reaches(part, scope) for part in self.groups[one])
        return one in self.names and scope.resolves_to(self.names[one])

    def _named(self, one: str) -> str:
        return self.names[one].name or "" if one in self.names else one.rpartition("#")[0]

    def _qualified(self, one: str) -> str:
        name = self.hidden.get(one) or self.names.get(one)
        if name is None or name.name is None:
            return identifier(one.rpartition("#")[0])
        prefix = "" if name.table is None else f"{identifier(name.table)}."
        return prefix + identifier(name.name)

    def list_of(self, select: exp.Expr, keys: SourceKeyFields, scope: Scope) -> SelectList:
        """Return where source key columns can be added to a SELECT, and their expressions there."""
        group = select.args.get("group")
        numbers = [] if group is None else [one for one in group.expressions if _is_number(one)]
        return SelectList(
            start_of(select),
            tuple(self.key(holding, scope) for holding in keys.columns),
            tuple((start_of(number), end_of(number)) for number in numbers),
        )

    def star_edits(self, select: exp.Expr, hidden: Sequence[Named]) -> Iterator[TextEdit]:
        """Yield edits that exclude added columns from the stars in a SELECT.

        A SELECT over added columns has no source key to group by, so no star is a ``count(*)``.
        """
        clauses = [*select.expressions]
        clauses += map(select.args.get, ("where", "group", "having", "qualify"))
        for clause in clauses:
            for node in () if clause is None else clause.walk(prune=_is_query):
                if isinstance(node, exp.Star):
                    yield from _star_edit(node, hidden)


def alias_edits(alias: exp.Expr | None, names: Sequence[str]) -> Iterator[TextEdit]:
    """Yield the edit that names added columns in the list of an alias, if it has one."""
    columns = alias.columns if isinstance(alias, exp.TableAlias) else []
    if columns and names:
        first = start_of(columns[0])
        yield TextEdit(first, first, "".join(f"{identifier(name)}, " for name in names))


def _star_edit(star: exp.Star, hidden: Sequence[Named]) -> Iterator[TextEdit]:
    table = star.parent.table if isinstance(star.parent, exp.Column) else None
    names = [
        identifier(one.name or "")
        if one.table is None
        else f"{identifier(one.table)}.{identifier(one.name or '')}"
        for one in hidden
        if table is None or (one.table or "").lower() == table.lower()
    ]
    excepted = [
        part for node in star.args.get("except_") or () for part in node.find_all(exp.Identifier)
    ]
    if names and excepted:
        first = min(map(start_of, excepted))
        yield TextEdit(first, first, "".join(f"{name}, " for name in names))
    elif names:
        yield TextEdit(end_of(star), end_of(star), f" EXCEPT ({', '.join(names)})")


def _is_number(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.is_int


def _is_query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Query)
