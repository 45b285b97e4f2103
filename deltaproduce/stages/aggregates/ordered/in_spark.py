"""Answers in Spark: a shuffle brings groups together, and its tasks run the kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from deltaproduce.engines.local.arrays import whole_keys
from deltaproduce.engines.spark.columns import by_number, col, cols, order, struct_of, typed
from deltaproduce.engines.spark.data_types import in_spark
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.stages.aggregates.ordered.lookups import MultisetLookup
from deltaproduce.stages.sql.states.functions.multisets import answers, nothing
from deltaproduce.stages.sql.states.functions.ordered import Ordered
from deltaproduce.types.columns import Column

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

_Batches = Iterator[pa.RecordBatch]
_KEY, _ANSWER = "_key_{}", "_found_{}"


def answered(
    rows: DataFrame,
    lookup: MultisetLookup,
    functions: Mapping[str, Ordered],
    columns: Sequence[Column],
) -> DataFrame:
    """Return the groups of a multiset's rows, with the functions' values, lazily.

    Args:
        columns: those of the result: the group's, then one per function.
    """
    results = [c.name for c in columns]
    if all(function.reach == "changes" for function in functions.values()):
        counts = (f.count(f.lit(1)).alias(name) for name in functions)
        return rows.groupBy(*cols(lookup.group)).agg(*counts).toDF(*results)
    group, values, counted = lookup.group, lookup.values, lookup.counted
    read = (*group, *values, counted)
    names, keys = [c.name for c in read], [c.name for c in group]

    def run(batches: _Batches) -> _Batches:
        tables = (pa.Table.from_batches([b]).rename_columns(names) for b in batches)
        for part in whole_keys(tables, keys):
            table = answers(part, group, values, counted.name, functions)
            yield from table.rename_columns(results).to_batches()

    together = rows.select(*cols(read)).repartition(*cols(group))
    in_order = together.sortWithinPartitions(*order(group))
    return by_number(in_order).mapInArrow(run, struct_of(columns))


def with_answers(
    rows: DataFrame, answers: DataFrame, key: Sequence[Column], functions: Mapping[str, Ordered]
) -> DataFrame:
    """Add the values found for the keys of a stage's rows, or `nothing`; lazily.

    Args:
        answers: each key once, then a column per function.
    """
    joined = _beside(rows, answers, key)
    for number, (name, function) in enumerate(functions.items()):
        value, default = f.col(_ANSWER.format(number)), nothing(function)[0].as_py()
        if default is not None:
            of_none = f.array() if isinstance(default, list) else f.lit(default)
            value = f.coalesce(value, of_none.cast(in_spark(function.data_type)))
        joined = joined.withColumn(name, typed(value, Column(name, function.data_type)))
    return joined.drop(*_names_of(answers, key))


def with_count(
    rows: DataFrame, before: DataFrame, moved: DataFrame, key: Sequence[Column], name: str
) -> DataFrame:
    """Add a previous count, plus its change, to rows of a stage; lazily.

    Args:
        before: the stage's previous rows, each key once.
        moved: each key once, then a number.
    """
    total: Expression = f.lit(0)
    for part in (before.select(*cols(key), col(name)), moved):
        rows = _beside(rows, part, key)
        total = total + f.coalesce(f.col(_ANSWER.format(0)), f.lit(0))
        rows = rows.withColumn(name, total).drop(*_names_of(part, key))
        total = col(name)
    return rows


def _beside(rows: DataFrame, answers: DataFrame, key: Sequence[Column]) -> DataFrame:
    """Join rows with what was found for their keys."""
    names = _names_of(answers, key)
    renamed = answers.toDF(*names)
    same = (col(c.name).eqNullSafe(f.col(n)) for c, n in zip(key, names, strict=False))
    return rows.join(renamed, reduce(lambda a, b: a & b, same), "left")


def _names_of(answers: DataFrame, key: Sequence[Column]) -> list[str]:
    keys = [_KEY.format(number) for number in range(len(key))]
    return [*keys, *(_ANSWER.format(number) for number in range(len(answers.columns) - len(key)))]
