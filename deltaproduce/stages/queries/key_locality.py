"""Key-locality: whether each row of a query comes from one source key, and which fields hold it.

`relation_of` walks a query from the inside out. For every SELECT, subquery, CTE, join and set
operation it determines which columns hold the source key, and refuses whatever would combine rows
of different source keys.

The invariant: over the rows of any set of source keys, an accepted query returns exactly the rows
that it returns over all rows for these source keys. A construct without a rule is refused.

The rules of individual clauses are in `clauses`, `joins` and `from_items`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.queries.clauses import (
    check_distinct,
    check_windows,
    grouped,
    select_list,
    windows,
)
from deltaproduce.stages.queries.from_items import (
    Scope,
    constants,
    exposed,
    renamed,
    table,
    with_lateral_view,
)
from deltaproduce.stages.queries.functions import check_functions, own
from deltaproduce.stages.queries.grammar import check_arguments
from deltaproduce.stages.queries.joins import conjuncts, equal_keys, joined, keyed_anew
from deltaproduce.stages.queries.projections import Projection, projections, star_edits
from deltaproduce.stages.queries.relations import NOTHING, Field, Frame, Output, Relation, names_of
from deltaproduce.stages.sql.syntax import spelled
from deltaproduce.stages.sql.text import Edit, number_of

_SELECT_ARGUMENTS: Final = frozenset(
    {"hint", "distinct", "expressions", "from_", "joins", "laterals", "where"}
    | {"group", "having", "qualify", "windows", "with_"}
)


def relation_of(query: exp.Expr, scope: Scope) -> Relation:
    """Return the relation of a query, with the edits of its text.

    Raises:
        DefinitionError: a row of it can come from rows of several source keys, or no rule is known
            for it.
    """
    match query:
        case exp.Select():
            return select_of(query, scope)[0]
        case exp.SetOperation():
            return _set_operation(query, scope)
        case exp.Subquery():
            check_arguments(query, {"with_", "this"})
            inner, edits = _with_ctes(query, scope)
            relation = relation_of(query.this, inner)
            return replace(relation, edits=edits + relation.edits)
        case exp.Values():
            return constants(query)
    raise DefinitionError(f"{spelled(query)!r} is not supported in a query; write SELECT")


def select_of(select: exp.Select, scope: Scope) -> tuple[Relation, Frame, tuple[Projection, ...]]:
    """Return one SELECT's relation, the frame of its FROM, and its columns; see `relation_of`."""
    check_arguments(select, _SELECT_ARGUMENTS)
    scope, edits = _with_ctes(select, scope)
    frame, from_edits = _from(select, scope)
    columns = projections(select, frame)
    by = grouped(select, columns, frame)
    check_windows(select, frame)
    _check_functions(select, frame, by or (), scope)
    edits += (*from_edits, *star_edits(select, frame), *_subqueries(select, frame, scope))
    outputs = tuple(Output(column.name, frame.holds(column.fields)) for column in columns)
    lists = (select_list(select, frame, by),) if frame.keys else ()
    relation = Relation(outputs, len(frame.keys), lists, edits)
    check_distinct(select, relation)
    return relation, frame, columns


def _check_functions(
    select: exp.Select, frame: Frame, by: Iterable[Projection], scope: Scope
) -> None:
    """Check the functions in all clauses but FROM."""
    choosing = [select.args.get(clause) for clause in ("where", "group", "having", "qualify")]
    choosing += [*(select.args.get("windows") or ()), *(column.expression for column in by)]
    only_fills = scope.outermost and select.args.get("distinct") is None
    for expressions, is_choosing in ((choosing, True), (select.expressions, not only_fills)):
        check_functions(expressions, frame=frame, windows=windows(select), choosing=is_choosing)


def _set_operation(query: exp.SetOperation, scope: Scope) -> Relation:
    check_arguments(query, {"with_", "this", "expression", "distinct"})
    is_union_all = isinstance(query, exp.Union) and not query.args.get("distinct")
    scope, edits = _with_ctes(query, replace(scope, outermost=scope.outermost and is_union_all))
    left, right = relation_of(query.this, scope), relation_of(query.expression, scope)
    _check_sides(query, left, right)
    both = zip(left.outputs, right.outputs, strict=True)
    relation = Relation(
        tuple(Output(mine.name, mine.holds & other.holds) for mine, other in both),
        left.width,
        left.lists + right.lists,
        edits + left.edits + right.edits,
    )
    if relation.unheld() and not is_union_all:
        message = (
            f"{spelled(query)!r} can merge equal rows of different source keys; put the source key "
            "at the same place of both sides' columns, or use UNION ALL and make another stage "
            "that removes duplicates"
        )
        raise DefinitionError(message)
    return relation


def _check_sides(query: exp.SetOperation, left: Relation, right: Relation) -> None:
    if bool(left.width) != bool(right.width):
        constant = query.expression if left.width else query.this
        message = (
            f"{spelled(constant)!r} reads no stage, so its rows belong to no source key; join a "
            "constant table, or make the rows a source"
        )
        raise DefinitionError(message)
    if len(left.outputs) != len(right.outputs) or left.width != right.width:
        message = (
            f"{spelled(query)!r} has sides that do not fit: of {len(left.outputs)} and "
            f"{len(right.outputs)} columns, with {left.width} and {right.width} source key columns"
        )
        raise DefinitionError(message)


def _with_ctes(query: exp.Query, scope: Scope) -> tuple[Scope, tuple[Edit, ...]]:
    """Return the scope inside a query's WITH, and the edits of its CTEs."""
    with_ = query.args.get("with_")
    if with_ is None:
        return scope, ()
    check_arguments(with_, {"expressions"})
    ctes, edits = dict(scope.ctes), list[Edit]()
    for cte in with_.expressions:
        check_arguments(cte, {"this", "alias"})
        if cte.alias.startswith("_"):
            message = f"a CTE is named {cte.alias!r}: names that begin with '_' are reserved"
            raise DefinitionError(message)
        inner = replace(scope, ctes=dict(ctes), outermost=False)
        relation = renamed(exposed(relation_of(cte.this, inner), scope), cte)
        ctes[cte.alias.lower()] = replace(relation, edits=())
        edits += relation.edits
    return replace(scope, ctes=ctes), tuple(edits)


def _from(select: exp.Select, scope: Scope) -> tuple[Frame, tuple[Edit, ...]]:
    """Return the frame of FROM, and its edits."""
    from_ = select.args.get("from_")
    if from_ is None:
        return Frame(), ()
    check_arguments(from_, {"this"})
    frame, edits = _joined(_frame(from_.this, scope), select.args.get("joins"), scope)
    for lateral in select.args.get("laterals") or ():
        _check_in_from([lateral.this], frame, scope)
        frame = with_lateral_view(frame, lateral)
    return frame, edits


def _frame(item: exp.Expr, scope: Scope) -> tuple[Frame, tuple[Edit, ...]]:
    """Return the frame and edits of one table or subquery, with its own joins."""
    return _joined(_item(item, scope), item.args.get("joins"), scope)


def _joined(
    left: tuple[Frame, tuple[Edit, ...]], joins: Iterable[exp.Join] | None, scope: Scope
) -> tuple[Frame, tuple[Edit, ...]]:
    frame, edits = left
    for join in joins or ():
        check_arguments(join, {"this", "side", "kind", "on", "using", "method"})
        right, right_edits = _frame(join.this, scope)
        both = Frame(frame.columns + right.columns, frame.merged + right.merged)
        _check_in_from([join.args.get("on")], both, scope)
        frame = joined(frame, right, join)
        edits += right_edits
    return frame, edits


def _item(item: exp.Expr, scope: Scope) -> tuple[Frame, tuple[Edit, ...]]:
    match item:
        case exp.Subquery(this=exp.Table() | exp.Subquery() as inner) if not item.alias:
            check_arguments(item, {"this", "joins"})
            return _frame(inner, scope)
        case exp.Table():
            _check_in_from([item.this], Frame(), scope)
            relation = table(item, scope)
        case exp.Values():
            _check_in_from(item.expressions, Frame(), scope)
            relation = constants(item)
        case exp.Subquery():
            check_arguments(item, {"this", "alias", "joins"})
            relation = exposed(relation_of(item.this, replace(scope, outermost=False)), scope)
        case _:
            message = (
                f"{spelled(item)!r} is not supported in FROM; use LATERAL VIEW for generators, and "
                "a join for other tables"
            )
            raise DefinitionError(message)
    relation = renamed(relation, item)
    name = item.alias or (item.name if isinstance(item, exp.Table) else "")
    return Frame.of(relation, table=name or None, origin=number_of(item)), relation.edits


def _check_in_from(expressions: Sequence[exp.Expr | None], frame: Frame, scope: Scope) -> None:
    """Check expressions in FROM."""
    check_functions(expressions, frame=frame, windows={}, choosing=True)
    _check_constant(own(*expressions), scope)


def _subqueries(select: exp.Select, frame: Frame, scope: Scope) -> Iterator[Edit]:
    """Check the subqueries in a SELECT's expressions, and yield their edits."""
    inner = replace(scope, outermost=False)
    for node in own(*select.expressions, select.args.get("where"), select.args.get("having")):
        if isinstance(node, exp.Query) and _reads_feeder(node, scope):
            yield from _correlated(node, frame, inner)
        else:
            _check_constant([node], scope)
    others = [select.args.get("group"), select.args.get("qualify")]
    _check_constant(own(*others, *(select.args.get("windows") or ())), scope)


def _check_constant(nodes: Iterable[exp.Expr], scope: Scope) -> None:
    """Check that the subqueries among the nodes read no stage."""
    for node in nodes:
        if isinstance(node, exp.Query):
            if _reads_feeder(node, scope):
                message = f"{spelled(node)!r} reads a stage where only joins can; write a join"
                raise DefinitionError(message)
            relation_of(node, replace(scope, outermost=False))


def _reads_feeder(query: exp.Query, scope: Scope) -> bool:
    """Return whether a subquery may read a stage; a CTE of its own may shadow a stage."""
    reading = {name for name, relation in scope.ctes.items() if relation.width}
    tables = {item.name.lower() for item in query.find_all(exp.Table)}
    return not tables.isdisjoint(reading | scope.stages.keys())


def _correlated(query: exp.Query, outer: Frame, scope: Scope) -> tuple[Edit, ...]:
    """Check that a subquery reads only rows of the outer row's source key, and return its edits.

    Then whatever it computes from these rows belongs to that source key.
    """
    select = query.unnest()
    if not isinstance(select, exp.Select):
        raise DefinitionError(f"{spelled(query)!r} is no plain SELECT; write a join")
    check_arguments(select, _SELECT_ARGUMENTS - {"with_"})
    frame, edits = _from(select, scope)
    links = tuple(_links(select, frame, outer))
    equal = NOTHING.union(*(equal_keys(by, frame, mine, outer, its) for by, mine, its in links))
    if len(equal) < max(len(frame.keys), len(outer.keys)):
        equated = [(its[0], own[0]) for _, own, its in links if len(own) == len(its) == 1]
        equated += _compared(query, select, frame, outer)
        message = f"{spelled(query)!r} can read rows of other source keys; "
        if equal or not equated:
            message += "compare all source key columns in its WHERE with those of the outer query; "
        raise DefinitionError(message + keyed_anew(outer, frame, equated, query))
    _check_functions(select, frame, (), scope)
    return (*edits, *star_edits(select, frame), *_subqueries(select, frame, scope))


_Link: TypeAlias = tuple[exp.Expr, tuple[Field, ...], tuple[Field, ...]]
"""A condition that equates two expressions: it, and the fields of the inner and the outer one."""


def _links(select: exp.Select, frame: Frame, outer: Frame) -> Iterator[_Link]:
    """Yield the conditions that equate expressions of a subquery's rows and of the outer row."""
    where = select.args.get("where")
    for condition in conjuncts(where.this if where is not None else None):
        if isinstance(condition, exp.EQ | exp.NullSafeEQ):
            sides = condition.this, condition.expression
            for inside, outside in (sides, sides[::-1]):
                if not any(frame.found(names_of(name)) for name in outside.find_all(exp.Column)):
                    yield condition, frame.fields_of(inside), outer.fields_of(outside)


def _compared(
    query: exp.Query, select: exp.Select, frame: Frame, outer: Frame
) -> list[tuple[Field, Field]]:
    """Return the outer and the inner column that IN compares, if each is one column."""
    if not isinstance(query.parent, exp.In) or len(select.expressions) != 1:
        return []
    own, its = frame.fields_of(select.expressions[0]), outer.fields_of(query.parent.this)
    return [(its[0], own[0])] if len(own) == len(its) == 1 else []
