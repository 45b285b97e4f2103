"""The effect of functions on key-locality, and the functions that are refused.

Most functions read one row and are deterministic (`sql.functions`). Of the others, those that
depend on the order of rows are listed here by name.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.queries.relations import Frame, names_of
from deltaproduce.stages.sql.functions import (
    AGGREGATES,
    GENERATORS,
    PHYSICAL,
    VOLATILE,
    is_time,
    names_in,
)
from deltaproduce.stages.sql.syntax import function_name, spelled

ORDER_DEPENDENT: Final = names_in(
    """
    any_value array_agg collect_list collect_set first first_value last last_value listagg
    string_agg
    """
)
"""Aggregates that depend on the order of rows, which SQL does not define."""

ORDERING: Final = names_in("array_max array_min array_size array_sort cardinality size sort_array")
"""Functions of an array that do not depend on the order of its elements."""

TABLE_FUNCTIONS: Final = GENERATORS | {"range"}
"""Table functions whose rows depend on their arguments alone."""


def own(*expressions: exp.Expr | None) -> Iterator[exp.Expr]:
    """Yield the nodes of expressions; of a nested query only its top node."""
    for expression in expressions:
        if expression is not None:
            yield from expression.walk(prune=lambda node: isinstance(node, exp.Query))


def is_aggregate(node: exp.Expr) -> bool:
    """Return whether a node combines rows: an aggregate that is not a window function."""
    return function_name(node) in AGGREGATES and _window(node) is None


def check_functions(
    expressions: Iterable[exp.Expr | None],
    *,
    frame: Frame,
    windows: Mapping[str, exp.Window],
    choosing: bool,
) -> None:
    """Refuse functions whose result the rows of a source key do not determine.

    Args:
        expressions: the expressions to check, without their subqueries.
        frame: the columns that the expressions can name.
        windows: the definitions in the SELECT's WINDOW clause, by lower-case name.
        choosing: whether the expressions decide which rows exist, or a clause that does reads them,
            so that they must be deterministic.

    Raises:
        DefinitionError: a function is refused.
    """
    for node in own(*expressions):
        name = function_name(node) or _column_function(node, frame)
        advice = None
        if name == "identifier":
            advice = "hides what is named; write the name itself"
        elif name in PHYSICAL:
            advice = "depends on how rows are stored; use columns, uuid() or a surrogate key"
        elif (name in VOLATILE or is_time(node)) and (choosing or _is_enclosed(node)):
            advice = (
                "differs from run to run, and may only fill a column of the outermost SELECT "
                "(without DISTINCT); elsewhere take the value from a source"
            )
        elif name in ORDER_DEPENDENT and not _is_ordered(node, windows):
            advice = (
                "depends on the order of rows, and SQL has none; use max_by(…, …) or min_by, "
                "sort_array(collect_list(…)), or a window with ORDER BY"
            )
        if advice:
            raise DefinitionError(f"{spelled(node)!r} {advice}")


def _column_function(node: exp.Expr, frame: Frame) -> str | None:
    """Return the function that a bare name such as ``user`` calls, if it is not a column."""
    if not isinstance(node, exp.Column) or len(node.parts) > 1 or frame.found(names_of(node)):
        return None
    return node.name.lower()


def _is_enclosed(node: exp.Expr) -> bool:
    """Return whether the node is inside a window function or a generator."""
    parent = node.parent
    while parent is not None and not isinstance(parent, exp.Query):
        if isinstance(parent, exp.Window) or function_name(parent) in GENERATORS:
            return True
        parent = parent.parent
    return False


def _is_ordered(node: exp.Expr, windows: Mapping[str, exp.Window]) -> bool:
    if isinstance(node.parent, exp.WithinGroup):
        return True
    window = _window(node)
    if window is not None:
        return bool(windows.get(window.alias.lower(), window).args.get("order"))
    return function_name(_call(node).parent) in ORDERING


def _window(node: exp.Expr) -> exp.Window | None:
    """Return the window of an aggregate, if it has one."""
    call = _call(node)
    window = call.parent
    return window if isinstance(window, exp.Window) and window.this is call else None


def _call(node: exp.Expr) -> exp.Expr:
    """Return the function call with its FILTER, WITHIN GROUP and IGNORE NULLS."""
    extensions = exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup
    while isinstance(node.parent, extensions) and node.parent.this is node:
        node = node.parent
    return node
