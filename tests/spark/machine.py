"""A machine that does random operations with a store and with its model, and compares them.

The test of random series packs many histories into one store. Here one store and one oracle take
operations in any order: repeated ids, rollbacks, crashes, reopening, edited functions and new ways
to do steps. Hypothesis shrinks failures.
"""

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any

import pytest
from comparing import (
    as_frames,
    as_snapshots,
    assert_changes,
    assert_lineage,
    assert_same,
    read_by_delta_rs,
)
from crashing import CrashAt, CrashError, fail
from declaring import aggregate_arguments, event_arguments, index_arguments
from forcing import Way, forced
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
from local_stores import assert_same_here
from pyspark.sql import SparkSession

from deltaproduce import (
    MissingPartitionsError,
    Pipeline,
    Producer,
    Source,
    Store,
    Version,
    merge,
)
from deltaproduce.stages.aggregates.kind import Aggregate
from deltaproduce.stages.functions.kinds import ByKey
from deltaproduce.stages.rekeyed.events.kind import EventsKind, History
from deltaproduce.stages.rekeyed.indexes.kind import Index
from deltaproduce.storage import failpoints
from deltaproduce.testing import Change, Delete, Oracle, Upsert, strategies
from deltaproduce.types.columns import NO_KEY, row_schema

ROWS: Any = {"key": "k bigint", "value": "n bigint, t string"}
COUNTS = "SELECT k, count(*) AS n, max(t) AS t FROM {feeder} GROUP BY k"


def without_first(function: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    """An edit: the first emission of each key is left out."""

    def produce(key: Any, *inputs: Iterator[Any]) -> Iterator[Any]:
        return islice(function(key, *inputs), 1, None)

    return produce


def defined(drawn: Pipeline, edited: frozenset[str], *, with_query: bool) -> Pipeline:
    """What was drawn, with some functions edited, and a stage that is a query if it can be.

    The oracle knows no queries, so without ``with_query`` that stage is a function.
    """
    made = Pipeline(drawn.name)
    for stage in drawn.stages:
        columns = {"key": stage.schema.key.ddl, "value": stage.schema.value.ddl}
        if not isinstance(stage, Producer):
            made.source(stage.name, **columns)
            continue
        names = [[feeder.name for feeder in merged] for merged in stage.inputs]
        inputs = [merge(*merged) if merged[1:] else merged[0] for merged in names]
        declared: dict[str, Any] = {"name": stage.name, **columns}
        if isinstance(stage.kind, Aggregate):
            made.aggregate(stage.name, *inputs, **aggregate_arguments(stage))
        elif isinstance(stage.kind, Index):
            made.index(stage.name, *inputs, **index_arguments(stage))
        elif isinstance(stage.kind, EventsKind):
            events_of = made.history if isinstance(stage.kind, History) else made.latest
            events_of(stage.name, *inputs, **event_arguments(stage))
        elif isinstance(stage.kind, ByKey):
            kept = {"surrogate": stage.kind.surrogate, "preserve": stage.kind.preserve}
            function = without_first(stage.function) if stage.name in edited else stage.function
            made.producer(*inputs, **declared, **kept)(function)
        else:
            streaming = stage.kind.streaming
            made.arrow_producer(*inputs, **declared, streaming=streaming)(stage.function)
    schema = row_schema(**ROWS, stage="counts")
    feeder = next((stage.name for stage in reversed(drawn.stages) if stage.schema == schema), None)
    if feeder is not None and with_query:
        made.sql("counts", COUNTS.format(feeder=feeder), key="k")
    elif feeder is not None:

        @made.producer(feeder, **ROWS)
        def counts(k: int, values: Iterator[Any]) -> Iterator[Any]:
            texts = [value.t for value in values]
            found = (text for text in texts if text is not None)
            yield k, (len(texts), max(found, key=str.encode, default=None))

    return made


class StoreMachine(RuleBasedStateMachine):
    """What is always so: at the head and at any version the store has what the model says.

    Attributes:
        spark: the session of the stores; without one, what needs it is left out.
        ways: how steps may be done.
    """

    spark: SparkSession | None
    ways: Sequence[Way]

    @initialize(data=st.data(), pipeline=strategies.pipelines(max_producers=3, strict=True))
    def define(self, data: st.DataObject, pipeline: Pipeline) -> None:
        self.directory = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.drawn = pipeline
        self.edited = frozenset[str]()  # the stages whose functions are
        self.edited_in = [self.edited]  # by version
        self.pipeline = defined(pipeline, self.edited, with_query=False)
        self.oracle = Oracle(self.pipeline)
        self.compared: Any = None
        self.way = ExitStack()
        self.reopen(data)
        self.pools = data.draw(strategies.key_pools(pipeline, min_size=3, max_size=6))
        self._update(data, self._drawn(data, pipeline.graph().sources), None)

    @rule(data=st.data(), update_id=st.sampled_from([None, None, None, "a", "b"]))
    def update(self, data: st.DataObject, update_id: str | None) -> None:
        source = data.draw(st.sampled_from(self.pipeline.graph().sources))
        self._update(data, self._drawn(data, [source]), update_id)

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
        given = as_snapshots(self.spark, self.pipeline, rows)
        self._both(
            partial(self.oracle.load, rows, update_id),
            partial(self.store.load, given, update_id),
            data.draw(strategies.window_arguments(self.pipeline)),
        )

    @rule(data=st.data(), update_id=st.sampled_from([None, None, None, "a", "b"]))
    def move_windows(self, data: st.DataObject, update_id: str | None) -> None:
        """The day moves, forward or back, or partitions come, without a row."""
        self._both(
            partial(self.oracle.update, {}, update_id),
            partial(self.store.update, {}, update_id),
            data.draw(strategies.window_arguments(self.pipeline)),
        )

    @rule(data=st.data())
    def delete_partition(self, data: st.DataObject) -> None:
        """All rows that a source has in a partition go: it is there, and is empty."""
        near = strategies.partitioned(self.pipeline)
        if not near:
            return
        source = data.draw(st.sampled_from(sorted(near)))
        names = self.pipeline.graph().stage(source).schema.key.names
        places = [names.index(column) for column in near[source] if column in names]
        keys = [*self._current(source)]
        if places and keys:
            place, key = data.draw(st.sampled_from(places)), data.draw(st.sampled_from(keys))
            gone = [Delete(other) for other in keys if other[place] == key[place]]
            self._update(data, {source: gone}, None)

    @precondition(lambda self: self.oracle.head > 0)
    @rule()
    def repeat_what_is_stored(self) -> None:
        source = self.pipeline.graph().sources[0]
        rows = [Upsert(k, v) for k, vs in self._current(source.name).items() for v in vs]
        batch = {source.name: rows}
        given = as_frames(self.spark, self.pipeline, batch)
        self._both(partial(self.oracle.update, batch), partial(self.store.update, given))
        given = as_snapshots(self.spark, self.pipeline, batch)
        self._both(partial(self.oracle.load, batch), partial(self.store.load, given))

    @rule(data=st.data())
    def rollback(self, data: st.DataObject) -> None:
        version = data.draw(st.integers(0, self.oracle.head))
        before, number = self.oracle.head, self.oracle.rollback(version)
        assert self.store.rollback(version).number == number
        if number > before:
            self._define(self.edited_in[version])

    @precondition(lambda self: self.oracle.head > 0)
    @rule(data=st.data())
    def edit(self, data: st.DataObject) -> None:
        """A function becomes another one, or what it was: its stage is made anew."""
        names = [s.name for s in self.drawn.stages if isinstance(s.kind, ByKey)]
        if names:
            self._define(self.edited ^ {data.draw(st.sampled_from(names))})
            update_id = f"edit {self.oracle.head}"
            self._both(
                partial(self.oracle.update, {}, update_id),
                partial(self.store.update, {}, update_id),
            )

    @precondition(lambda self: self.spark is not None)
    @rule(data=st.data(), mode=st.sampled_from(["net", "complete"]))
    def follow(self, data: st.DataObject, mode: str) -> None:
        until = data.draw(st.integers(0, self.oracle.head))
        since = data.draw(st.integers(0, until))
        stage = data.draw(st.sampled_from(self.pipeline.stages))
        assert_changes(self.store, self.oracle, stage.name, since, until, mode)

    @rule(data=st.data(), point=st.integers(0, 30), again=st.booleans())
    def crash(self, data: st.DataObject, point: int, again: bool) -> None:
        """An update ends at some fail point; the same is done again, or something else comes."""
        source = data.draw(st.sampled_from(self.pipeline.graph().sources))
        batch, update_id = self._drawn(data, [source]), f"crash {self.oracle.head}"
        told = data.draw(strategies.window_arguments(self.pipeline))
        given = as_frames(self.spark, self.pipeline, batch)
        with suppress(CrashError, MissingPartitionsError), failpoints.armed(CrashAt(point, fail)):
            self.store.update(given, update_id, **told)
        if again or self.store.head.number > self.oracle.head:
            self._both(
                partial(self.oracle.update, batch, update_id),
                partial(self.store.update, given, update_id),
                told,
            )

    @precondition(lambda self: self.spark is not None and self.oracle.head > 0)
    @rule(data=st.data())
    def trace(self, data: st.DataObject) -> None:
        stage = data.draw(st.sampled_from(self.pipeline.stages))
        version = data.draw(st.integers(1, self.oracle.head))
        width = len(stage.schema.key)
        keys = [row[:width] for row in self.oracle.content(stage.name, version)]
        if keys and stage.schema.key != NO_KEY:
            key = data.draw(st.sampled_from(keys))
            read = read_by_delta_rs(self.store)
            given = key if width > 1 else key[0]
            assert_lineage(read, self.oracle, self.pipeline, stage.name, given, version)

    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        source = data.draw(st.sampled_from(self.pipeline.graph().sources))
        key = data.draw(st.sampled_from(self.pools[source.name]))
        self._both(
            partial(self.oracle.update, {source.name: [Delete(key)]}),
            lambda: self.store.forget(source.name, key if key[1:] else key[0]).version,
        )

    @rule(data=st.data())
    def reopen(self, data: st.DataObject) -> None:
        way = data.draw(st.sampled_from(self.ways))
        self.way.close()
        self.way.enter_context(forced(way))
        self.table_type = way.table_type
        self._open()

    @rule(data=st.data())
    def travel(self, data: st.DataObject) -> None:
        version = data.draw(st.integers(0, self.oracle.head))
        self._assert_same(version)

    @invariant()
    def head_is_the_oracles(self) -> None:
        assert self.store.head.number == self.oracle.head
        self.edited_in += [self.edited] * (self.oracle.head + 1 - len(self.edited_in))
        if self.compared != (self.store, self.oracle.head):
            self._assert_same(self.oracle.head)
            self.compared = self.store, self.oracle.head

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            self.way.close()
            self.directory.cleanup()

    def _assert_same(self, version: int) -> None:
        if self.spark is None:
            assert_same_here(self.store, self.oracle, self.pipeline, [version])
        else:
            assert_same(self.store, self.oracle, self.pipeline, version)

    def _update(
        self, data: st.DataObject, batch: dict[str, list[Change]], update_id: str | None
    ) -> None:
        given = as_frames(self.spark, self.pipeline, batch)
        self._both(
            partial(self.oracle.update, batch, update_id),
            partial(self.store.update, given, update_id),
            data.draw(strategies.window_arguments(self.pipeline)),
        )

    def _both(
        self,
        expected: Callable[..., int],
        run: Callable[..., Version],
        told: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Do the same with the model and the store, which refuses what the model refuses."""
        try:
            number = expected(**told)
        except MissingPartitionsError:
            with pytest.raises(MissingPartitionsError):
                run(**told)
        else:
            assert run(**told).number == number

    def _drawn(self, data: st.DataObject, sources: Sequence[Source]) -> dict[str, list[Change]]:
        return {
            source.name: data.draw(
                strategies.changes(
                    source.schema, self.pools[source.name], self._current(source.name)
                )
            )
            for source in sources
        }

    def _define(self, edited: frozenset[str]) -> None:
        self.edited = edited
        self.pipeline = defined(self.drawn, edited, with_query=False)
        self.oracle._graph = self.pipeline.graph()
        self._open()

    def _open(self) -> None:
        pipeline = defined(self.drawn, self.edited, with_query=self.spark is not None)
        self.store = Store(self.spark, self.directory.name, pipeline, table_type=self.table_type)

    def _current(self, source: str) -> dict[Any, list[Any]]:
        values = defaultdict(list)
        width = len(self.pipeline.graph().stage(source).schema.key)
        for row in self.oracle.content(source):
            values[row[:width]].append(row[width:-1])
        return dict(values)


def run_machine(
    spark: SparkSession | None, ways: Sequence[Way], *, examples: int, steps: int
) -> None:
    """Let Hypothesis do operations with stores, and shrink what fails."""
    run_state_machine_as_test(
        type("Bound", (StoreMachine,), {"spark": spark, "ways": ways}),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
