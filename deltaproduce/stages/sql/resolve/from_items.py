"""FROM: tables, CTEs, subqueries, constants and joins.

The invariant: a stage that is read twice is two scans, with fields of their own, and so is a CTE.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp
from typing_extensions import override

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.algebra.relations import (
    Join,
    JoinKind,
    ProjectRelation,
    Relation,
    Scan,
    Values,
    one_row,
)
from deltaproduce.stages.sql.algebra.scalars import Equality, Field, Output, Scalar, columns_in
from deltaproduce.stages.sql.expressions.coercion import common
from deltaproduce.stages.sql.functions import TABLE_FUNCTIONS
from deltaproduce.stages.sql.resolve.building import Building
from deltaproduce.stages.sql.resolve.groups.pivots import pivoted
from deltaproduce.stages.sql.resolve.groups.unpivots import unpivoted
from deltaproduce.stages.sql.resolve.laterals import beside_rows
from deltaproduce.stages.sql.resolve.names import Named, Scope
from deltaproduce.stages.sql.resolve.reading import (
    Ctes,
    QueryContext,
    Selected,
    TextOrigin,
    conjuncts,
    own,
    rebuilt,
)
from deltaproduce.stages.sql.syntax import function_name, spelled
from deltaproduce.stages.sql.text import TextEdit, end_of, line_at, refused, start_of
from deltaproduce.types.excerpts import meant

_MAY_READ: Final = "may read tables, whose changes would go unnoticed; use VALUES"
_NO_CONSTANT: Final = "is not a constant, and a table function in FROM has constants"
_KINDS: Final[dict[str, JoinKind]] = {
    "": "inner",
    "INNER": "inner",
    "CROSS": "inner",
    "LEFT": "left",
    "RIGHT": "right",
    "FULL": "full",
    "SEMI": "semi",
    "ANTI": "anti",
}


_PIVOTED: Final = (
    "has a PIVOT whose columns have no names of their own, or an UNPIVOT of values that have no "
    "type in common; name values and aggregates with AS, or use sum(CASE WHEN … END) with "
    "GROUP BY, or CAST in a subquery"
)


def from_(
    node: exp.Expr, reading: QueryContext, ctes: Ctes, outer: Scope | None
) -> tuple[Relation, Scope]:
    """Return the relation of an item of FROM with its joins, and what can be named of it.

    Raises:
        DefinitionError: it reads something that is no stage, or a join has no meaning.
    """
    match node:
        case exp.Subquery(this=exp.Table() | exp.Subquery() as inner) if not node.alias:
            relation = from_(inner, reading, ctes, outer)
        case _:
            relation = _item(node, reading, ctes, outer)
    return joined(relation, node.args.get("joins") or (), reading, ctes, outer)


def joined(
    left: tuple[Relation, Scope],
    joins: Sequence[exp.Expr],
    reading: QueryContext,
    ctes: Ctes,
    outer: Scope | None,
) -> tuple[Relation, Scope]:
    """Return a relation with its joins; see `from_`."""
    crossed = False
    for join in joins:
        assert isinstance(join, exp.Join)
        kind = _kind(join)
        if isinstance(join.this, exp.Lateral):
            left = _lateral(join.this, left, reading, ctes, join)
            continue
        right = from_(join.this, reading, ctes, outer)
        if crossed and kind in {"right", "full"}:  # a comma binds less than JOIN, and is not told
            both = left[1].beside(right[1])
            rows = reading.in_spark(join, [left[0], right[0]], both.fields)
            on = join.args.get("on")
            named = () if on is None else Building(reading, rows, both, ctes).named_in(on)
            left = replace(rows, named=named), both
            continue
        crossed = crossed or join.kind == "CROSS"
        left = _join(join, kind, left, right, reading, ctes)
    return left


def with_laterals(
    scoped: tuple[Relation, Scope], laterals: Sequence[exp.Expr], reading: QueryContext, ctes: Ctes
) -> tuple[Relation, Scope]:
    """Return a relation with LATERAL VIEWs."""
    for lateral in laterals:
        relation, scope = scoped
        names = _names_of(lateral, reading)
        rows = Building(reading, relation, scope, ctes)
        outer = bool(lateral.args.get("outer"))
        fields = rows.generated(lateral.this, names, lateral, is_outer=outer)
        pairs = zip(names, fields, strict=False)  # without names only Spark knows them
        own = reading.named(Named(lateral.alias or None, name, field) for name, field in pairs)
        scoped = rows.relation, _wider(scope, own, is_open=not names)
    return scoped


def _names_of(lateral: exp.Expr, reading: QueryContext) -> list[str]:
    """Return the names of a generator's columns; none if only Spark knows them."""
    alias = lateral.args.get("alias")
    if not isinstance(alias, exp.TableAlias) or not alias.columns:
        reading.leave_to_spark(lateral, "needs names of columns; write AS name, …")
        return []
    return [one.name for one in alias.columns]


def _wider(scope: Scope, own: Sequence[Named], *, is_open: bool) -> Scope:
    return replace(scope, columns=(*scope.columns, *own), is_open=scope.is_open or is_open)


def _lateral(
    node: exp.Expr,
    rows: tuple[Relation, Scope],
    reading: QueryContext,
    ctes: Ctes,
    join: exp.Join | None = None,
) -> tuple[Relation, Scope]:
    relation, scope = rows
    given, named, fields = [relation], tuple[Scalar, ...](), list[Field]()
    kind = "full" if join is None else _kind(join)
    on = None if join is None else join.args.get("on")
    is_free = not reading.is_lenient and (on is None or on == exp.true())
    if is_free and not isinstance(node.this, exp.Query) and kind in {"inner", "left"}:
        return _generated(node, rows, reading, ctes, is_outer=kind == "left")
    if isinstance(node.this, exp.Query):
        inner = reading.query(node.this, ctes, scope)
        joined = beside_rows(inner, relation, kind, reading) if is_free else None
        if joined is not None and join is not None:
            reading.origins[joined[0]] = TextOrigin(join)
            pairs = zip(inner.columns, joined[1], strict=True)
            columns = tuple(Named(node.alias or None, one.name, field) for one, field in pairs)
            return joined[0], _wider(
                scope, reading.named(_with_names(node, columns)), is_open=False
            )
        given.append(inner.relation)
        names = [one.name or "" for one in inner.columns]
        if node.args.get("alias") and node.args["alias"].columns:
            names = _names_of(node, reading)
        is_open, every = inner.is_open, (*relation.fields, *inner.relation.fields)
        named = tuple(reading.typed(link.tree, every, link.node) for link in inner.links)
    else:
        names, named = _names_of(node, reading), Building(reading, *rows, ctes).named_in(node.this)
        is_open = not names
    fields = [reading.field(name, None) for name in names]
    own = reading.named(Named(node.alias or None, *one) for one in zip(names, fields, strict=True))
    wide = _wider(scope, own, is_open=is_open)
    return reading.in_spark(node, given, (*relation.fields, *fields), named), wide


def _generated(
    node: exp.Expr,
    scoped: tuple[Relation, Scope],
    reading: QueryContext,
    ctes: Ctes,
    *,
    is_outer: bool,
) -> tuple[Relation, Scope]:
    """Return rows with the columns of a generator in LATERAL."""
    names = _names_of(node, reading)
    rows = Building(reading, *scoped, ctes)
    fields = rows.generated(node.this, names, node, is_outer=is_outer)
    reading.origins[rows.relation] = TextOrigin(node)
    pairs = zip(names, fields, strict=True)
    own = reading.named(Named(node.alias or None, name, field) for name, field in pairs)
    return rows.relation, _wider(scoped[1], own, is_open=False)


def _item(
    node: exp.Expr, reading: QueryContext, ctes: Ctes, outer: Scope | None
) -> tuple[Relation, Scope]:
    _check_item(node, reading)
    if node.args.get("pivots"):
        plain = node.copy()
        plain.set("pivots", None)
        rows = _item(plain, reading, ctes, outer)
        (pivot,) = node.args["pivots"]
        turned = unpivoted if pivot.args.get("unpivot") else pivoted
        result = None if reading.is_lenient else turned(pivot, Building(reading, *rows, ctes))
        if result is not None:
            return _renamed(result, pivot, pivot.alias or None, reading)
        reading.leave_to_spark(node, _PIVOTED)
        return _pivoted(node, rows[0], reading)
    match node:
        case exp.Table() if isinstance(node.this, exp.Identifier):
            return _table(node, reading, ctes)
        case exp.Table():
            return _renamed(_table_function(node, reading, ctes), node, node.alias or None, reading)
        case exp.Lateral():
            reading.leave_to_spark(node, _MAY_READ)
            return _lateral(node, (one_row(), Scope()), reading, ctes)
        case exp.Values():
            return _renamed(values(node, reading), node, node.alias or None, reading)
        case exp.Subquery():
            subquery = reading.query(node, ctes, outer)
            if subquery.links:
                raise refused(node, "names columns of the query around it, which needs LATERAL")
            return _renamed(subquery, node, node.alias or None, reading)
    raise refused(node, "is not supported in FROM; write a join")


def _pivoted(node: exp.Expr, relation: Relation, reading: QueryContext) -> tuple[Relation, Scope]:
    """Return what PIVOT makes of all columns of a relation, in columns that only Spark knows."""
    named = [*map(Scalar.of_field, relation.fields)]
    own = reading.field("in_spark", None)
    return reading.in_spark(node, [relation], [own], named), Scope(is_open=True)


def _check_item(node: exp.Expr, reading: QueryContext) -> None:
    if node.args.get("sample") is not None:
        raise refused(node, "takes rows at random; filter by a column")
    if node.args.get("version") is not None or node.args.get("when") is not None:
        raise refused(node, "reads another version than the stage's; drop it")


def _table(node: exp.Table, reading: QueryContext, ctes: Ctes) -> tuple[Relation, Scope]:
    name = node.name.lower()
    alias = node.alias or node.name
    if not node.db and name in ctes:
        return _renamed(ctes[name], node, alias, reading)
    if node.db or name not in reading.stages:
        known = meant(node.name, (stage for stage, _ in reading.stages.values()))
        raise DefinitionError(
            f"{spelled(node)!r} is not a stage that comes before; a query reads stages, by their "
            f"names, since changes of other tables would go unnoticed; {known}",
            line=line_at(node),
        )
    stage, schema = reading.stages[name]
    start, end = start_of(node.this), end_of(node.this)
    written = "" if node.alias else f" AS {reading.text.text[start:end]}"
    reading.edits.append(TextEdit(start, end, written, stage))
    seen = [c for c in (*schema.key, *schema.value) if not c.is_hidden]
    fields = tuple(reading.field(c.name, c.data_type if c.is_known else None) for c in seen)
    scan = Scan(stage, tuple(c.name for c in seen), fields)
    pairs = zip(scan.columns, fields, strict=True)
    named = tuple(Named(alias, column, field) for column, field in pairs)
    return scan, Scope(reading.named(_with_names(node, named)))


def _renamed(
    selected: Selected, node: exp.Expr, alias: str | None, reading: QueryContext
) -> tuple[Relation, Scope]:
    """Return a query's columns as fields of their own, under the names of an alias."""
    outputs, named = list[Output](), list[Named]()
    if selected.is_open:
        return _renamed_open(selected, node, alias, reading)
    for one in selected.columns:
        field = reading.field(one.name, one.field.data_type)
        outputs.append(Output(field, Scalar.of_field(one.field)))
        named.append(Named(alias, one.name, field))
    relation = ProjectRelation(selected.relation, tuple(outputs))
    reading.origins[relation] = TextOrigin(node)
    return relation, Scope(reading.named(_with_names(node, tuple(named))))


def _renamed_open(
    selected: Selected, node: exp.Expr, alias: str | None, reading: QueryContext
) -> tuple[Relation, Scope]:
    """Return the columns that an alias names; else those that are known, and others."""
    listed = node.args.get("alias")
    names = [one.name for one in listed.columns] if listed is not None else []
    known = names or [one.name for one in selected.columns]
    own = [Named(alias, name, reading.field(name, None)) for name in known]
    beside = reading.field("in_spark", None)
    fields = [*(one.field for one in own), beside]
    scope = Scope(reading.named(own), is_open=not names)
    return reading.in_spark(node, [selected.relation], fields), scope


def _with_names(node: exp.Expr, named: tuple[Named, ...]) -> tuple[Named, ...]:
    alias = node.args.get("alias")
    names = [column.name for column in alias.columns] if alias is not None else []
    if not names:
        return named
    if len(names) != len(named):
        raise refused(node, f"names {len(names)} of {len(named)} columns")
    return tuple(replace(one, name=name) for one, name in zip(named, names, strict=True))


def _table_function(node: exp.Table, reading: QueryContext, ctes: Ctes) -> Selected:
    """Return the rows of a table function of constants, which only Spark computes."""
    name, given = function_name(node.this), list[Relation]()
    if name not in TABLE_FUNCTIONS:
        reading.leave_to_spark(node, _MAY_READ)
    for part in own(node.this):
        if isinstance(part, exp.Query):
            reading.leave_to_spark(part, _NO_CONSTANT)
            given.append(reading.query(part, ctes, None).relation)
        elif isinstance(part, exp.Column | exp.Table) and reading.constant(part) is None:
            raise refused(part, _NO_CONSTANT)
    alias = node.args.get("alias")
    names: list[str | None] = ["id"] if name == "range" else [None]
    if alias is not None and alias.columns:
        names = [column.name for column in alias.columns]
    columns = tuple(Named(None, name, reading.field(name, None)) for name in names)
    fields = [one.field for one in columns]
    is_open = reading.is_lenient and names == [None]
    return Selected(reading.in_spark(node, given, fields), columns, is_open=is_open)


def values(node: exp.Expr, reading: QueryContext) -> Selected:
    """Return the rows of VALUES."""
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
    if len({len(row) for row in rows}) != 1:
        raise refused(node, "has rows of different lengths")
    for part in node.walk():
        is_other = isinstance(part, exp.Query | exp.Column) and part is not node
        if is_other and reading.constant(part) is None:
            raise refused(part, "is not a constant, and VALUES has constants")
    typed = [[_constant(one, reading) for one in row] for row in rows]
    kinds = [
        None if None in (types := [one.data_type for one in column]) else common(types)
        for column in zip(*typed, strict=True)
    ]
    fields = tuple(reading.field(f"col{n}", kind) for n, kind in enumerate(kinds, start=1))
    relation = Values(fields, tuple(map(tuple, typed)))
    columns = tuple(Named(None, field.name, field) for field in fields)
    return Selected(relation, columns)


def _constant(node: exp.Expr, reading: QueryContext) -> Scalar:
    """Return a value of VALUES."""
    return reading.typed(rebuilt(node, reading.constant), (), node)


def _kind(join: exp.Join) -> JoinKind:
    word = join.kind if join.kind in {"SEMI", "ANTI"} else join.side or join.kind
    odd = join.kind in {"SEMI", "ANTI"} and join.side not in {"", "LEFT"}
    if word not in _KINDS or odd or join.method not in {"", "NATURAL"}:
        raise refused(join, "is a kind of join that Spark does not have")
    return _KINDS[word]


def _join(
    join: exp.Join,
    kind: JoinKind,
    left: tuple[Relation, Scope],
    right: tuple[Relation, Scope],
    reading: QueryContext,
    ctes: Ctes,
) -> tuple[Relation, Scope]:
    names = _common_names(join, left[1], right[1])
    if names is not None:
        return _by_names(join, kind, names, left, right, reading)
    both = left[1].beside(right[1])
    equal, rest = list[Equality](), list[Scalar]()
    holder = _On(reading, left[0], both, ctes)
    for node in conjuncts(join.args.get("on")):
        tree = holder.expression(node)
        one, other = holder.relation, right[0]
        sided = _sided(tree, one, other)
        if sided is not None:
            equal.append(reading.equality(*sided, (one, other), node))
        else:
            rest.append(reading.condition(tree, (*one.fields, *other.fields), node))
    joined = Join(holder.relation, right[0], kind, tuple(equal), tuple(rest))
    reading.origins[joined] = TextOrigin(join)
    return joined, left[1] if kind in {"semi", "anti"} else both


class _On(Building):
    """What the conditions of a join are over; their subqueries are left to Spark."""

    @override
    def replaced(self, node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, exp.Query):
            query = self.reading.query(node, self.ctes, self.scope)
            return self.only_in_spark(node, None, replace(query, rows=None)).tree
        if isinstance(node, exp.Exists):
            return self.replaced(node.this)
        if isinstance(node, exp.In) and node.args.get("query") is not None:
            value = self.expression(node.this)
            return exp.In(this=value, expressions=[self.expression(node.args["query"])])
        return super().replaced(node)


def _sided(tree: exp.Expr, left: Relation, right: Relation) -> tuple[exp.Expr, exp.Expr] | None:
    """Return the sides of an equality between the relations, the left one first."""
    if not isinstance(tree, exp.EQ | exp.NullSafeEQ):
        return None
    ids = [{field.id for field in side.fields} for side in (left, right)]
    parts = tree.this, tree.expression
    names = [{column.name for column in columns_in(part)} for part in parts]
    if not all(names):
        return None
    for first, second in ((0, 1), (1, 0)):
        if names[first] <= ids[0] and names[second] <= ids[1]:
            return parts[first], parts[second]
    return None


def _common_names(join: exp.Join, left: Scope, right: Scope) -> list[str] | None:
    """Return the columns that USING or NATURAL equates; None if there is neither."""
    if join.method == "NATURAL":
        there = {name.lower() for name in right.known}
        return [name for name in left.known if name.lower() in there]
    using = join.args.get("using")
    return [name.name for name in using] if using else None


def _by_names(
    join: exp.Join,
    kind: JoinKind,
    names: Sequence[str],
    left: tuple[Relation, Scope],
    right: tuple[Relation, Scope],
    reading: QueryContext,
) -> tuple[Relation, Scope]:
    """Return a join by USING or NATURAL: the columns that it equates come first, and once."""
    equal, pairs = list[Equality](), list[tuple[Named, Named]]()
    for name in names:
        pair = [
            [one for one in scope.columns if (one.name or "").lower() == name.lower()]
            for scope in (left[1], right[1])
        ]
        if [len(output) for output in pair] != [1, 1]:
            raise refused(
                join,
                f"needs the column {name!r} once on each side, but finds it {len(pair[0])} and "
                f"{len(pair[1])} times; write a condition with ON",
            )
        mine, other = pair[0][0], pair[1][0]
        pairs.append((mine, other))
        sides = left[0], right[0]
        same = exp.EQ(this=mine.field.tree, expression=other.field.tree)
        equal.append(reading.equality(mine.field.tree, other.field.tree, sides, same))
    relation: Relation = Join(left[0], right[0], kind, tuple(equal))
    reading.origins[relation] = TextOrigin(join)
    gone = [other for _, other in pairs]
    kept = [mine for mine, _ in pairs]
    if kind in {"semi", "anti"}:
        rest = tuple(one for one in left[1].columns if one not in kept)
        return relation, replace(left[1], columns=(*kept, *rest))
    if kind == "right":
        kept, gone = gone, kept
    elif kind == "full":
        relation, kept = _coalesced(relation, pairs, reading)
        gone = [one for pair in pairs for one in pair]
    taken = {one.field for pair in pairs for one in pair}
    others = (one for one in (*left[1].columns, *right[1].columns) if one.field not in taken)
    merged = (*left[1].merged, *right[1].merged, *gone)
    return relation, Scope((*kept, *others), merged)


def _coalesced(
    relation: Relation, pairs: Sequence[tuple[Named, Named]], reading: QueryContext
) -> tuple[Relation, list[Named]]:
    """Add columns that have the value of either side."""
    outputs = [Output.copy(field) for field in relation.fields]
    kept = list[Named]()
    for mine, other in pairs:
        tree = exp.Anonymous(this="coalesce", expressions=[mine.field.tree, other.field.tree])
        scalar = Scalar.of(tree, relation.fields)
        field = reading.field(mine.name, scalar.data_type)
        outputs.append(Output(field, scalar))
        kept += reading.named([Named(None, mine.name, field)])
    return ProjectRelation(relation, tuple(outputs)), kept
