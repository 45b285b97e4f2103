"""First loads of views in Spark, beside ``INSERT OVERWRITE`` of their queries and hidden tables.

The driver processes no rows, as on a cluster where it is never sooner. Both sides read the same
stored rows of the sources. Ours also numbers and counts the rows, writes updates, and publishes a
version.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from typing import TYPE_CHECKING, Any, Final

import psutil

import deltaproduce as dp
from benchmarks.measures import Processes, Step, measured
from benchmarks.tpch.rows import THREADS, Rows, reader
from deltaproduce.stages.sql.operators_in_spark import frame_of
from deltaproduce.stages.views.hidden import HiddenTable
from examples.tpch import SCHEMAS, agree, pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VIEW: Final = "view"
LOADS: Final = 3
"""How many loads of each side are measured, after one that warms up."""
IN_SPARK: Final = dp.Limits(local_rows=0, small_table_rows=0)
"""The limits of a store whose rows are all processed in Spark."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one load took.

    Attributes:
        step: time, commits and bytes.
        cpu_seconds: the processor seconds of all processes.
        jobs: how many jobs Spark ran.
        stages: how many stages these had, without those that were skipped.
        tasks: how many tasks these had.
    """

    step: Step
    cpu_seconds: float
    jobs: int
    stages: int
    tasks: int


@dataclass(frozen=True, slots=True)
class FirstLoads:
    """The measured loads of one query.

    Attributes:
        hidden: how many hidden tables its view has.
        ours: loads of the view with its hidden tables, each the first one of another stage.
        inserts: writes of the same rows, by Spark alone.
    """

    hidden: int
    ours: list[Load]
    inserts: list[Load]

    def medians(self, figure: Callable[[Load], float]) -> tuple[float, float]:
        """Return the median of a figure, for ours and for the inserts."""
        ours, inserts = (median_low(map(figure, one)) for one in (self.ours, self.inserts))
        return ours, inserts

    @property
    def seconds(self) -> tuple[float, float]:
        """The median seconds of both."""
        return self.medians(lambda load: load.step.seconds)


def first_loads(
    memory: str, rows: Rows, place: Path, texts: Mapping[str, str], wrong: list[str]
) -> Iterator[tuple[str, FirstLoads]]:
    """Yield each query, and its loads, in a session as a user of a cluster has one.

    Args:
        memory: of the Java process.
        wrong: gets the views that differ from Spark's own answers.
    """
    config = {"spark.sql.adaptive.enabled": "true"}
    spark = dp.local_session(cores=THREADS, memory=memory, config=config)
    try:
        yield from in_session(spark, rows, place, texts, wrong)
    finally:
        spark.stop()
        shutil.rmtree(place, ignore_errors=True)


def in_session(
    spark: SparkSession, rows: Rows, place: Path, texts: Mapping[str, str], wrong: list[str]
) -> Iterator[tuple[str, FirstLoads]]:
    """Yield the same, in a session."""
    shutil.rmtree(place, ignore_errors=True)
    with closing(dp.Store(None, str(place / "store"), pipeline({}))) as store:
        store.update({name: reader(file) for name, file in rows.now.items()})
        store.wait()
    sources = {name: _sources_rows(spark, place / "store" / name, name) for name in SCHEMAS}
    for name, frame in sources.items():
        frame.createOrReplaceTempView(name)
    for name, text in texts.items():
        ours, inserts, hidden = list[Load](), list[Load](), list[tuple[str, HiddenTable]]()
        inserted = place / "inserted" / name
        for number in range(1 + LOADS):
            view = f"{name}_{number}"
            with closing(_store(spark, place, {view: text})) as store:
                load = _loaded(spark, place, lambda: store.refresh(view))  # noqa: B023
                hidden = _hidden(store)
                content: Any = store.content(view)
            insert = _loaded(spark, place, lambda: _insert(spark, inserted, sources, hidden, text))  # noqa: B023
            expected = spark.read.format("delta").load(str(inserted / VIEW))
            mine = content.select(*expected.columns)
            if not agree([*map(tuple, mine.collect())], [*map(tuple, expected.collect())]):
                wrong.append(f"the first load of {name}")
            if number:
                ours.append(load)
                inserts.append(insert)
        yield name, FirstLoads(len(hidden), ours, inserts)


def _store(spark: SparkSession, place: Path, texts: Mapping[str, str]) -> dp.Store:
    return dp.Store(spark, str(place / "store"), pipeline(texts), limits=IN_SPARK)


def _hidden(store: dp.Store) -> list[tuple[str, HiddenTable]]:
    """Return the hidden tables of a store's only view, each behind those that it reads."""
    stages = store._opened.graph.stages
    return [(one.name, one.kind) for one in stages if isinstance(one.kind, HiddenTable)]


def _sources_rows(spark: SparkSession, folder: Path, name: str) -> DataFrame:
    """Return the stored rows of a source."""
    columns = [column.split()[0] for part in SCHEMAS[name] for column in part.split(", ")]
    return spark.read.format("delta").load(str(folder / "content")).select(*columns)


def _insert(
    spark: SparkSession,
    folder: Path,
    sources: Mapping[str, DataFrame],
    hidden: Sequence[tuple[str, HiddenTable]],
    text: str,
) -> None:
    """Overwrite a table with the rows of a query, and one for each hidden table."""
    known = dict(sources)
    for name, kind in hidden:
        rows = frame_of(kind.kept.relation, known, spark)
        columns = [rows[field].alias(column) for column, field in kind.kept.fields.items()]
        _overwrite(folder / name, rows.select(*columns))
        known[name] = spark.read.format("delta").load(str(folder / name))
    _overwrite(folder / VIEW, spark.sql(text))


def _overwrite(folder: Path, rows: DataFrame) -> None:
    rows.write.format("delta").mode("overwrite").save(str(folder))


def _loaded(spark: SparkSession, place: Path, load: Callable[[], object]) -> Load:
    """Load once, below a folder."""
    processes, before = Processes(), _jobs(spark)
    began = processes.sum(_cpu_seconds)
    step = measured(load, place, processes)
    cpu_seconds = processes.sum(_cpu_seconds) - began
    jobs = [job for number, job in _jobs(spark).items() if number not in before]
    stages, tasks = (sum(one[n] for one in jobs) for n in (0, 1))
    return Load(step, cpu_seconds, len(jobs), stages, tasks)


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _jobs(spark: SparkSession) -> dict[int, tuple[int, int]]:
    """Return the newest jobs, with the numbers of their stages and tasks."""
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    jobs = context.statusStore().jobsList(None)
    listed = (jobs.apply(n) for n in range(jobs.size()))
    return {one.jobId(): (one.numCompletedStages(), one.numCompletedTasks()) for one in listed}
