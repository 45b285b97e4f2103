"""The calls of a preserve hook over one task's rows, without Spark."""

from datetime import UTC, datetime
from functools import partial

import pyarrow as pa
import pytest

from deltaproduce import Pipeline, Producer, ProducerError
from deltaproduce.stages.functions.preservation import calls
from deltaproduce.testing.oracle.models import settled
from deltaproduce.times.zones import zone_of


def stage_keeping_examples() -> Producer:
    pipeline = Pipeline("kept")
    rows = pipeline.source("rows", key="k bigint", value="v bigint")

    def unless_given(value: int | None, example: int | None) -> int | None:
        return value if example is None else example

    @pipeline.producer(rows, key="name string", value="v bigint", preserve=unless_given)
    def named(k, values):
        yield "a", k

    return named


def stored(rows: list[tuple[str, int | None, int | None, bool]], size: int) -> list[int | None]:
    """The values that are stored of (key, value, example, whether there is one), in batches."""
    names, values, examples, known = zip(*rows, strict=True)
    columns = [
        pa.array(names),
        pa.array(values, pa.int64()),
        pa.array(range(len(rows)), pa.int64()),
        pa.array([0] * len(rows), pa.int64()),
        pa.array(examples, pa.int64()),
        pa.array(known),
    ]
    batch = pa.RecordBatch.from_arrays(columns, names=[str(n) for n in range(len(columns))])
    batches = (batch.slice(offset, size) for offset in range(0, len(rows), size))
    stage = stage_keeping_examples()
    made = calls(stage, partial(settled, stage.kind), UTC)(batches)
    return [value for found in made for value in found.column(1).to_pylist()]


def test_a_null_is_an_example_like_any_other() -> None:
    first_stored = [("a", None, None, False), ("a", 1, None, False), ("a", 2, None, False)]
    had_before = [("b", 3, None, True), ("b", 4, None, True)]
    new = [("c", 5, None, False), ("c", 6, None, False)]
    for size in (1, 2, 7):
        # The function sees None both for no example and for a null one, and tells none apart;
        # a value that follows a null one is not taken for the example of those after it.
        assert stored([*first_stored, *had_before, *new], size) == [None, 1, 2, 3, 4, 5, 5]


@pytest.mark.parametrize("key_type", ["string", "timestamp"])
def test_a_value_without_a_python_object_is_the_error_of_its_key(key_type: str) -> None:
    pipeline = Pipeline("late")
    rows = pipeline.source("rows", key="k bigint", value="v bigint")

    @pipeline.producer(rows, key=f"name {key_type}", value="t timestamp", preserve=lambda v, _: v)
    def named(k, values):
        yield k, datetime(9999, 12, 31, 23, tzinfo=UTC)  # fits, but not on Tokyo's clock

    last = pa.scalar(datetime(9999, 12, 31, 23), pa.timestamp("us", "UTC"))
    first = pa.scalar(datetime(2000, 1, 1), pa.timestamp("us", "UTC"))
    names = {"string": pa.array(["a", "b"]), "timestamp": pa.array([first, last])}
    times = pa.array([first, last])
    columns = [names[key_type], times, *[pa.array([0, 1], pa.int64())] * 2, times]
    columns.append(pa.array([True, True]))
    batch = pa.RecordBatch.from_arrays(columns, names=[str(n) for n in range(len(columns))])
    run = calls(named, partial(settled, named.kind), zone_of("Asia/Tokyo"))
    said = {"string": "key 'b': .* time zone", "timestamp": r"key datetime\.datetime\(9999, "}
    with pytest.raises(ProducerError, match=said[key_type]) as caught:
        list(run(iter([batch])))
    assert caught.value.stage == "named"
    assert caught.value.key == ("b" if key_type == "string" else last.as_py())
