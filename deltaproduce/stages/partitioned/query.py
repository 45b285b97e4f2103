"""The query of a partitioned stage: its feeders, its references to the scope, and its edits.

The invariant: `TaskQuery.sql` returns the user's text, with views in place of stages and literals
in place of the scope's names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pyspark.sql.types import DataType
from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.partitioned.conditions import Read, conditions_of
from deltaproduce.stages.partitioned.frames import (
    UNKNOWN,
    Feeder,
    Frame,
    Item,
    Outputs,
    Relation,
    is_star,
    place_of,
    scope_name,
)
from deltaproduce.stages.partitioned.typing import check_fit, type_of
from deltaproduce.stages.sql.expressions.literals import literal
from deltaproduce.stages.sql.functions import PHYSICAL, VOLATILE, is_time
from deltaproduce.stages.sql.scopes.clauses import Scope
from deltaproduce.stages.sql.syntax import function_name, spelled
from deltaproduce.stages.sql.text import Edit, QueryText, edited, end_of, line_at, start_of
from deltaproduce.types.ddl import identifier
from deltaproduce.types.excerpts import meant

_BEFORE_ALIASES: Final = frozenset({"where", "laterals", "windows"})
"""Clauses that cannot name the aliases of the SELECT."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A name of the scope in the text.

    Attributes:
        aliased: whether it is a column of a SELECT, which must keep the name.
    """

    start: int
    end: int
    name: str
    aliased: bool


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """A query that runs for one scope at a time.

    Attributes:
        text: the user's text.
        reads: the places where it reads feeders.
        outputs: its columns, with the types that are known.
        views: the edits that replace feeders by views.
        slots: the places of the scope's names.
    """

    text: str
    reads: tuple[Read, ...]
    outputs: Outputs
    views: tuple[Edit, ...]
    slots: tuple[Slot, ...]

    @property
    def feeders(self) -> tuple[str, ...]:
        """The names of the stages that it reads, each once, as the text spells them."""
        return tuple(dict.fromkeys(read.feeder for read in self.reads))

    def sql(self, views: Mapping[str, str], scope: Scope) -> str:
        """Return the query of one task.

        Args:
            views: feeder -> view name.
        """
        end = len(self.text.rstrip().rstrip(";"))
        return edited(self.text[:end], (*self.views, *_literals(self.slots, scope)), views)


def read_query(text: str, feeders: Iterable[Feeder], sample: Scope) -> TaskQuery:
    """Read a query.

    Args:
        text: one SELECT in Spark's SQL, which names stages as its tables.
        feeders: the stages that it may read.
        sample: a scope of any date, for its names and their types.

    Raises:
        DefinitionError: it cannot be parsed, names something unknown, or is not deterministic.
    """
    tree = QueryText.read(text).tree
    _check_determined(tree)
    reader = _Reader(text, {feeder.name.lower(): feeder for feeder in feeders}, sample)
    outputs = reader.query(tree, {}, None)
    if outputs is None:
        raise DefinitionError(f"{spelled(tree)!r} has columns that only Spark knows; name them")
    _check_outputs(outputs)
    if not reader.reads:
        raise DefinitionError(f"{spelled(tree)!r} reads no stage; name one in its FROM")
    return TaskQuery(
        text, tuple(reader.reads), outputs, tuple(reader.views), tuple(reader.slots.values())
    )


def with_values(text: str, feeders: Iterable[Feeder], values: Scope) -> str:
    """Replace names in a query by literals.

    Raises:
        DefinitionError: as for `read_query`.
    """
    reader = _Reader(text, {feeder.name.lower(): feeder for feeder in feeders}, values)
    reader.query(QueryText.read(text).tree, {}, None)
    return edited(text, _literals(reader.slots.values(), values), {})


def _literals(slots: Iterable[Slot], scope: Scope) -> Iterator[Edit]:
    """Yield the edits that replace names by literals."""
    for slot in slots:
        text = literal(scope[slot.name])
        named = f"{text} AS {identifier(slot.name)}" if slot.aliased else text
        yield Edit(slot.start, slot.end, named)


def columns_used(text: str, feeders: Iterable[Feeder], sample: Scope) -> dict[str, frozenset[str]]:
    """Return the columns of each stage that a query names, in lower case; ``*`` names all.

    Raises:
        DefinitionError: as for `read_query`.
    """
    reader = _Reader(text, {feeder.name.lower(): feeder for feeder in feeders}, sample)
    reader.query(QueryText.read(text).tree, {}, None)
    return {name: frozenset(columns) for name, columns in reader.used.items()}


def _check_determined(tree: exp.Query) -> None:
    for node in tree.walk():
        name = function_name(node)
        bare = isinstance(node, exp.Column) and len(node.parts) == 1 and node.name.lower()
        if name in VOLATILE or is_time(node) or bare in {"current_date", "current_timestamp"}:
            raise DefinitionError(
                f"{spelled(node)!r} differs from run to run; use a name of the scope",
                line=line_at(node),
            )
        if name in PHYSICAL:
            raise DefinitionError(
                f"{spelled(node)!r} depends on how rows are stored; leave it out",
                line=line_at(node),
            )
        if isinstance(node, exp.Placeholder):
            raise DefinitionError(
                f"{spelled(node)!r} is a parameter, and there are none; write the name alone",
                line=line_at(node),
            )


def _check_outputs(outputs: Outputs) -> None:
    names = set[str]()
    for name, _ in outputs:
        if not name or name.startswith("_"):
            raise DefinitionError(
                f"a column is named {name!r}; name it with AS, and not beginning with '_'",
                column=name or None,
            )
        if name.lower() in names:
            raise DefinitionError(
                f"there are two columns {name!r} (case does not count); rename one", column=name
            )
        names.add(name.lower())


@dataclass
class _Reader:
    """A walk through a query that collects its reads and slots.

    Attributes:
        slots: by the position where they begin.
        used: the columns of each feeder that are named, in lower case.
    """

    text: str
    feeders: Mapping[str, Feeder]
    sample: Scope
    reads: list[Read] = field(default_factory=list)
    views: list[Edit] = field(default_factory=list)
    slots: dict[int, Slot] = field(default_factory=dict)
    used: dict[str, set[str]] = field(default_factory=dict)

    @property
    def names(self) -> dict[str, str]:
        """The names of the scope, by lower-case name."""
        return {name.lower(): name for name in self.sample}

    def query(
        self, node: exp.Expr, ctes: Mapping[str, Outputs | None], outer: Frame | None
    ) -> Outputs | None:
        """Return the columns of a query; collect its reads and slots."""
        ctes = self._with(node, ctes, outer)
        match node:
            case exp.Select():
                return self._select(node, ctes, outer)
            case exp.SetOperation():
                left = self.query(node.this, ctes, outer)
                right = self.query(node.expression, ctes, outer)
                self._clauses(node, Frame(outer=outer), ctes, left)
                return _of_both(left, right)
            case exp.Subquery():
                return self.query(node.this, ctes, outer)
            case exp.Values():
                first = node.expressions[0]
                width = len(first.expressions) if isinstance(first, exp.Tuple) else 1
                return tuple((f"col{n + 1}", UNKNOWN) for n in range(width))
        raise DefinitionError(
            f"{spelled(node)!r} is not supported in a query; write SELECT", line=line_at(node)
        )

    def _with(
        self, node: exp.Expr, ctes: Mapping[str, Outputs | None], outer: Frame | None
    ) -> Mapping[str, Outputs | None]:
        with_ = node.args.get("with_")
        if with_ is None:
            return ctes
        if with_.args.get("recursive"):
            raise DefinitionError("WITH RECURSIVE is not supported in a query of tasks")
        found = dict(ctes)
        for cte in with_.expressions:
            found[cte.alias.lower()] = _renamed(self.query(cte.this, found, outer), cte)
        return found

    def _select(
        self, select: exp.Select, ctes: Mapping[str, Outputs | None], outer: Frame | None
    ) -> Outputs | None:
        from_ = select.args.get("from_")
        relation = Relation()
        if from_ is not None:
            relation = self._joined(self._relation(from_.this, ctes, outer), select, ctes, outer)
        for node in select.args.get("laterals") or ():
            relation = relation.beside(self._lateral(node))
        frame = Frame(relation.items, outer=outer)
        for item in relation.items:
            if item.feeder is not None:
                self.used.setdefault(item.feeder.name, set())
                self.reads.append(
                    Read(
                        item.feeder.name,
                        _partition_types(item.feeder),
                        conditions_of(item, select, frame, self.names),
                    )
                )
        outputs = self._selected(select, relation, frame, ctes)
        self._names_in(select, frame, ctes)
        return outputs

    def _selected(
        self,
        select: exp.Select,
        relation: Relation,
        frame: Frame,
        ctes: Mapping[str, Outputs | None],
    ) -> Outputs | None:
        """Return the columns of a SELECT; a column may name those before it."""
        outputs: list[tuple[str, DataType]] | None = []
        for place, node in enumerate(select.expressions):
            here = replace(frame, aliases=_aliases(select.expressions[:place]))
            self._expression(node, here, ctes)
            if is_star(node):
                found = relation.starred(node)
                self._all_used(node, relation)
            else:
                kind = type_of(node, here, self.names, self.sample)
                found = ((node.alias_or_name, kind),)
            outputs = None if outputs is None or found is None else [*outputs, *found]
        return None if outputs is None else tuple(outputs)

    def _joined(
        self,
        found: Relation,
        holder: exp.Expr,
        ctes: Mapping[str, Outputs | None],
        outer: Frame | None,
    ) -> Relation:
        """Return a relation with its joins."""
        for join in holder.args.get("joins") or ():
            found = found.joined(self._relation(join.this, ctes, outer), join)
        return found

    def _relation(
        self, node: exp.Expr, ctes: Mapping[str, Outputs | None], outer: Frame | None
    ) -> Relation:
        """Return a table or subquery, with its joins inside parentheses."""
        if _is_parenthesis(node):
            found = self._relation(node.this, ctes, outer)
        else:
            found = Relation.of(_shaped(self._item(node, ctes, outer), node))
        return self._joined(found, node, ctes, outer)

    def _item(
        self, node: exp.Expr, ctes: Mapping[str, Outputs | None], outer: Frame | None
    ) -> Item:
        match node:
            case exp.Table() if isinstance(node.this, exp.Identifier):
                return self._table(node, ctes)
            case exp.Table() | exp.Lateral():
                return Item(node.alias.lower(), _renamed(None, node))
            case exp.Values() | exp.Subquery():
                return Item(node.alias.lower(), _renamed(self.query(node, ctes, outer), node))
        raise DefinitionError(
            f"{spelled(node)!r} is not supported in FROM; write a join", line=line_at(node)
        )

    def _table(self, node: exp.Table, ctes: Mapping[str, Outputs | None]) -> Item:
        name = node.name.lower()
        alias = (node.alias or node.name).lower()
        if not node.db and name in ctes:
            return Item(alias, _renamed(ctes[name], node))
        if node.db or name not in self.feeders:
            known = meant(node.name, (feeder.name for feeder in self.feeders.values()))
            raise DefinitionError(
                f"{spelled(node)!r} is no stage that comes before; {known}",
                line=int(node.this.meta["line"]),
            )
        feeder = self.feeders[name]
        start, end = start_of(node.this), end_of(node.this)
        written = "" if node.alias else f" AS {self.text[start:end]}"
        self.views.append(Edit(start, end, written, feeder.name))
        return Item(alias, _renamed(feeder.outputs, node), feeder)

    def _lateral(self, node: exp.Lateral) -> Item:
        alias = node.args.get("alias")
        columns = () if alias is None else alias.columns
        outputs = tuple((column.name, UNKNOWN) for column in columns)
        return Item("" if alias is None else alias.name.lower(), outputs or None)

    def _names_in(
        self, select: exp.Select, frame: Frame, ctes: Mapping[str, Outputs | None]
    ) -> None:
        """Collect the scope's names in a SELECT's clauses, and the reads of their subqueries."""
        named = replace(frame, aliases=_aliases(select.expressions))
        for key, part in _parts(select):
            if key in {"from_", "joins"}:
                self._from(part, frame, ctes)
            elif key not in {"with_", "expressions"}:
                self._expression(part, frame if key in _BEFORE_ALIASES else named, ctes)

    def _from(self, node: exp.Expr, frame: Frame, ctes: Mapping[str, Outputs | None]) -> None:
        """Do the same as `_names_in` for a part of a FROM, whose tables and subqueries are done."""
        match node:
            case exp.From() | exp.Join():
                self._from(node.this, frame, ctes)
                if node.args.get("on") is not None:
                    self._expression(node.args["on"], frame, ctes)
            case exp.Subquery() if _is_parenthesis(node):
                self._from(node.this, frame, ctes)
            case exp.Subquery():
                pass
            case exp.Table() if isinstance(node.this, exp.Identifier):
                pass
            case exp.Table():
                self._expression(node.this, frame, ctes)
            case _:
                self._expression(node, frame, ctes)
        for join in () if isinstance(node, exp.From) else node.args.get("joins") or ():
            self._from(join, frame, ctes)

    def _clauses(
        self,
        node: exp.Expr,
        frame: Frame,
        ctes: Mapping[str, Outputs | None],
        outputs: Outputs | None,
    ) -> None:
        """Do the same as `_names_in` for ORDER BY and LIMIT after a set operation."""
        own = Frame((Item("", outputs),), outer=frame.outer)
        for key, part in _parts(node):
            if key in {"order", "limit", "offset"}:
                self._expression(part, own, ctes)

    def _expression(self, root: exp.Expr, frame: Frame, ctes: Mapping[str, Outputs | None]) -> None:
        stop: Callable[[exp.Expr], bool] = lambda node: isinstance(  # noqa: E731
            node, exp.Query | exp.Table
        )
        for node in root.walk(prune=stop):
            check_fit(node, frame, self.names, self.sample)
            if isinstance(node, exp.Query):
                self.query(node, ctes, frame)
            elif isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
                self._column(node, frame)

    def _all_used(self, star: exp.Expr, relation: Relation) -> None:
        wanted = star.table.lower() if isinstance(star, exp.Column) else ""
        for item in relation.items:
            if item.feeder is not None and wanted in {"", item.alias}:
                names = {name.lower() for name, _ in item.feeder.outputs}
                self.used[item.feeder.name] |= names

    def _column(self, column: exp.Column, frame: Frame) -> None:
        found = frame.found(column)
        if found is not None and found[0].feeder is not None:
            used = found[0].column(found[1]) or found[1]
            self.used.setdefault(found[0].feeder.name, set()).add(used.lower())
        lambdas = {name.name.lower() for outer in _lambdas(column) for name in outer.expressions}
        name = scope_name(column, frame, self.names, lambdas)
        if name is not None:
            start, end = place_of(column)
            self.slots[start] = Slot(start, end, name, isinstance(column.parent, exp.Select))


def _parts(node: exp.Expr) -> list[tuple[str, exp.Expr]]:
    """Return the children of a node, by argument name."""
    found: list[tuple[str, exp.Expr]] = []
    for key, value in node.args.items():
        values = value if isinstance(value, list) else [value]
        found += [(key, one) for one in values if isinstance(one, exp.Expr)]
    return found


def _lambdas(node: exp.Expr) -> list[exp.Lambda]:
    found: list[exp.Lambda] = []
    parent = node.parent
    while parent is not None and not isinstance(parent, exp.Query):
        if isinstance(parent, exp.Lambda):
            found.append(parent)
        parent = parent.parent
    return found


def _aliases(nodes: Iterable[exp.Expr]) -> frozenset[str]:
    """Return the aliases given with AS, in lower case."""
    return frozenset(node.alias.lower() for node in nodes if isinstance(node, exp.Alias))


def _is_parenthesis(node: exp.Expr) -> bool:
    """Return whether a node is a parenthesis in a FROM, such as ``(a JOIN b)``."""
    return isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table) and not node.alias


def _shaped(item: Item, node: exp.Expr) -> Item:
    """Apply the operations on an item that come before all others, such as PIVOT.

    Raises:
        DefinitionError: they would sample rows, or read another version.
    """
    for key in ("sample", "version", "when"):
        if node.args.get(key) is not None:
            raise DefinitionError(
                f"{spelled(node)!r} is not supported in a query of tasks; name the rows in a WHERE",
                line=line_at(node),
            )
    if node.args.get("pivots"):  # only Spark knows its columns, and no condition reads them
        return replace(item, alias="", outputs=None)
    return item


def _of_both(left: Outputs | None, right: Outputs | None) -> Outputs | None:
    """Return the columns of a set operation; Spark resolves types that differ."""
    if left is None or right is None or len(left) != len(right):
        return left
    both = zip(left, right, strict=True)
    return tuple((name, kind if kind == other else UNKNOWN) for (name, kind), (_, other) in both)


def _renamed(outputs: Outputs | None, node: exp.Expr) -> Outputs | None:
    """Rename columns as an alias does."""
    alias = node.args.get("alias")
    names = [] if not isinstance(alias, exp.TableAlias) else [c.name for c in alias.columns]
    if not names:
        return outputs
    if outputs is None:
        return tuple((name, UNKNOWN) for name in names)
    if len(names) != len(outputs):
        raise DefinitionError(f"{spelled(node)!r} names {len(names)} of {len(outputs)} columns")
    return tuple((name, kind) for name, (_, kind) in zip(names, outputs, strict=True))


def _partition_types(feeder: Feeder) -> tuple[tuple[str, DataType], ...]:
    types = dict(feeder.outputs)
    return tuple((name, types[name]) for name in feeder.partition)
