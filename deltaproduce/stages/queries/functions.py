"""What the functions in a query do that matters to key-locality, and what is refused of it.

Most functions look at one row and give the same each time. The others are listed here by name: what
makes one row of many, what differs from run to run, and what depends on the order of rows.
Functions that are in no list, such as the user's own, are taken for the first kind.

Invariant: every aggregate function of the pinned Spark is in `AGGREGATES`; a test asks Spark.

The lists change with Spark, and not with the rules of the clauses.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.queries.relations import Frame, names_of
from deltaproduce.stages.queries.text import function_name, spelled


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


AGGREGATES: Final = _names(
    """
    any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
    approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg
    bitmap_or_agg bool_and bool_or collect_list collect_set corr count count_if count_min_sketch
    covar_pop covar_samp every first first_value grouping grouping_id histogram_numeric
    hll_sketch_agg hll_union_agg kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float
    kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kurtosis last last_value
    listagg max max_by mean measure median min min_by mode percentile percentile_approx
    percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope
    regr_sxx regr_sxy regr_syy schema_of_variant_agg skewness some std stddev stddev_pop stddev_samp
    string_agg sum theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum
    tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double
    tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer var_pop var_samp
    variance vector_avg vector_sum
    """
)
"""All aggregate functions."""

ORDER_DEPENDENT: Final = _names(
    """
    any_value array_agg collect_list collect_set first first_value last last_value listagg
    string_agg
    """
)
"""Aggregates whose result depends on the order of rows, which SQL does not have."""

ORDERING: Final = _names("array_max array_min array_size array_sort cardinality size sort_array")
"""Functions of an array whose result does not depend on the order of its elements."""

VOLATILE: Final = _names(
    """
    aes_encrypt curdate current_catalog current_database current_date current_path current_schema
    current_time current_timestamp current_timezone current_user localtimestamp now rand randn
    random randstr session_user shuffle uniform user uuid
    """
)
"""Functions of chance, of the time, or of the session: they differ from run to run."""

PHYSICAL: Final = _names(
    """
    input_file_block_length input_file_block_start input_file_name monotonically_increasing_id
    spark_partition_id
    """
)
"""Functions of where a row is stored or computed, which is no property of the row."""

GENERATORS: Final = _names(
    """
    explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer stack
    """
)
"""Functions that make several rows, or several columns, of one row."""

TABLE_FUNCTIONS: Final = GENERATORS | {"range"}
"""Functions in FROM whose rows depend on their arguments alone."""

_TIMES: Final = frozenset({"now", "today", "tomorrow", "yesterday"})


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
        elif (name in VOLATILE or _is_time(node)) and (choosing or _is_enclosed(node)):
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


def _is_time(node: exp.Expr) -> bool:
    """Recognises ``DATE 'today'`` and the like, and what takes the time for a missing argument."""
    if function_name(node) == "unix_timestamp":
        return not node.expressions
    return (
        isinstance(node, exp.Cast)
        and isinstance(node.this, exp.Literal)
        and node.this.name.strip().lower() in _TIMES
    )


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
