"""GROUP BY, DISTINCT and window functions: the clauses that combine rows of one SELECT.

The invariant: an accepted clause groups by every source key column, so a group, a set of equal rows
or a window's partition has rows of one source key.

Nothing here recurses; `key_locality` walks from one SELECT to another.
"""

from collections.abc import Iterator, Sequence

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.queries.functions import is_aggregate, own
from deltaproduce.stages.queries.grammar import TOTALS, TWO_STAGES, check_arguments
from deltaproduce.stages.queries.projections import Projection
from deltaproduce.stages.queries.relations import NOTHING, Frame, Relation, names_of, same_name
from deltaproduce.stages.sql.syntax import spelled
from deltaproduce.stages.sql.text import SelectList, end_of, start_of


def grouped(
    select: exp.Select, columns: Sequence[Projection], frame: Frame
) -> tuple[Projection, ...] | None:
    """Return a SELECT's grouping, with its positions and aliases resolved; None without GROUP BY.

    Raises:
        DefinitionError: it combines rows of several source keys.
    """
    group = select.args.get("group")
    if group is None:
        _check_no_aggregate(select, frame)
        return None
    if group.args.get("all"):
        check_arguments(group, {"all"})
        by = [column for column in columns if not _has_aggregate(column)]
    else:
        check_arguments(group, {"expressions"})
        by = [part for node in group.expressions for part in _grouped_by(node, columns, frame)]
    held = NOTHING.union(*(frame.holds(column.fields) for column in by))
    for key in range(len(frame.keys)):
        if key not in held:
            message = (
                f"{spelled(group)!r} can group rows of different source keys; group by "
                f"{frame.key_name(key)} too, {TWO_STAGES}"
            )
            raise DefinitionError(message)
    return tuple(by)


def select_list(
    select: exp.Select, frame: Frame, grouped_by: Sequence[Projection] | None
) -> SelectList:
    """Return where source key columns can be added to a SELECT, and their expressions there."""
    keys = range(len(frame.keys))
    if grouped_by is None:
        return SelectList(start_of(select), tuple(frame.key_sql(key) for key in keys))
    held = [[c.fields for c in grouped_by if key in frame.holds(c.fields)] for key in keys]
    numbers = [node for node in select.args["group"].expressions if _ordinal(node) is not None]
    return SelectList(
        start_of(select),
        tuple(frame.sql(fields[0]) for fields in held),
        tuple((start_of(number), end_of(number)) for number in numbers),
    )


def check_distinct(select: exp.Select, relation: Relation) -> None:
    """Check that DISTINCT merges only rows of the same source key.

    Raises:
        DefinitionError: a source key column is not among the columns.
    """
    distinct = select.args.get("distinct")
    if distinct is None:
        return
    check_arguments(distinct, ())
    if relation.unheld():
        message = (
            f"{spelled(select)!r} can merge equal rows of different source keys; add the source "
            f"key to its columns, or drop DISTINCT, {TWO_STAGES}"
        )
        raise DefinitionError(message)


def check_windows(select: exp.Select, frame: Frame) -> None:
    """Check that window functions see rows of one source key at a time.

    Raises:
        DefinitionError: a window does not partition by every source key column.
    """
    definitions = windows(select)
    for node in own(*select.expressions, select.args.get("having"), select.args.get("qualify")):
        if isinstance(node, exp.Window):
            _check_window(node, definitions.get(node.alias.lower(), node), frame)


def windows(select: exp.Select) -> dict[str, exp.Window]:
    """Return the definitions in a SELECT's WINDOW clause, by lower-case name."""
    definitions: dict[str, exp.Window] = {}
    for window in select.args.get("windows") or ():
        definitions[window.name.lower()] = definitions.get(window.alias.lower(), window)
    return definitions


def _check_window(window: exp.Window, definition: exp.Window, frame: Frame) -> None:
    partition = definition.args.get("partition_by") or []
    held = NOTHING.union(*(frame.holds(frame.fields_of(node)) for node in partition))
    for key in range(len(frame.keys)):
        if key not in held:
            message = (
                f"{spelled(window)!r} looks at rows of different source keys; put "
                f"{frame.key_name(key)} into its PARTITION BY, or make two stages: one that is "
                "keyed by what is partitioned by, and one with the window function"
            )
            raise DefinitionError(message)


def _check_no_aggregate(select: exp.Select, frame: Frame) -> None:
    having, qualify = select.args.get("having"), select.args.get("qualify")
    aggregates = filter(is_aggregate, own(*select.expressions, qualify))
    aggregate = having if having is not None else next(aggregates, None)
    if frame.keys and aggregate is not None:
        keys = ", ".join(frame.key_name(key) for key in range(len(frame.keys)))
        message = (
            f"{spelled(aggregate)!r} without GROUP BY makes one row of the rows of all source "
            f"keys; write GROUP BY {keys}, {TWO_STAGES}"
        )
        raise DefinitionError(message)


def _has_aggregate(column: Projection) -> bool:
    return any(map(is_aggregate, own(column.expression)))


def _grouped_by(
    node: exp.Expr, columns: Sequence[Projection], frame: Frame
) -> Iterator[Projection]:
    """Yield the meanings of a GROUP BY expression: a column of the SELECT, or itself."""
    if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets):
        raise DefinitionError(f"{spelled(node)!r} {TOTALS}")
    ordinal = _ordinal(node)
    names = names_of(node) if isinstance(node, exp.Column) else []
    if ordinal is not None:
        yield from columns[ordinal - 1 : ordinal] if ordinal > 0 else ()
    elif len(names) == 1 and not frame.found(names):
        yield from (column for column in columns if same_name(column.name, names[0]))
    else:
        yield Projection(None, frame.fields_of(node), node)


def _ordinal(node: exp.Expr) -> int | None:
    is_number = isinstance(node, exp.Literal) and node.is_int
    return int(node.name) if is_number else None
