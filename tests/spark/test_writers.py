"""Many writers: one of them wins each version, and nothing that another does can be seen."""

import pytest
from comparing import assert_same
from crashing import batch, drawn, frames, orders
from pyspark.sql import SparkSession

from deltaproduce import ConflictError, InvalidArgumentError, Store, failpoints
from deltaproduce.testing import Oracle


def test_a_conflict_names_the_other(spark: SparkSession, location: str) -> None:
    first, second = (Store(spark, location, orders()) for _ in range(2))
    first.update(frames(spark, drawn(0)))
    second.update(frames(spark, batch((9, 9, 9))))
    overtaken = []

    def overtake(when: failpoints.When, name: str, table: str) -> None:
        if (when, name) == ("before", "publish") and not overtaken:
            overtaken.append(table)
            second.update(frames(spark, batch((8, 8, 8))))

    with failpoints.armed(overtake), pytest.raises(ConflictError) as caught:
        first.update(frames(spark, drawn(1)))
    other = second.head.attempt
    assert other is not None
    assert caught.value.attempt == other.id
    assert caught.value.started_at is not None
    assert caught.value.started_at <= second.head.committed_at


def test_a_conflict_is_tried_again_if_wanted(spark: SparkSession, location: str) -> None:
    oracle = Oracle(orders())
    first, second = (Store(spark, location, orders(), on_conflict="retry") for _ in range(2))
    overtaken = []

    def overtake(when: failpoints.When, name: str, table: str) -> None:
        if (when, name) == ("before", "publish") and len(overtaken) < 2:
            overtaken.append(table)
            number = len(overtaken)
            with failpoints.armed(lambda *_: None):  # the other comes to them, too
                second.update(frames(spark, batch((number, number, number))))
            oracle.update(batch((number, number, number)))

    with failpoints.armed(overtake):
        version = first.update(frames(spark, drawn(1)), "first")
    assert version.number == 3
    assert len(overtaken) == 2
    assert oracle.update(drawn(1), "first") == 3
    for number in range(4):
        assert_same(second, oracle, orders(), number)
    with pytest.raises(InvalidArgumentError) as caught:
        first.update({}, on_conflict="wait")  # type: ignore[arg-type]
    assert caught.value.argument == "on_conflict"
