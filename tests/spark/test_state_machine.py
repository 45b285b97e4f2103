"""A store under random operations is always what the model says: at the head and at any version.

The test of random series packs many histories into one store; here one store and one oracle take
operations in any order, repeated ids, rollbacks, reopening and changes of the way that steps are
done among them, and Hypothesis shrinks what fails.
"""

import os
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from typing import Any

from comparing import as_frames, as_snapshots, assert_changes, assert_same
from forcing import WAYS, Way, forced
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pyspark.sql import SparkSession

from deltaproduce import Store
from deltaproduce.testing import Oracle, Upsert, strategies

EXAMPLES = int(os.environ.get("STATE_MACHINE_EXAMPLES", "2"))
STEPS = int(os.environ.get("STATE_MACHINE_STEPS", "5"))


class StoreMachine(RuleBasedStateMachine):
    spark: SparkSession

    @initialize(data=st.data(), pipeline=strategies.pipelines(max_producers=3))
    def define(self, data: st.DataObject, pipeline: Any) -> None:
        self.directory = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.pipeline = pipeline
        self.way = ExitStack()
        self.reopen(data.draw(st.sampled_from(WAYS)))
        self.oracle = Oracle(pipeline)
        self.pools = {
            source.name: data.draw(
                st.lists(strategies.keys(source.schema.key), min_size=3, max_size=6)
            )
            for source in pipeline.graph().sources
        }

    @rule(data=st.data(), update_id=st.sampled_from([None, None, None, "a", "b"]))
    def update(self, data: st.DataObject, update_id: str | None) -> None:
        source = data.draw(st.sampled_from(self.pipeline.graph().sources))
        current = self._current(source.name)
        changes = data.draw(strategies.changes(source.schema, self.pools[source.name], current))
        batch = {source.name: changes}
        number = self.oracle.update(batch, update_id)
        version = self.store.update(as_frames(self.spark, self.pipeline, batch), update_id)
        assert version.number == number

    @rule(data=st.data(), update_id=st.sampled_from([None, None, None, "a", "b"]))
    def load(self, data: st.DataObject, update_id: str | None) -> None:
        sources = self.pipeline.graph().sources
        rows = {
            source.name: data.draw(
                strategies.snapshots(
                    source.schema, self.pools[source.name], self._current(source.name)
                )
            )
            for source in data.draw(st.lists(st.sampled_from(sources), min_size=1, unique=True))
        }
        number = self.oracle.load(rows, update_id)
        version = self.store.load(as_snapshots(self.spark, self.pipeline, rows), update_id)
        assert version.number == number

    @precondition(lambda self: self.oracle.head > 0)
    @rule()
    def repeat_what_is_stored(self) -> None:
        source = self.pipeline.graph().sources[0]
        rows = [Upsert(k, v) for k, vs in self._current(source.name).items() for v in vs]
        batch = {source.name: rows}
        assert self.store.update(as_frames(self.spark, self.pipeline, batch)) == self.store.head
        assert self.store.load(as_snapshots(self.spark, self.pipeline, batch)) == self.store.head
        assert self.store.head.number == self.oracle.head

    @rule(data=st.data())
    def rollback(self, data: st.DataObject) -> None:
        version = data.draw(st.integers(0, self.oracle.head))
        assert self.store.rollback(version).number == self.oracle.rollback(version)

    @rule(data=st.data(), mode=st.sampled_from(["net", "complete"]))
    def follow(self, data: st.DataObject, mode: str) -> None:
        until = data.draw(st.integers(0, self.oracle.head))
        since = data.draw(st.integers(0, until))
        stage = data.draw(st.sampled_from(self.pipeline.graph().stages))
        assert_changes(self.store, self.oracle, stage.name, since, until, mode)

    @rule(way=st.sampled_from(WAYS))
    def reopen(self, way: Way) -> None:
        self.way.close()
        self.way.enter_context(forced(way))
        self.store = Store(
            self.spark, self.directory.name, self.pipeline, table_type=way.table_type
        )

    @rule(data=st.data())
    def travel(self, data: st.DataObject) -> None:
        version = data.draw(st.integers(0, self.oracle.head))
        assert_same(self.store, self.oracle, self.pipeline, version)

    @invariant()
    def head_is_the_oracles(self) -> None:
        assert self.store.head.number == self.oracle.head
        assert_same(self.store, self.oracle, self.pipeline, self.oracle.head)

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            self.way.close()
            self.directory.cleanup()

    def _current(self, source: str) -> dict[Any, list[Any]]:
        values = defaultdict(list)
        width = len(self.pipeline.graph().stage(source).schema.key)
        for row in self.oracle.content(source):
            values[row[:width]].append(row[width + 1 :])
        return dict(values)


def test_random_operations(spark: SparkSession) -> None:
    run_state_machine_as_test(
        type("Bound", (StoreMachine,), {"spark": spark}),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
