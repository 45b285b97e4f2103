"""Produce functions in workers: nondeterministic functions, numbers of calls, where they run.

The tests include keys and calls that are larger than memory.
"""

import os
import resource
import sys
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from selecting import long
from test_local_calls import BATCHES, assert_called_once

from deltaproduce import Limits, Pipeline, ProducerError, Store

# ---- functions that never repeat themselves, and calls


@long
def test_functions_that_never_repeat_themselves(spark: SparkSession, tmp_path: Path) -> None:
    """In Spark's workers; `tests/local` has them beside the driver."""
    assert_called_once(spark, tmp_path, BATCHES)


def rows(frame):
    return [tuple(row) for row in frame.collect()]


# ---- where functions run


def told_where():
    """Stages whose values say which process has started the one that they run in."""
    pipeline = Pipeline("where")
    items = pipeline.source("items", key="k int", value="n int")

    def parent(value, example):
        return os.getppid()

    @pipeline.producer(items, key="k int", value="parent int")
    def by_key(key, values):
        yield key, os.getppid()

    @pipeline.producer(items, key="k int", value="parent int", preserve=parent)
    def preserving(key, values):
        yield key, 0

    @pipeline.arrow_producer(items, key="k int", value="parent int")
    def by_table(table):
        parents = pa.array([os.getppid()] * len(table), pa.int32())
        return pa.table({"_source_k": table["k"], "k": table["k"], "parent": parents})

    @pipeline.arrow_producer(items, key="k int", value="parent int", streaming=True)
    def by_batch(batches):
        for batch in batches:
            parents = pa.array([os.getppid()] * len(batch), pa.int32())
            yield pa.table({"_source_k": batch["k"], "k": batch["k"], "parent": parents})

    return pipeline


STAGES = ("by_key", "preserving", "by_table", "by_batch")
FEW = ("by_batch",)
"""The one of a short run in Spark."""


def parents_in(store, stages=STAGES):
    return {row.parent for name in stages for row in store.content(name).collect()}


def test_functions_of_few_rows_run_beside_the_driver(
    spark: SparkSession, location: str, long_run: bool
) -> None:
    few = spark.createDataFrame([(k, k) for k in range(9)], "k int, n int")
    store = Store(spark, location, told_where())
    store.update({"items": few})
    assert parents_in(store) == {os.getpid()}
    store = Store(spark, location, told_where(), limits=Limits(local_rows=4, local_parts=2))
    stages = STAGES if long_run else FEW
    for name in stages:
        store.refresh(name)
    assert os.getpid() not in parents_in(store, stages)


def test_a_function_that_holds_what_is_spark_s_runs_there(
    spark: SparkSession, location: str
) -> None:
    shared = spark.sparkContext.broadcast({1: 10})
    pipeline = Pipeline("shared")
    items = pipeline.source("items", key="k int", value="n int")

    @pipeline.producer(items, key="k int", value="n int")
    def found(key, values):
        yield key, shared.value[key]

    store = Store(spark, location, pipeline)
    store.update({"items": pa.table({"k": [1], "n": [1]})})
    assert rows(store.content("found").select("n")) == [(10,)]


def test_a_function_that_emits_too_much_is_run_again_in_spark(
    spark: SparkSession, location: str
) -> None:
    """And what it makes is all of the one run (S4)."""
    pipeline = Pipeline("much")
    items = pipeline.source("items", key="k int", value="n int")

    @pipeline.producer(items, key="k int", value="parent int, t string")
    def much(key, values):
        for _ in range(2_000):
            yield key, (os.getppid(), "x" * 100)

    store = Store(spark, location, pipeline, limits=Limits(local_bytes=10_000))
    store.update({"items": pa.table({"k": [1, 2], "n": [1, 2]})})
    found = rows(store.content("much").groupBy("parent").count())
    assert [count for _, count in found] == [4_000]
    assert found[0][0] != os.getpid()


# ---- keys and calls that are larger than memory

# Few and wide rows: what counts is their bytes, and a row costs as much as a kilobyte of it.
LARGE = 90_000
MANY = 100_000
WIDTH = 2_400
LIMIT = 150
"""Megabytes: much less than the values of the large key, since a worker has some already."""
SOME = 40_000
"""After each so many values there is an emission."""


def bounded(megabytes):
    """A context in which this process can get so much more memory than it has, and no more.

    A closure, because workers cannot import this file.
    """

    @contextmanager
    def limit():
        before = resource.getrlimit(resource.RLIMIT_AS)
        with open("/proc/self/statm") as pages:
            size = int(pages.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + (megabytes << 20), before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)

    return limit


def sources_of(pipeline):
    numbers = pipeline.source("numbers", key="k int", value="n bigint, t string")
    return numbers, pipeline.source("few", key="k int", value="n int")


def listing():
    pipeline = Pipeline("listing")
    limit = bounded(LIMIT)
    numbers, _ = sources_of(pipeline)

    @pipeline.producer(numbers, key="k int", value="n bigint")
    def listed(key, values):
        with limit():
            yield key, len(list(values))

    return pipeline


def streaming(*, with_all):
    """A key's values one by one; ``with_all`` also in Arrow, and many emissions of one call."""
    pipeline = Pipeline("streaming")
    limit, width, every = bounded(LIMIT), WIDTH, SOME
    numbers, few = sources_of(pipeline)

    @pipeline.producer(numbers, key="k int", value="n bigint, total bigint")
    def streamed(key, values):
        with limit():
            total = 0
            for value in values:
                total += value.n + len(value.t)
                if value.n % every == 0:
                    yield key, (value.n, total)
            yield key + 1, (-1, total)

    if not with_all:
        return pipeline

    @pipeline.arrow_producer(numbers, key="k int", value="n bigint, total bigint", streaming=True)
    def streamed_in_arrow(batches):
        with limit():
            n = total = 0
            for batch in batches:
                key, n = batch["k"][0].as_py(), n + len(batch)
                total += pc.sum(batch["n"]).as_py() + pc.sum(pc.utf8_length(batch["t"])).as_py()
                yield pa.table(
                    {"k": batch["k"], "n": batch["n"], "total": batch["n"], "_source_k": batch["k"]}
                ).slice(0, 1)
            yield pa.table({"k": [key + 1], "n": [n], "total": [total], "_source_k": [key]})

    @pipeline.producer(few, key="k int", value="n bigint, t string")
    def exploded(key, values):
        with limit():
            for n in values:
                for number in range(n):
                    yield key + number % 1_000, (number, f"{number:0{width}}")

    return pipeline


needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture(scope="module")
def large_store(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, long_run: bool
) -> Path:
    path = tmp_path_factory.mktemp("large") / "store"
    numbers = spark.range(LARGE).selectExpr("1 AS k", "id AS n", f"lpad(id, {WIDTH}, 'x') AS t")
    few = spark.createDataFrame([(5, MANY), (6, 3)], "k int, n int")
    given = {"numbers": numbers, "few": few} if long_run else {"numbers": numbers}
    Store(spark, str(path), streaming(with_all=long_run)).update(given)
    return path


@long
@needs_proc
def test_a_key_larger_than_memory_streams(spark, large_store, long_run):
    store = Store(spark, str(large_store), streaming(with_all=long_run))
    sums = [n * (n + 1) // 2 + WIDTH * (n + 1) for n in (*range(0, LARGE, SOME), LARGE - 1)]
    assert rows(store.content("streamed", ordered=True)) == [
        *((1, SOME * i, sums[i], 1, i) for i in range(len(sums) - 1)),
        (2, -1, sums[-1], 1, 0),
    ]


@needs_proc
@long
def test_a_key_larger_than_memory_streams_in_arrow(spark, large_store):
    store = Store(spark, str(large_store), streaming(with_all=True))
    made = rows(store.content("streamed_in_arrow", ordered=True))
    assert made[-1] == (2, 1, 0, LARGE, LARGE * (LARGE - 1) // 2 + WIDTH * LARGE)
    firsts = [n for key, _, _, n, _ in made[:-1]]
    assert firsts[0] == 0
    assert firsts == sorted(firsts)
    assert len(firsts) >= LARGE // 10_000


# The control of the tests above: under the same bound, keeping the values must fail. Where the
# memory ends is chance: in the function, in the library's reading of the next rows (the function's
# failure too, for it holds the memory), or in native code that then ends the worker. Once only: a
# worker that goes on keeps what was freed, which no bound takes from it.
@long
@needs_proc
def test_a_function_that_keeps_all_values_runs_out_of_memory(spark, large_store):
    store = Store(spark, str(large_store), listing())
    with pytest.raises(ProducerError) as caught:
        store.refresh("listed")
    error = caught.value
    assert error.stage == "listed"
    assert (error.key == 1 and isinstance(error.__cause__, MemoryError)) or "died" in str(error)
    assert store.head.number == 1


@needs_proc
@long
def test_a_call_emits_more_rows_than_fit_in_memory(spark, large_store):
    store = Store(spark, str(large_store), streaming(with_all=True))
    made = store.content("exploded").where("_source_k = 5")
    total = made.selectExpr("count(*)", "sum(n)", "sum(length(t))", "count(DISTINCT n)")
    assert rows(total) == [(MANY, MANY * (MANY - 1) // 2, MANY * WIDTH, MANY)]
    assert store.updates("exploded").where("_change_type = 'add'").count() == 1_000
