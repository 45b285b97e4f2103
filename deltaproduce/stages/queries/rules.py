"""The rules of what combines rows of one SELECT, or of two: groups, DISTINCT, windows, UNION.

The invariant: what is accepted groups by every source key column, so a group, a set of equal rows
or a window's partition has rows of one source key.
"""

from __future__ import annotations

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.queries.grammar import TWO_STAGES
from deltaproduce.stages.queries.keys import SourceKeyFields, fields_of
from deltaproduce.stages.queries.spelling import Spelling
from deltaproduce.stages.sql.algebra.relations import AggregateRelation, SetOperation
from deltaproduce.stages.sql.algebra.windows import WindowRelation
from deltaproduce.stages.sql.syntax import spelled


def check_window(window: WindowRelation, keys: SourceKeyFields, spelling: Spelling) -> None:
    """Check that a window function sees rows of one source key at a time.

    Raises:
        DefinitionError: it does not partition by every source key column.
    """
    trees = [one.expression.tree for one in window.partition]
    held = frozenset[int]().union(*(keys.holds(fields_of(tree)) for tree in trees))
    for place, holding in enumerate(keys.columns):
        if place not in held:
            raise DefinitionError(
                f"{window.text!r} looks at rows of different source keys; put "
                f"{spelling.name(holding)} into its PARTITION BY, or make two stages: one that is "
                "keyed by what is partitioned by, and one with the window function"
            )


def grouped(
    group: AggregateRelation, keys: SourceKeyFields, spelling: Spelling, select: exp.Expr
) -> SourceKeyFields:
    """Return the keys of groups.

    Args:
        keys: those of the rows.
        select: the SELECT, as the user wrote it.

    Raises:
        DefinitionError: a group combines rows of several source keys.
    """
    if keys.columns and not group.keys:
        having = select.args.get("having")
        what = spelled(having) if having is not None else group.calls[0][1].text
        names = ", ".join(map(spelling.name, keys.columns))
        raise DefinitionError(
            f"{what!r} without GROUP BY makes one row of the rows of all source keys; write GROUP "
            f"BY {names}, {TWO_STAGES}"
        )
    columns, by = [], [(one.field.id, fields_of(one.scalar.expression.tree)) for one in group.keys]
    for place, holding in enumerate(keys.columns):
        held = [(field, fields) for field, fields in by if place in keys.holds(fields)]
        if not held:
            raise DefinitionError(
                f"{spelled(select.args.get('group') or select)!r} can group rows of different "
                f"source keys; group by {spelling.name(holding)} too, {TWO_STAGES}"
            )
        spelling.groups.update((field, fields) for field, fields in held if fields != (field,))
        columns.append((tuple(field for field, _ in held),))
    return SourceKeyFields.of(columns)


def check_distinct(keys: SourceKeyFields, node: exp.Expr) -> None:
    """Check that DISTINCT merges only rows of the same source key.

    Raises:
        DefinitionError: a source key column is not among the columns.
    """
    if not keys.are_held:
        raise DefinitionError(
            f"{spelled(node)!r} can merge equal rows of different source keys; add the source key "
            f"to its columns, or drop DISTINCT, {TWO_STAGES}"
        )


def set_operation(
    relation: SetOperation, left: SourceKeyFields, right: SourceKeyFields, node: exp.Expr
) -> SourceKeyFields:
    """Return the keys of the rows of a set operation: fields that hold them on both sides.

    Args:
        left: the keys of one side.
        right: those of the other one.
        node: the set operation, as the user wrote it.

    Raises:
        DefinitionError: it merges rows of several source keys, or a side has none.
    """
    if bool(left.columns) != bool(right.columns):
        constant = node.args["expression"] if left.columns else node.this
        raise DefinitionError(
            f"{spelled(constant)!r} reads no stage, so its rows belong to no source key; join a "
            "constant table, or make the rows a source"
        )
    if len(left) != len(right):
        raise DefinitionError(
            f"{spelled(node)!r} has sides that do not fit: with {len(left)} and {len(right)} "
            "source key columns"
        )
    both = []
    for keys, side in ((left, relation.left), (right, relation.right)):
        fields = zip(side.fields, relation.own, strict=False)
        both.append(keys.renamed({mine.id: (own.id,) for mine, own in fields}))
    columns = []
    for one, other in zip(both[0].columns, both[1].columns, strict=True):
        theirs = {field for group in other for field in group}
        common = tuple(field for group in one for field in group if field in theirs)
        columns.append((common,) if common else ())
    if not all(columns) and not (relation.kind == "union" and relation.is_all):
        raise DefinitionError(
            f"{spelled(node)!r} can merge equal rows of different source keys; put the source key "
            "at the same place of both sides' columns, or use UNION ALL and make another stage "
            "that removes duplicates"
        )
    return SourceKeyFields.of(columns)
