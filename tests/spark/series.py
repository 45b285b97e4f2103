"""Many series of changes in one store: each under keys of its own, so that Spark's jobs are few.

A pipeline is packed by putting a column ``series`` before every key. Its functions are called as
before, without that column, and what they emit stays in the series.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from pyspark.sql.types import IntegerType, StructField, StructType

from deltaproduce import Pipeline, Producer
from deltaproduce.rows import row_type
from deltaproduce.schemas import Columns
from deltaproduce.testing import Change, Delete, Upsert
from deltaproduce.testing.oracle import record_items

SERIES = StructField("series", IntegerType())


def drawn(strategy: st.SearchStrategy[Any], count: int, number: int) -> list[Any]:
    """``count`` examples of a strategy, as ``seed(number)`` has them."""
    found: list[Any] = []

    @seed(number)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(example: Any) -> None:
        found.append(example)

    draw()
    return found[:count]


def packed(pipeline: Pipeline) -> Pipeline:
    """The pipeline with a series in every key."""
    result = Pipeline(f"packed {pipeline.name}")
    made: dict[str, Any] = {}
    for stage in pipeline.stages:
        key = StructType([SERIES, *_declared(stage.schema.key)])
        value = StructType(_declared(stage.schema.value))
        if isinstance(stage, Producer):
            feeder = stage.feeders[0]
            declare = result.producer(made[feeder.name], key=key, value=value, name=stage.name)
            made[stage.name] = declare(
                _in_series(stage.function, feeder.schema.key.names, stage.schema.key)
            )
        else:
            made[stage.name] = result.source(stage.name, key=key, value=value)
    return result


def packed_histories(
    histories: Sequence[Sequence[dict[str, list[Change]]]],
) -> list[dict[str, list[Change]]]:
    """The histories' first batches as one batch, their second ones as another, and so on."""
    batches: list[dict[str, list[Change]]] = []
    for steps in zip(*histories, strict=True):
        batch: dict[str, list[Change]] = {}
        for number, step in enumerate(steps):
            for source, changes in step.items():
                batch.setdefault(source, []).extend(_moved(change, number) for change in changes)
        batches.append(batch)
    return batches


def _moved(change: Change, number: int) -> Change:
    key = (number, *change.key)
    return Upsert(key, change.value) if isinstance(change, Upsert) else Delete(key)


def _declared(columns: Columns) -> list[StructField]:
    return [
        StructField(c.name, c.data_type, c.nullable, {"descending": True} if c.descending else {})
        for c in columns
    ]


def _in_series(
    function: Callable[..., Any], names: Sequence[str], key: Columns
) -> Callable[[Any, Iterator[Any]], Iterator[Any]]:
    row = row_type(names)

    def produce(packed_key: Any, values: Iterator[Any]) -> Iterator[Any]:
        number, *rest = packed_key
        for target, value in function(rest[0] if len(rest) == 1 else row(*rest), values):
            yield (number, *record_items(target, key)), value

    return produce
