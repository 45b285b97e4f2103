"""A user-defined kind of stage holds the laws, and only this file knows of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from comparing import as_frames, assert_lineage, assert_same
from forcing import WAYS, Way, forced
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as f
from selecting import chosen
from series import drawn, packed_histories

from deltaproduce import NotFoundError, Pipeline, Producer, Store
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.columns import cols
from deltaproduce.engines.spark.data_types import in_spark
from deltaproduce.model.kind import Definition
from deltaproduce.stages.inputs import StageInput
from deltaproduce.stages.productions import Production
from deltaproduce.stages.source_keys import ProducerKind
from deltaproduce.testing import Oracle, strategies
from deltaproduce.testing.oracle.models import KeyRows, by_key
from deltaproduce.types.columns import row_schema

VALUE = "n bigint, t string"
SERIES, VERSIONS = 8, 3
SHORT = "runs"
"""The way of the short run, which has two versions there."""


@dataclass(frozen=True, slots=True)
class Distinct(ProducerKind):
    """The distinct values of each key, in their order.

    Attributes:
        least: values of a smaller ``n`` are left out.
    """

    least: int | None = None

    @property
    def word(self) -> str:
        return "distinct"

    @property
    def definition(self) -> Definition:
        return Definition(self.least)

    def emitted(
        self, production: Production, inputs: Sequence[StageInput], keys: Selection | None
    ) -> tuple[Rows, int] | None:
        frames = production.frames(inputs, keys)
        if frames is None:
            return None
        (feeder,) = production.stage.feeders
        key, value = feeder.schema.key, feeder.schema.value
        once = frames[feeder.name].select(*cols(key), *cols(value)).distinct()
        if self.least is not None:
            once = once.where(f.col("n") >= self.least)
        place = f.row_number().over(Window.partitionBy(*cols(key)).orderBy(*cols(value))) - 1
        made = once.select(*cols(key), *cols(value), *cols(key), place)
        columns = production.content
        named = made.toDF(*(column.name for column in columns))
        return production.computed(
            named.select(*(f.col(c.name).cast(in_spark(c.data_type)) for c in columns))
        )


@by_key.register
def _(kind: Distinct) -> Callable[[KeyRows], Iterable[tuple[Any, Any]]]:
    def values(rows: KeyRows) -> Iterator[tuple[Any, Any]]:
        for value in sorted(set(rows.values[0]), key=in_order):
            if kind.least is None or (value.n is not None and value.n >= kind.least):
                yield rows.key, value

    return values


def in_order(value: Any) -> list[tuple[Any, ...]]:
    """What to sort values by to have them in Spark's order; one column is bare."""
    parts = value if isinstance(value, tuple) else (value,)
    texts = (part.encode() if isinstance(part, str) else part for part in parts)
    return [() if part is None else (part,) for part in texts]


def pipeline(key: str, kind: Distinct | None = None) -> Pipeline:
    """Values that many keys share, the distinct ones of each, and what is made of these."""
    found = Pipeline("distinct")
    rows = found.source("rows", key=key, value=VALUE)
    schema = row_schema(key, VALUE, stage="distinct")
    distinct = found.add(Producer("distinct", ((rows,),), schema, kind or Distinct()))
    width = len(schema.key)

    @found.producer(distinct, key=f"{key}, t string", value="n bigint")
    def by_text(key: Any, values: Iterator[Any]) -> Iterator[Any]:
        for value in values:
            yield (*(key if width > 1 else (key,)), value.t), value.n

    texts = row_schema(f"{key}, t string", "n bigint", stage="texts")
    found.add(Producer("texts", ((by_text,),), texts, Distinct()))
    return found


@pytest.mark.parametrize("name", chosen([way.name for way in WAYS], SHORT))
def test_versions_equal_the_oracle(
    spark: SparkSession, location: str, name: str, long_run: bool
) -> None:
    """Versions and lineages; in a long run a rollback, verification, stages that are made anew.

    A rollback restores tables, of whatever kind a stage is.
    """
    way: Way = next(way for way in WAYS if way.name == name)
    single, many = pipeline("k bigint"), pipeline("series int, k bigint")
    exact = strategies.histories(single, min_versions=VERSIONS, max_versions=VERSIONS)
    batches = packed_histories(drawn(exact, SERIES, WAYS.index(way)))
    oracle = Oracle(many)
    with forced(way):
        store = Store(spark, location, many, table_type=way.table_type)
        for batch in batches if long_run else batches[:2]:
            version = store.update(as_frames(spark, many, batch))
            assert version.number == oracle.update(batch)
            assert_same(store, oracle, many, version.number)
        keys = [row[: len(single.stages[0].schema.key) + 1] for row in oracle.content("distinct")]
        if keys:
            key = random.Random(name).choice(keys)
            assert_lineage(store, oracle, many, "distinct", key, oracle.head)
        if long_run:
            assert store.rollback(1).number == oracle.rollback(1)
            assert_same(store, oracle, many, oracle.head)
            assert store.verify(recompute=True) == ()  # updates come to the content
        for stage in ("distinct", "texts") if long_run else ():  # made anew: equal
            figures = store.refresh(stage).stages[stage]
            changes = (figures.changed_keys, figures.rows_added, figures.rows_removed)
            assert (figures.mode, changes) == ("full", (0, 0, 0))


def test_another_definition_of_the_kind_is_noticed(spark: SparkSession, location: str) -> None:
    rows = [{"k": 1, "n": n, "t": "a"} for n in (1, 2, 2, 3)]
    first = Store(spark, location, pipeline("k bigint"))
    assert first.update({"rows": rows}).stages["distinct"].rows == 3
    changed = Store(spark, location, pipeline("k bigint", Distinct(least=2)))
    version = changed.update()
    assert version.stages["distinct"].mode == "full"
    assert version.stages["distinct"].reason == "its definition changed"
    assert version.stages["distinct"].rows == 2
    assert changed.plan() == ()


def test_it_is_no_source_and_no_function(spark: SparkSession, location: str) -> None:
    made = pipeline("k bigint")
    distinct = made.graph().stage("distinct")
    with pytest.raises(TypeError, match="distinct"):
        distinct(1, [])
    with pytest.raises(NotFoundError):
        Store(spark, location, made).forget("distinct", 1)
