"""What the functions in a query do that matters to key-locality, and what is refused of it.

Most functions look at one row and give the same each time (`sql.functions`). Of the others, those
whose result depends on the order of rows are listed here by name.
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
"""Aggregates whose result depends on the order of rows, which SQL does not have."""

ORDERING: Final = names_in("array_max array_min array_size array_sort cardinality size sort_array")
"""Functions of an array whose result does not depend on the order of its elements."""

TABLE_FUNCTIONS: Final = GENERATORS | {"range"}
"""Functions in FROM whose rows depend on their arguments alone."""


def own(*expressions: exp.Expr | None) -> Iterator[exp.Expr]:
    """Yields the nodes of expressions; of the queries among them nothing but the topmost node."""
    for expression in expressions:
        if expression is not None:
            yield from expression.walk(prune=lambda node: isinstance(node, exp.Query))


def is_aggregate(node: exp.Expr) -> bool:
    """Says whether a node makes one row of many: an aggregate that is no window function."""
    return function_name(node) in AGGREGATES and _window(node) is None


def check_functions(
    expressions: Iterable[exp.Expr | None],
    *,
    frame: Frame,
    windows: Mapping[str, exp.Window],
    choosing: bool,
) -> None:
    """Refuses functions whose result is not determined by the rows of a source key.

    Args:
        expressions: what is checked, without the queries in it.
        frame: the columns that the expressions can name.
        windows: what the SELECT's WINDOW clause defines, by lower-case name.
        choosing: whether the expressions decide which rows there are, or are seen by what does,
            so that nothing in them may differ from run to run.

    Raises:
        DefinitionError: a function is refused there.
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
    """Returns the function that a bare name is if there is no such column, as ``user``."""
    if not isinstance(node, exp.Column) or len(node.parts) > 1 or frame.found(names_of(node)):
        return None
    return node.name.lower()


def _is_enclosed(node: exp.Expr) -> bool:
    """Says whether the node is inside a window function or a generator."""
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
    """Returns the window that an aggregate is computed over, if there is one."""
    call = _call(node)
    window = call.parent
    return window if isinstance(window, exp.Window) and window.this is call else None


def _call(node: exp.Expr) -> exp.Expr:
    """Returns the function call together with FILTER, WITHIN GROUP and IGNORE NULLS."""
    extensions = exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup
    while isinstance(node.parent, extensions) and node.parent.this is node:
        node = node.parent
    return node
