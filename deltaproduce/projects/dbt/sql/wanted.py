"""WantedColumns columns: those that queries read of tables whose columns nobody says.

Pure. A model often reads `SELECT *` of a source in a CTE, and names columns later: so what a query
wants of a column's name goes down through its CTEs and subqueries to the table. The invariant: a
column is wanted of a table only if it can be of no other one that the query reads there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import Scope, traverse_scope

from deltaproduce.projects.dbt.sql.naming import in_sql

Uses: TypeAlias = frozenset[str]
"""What the use of a column says of its type: `.name` of a field, `?` of a condition, `[]` of lists.

A field's own use follows it, as in ``.config.is_valid?``.
"""

Names: TypeAlias = dict[str, tuple[str, Uses]]
"""A column in lower case -> how it is written, and its uses."""

Known: TypeAlias = Mapping[str, frozenset[str]]
"""The columns of nodes of which all are known, in lower case, by the node's id."""

_FIELD: Final = re.compile(r"\.([^.?\[]+)(.*)")


@dataclass(frozen=True, slots=True)
class ColumnOrigin:
    """Where a column of a result comes from: a column of a node, or a field in it."""

    node: str
    name: str
    path: str


@dataclass(frozen=True, slots=True)
class WantedColumns:
    """What a query wants of tables.

    Attributes:
        columns: the columns that it names, by the id of the node whose table it is.
        passed: the nodes of which its result has all columns, without those that it leaves out.
        origins: where the columns of its result come from unchanged, by their name in lower case.
    """

    columns: Mapping[str, Names] = field(default_factory=dict)
    passed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    origins: Mapping[str, ColumnOrigin] = field(default_factory=dict)


def wanted(tree: exp.Query, node_of: Callable[[exp.Table], str], known: Known) -> WantedColumns:
    """Return what a query wants of tables; nothing where its text does not tell."""
    try:
        scopes = traverse_scope(tree)
    except SqlglotError:  # a query that its own rules do not understand
        return WantedColumns()
    reading = _Reading(node_of, known)
    for scope in reversed(scopes):  # those that read others come first
        reading.read(scope)
    passed = dict[str, frozenset[str]]()
    if scopes:
        reading.pass_on(scopes[-1], passed)
    return WantedColumns(reading.columns, passed, reading.origins(scopes[-1]) if scopes else {})


def of_all(
    queries: Mapping[str, WantedColumns], order: Sequence[str]
) -> Mapping[str, dict[str, str]]:
    """Return the columns that all queries together want of each node, with a type for each.

    Args:
        queries: what each model wants, by its id.
        order: the models, those that are read first.
    """
    total = dict[str, Names]()
    for id in (*(one for one in queries if one not in order), *reversed(order)):
        if (query := queries.get(id)) is None:
            continue
        wishes = total.get(id, {})
        for read, names in query.columns.items():
            _add(total.setdefault(read, {}), names.items())
        for read, lacking in query.passed.items():
            _add(
                total.setdefault(read, {}), [one for one in wishes.items() if one[0] not in lacking]
            )
        for name, origin in query.origins.items():
            if name in wishes:
                uses = frozenset(origin.path + use for use in wishes[name][1])
                own = (origin.name, uses)
                _add(total.setdefault(origin.node, {}), [(origin.name.lower(), own)])
    return {id: {name: _type(uses) for name, uses in names.values()} for id, names in total.items()}


def _type(uses: Uses) -> str:
    """Return the type of a column of which nothing but its uses is known."""
    fields = dict[str, set[str]]()
    for use in uses:
        if matched := _FIELD.fullmatch(use):
            fields.setdefault(matched[1], set()).add(matched[2])
    if fields:
        said = (f"{in_sql(name)}: {_type(frozenset(of))}" for name, of in sorted(fields.items()))
        return f"struct<{', '.join(said)}>"
    if "[]" in uses:
        return "array<string>"
    return "boolean" if "?" in uses else "string"


def _add(names: Names, more: Iterable[tuple[str, tuple[str, Uses]]]) -> None:
    for lower, (name, uses) in more:
        written, others = names.get(lower, (name, frozenset[str]()))
        names[lower] = written, others | uses


@dataclass(slots=True)
class _Reading:
    """What is found so far, scope by scope."""

    node_of: Callable[[exp.Table], str]
    known: Known
    columns: dict[str, Names] = field(default_factory=dict)
    wishes: dict[int, Names] = field(default_factory=dict)
    may: dict[tuple[int, str], bool] = field(default_factory=dict)
    passed: set[int] = field(default_factory=set)
    outputs: dict[int, frozenset[str]] = field(default_factory=dict)

    def read(self, scope: Scope) -> None:
        """Note what a scope names, and what others ask of it."""
        for one in _named(scope):
            for source in self._sources(scope, one.table, one.name):
                self._ask(source, one.name, one.uses)
        unchanged = _unchanged(scope)
        for lower, (name, uses) in self.wishes.get(id(scope), {}).items():
            for branch in scope.set_operation_scopes or ():
                self._ask(branch, name, uses)
            if lower in unchanged:
                own = unchanged[lower]
                for source in self._sources(scope, own.table, own.name):
                    self._ask(source, own.name, frozenset(own.path + use for use in uses))
            elif lower not in _own_names(scope):
                for source in self._starred(scope, name):
                    self._ask(source, name, uses)

    def origins(self, scope: Scope) -> dict[str, ColumnOrigin]:
        """Return where the columns of a scope's result come from unchanged."""
        origins = ((name, self._origin(scope, name)) for name in self._output_names(scope))
        return {name: origin for name, origin in origins if origin is not None}

    def _origin(self, source: exp.Table | Scope, name: str) -> ColumnOrigin | None:
        """Return where a column comes from; None if it is computed, or that is open."""
        if not isinstance(source, Scope):
            is_table = isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier)
            return ColumnOrigin(self.node_of(source), name, "") if is_table else None
        own = _unchanged(source).get(name.lower())
        if own is None and name.lower() in _own_names(source):
            return None
        named = _Named("", name) if own is None else own
        below = (
            self._starred(source, name)
            if own is None
            else self._sources(source, own.table, own.name)
        )
        origin = self._origin(below[0], named.name) if below else None
        return None if origin is None else replace(origin, path=origin.path + named.path)

    def _output_names(self, scope: Scope) -> frozenset[str]:
        """Return the columns of a scope's result that are known."""
        if id(scope) not in self.outputs:
            names = set(_own_names(scope))
            for _, lacking in _stars(scope):
                for alias in scope.selected_sources:
                    source = scope.sources.get(alias)
                    if isinstance(source, Scope):
                        names |= self._output_names(source) - lacking
            self.outputs[id(scope)] = frozenset(names)
        return self.outputs[id(scope)]

    def pass_on(
        self,
        scope: Scope,
        passed: dict[str, frozenset[str]],
        left_out: frozenset[str] = frozenset(),
    ) -> None:
        """Note the nodes of which a scope's result has all columns.

        Args:
            left_out: the columns that those who read the scope leave out.
        """
        if id(scope) in self.passed:
            return
        self.passed.add(id(scope))
        for one in scope.set_operation_scopes or ():
            self.pass_on(one, passed, left_out)
        own = _own_names(scope)
        for star, lacking in _stars(scope):
            for alias, source in scope.sources.items():
                if star and alias.lower() != star:
                    continue
                if isinstance(source, Scope):
                    self.pass_on(source, passed, left_out | own | lacking)
                else:
                    passed[self.node_of(source)] = left_out | own | lacking

    def _ask(self, source: exp.Table | Scope, name: str, uses: Uses) -> None:
        """Ask a table or another scope for a column."""
        if isinstance(source, Scope):
            names = self.wishes.setdefault(id(source), {})
        elif isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier):
            names = self.columns.setdefault(self.node_of(source), {})
        else:
            return
        _add(names, [(name.lower(), (name, uses))])

    def _sources(self, scope: Scope, alias: str, name: str) -> list[exp.Table | Scope]:
        """Return what a column may be of: one, or none if that is open."""
        sources = {key.lower(): value for key, value in scope.sources.items()}
        chosen = _selected(scope)
        if alias:
            return [sources[alias.lower()]] if alias.lower() in sources else []
        may = [sources[one] for one in chosen if one in sources]
        if len(may) > 1:
            may = [one for one in may if self._may_have(one, name)]
        return may if len(may) == 1 else []

    def _starred(self, scope: Scope, name: str) -> list[exp.Table | Scope]:
        """Return what a column of a scope's star may be of: one, or none."""
        may = list[exp.Table | Scope]()
        for star, lacking in _stars(scope):
            if name.lower() in lacking:
                continue
            for alias, source in scope.sources.items():
                if alias.lower() in _selected(scope) and (not star or alias.lower() == star):
                    may.append(source)
        if len(may) > 1:
            may = [one for one in may if self._may_have(one, name)]
        return may if len(may) == 1 else []

    def _scope_may_have(self, scope: Scope, name: str) -> bool:
        if name.lower() in _own_names(scope):
            return True
        branches = scope.set_operation_scopes or ()
        is_in_branch = any(self._may_have(one, name) for one in branches)
        return is_in_branch or bool(self._starred(scope, name))

    def _may_have(self, source: exp.Table | Scope, name: str) -> bool:
        """Return whether a column may be of a source."""
        if isinstance(source, Scope):
            known = self.may.get((id(source), name.lower()))
            if known is None:
                known = self._scope_may_have(source, name)
                self.may[id(source), name.lower()] = known
            return known
        if isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier):
            columns = self.known.get(self.node_of(source))
            return columns is None or name.lower() in columns
        return True


def _selected(scope: Scope) -> set[str]:
    """Return the names of what a scope has in its FROM and joins."""
    return {name.lower() for name in scope.selected_sources}


@dataclass(frozen=True, slots=True)
class _Named:
    """A column as a query names it: its table's name or none, its own, and a path to a field."""

    table: str
    name: str
    path: str = ""
    use: str = ""

    @property
    def uses(self) -> Uses:
        """What its use says of its type."""
        return frozenset({self.path + self.use} if self.path or self.use else ())

    @staticmethod
    def of(column: exp.Column, tables: Collection[str]) -> _Named:
        """Return a column that a scope names.

        Args:
            tables: the names of its tables, in lower case.
        """
        parts = [one.name for one in column.parts]
        dot = column.parent
        while isinstance(dot, exp.Dot) and isinstance(dot.expression, exp.Identifier):
            parts.append(dot.expression.name)
            dot = dot.parent
        at = next((n for n, one in enumerate(parts[:-1]) if one.lower() in tables), None)
        own = 0 if at is None else at + 1
        path = "".join(f".{one}" for one in parts[own + 1 :])
        return _Named("" if at is None else parts[at], parts[own], path, _use(column))


def _use(column: exp.Expr) -> str:
    """Return what the place of a column says of its type."""
    node, parent = column, column.parent
    while isinstance(parent, exp.Dot | exp.Paren):
        node, parent = parent, parent.parent
    if isinstance(parent, exp.Where | exp.Not | exp.And | exp.Or | exp.Having | exp.Filter):
        return "?"
    if isinstance(parent, exp.If) and node.arg_key == "this":
        return "?"
    return "[]" if isinstance(parent, exp.Unnest | exp.Explode) else ""


def _named(scope: Scope) -> Iterator[_Named]:
    """Yield the columns that a scope names of its tables."""
    tree = scope.expression
    aliases = dict[str, int]()
    for number, one in enumerate(tree.selects if isinstance(tree, exp.Select) else ()):
        if isinstance(one, exp.Alias):
            aliases.setdefault(one.alias.lower(), number)
    tables, given = {name.lower() for name in scope.sources}, _given_names(tree)
    for column in scope.columns:
        if isinstance(column.this, exp.Star):
            continue
        named = _Named.of(column, tables)
        defined = aliases.get(named.name.lower())
        is_alias = defined is not None and not named.table and _place(tree, column) > defined
        if not is_alias and (named.table or named.name.lower() not in given):
            yield named
    for join in tree.args.get("joins") or ():
        for name in join.args.get("using") or ():
            for alias in _selected(scope):
                yield _Named(alias, name.name)


def _unchanged(scope: Scope) -> dict[str, _Named]:
    """Return the columns of a scope's result that are columns of its tables, or fields of them."""
    tree = scope.expression
    tables = {name.lower() for name in scope.sources}
    origins = dict[str, _Named]()
    for one in tree.selects if isinstance(tree, exp.Select) else ():
        value = one.unalias()
        column = value.find(exp.Column) if isinstance(value, exp.Dot) else value
        if isinstance(column, exp.Column) and not one.is_star:
            origins[one.alias_or_name.lower()] = _Named.of(column, tables)
    return origins


def _given_names(tree: exp.Expr) -> set[str]:
    """Return the names that table functions of a query give, such as `UNNEST`."""
    names = set[str]()
    items = [tree.args.get("from_"), *(tree.args.get("joins") or ())]
    laterals = tree.args.get("laterals") or ()
    for one in (*(item.this for item in items if item is not None), *laterals):
        if isinstance(one, exp.Unnest | exp.Lateral | exp.TableFromRows):
            named = [one.args.get("alias"), one.args.get("offset")]
            for part in (part for part in named if isinstance(part, exp.Expr)):
                names |= {name.name.lower() for name in part.find_all(exp.Identifier)}
    return names


def _place(tree: exp.Expr, column: exp.Expr) -> int:
    """Return in which expression of a SELECT a column is; a large number elsewhere."""
    node: exp.Expr | None = column
    while node is not None and node.parent is not tree:
        node = node.parent
    if node is None or node.arg_key != "expressions":
        return 1_000_000
    return node.index or 0


def _own_names(scope: Scope) -> set[str]:
    tree = scope.expression
    selects = tree.selects if isinstance(tree, exp.Query) else ()
    return {one.alias_or_name.lower() for one in selects if not one.is_star}


def _stars(scope: Scope) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the table of each star, which may be empty, and the columns that it leaves out."""
    tree = scope.expression
    for one in tree.selects if isinstance(tree, exp.Select) else ():
        if not one.is_star:
            continue
        star = one.this if isinstance(one, exp.Column) else one
        left_out = [*(star.args.get("except_") or ()), *(star.args.get("rename") or ())]
        names = {part.name.lower() for item in left_out for part in item.find_all(exp.Identifier)}
        yield (one.table.lower() if isinstance(one, exp.Column) else ""), frozenset(names)
