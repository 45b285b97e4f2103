"""Spark's functions, by name, that are more than a function of one row's values.

Functions in no list, such as user functions, are assumed to be deterministic.

The invariant: every aggregate function of the pinned Spark is in `AGGREGATES`; a test asks Spark.
"""

from typing import Final

from sqlglot import exp

from deltaproduce.stages.sql.syntax import function_name


def names_in(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


AGGREGATES: Final = names_in(
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

ORDER_DEPENDENT: Final = names_in(
    """
    any_value array_agg collect_list collect_set first first_value last last_value listagg
    string_agg
    """
)
"""Aggregates that depend on the order of rows, which SQL does not define."""

BY_ORDER: Final = (
    "depends on the order of rows, and SQL has none; use max_by(…, …) or min_by, "
    "sort_array(collect_list(…)), or a window with ORDER BY"
)
"""What is wrong with a function of `ORDER_DEPENDENT`."""

BY_PLACE: Final = ORDER_DEPENDENT | names_in("lag lead nth_value ntile row_number")
"""Window functions that depend on the order of rows that are equal in it."""

ORDERING: Final = names_in("array_max array_min array_size array_sort cardinality size sort_array")
"""Functions of an array that do not depend on the order of its elements."""

VOLATILE: Final = names_in(
    """
    aes_encrypt curdate current_catalog current_database current_date current_path current_schema
    current_time current_timestamp current_timezone current_user localtimestamp now rand randn
    random randstr session_user shuffle uniform user uuid
    """
)
"""Functions of chance, the time, or the session: they differ from run to run."""

PHYSICAL: Final = names_in(
    """
    input_file_block_length input_file_block_start input_file_name monotonically_increasing_id
    spark_partition_id
    """
)
"""Functions of where a row is stored or computed, which is not a property of the row."""

GENERATORS: Final = names_in(
    """
    explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer stack
    """
)
"""Functions that return several rows or columns for one row."""

TABLE_FUNCTIONS: Final = GENERATORS | {"range"}
"""Table functions whose rows depend on their arguments alone."""

_TIMES: Final = frozenset({"now", "today", "tomorrow", "yesterday"})


def is_time(node: exp.Expr) -> bool:
    """Return whether a node reads the time: ``DATE 'today'``, or ``unix_timestamp()``."""
    if function_name(node) == "unix_timestamp":
        return not node.expressions
    return (
        isinstance(node, exp.Cast)
        and isinstance(node.this, exp.Literal)
        and node.this.name.strip().lower() in _TIMES
    )
