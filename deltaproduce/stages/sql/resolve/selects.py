"""SELECT: its clauses, in the order in which SQL computes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp
from typing_extensions import override

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.algebra.provenance import bare
from deltaproduce.stages.sql.algebra.relations import (
    AggregateRelation,
    Distinct,
    Filter,
    ProjectRelation,
    Relation,
    one_row,
)
from deltaproduce.stages.sql.algebra.scalars import Output, Scalar, SortKey, columns_in
from deltaproduce.stages.sql.algebra.windows import WindowRelation
from deltaproduce.stages.sql.expressions.literals import constant_of
from deltaproduce.stages.sql.resolve.building import Building
from deltaproduce.stages.sql.resolve.from_items import from_, joined, with_laterals
from deltaproduce.stages.sql.resolve.groups.grouping import (
    GroupedSelect,
    aggregates,
    grouped,
    is_aggregate,
    read_call,
)
from deltaproduce.stages.sql.resolve.names import Named, Scope
from deltaproduce.stages.sql.resolve.ordering import (
    directions,
    limited,
    ordinal,
    with_sorted,
)
from deltaproduce.stages.sql.resolve.reading import (
    CorrelatedPredicate,
    Ctes,
    QueryContext,
    Selected,
    TextOrigin,
    conjuncts,
    own,
)
from deltaproduce.stages.sql.resolve.windows import Tie
from deltaproduce.stages.sql.syntax import AS_OF
from deltaproduce.stages.sql.text import refused

_KNOWN: Final = frozenset(
    {
        *("expressions", "from_", "joins", "laterals", "where", "group", "having", "distinct"),
        *("order", "limit", "offset", "with_", "qualify", "windows", "hint", "kind"),
    }
)
_SORTS: Final = frozenset({"sort", "cluster", "distribute"})


def select(node: exp.Select, reading: QueryContext, ctes: Ctes, outer: Scope | None) -> Selected:
    """Resolve a SELECT without its WITH.

    Raises:
        DefinitionError: a clause is refused; with `line`.
    """
    _check_clauses(node, reading)
    rows = _from(node, reading, ctes, outer)
    _filter(rows, node.args.get("where"))
    base = rows.relation, tuple(rows.links)
    building, of_groups = _groups(node, rows)
    outputs = _outputs(node, building)
    _choose(node, building, outputs)
    keys = _sort_keys(node, building, outputs)
    selected = _selected(node, building, outputs, keys)
    if isinstance(building, GroupedSelect):
        selected = _with_groups(node, selected, building, outputs)
    if of_groups is not None:
        selected = replace(selected, grouped=_with_keys(of_groups, outputs))
    is_open = building.scope.is_open and any(_star(one) is not None for one in node.expressions)
    selected = replace(selected, rows=base[0], row_links=base[1], is_open=is_open)
    return limited(node, selected, reading)


def _check_clauses(node: exp.Select, reading: QueryContext) -> None:
    for name, value in node.args.items():
        if not value or name in _KNOWN:
            continue
        if name in _SORTS:
            advice = f"has a {name.upper()} BY, which places rows in tasks; drop it"
            reading.leave_to_spark(node, advice)
            continue
        raise refused(node, f"has a clause that is not supported here: {name.strip('_')}")
    if node.args.get("kind") or (
        isinstance(node.args.get("distinct"), exp.Distinct)
        and (node.args["distinct"].args.get("on"))
    ):
        raise refused(node, "is not a SELECT of Spark")


def _from(node: exp.Select, reading: QueryContext, ctes: Ctes, outer: Scope | None) -> Building:
    source = node.args.get("from_")
    rows: tuple[Relation, Scope] = (one_row(), Scope())
    if source is not None:
        rows = from_(source.this, reading, ctes, outer)
        rows = joined(rows, node.args.get("joins") or (), reading, ctes, outer)
        rows = with_laterals(rows, node.args.get("laterals") or (), reading, ctes)
    return Building(reading, rows[0], rows[1].within(outer), ctes, windows=_windows(node))


def _windows(select: exp.Select) -> dict[str, exp.Window]:
    """Return the definitions in a SELECT's WINDOW clause, by lower-case name."""
    windows = dict[str, exp.Window]()
    for one in select.args.get("windows") or ():
        windows[one.name.lower()] = windows.get(one.alias.lower(), one)
    return windows


def _filter(rows: Building, where: exp.Expr | None) -> None:
    """Keep the rows that fulfil the conditions; those that name a query around it are links."""
    for node in conjuncts(None if where is None else where.this):
        if aggregates(node):
            raise refused(node, "has an aggregate, which WHERE cannot have; use HAVING")
        tree = rows.condition(node)
        if not rows.is_own(tree):
            rows.links.append(CorrelatedPredicate(tree, node))
            continue
        condition = rows.reading.condition(tree, rows.relation.fields, node)
        rows.relation = Filter(rows.relation, condition)


def _groups(node: exp.Select, rows: Building) -> tuple[Building, tuple[str, ...] | None]:
    """Return what the SELECT's expressions are over, and the fields of its groups if it groups."""
    having = node.args.get("having")
    choosing = [one.this for one in (having, node.args.get("qualify")) if one is not None]
    over = [*node.expressions, *choosing, *_windows(node).values()]
    over += _sorted_by(node.args.get("order"))
    if node.args.get("group") is None and having is None and not any(map(aggregates, over)):
        return rows, None
    groups = grouped(node, rows, over)
    if groups is None:
        fields = rows.relation.fields
        clause = node.args.get("group") or node
        named = _named_in_group(node, rows)
        rows.relation = rows.reading.in_spark(clause, [rows.relation], fields, named)
        in_spark = _InSpark(
            rows.reading,
            rows.relation,
            rows.scope,
            rows.ctes,
            links=rows.links,
            windows=rows.windows,
        )
        return in_spark, None
    own_keys = tuple(groups.keys.values())[: len(groups.by)]
    return groups, tuple(key.field.id for key in own_keys)


def _named_in_group(node: exp.Select, rows: Building) -> tuple[Scalar, ...]:
    """Return the columns that a GROUP BY names which only Spark computes."""
    group, aliases = node.args.get("group"), {one.alias.lower() for one in node.expressions}
    scalars = list[Scalar]()
    for part in () if group is None else own(group):
        is_alias = part.name.lower() in aliases and rows.scope.find(part) is None
        if isinstance(part, exp.Column) and not is_alias:
            scalars += rows.named_in(part)
    return tuple(scalars)


class _InSpark(Building):
    """The rows of groups that only Spark computes."""

    @override
    def replaced(self, node: exp.Expr) -> exp.Expr | None:
        if is_aggregate(node):
            for part in own(node):
                if isinstance(part, exp.Query):
                    super().replaced(part)
            return self.only_in_spark(node, read_call(node, self).data_type).tree
        return super().replaced(node)

    @override
    def ties(self) -> list[Tie]:
        """None are known."""
        return []


def _outputs(node: exp.Select, building: Building) -> list[tuple[Named, Output]]:
    """Return the columns of a SELECT; one may name those before it."""
    outputs = list[tuple[Named, Output]]()
    for item in node.expressions:
        star = _star(item)
        if star is not None:
            outputs += _starred(item, star, building)
            continue
        if isinstance(item, exp.Aliases):
            outputs += _generated(item, building)
            continue
        bare = item.unalias()
        tree = building.expression(bare)
        name = None if _is_constant_in_parentheses(bare, tree) else _name(item)
        output = _output(tree, bare, name, building)
        outputs.append((Named(None, name, output.field), output))
        if isinstance(item, exp.Alias):
            building.aliases = {**building.aliases, item.alias.lower(): exp.Paren(this=tree)}
    return outputs


def _is_constant_in_parentheses(node: exp.Expr, tree: exp.Expr) -> bool:
    """Return whether a name means a constant, and the text has no place to keep the name."""
    return isinstance(node, exp.Paren) and constant_of(tree.unnest()) is not None


def _output(tree: exp.Expr, node: exp.Expr, name: str | None, building: Building) -> Output:
    scalar = building.reading.typed(tree, building.relation.fields, node)
    return Output(building.reading.field(name, scalar.data_type), scalar)


def _generated(item: exp.Aliases, building: Building) -> Iterator[tuple[Named, Output]]:
    """Yield the columns of a generator with several names."""
    names = [one.name for one in item.expressions]
    for name, field in zip(names, building.generated(item.this, names), strict=True):
        output = _output(field.tree, item, name, building)
        yield Named(None, name, output.field), output


def _name(item: exp.Expr) -> str | None:
    match item:
        case exp.Alias():
            return item.alias
        case exp.Paren():
            return _name(item.this)
        case exp.Column():
            return None if item.name == AS_OF else item.name
        case exp.Dot(expression=exp.Identifier() as part):
            return part.name
    return None


def _star(item: exp.Expr) -> exp.Expr | None:
    if isinstance(item, exp.Star):
        return item
    return item.this if isinstance(item, exp.Column) and isinstance(item.this, exp.Star) else None


def _starred(item: exp.Expr, star: exp.Expr, building: Building) -> Iterator[tuple[Named, Output]]:
    """Yield the columns of ``*`` or ``table.*``, perhaps without some."""
    if any(v for name, v in star.args.items() if name != "except_"):
        raise refused(item, "is not supported; name the columns")
    if isinstance(item, exp.Column):
        named: Sequence[Named] = building.scope.of_table(item.table)
        if not named and not building.scope.is_open:
            raise refused(item, f"has no table {item.table!r} in FROM; name the columns")
    else:
        named = building.scope.columns
    left_out = list(star.args.get("except_") or ())
    for part in left_out:
        if not building.scope.is_open and not any(_is_meant(part, one) for one in named):
            raise refused(item, f"leaves out {part.name.lower()!r}, which is not a column here")
    for one in named:
        if any(_is_meant(part, one) for part in left_out):
            continue
        tree = one.field.tree
        if isinstance(building, GroupedSelect):
            tree = building.column(_named(one))
        output = _output(tree, tree, one.name, building)
        yield Named(None, one.name, output.field), output


def _is_meant(part: exp.Expr, one: Named) -> bool:
    """Return whether an item of EXCEPT names a column."""
    table = part.table.lower() if isinstance(part, exp.Column) else ""
    return (one.name or "").lower() == part.name.lower() and table in {
        "",
        (one.table or "").lower(),
    }


def _named(one: Named) -> exp.Column:
    """Return a column of FROM as a user would name it."""
    table = None if one.table is None else exp.to_identifier(one.table)
    return exp.Column(this=exp.to_identifier(one.name or ""), table=table)


def _choose(node: exp.Select, building: Building, outputs: Sequence[tuple[Named, Output]]) -> None:
    """Keep what fulfils HAVING, before window functions look at it, and then QUALIFY."""
    over = replace(building, aliases=_as_aliases(outputs))
    has_windows = any(isinstance(part, exp.Window) for one in node.expressions for part in own(one))
    for clause in (node.args.get("having"), node.args.get("qualify")):
        is_last = has_windows and isinstance(clause, exp.Qualify)  # over what the SELECT returns
        over = replace(over, clause=clause, prefers_aliases=is_last)
        for one in conjuncts(None if clause is None else clause.this):
            tree = over.condition(one)
            condition = building.reading.condition(tree, over.relation.fields, one)
            is_before = isinstance(clause, exp.Having)
            over.relation = _filtered(over.relation, condition, before_windows=is_before)
    building.relation = over.relation


def _filtered(relation: Relation, condition: Scalar, *, before_windows: bool) -> Relation:
    if before_windows and isinstance(relation, WindowRelation):
        own = {field.id for field in relation.input.fields}
        if own >= {*condition.fields}:
            inner = _filtered(relation.input, condition, before_windows=True)
            return replace(relation, input=inner)
    return Filter(relation, condition)


def _as_aliases(outputs: Sequence[tuple[Named, Output]]) -> dict[str, exp.Expr]:
    return {
        named.name.lower(): exp.Paren(this=output.scalar.expression.tree)
        for named, output in outputs
        if named.name is not None
    }


def _sorted_by(order: exp.Expr | None) -> list[exp.Expr]:
    return [] if order is None else [one.this for one in order.expressions]


def _sort_keys(
    node: exp.Select, building: Building, outputs: list[tuple[Named, Output]]
) -> list[tuple[SortKey, Output | None]]:
    """Return what ORDER BY sorts by; with an output for what is no column.

    Raises:
        DefinitionError: DISTINCT lacks it.
    """
    sort_keys = list[tuple[SortKey, Output | None]]()
    over = replace(building, aliases=_as_aliases(outputs), prefers_aliases=True)
    order, is_distinct = node.args.get("order"), bool(node.args.get("distinct"))
    for name in _SORTS:
        for one in node.args[name].expressions if node.args.get(name) else ():
            over.expression(one.this if isinstance(one, exp.Ordered) else one)
    for one in () if order is None else order.expressions:
        place = ordinal(one.this, len(outputs))
        if place is not None:
            sort_keys.append((directions(one, outputs[place][1].field), None))
            continue
        tree = over.expression(one.this)
        text = tree.unnest().sql("spark")
        same = [o for _, o in outputs if o.scalar.expression.tree.unnest().sql("spark") == text]
        if same:
            sort_keys.append((directions(one, same[0].field), None))
            continue
        if is_distinct:
            output = _over_columns(one, outputs, building)
            sort_keys.append((directions(one, output.field), output))
            continue
        building.relation = over.relation
        output = _output(tree, one.this, "order", building)
        sort_keys.append((directions(one, output.field), output))
    return sort_keys


def _over_columns(
    one: exp.Expr, outputs: Sequence[tuple[Named, Output]], building: Building
) -> Output:
    """Return an expression of ORDER BY over the columns of the result."""
    columns = tuple(named for named, _ in outputs)
    result = Building(building.reading, building.relation, Scope(columns), {})
    try:
        tree = result.expression(one.this)
    except DefinitionError:
        advice = "sorts by what is not a column of the result; add it to the columns"
        raise refused(one, advice) from None
    fields = [named.field for named in columns]
    scalar = building.reading.typed(tree, fields, one.this)
    return Output(building.reading.field("order", scalar.data_type), scalar)


def _selected(
    node: exp.Select,
    building: Building,
    outputs: Sequence[tuple[Named, Output]],
    keys: Sequence[tuple[SortKey, Output | None]],
) -> Selected:
    """Return the columns, and beside them what links and sorting need."""
    reading, relation = building.reading, building.relation
    needed = {c.name for link in building.links for c in columns_in(link.tree)}
    beside = [Output.copy(field) for field in relation.fields if field.id in needed]
    added = [output for _, output in keys if output is not None]
    last = added if node.args.get("distinct") else []
    now = [one for one in added if one not in last]
    if outputs:
        relation = ProjectRelation(relation, (*(o for _, o in outputs), *now, *beside))
    else:  # of ``*`` over columns that only Spark knows
        relation = reading.in_spark(node, [relation], relation.fields)
    reading.origins[relation] = TextOrigin(node, building.scope)
    if node.args.get("distinct"):
        if beside:
            relation = reading.in_spark(node, [relation], relation.fields)
        else:
            relation = Distinct(relation)
            reading.origins[relation] = TextOrigin(node)
    if last:
        relation = with_sorted(relation, last)
    columns = tuple(named for named, _ in outputs)
    return Selected(
        relation, columns, links=tuple(building.links), order=tuple(key for key, _ in keys)
    )


def _with_keys(
    keys: Sequence[str], outputs: Sequence[tuple[Named, Output]]
) -> tuple[str, ...] | None:
    """Return the columns that have the keys of groups; None if a key has no column."""
    names = {bare(output): named.name for named, output in reversed(outputs)}
    of_keys = [names.get(key) for key in keys]
    return None if None in of_keys else tuple(name for name in of_keys if name is not None)


def _with_groups(
    node: exp.Select,
    selected: Selected,
    building: GroupedSelect,
    outputs: Sequence[tuple[Named, Output]],
) -> Selected:
    """Add the row that a linked aggregate without GROUP BY has where no row fulfils its links."""
    if not building.links or building.by:
        return selected
    selected = replace(selected, by_links=selected.relation)
    aggregate = building.relation
    (_, output), *others = outputs
    if isinstance(aggregate, AggregateRelation) and not others:
        nothing = Filter(aggregate.input, Scalar.of(exp.false(), ()))
        row = AggregateRelation(nothing, (), aggregate.calls)
        if {*output.scalar.fields} <= {field.id for field in row.fields}:
            return replace(selected, otherwise=ProjectRelation(row, (output,)))
    relation = building.reading.in_spark(node, [selected.relation], selected.relation.fields)
    return replace(selected, relation=relation)


def check_columns(columns: Sequence[Named], node: exp.Expr) -> None:
    """Refuse columns without a name, or with one that is there twice.

    Raises:
        DefinitionError: with `line` or `column`.
    """
    names = set[str]()
    for place, one in enumerate(columns, start=1):
        if one.name is None:
            raise refused(node, f"has a column {place} without a name; write … AS name")
        if one.name.lower() in names:
            raise DefinitionError(
                f"there are two columns {one.name!r} (case does not count); rename one with AS, or "
                "name the columns in place of '*'",
                column=one.name,
            )
        names.add(one.name.lower())
