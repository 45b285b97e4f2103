"""The rules of joins and subqueries: they bring rows of one source key together.

If both sides read feeders, their source keys must be equal; if one side has constants, a join may
not keep its rows without a partner, since they would belong to no key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.queries.keys import (
    NOTHING,
    SourceKeyFields,
    equal_keys,
    equated,
    fields_of,
)
from deltaproduce.stages.queries.spelling import Spelling
from deltaproduce.stages.sql.algebra.provenance import copied
from deltaproduce.stages.sql.algebra.relations import (
    Join,
    JoinKind,
    Linked,
    Matched,
    ProjectRelation,
    Relation,
    Single,
)
from deltaproduce.stages.sql.algebra.spark_only import ValueInSpark
from deltaproduce.stages.sql.syntax import spelled

_LEFT_ONLY: tuple[JoinKind, ...] = ("left", "semi", "anti")
"""The kinds that return rows of the left side, and no unmatched rows of the right side."""


def check_join(
    join: Join, left: SourceKeyFields, right: SourceKeyFields, spelling: Spelling, node: exp.Expr
) -> None:
    """Check that each row of a join comes from rows of one source key.

    Args:
        node: the join, as the user wrote it.

    Raises:
        DefinitionError: it could come from several, or from none.
    """
    if left.columns and right.columns:
        _check_keys_are_equal(join, left, right, spelling, node)
    elif left.columns or right.columns:
        _check_constant_side(left, join.kind, node)


def check_linked(
    relation: Matched | Single | ValueInSpark,
    linked: Linked,
    outer: SourceKeyFields,
    inner: SourceKeyFields,
    spelling: Spelling,
    node: exp.Expr,
) -> None:
    """Check that a subquery reads only rows of the source key of the row around it.

    Then whatever it computes from these rows belongs to that source key.

    Args:
        relation: the rows around it, with the value of the subquery.
        outer: the source keys of these.
        inner: those of the rows that the subquery reads.
        node: the expression with the subquery, as the user wrote it.

    Raises:
        DefinitionError: it can read others.
    """
    query = node if isinstance(node, exp.Query) else node.args.get("query") or node.this
    with_ = query.args.get("with_") or query.unnest().args.get("with_")
    if with_ is not None:
        message = f"{spelled(with_)!r} is not supported in a query that is computed key by key"
        raise DefinitionError(message)
    equal, pairs = NOTHING, list[tuple[str, str]]()
    for condition in linked.conditions:
        tree = condition.expression.tree
        for mine, its in equated(tree):
            equal |= equal_keys(tree, inner, mine, outer, its)
            pairs += _across(its, mine, relation.input, linked.rows)
    if len(equal) >= max(len(inner), len(outer)):
        return
    pairs += _compared(relation)
    message = f"{spelled(query)!r} can read rows of other source keys; "
    if equal or not pairs:
        message += "compare all source key columns in its WHERE with those of the outer query; "
    sides = (relation.input, outer), (linked.rows, inner)
    raise DefinitionError(message + _keying_advice(*sides, pairs, spelling))


def _check_keys_are_equal(
    join: Join, left: SourceKeyFields, right: SourceKeyFields, spelling: Spelling, node: exp.Expr
) -> None:
    if len(left) != len(right):
        raise DefinitionError(
            f"{spelled(node)!r} joins feeders with {len(left)} and {len(right)} key columns; all "
            "feeders of a stage have the same key types"
        )
    equal, pairs = NOTHING, list[tuple[str, str]]()
    for scalar in join.scalars:
        for mine, its in equated(scalar.expression.tree):
            equal |= equal_keys(scalar.expression.tree, left, mine, right, its)
            pairs += _across(mine, its, join.left, join.right)
    for column in range(len(left)):
        if column not in equal:
            names = [spelling.name(side.columns[column]) for side in (left, right)]
            message = f"{spelled(node)!r} can put rows of different source keys together; "
            if equal or not pairs:
                message += f"add to its ON, with AND: {' = '.join(names)}; "
            raise DefinitionError(
                message + _keying_advice((join.left, left), (join.right, right), pairs, spelling)
            )


def _check_constant_side(left: SourceKeyFields, kind: JoinKind, node: exp.Expr) -> None:
    allowed: tuple[JoinKind, ...] = _LEFT_ONLY if left.columns else ("right",)
    if kind not in {"inner", *allowed}:
        side = "right" if left.columns else "left"
        raise DefinitionError(
            f"{spelled(node)!r} returns rows of the constant table on its {side} for which no "
            "feeder has rows, so they belong to no source key; put the feeder on the side whose "
            "rows are kept"
        )


def _across(
    one: Sequence[str], two: Sequence[str], left: Relation, right: Relation
) -> Iterator[tuple[str, str]]:
    """Yield a pair of single fields that belong to the two sides, the left one first."""
    if len(one) == len(two) == 1 and one[0] in _ids(left) and two[0] in _ids(right):
        yield one[0], two[0]


def _compared(relation: Relation) -> Iterator[tuple[str, str]]:
    """Yield the fields that IN compares, if each is one field."""
    if not isinstance(relation, Matched) or not isinstance(relation.subquery, ProjectRelation):
        return
    own = {one.field.id: fields_of(one.scalar.expression.tree) for one in relation.subquery.outputs}
    for one in relation.among:
        its = own[one.right[0]] if len(one.right) == 1 else ()
        if len(one.left) == len(its) == 1:
            yield one.left[0], its[0]


def _keying_advice(
    left: tuple[Relation, SourceKeyFields],
    right: tuple[Relation, SourceKeyFields],
    pairs: Sequence[tuple[str, str]],
    spelling: Spelling,
) -> str:
    """Return what to write to bring rows together by other columns than their source keys.

    Args:
        pairs: the fields that are equal for rows that come together.
    """
    if not pairs:
        return "to bring rows together by other columns, make a stage of each that is keyed by them"
    wanted = dict[str, str]()
    for (relation, keys), fields in ((left, [a for a, _ in pairs]), (right, [b for _, b in pairs])):
        held = NOTHING.union(*(keys.holds_or_null([field]) for field in fields))
        if len(held) == len(keys) == len(fields):
            continue
        named = spelling.names.get(fields[0])
        stage, columns = (named.table if named else None) or "that", [*map(_name, fields)]
        origins = copied(relation)
        if all(one in origins for one in fields):
            stage, columns = origins[fields[0]][0].feeder, [origins[one][1] for one in fields]
        wanted.setdefault(stage, ", ".join(dict.fromkeys(columns)))
    if not wanted:
        return "write it as EXISTS (SELECT 1 FROM … WHERE …), with their source keys equal there"
    stages = " and ".join(f"one of {table} with the key {key}" for table, key in wanted.items())
    return (
        "its rows come together by other columns: make a stage that is keyed by them, "
        f"{stages}, as SELECT * FROM {next(iter(wanted))}, and read that here instead"
    )


def _ids(relation: Relation) -> set[str]:
    return {field.id for field in relation.fields}


def _name(field: str) -> str:
    return field.rpartition("#")[0]
