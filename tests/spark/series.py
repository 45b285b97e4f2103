"""Many series of changes in one store, each under keys of its own, so that Spark runs few jobs.

To pack a pipeline, a column ``series`` is put before every key. Functions are called as before,
without that column, and their emissions stay in the series. A function over Arrow gets the rows of
one series at a time.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from declaring import aggregate_arguments, event_arguments, index_arguments
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from deltaproduce import Pipeline, Producer, merge
from deltaproduce.stages.aggregates.kind import Aggregate
from deltaproduce.stages.functions.kinds import ByKey, OverTables
from deltaproduce.stages.rekeyed.events.kind import EventsKind, History
from deltaproduce.stages.rekeyed.indexes.kind import Index
from deltaproduce.testing import Change, Delete, Upsert, strategies
from deltaproduce.testing.oracle import record_items
from deltaproduce.types.columns import Columns, row_type
from deltaproduce.types.data_types import IntegerType, StructField, StructType

SERIES = StructField("series", IntegerType())


def drawn(strategy: st.SearchStrategy[Any], count: int, number: int) -> list[Any]:
    """``count`` examples of a strategy, as ``seed(number)`` has them.

    Hypothesis' first example is the simplest one whatever the seed, so it is left out.
    """
    found: list[Any] = []

    @seed(number)
    @settings(
        max_examples=count + 1,
        phases=[Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(example: Any) -> None:
        found.append(example)

    draw()
    return found[1 : count + 1]


def instructed(pipeline: Pipeline, versions: int) -> st.SearchStrategy[list[Any]]:
    """Histories of so many versions: of each a batch, and what the update says of windows."""
    histories = strategies.histories(pipeline, min_versions=versions, max_versions=versions)
    told = st.lists(strategies.window_arguments(pipeline), min_size=versions, max_size=versions)
    return st.tuples(histories, told).map(lambda both: [*zip(*both, strict=True)])


def packed(pipeline: Pipeline) -> Pipeline:
    """The pipeline with a series in every key."""
    result = Pipeline(f"packed {pipeline.name}")
    made: dict[str, Any] = {}
    for stage in pipeline.stages:
        key = StructType([SERIES, *_declared(stage.schema.key)])
        value = StructType(_declared(stage.schema.value))
        if isinstance(stage, Producer):
            inputs = [merge(*(made[feeder.name] for feeder in merged)) for merged in stage.inputs]
            made[stage.name] = _packed(stage, inputs, result, key, value)
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


def _packed(
    stage: Producer, inputs: Sequence[Any], pipeline: Pipeline, key: StructType, value: StructType
) -> Producer:
    declared: dict[str, Any] = {"key": key, "value": value, "name": stage.name}
    match stage.kind:
        case ByKey(function, surrogate, preserve):
            names = stage.feeders[0].schema.key.names
            packed = _in_series(function, names, stage.schema.key)
            kept = {"surrogate": surrogate, "preserve": preserve}
            return pipeline.producer(*inputs, **declared, **kept)(packed)
        case OverTables(function, streaming):
            packed = (_batches_in_series if streaming else _tables_in_series)(function)
            return pipeline.arrow_producer(*inputs, **declared, streaming=streaming)(packed)
        case Aggregate():
            arguments = aggregate_arguments(stage)
            arguments["key"] = ", ".join(filter(None, (SERIES.name, arguments["key"])))
            return pipeline.aggregate(stage.name, *inputs, **arguments)
        case Index():
            arguments = index_arguments(stage)
            arguments["key"] = f"{SERIES.name}, {arguments['key']}"
            return pipeline.index(stage.name, inputs[0].feeders[0], **arguments)
        case EventsKind():
            arguments = event_arguments(stage)
            arguments["key"] = f"{SERIES.name}, {arguments['key']}"
            define = pipeline.history if isinstance(stage.kind, History) else pipeline.latest
            return define(stage.name, inputs[0].feeders[0], **arguments)
    raise TypeError(f"no way to pack a stage of kind {stage.kind!r}")


def _in_series(
    function: Callable[..., Any], names: Sequence[str], key: Columns
) -> Callable[..., Iterator[Any]]:
    row = row_type(names)

    def produce(packed_key: Any, *inputs: Iterator[Any]) -> Iterator[Any]:
        number, *rest = packed_key
        for target, value in function(rest[0] if len(rest) == 1 else row(*rest), *inputs):
            yield (number, *record_items(target, key)), value

    return produce


def _tables_in_series(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    name = SERIES.name

    def produce(table: pa.Table) -> pa.Table:
        found = []
        for number in table.column(name).unique():
            of_series = table.filter(pc.equal(table.column(name), number)).drop_columns([name])
            found.append(numbered(function(of_series), number))
        return pa.concat_tables(found)

    def numbered(made: pa.Table, number: pa.Scalar) -> pa.Table:
        numbers = pa.repeat(number, len(made))
        return made.append_column(name, numbers).append_column(f"_source_{name}", numbers)

    return produce


def _batches_in_series(function: Callable[[Any], Any]) -> Callable[[Any], Iterator[Any]]:
    name = SERIES.name

    def produce(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        first = next(batches)
        number = first.column(name)[0]
        for made in function(b.drop_columns([name]) for b in itertools.chain([first], batches)):
            numbers = pa.repeat(number, len(made))
            yield made.append_column(name, numbers).append_column(f"_source_{name}", numbers)

    return produce
