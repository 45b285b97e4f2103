"""The operators of the algebra as DataFrames.

The invariant: the rows are those that the operators on
the driver return (`operators.evaluation`), but for the last digits of sums of floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import and_, or_
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from deltaproduce.engines.spark.columns import col
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.stages.sql.algebra.expanding import TIMES, Expand, Generate
from deltaproduce.stages.sql.algebra.relations import (
    AggregateRelation,
    Distinct,
    Filter,
    Join,
    Limit,
    Matched,
    ProjectRelation,
    Relation,
    Scan,
    SetOperation,
    Single,
    Values,
)
from deltaproduce.stages.sql.algebra.scalars import Equality, Field, Scalar, SortKey
from deltaproduce.stages.sql.algebra.windows import WindowRelation, is_ordered
from deltaproduce.stages.sql.operators_in_spark.texts import called, has_text, is_called, windowed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_MARK: Final = "#mark"
"""A column that tells a row of a subquery from none."""
_WAYS: Final = MappingProxyType({"semi": "left_semi", "anti": "left_anti"})


def frame_of(relation: Relation, rows: Mapping[str, DataFrame], spark: SparkSession) -> DataFrame:
    """Return the rows of a relation, lazily, in columns named by its fields.

    Args:
        rows: the rows of the stages that it scans, by name.
    """
    frames: dict[int, DataFrame] = {}
    for one in relation.walk():
        if isinstance(one, Scan):
            pairs = zip(one.columns, one.fields, strict=True)
            columns = [col(column).alias(field.id) for column, field in pairs]
            frames[id(one)] = rows[one.feeder].select(*columns)
        elif isinstance(one, Values):
            frames[id(one)] = _values(one, spark)
        else:
            inputs = [frames[id(given)] for given in one.inputs]
            frames[id(one)] = _FRAMES[type(one)](one, *inputs)
    return frames[id(relation)]


def has_frame(relation: Relation) -> bool:
    """Return whether `frame_of` knows all operators of a relation, and Spark their functions."""
    return all(map(_has_frame, relation.walk()))


def in_order(rows: DataFrame, order: Sequence[SortKey], ties: Sequence[Field]) -> DataFrame:
    """Return rows as an ORDER BY sorts them; as they are if it names nothing.

    Args:
        ties: the fields that order those which are equal in it, nulls first, if Spark orders them.
    """
    return rows.orderBy(*_total(order, ties)) if order else rows


def _total(order: Sequence[SortKey], ties: Sequence[Field]) -> list[Column]:
    ordered = (one for one in ties if one.data_type is None or is_ordered(one.data_type))
    more = (SortKey(field, descending=False, nulls_first=True) for field in ordered)
    return [*map(_sorted_by, (*order, *more))]


def _has_frame(one: Relation) -> bool:
    match one:
        case Scan() | Values():
            return True
        case AggregateRelation():
            return all(is_called(call) for _, call in one.calls)
        case WindowRelation():
            return all(has_text(call) for _, call in one.calls)
    return type(one) in _FRAMES


def _values(constants: Values, spark: SparkSession) -> DataFrame:
    one = spark.range(1)
    rows = [
        one.select(
            *(
                _computed(scalar).cast(_known(field)).alias(field.id)
                for field, scalar in zip(constants.fields, row, strict=True)
            )
        )
        for row in constants.rows
    ]
    return reduce(lambda one, other: one.unionAll(other), rows)


def _project(project: ProjectRelation, rows: DataFrame) -> DataFrame:
    return rows.select(*(_computed(one.scalar).alias(one.field.id) for one in project.outputs))


def _filter(filter_: Filter, rows: DataFrame) -> DataFrame:
    return rows.where(_computed(filter_.condition))


def _join(join: Join, left: DataFrame, right: DataFrame) -> DataFrame:
    how = _WAYS.get(join.kind, join.kind)
    return left.join(right, _all(join.equal, join.rest), how)


def _matched(matched: Matched, rows: DataFrame, subquery: DataFrame) -> DataFrame:
    """Return the rows that have one, those for which a null is compared, and the others."""
    name = matched.flag.id
    condition = _all((*matched.equal, *matched.among), matched.rest)
    parts = [rows.join(subquery, condition, "left_semi").withColumn(name, f.lit(True))]
    others = rows.join(subquery, condition, "left_anti")
    for among in matched.among:
        null = reduce(or_, (side.isNull() for side in _sides(among)))
        unknown = _all(matched.equal, matched.rest) & null
        nothing = f.lit(None).cast("boolean")
        parts.append(others.join(subquery, unknown, "left_semi").withColumn(name, nothing))
        others = others.join(subquery, unknown, "left_anti")
    parts.append(others.withColumn(name, f.lit(False)))
    return reduce(lambda one, other: one.unionAll(other), parts)


def _single(
    single: Single, rows: DataFrame, subquery: DataFrame, otherwise: DataFrame | None = None
) -> DataFrame:
    marked = subquery.withColumn(_MARK, f.lit(True))
    joined = rows.join(marked, _all(single.equal, ()), "left")
    taken = col(single.taken.id)
    if otherwise is not None:
        other = f"{_MARK}_other"
        joined = joined.join(otherwise.toDF(other), f.lit(True), "left")
        taken = f.when(col(_MARK), taken).otherwise(col(other))
    own = [col(field.id) for field in single.input.fields]
    return joined.select(*own, taken.alias(single.taken.id))


def _aggregate(aggregate: AggregateRelation, rows: DataFrame) -> DataFrame:
    keys = [_computed(key.scalar).alias(key.field.id) for key in aggregate.keys]
    if not aggregate.calls:
        return rows.select(*keys).distinct()
    calls = [f.expr(called(call)).alias(field.id) for field, call in aggregate.calls]
    return rows.groupBy(*keys).agg(*calls)


def _distinct(distinct: Distinct, rows: DataFrame) -> DataFrame:
    del distinct
    return rows.distinct()


def _set_operation(operation: SetOperation, left: DataFrame, right: DataFrame) -> DataFrame:
    names = [field.id for field in operation.fields]
    left, right = left.toDF(*names), right.toDF(*names)
    match operation.kind, operation.is_all:
        case "union", is_all:
            both = left.unionAll(right)
            return both if is_all else both.distinct()
        case "intersect", is_all:
            return left.intersectAll(right) if is_all else left.intersect(right)
    return left.exceptAll(right) if operation.is_all else left.subtract(right)


def _limit(limit: Limit, rows: DataFrame) -> DataFrame:
    if limit.partition:
        return _limited_in_each(limit, rows)
    limited = in_order(rows, limit.order, limit.fields).offset(limit.offset)
    return limited if limit.count is None else limited.limit(limit.count)


def _limited_in_each(limit: Limit, rows: DataFrame) -> DataFrame:
    """Return the first rows of each partition."""
    from pyspark.sql import Window

    window = Window.partitionBy(*(col(field.id) for field in limit.partition))
    number = f.row_number().over(window.orderBy(*_total(limit.order, limit.fields)))
    numbered = rows.withColumn(_MARK, number).where(col(_MARK) > limit.offset)
    limited = numbered if limit.count is None else numbered.where(col(_MARK) <= limit.end)
    return limited.drop(_MARK)


def _window(window: WindowRelation, rows: DataFrame) -> DataFrame:
    calls = (f.expr(windowed(window, call)).alias(field.id) for field, call in window.calls)
    return rows.select(*_own(window.input), *calls)


def _expand(expand: Expand, rows: DataFrame) -> DataFrame:
    parts = []
    for scalars in expand.lists:
        pairs = zip(expand.own, scalars, strict=True)
        added = [_computed(one).cast(_known(field)).alias(field.id) for field, one in pairs]
        parts.append(rows.select(*_own(expand.input), *added))
    return reduce(lambda one, other: one.unionAll(other), parts)


def _generate(generate: Generate, rows: DataFrame) -> DataFrame:
    argument, own = generate.arguments[0].expression.text, _own(generate.input)
    if generate.function == TIMES:
        every = f.expr(f"explode(array_repeat(0, CAST({argument} AS int)))")
        return rows.select(*own, every.alias(_MARK)).drop(_MARK)
    outer = "_outer" if generate.is_outer else ""
    added = f.expr(f"{generate.function}{outer}({argument})")
    return rows.select(*own, added.alias(*(field.id for field in generate.own)))


def _own(relation: Relation) -> list[Column]:
    return [col(field.id) for field in relation.fields]


def _sorted_by(key: SortKey) -> Column:
    column = col(key.field.id)
    if key.descending:
        return column.desc_nulls_first() if key.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if key.nulls_first else column.asc_nulls_last()


def _computed(scalar: Scalar) -> Column:
    return f.expr(scalar.expression.text)


def _all(equal: Iterable[Equality], rest: Iterable[Scalar]) -> Column:
    """Return that all conditions hold."""
    conditions = [_computed(one) for one in (*(one.scalar for one in equal), *rest)]
    return reduce(and_, conditions, f.lit(True))


def _sides(equal: Equality) -> tuple[Column, Column]:
    tree = equal.scalar.expression.tree
    return f.expr(tree.this.sql("spark")), f.expr(tree.expression.sql("spark"))


def _known(field: Field) -> str:
    assert field.data_type is not None
    return field.data_type.simpleString()


_FRAMES: Final[Mapping[type[Relation], Callable[..., DataFrame]]] = MappingProxyType(
    {
        ProjectRelation: _project,
        Filter: _filter,
        Join: _join,
        Matched: _matched,
        Single: _single,
        AggregateRelation: _aggregate,
        Distinct: _distinct,
        SetOperation: _set_operation,
        Limit: _limit,
        WindowRelation: _window,
        Expand: _expand,
        Generate: _generate,
    }
)
"""What returns the rows of an operator, from it and those of its inputs."""
