"""Runs: competitors take the same steps on one workload of one size, and are checked.

All load, then take each step in turn, so they share the machine's good and bad moments, and the
same state of Java's compiler. An error ends only the run of the competitor that caused it. Results
are plain values, as the report stores them.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from benchmarks.competitor import Competitor
from benchmarks.measures import EventLog, Processes, Step, measured
from benchmarks.policy import Effort
from benchmarks.sessions import Place
from benchmarks.workload import (
    Batch,
    Workload,
    answers,
    counted,
    digest,
    source_rows,
    truly_changed,
)


@dataclass(frozen=True, slots=True)
class Bench:
    """The place of measurements: a warm session, a working directory, and its event logs."""

    spark: SparkSession
    work: Path
    events: EventLog


@contextmanager
def opened(directory: str | None, place: Place) -> Iterator[Bench]:
    """Open a session that logs its events, and a directory below this one; delete it at the end."""
    if directory is not None:
        Path(directory).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory) as name:
        work = Path(name)
        events = work / "events"
        events.mkdir()
        config = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.compress": "false",
        }
        with place.session(work / "cluster", config) as spark:
            yield Bench(spark, work, EventLog(events))


@dataclass(slots=True)
class Run:
    """One competitor on one size: what it has done so far, or why it stopped."""

    competitor: Competitor
    load: Step | None = None
    batches: list[Batch] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    figures: list[dict[str, Any]] = field(default_factory=list)
    settling: float = 0.0
    failure: str | None = None

    def attempt(self, what: str, call: Callable[[], Any]) -> Any:  # noqa: ANN401
        """Call a function; an error is this competitor's failure. Return its result, or None."""
        if self.failure is not None:
            return None
        try:
            return call()
        except Exception as error:  # noqa: BLE001 the others are still measured
            traceback.print_exc()
            self.failure = f"failed: {type(error).__name__} ({what})"
            say(f"{self.competitor.name}: {self.failure}")
            return None

    def take_load(self, rows: Mapping[str, DataFrame], others: frozenset[int]) -> None:
        """Take the first load, while the others' processes do not count."""
        changing = rows[self.competitor.workload.source]
        self.load = self._take("load", changing, partial(self.competitor.load, rows), others)

    def take_step(self, changes: DataFrame, batch: Batch, others: frozenset[int]) -> None:
        """Take one step."""
        step = self._take("step", changes, partial(self.competitor.step, changes), others)
        if step is not None:
            self.steps.append(step)
            started = time.perf_counter()
            self.attempt("settle", self.competitor.settle)
            self.settling += time.perf_counter() - started
            self.batches.append(batch)
            self.figures.append(self.attempt("figures", self.competitor.figures) or {})

    def _take(
        self, what: str, given: DataFrame, call: Callable[[], object], others: frozenset[int]
    ) -> Step | None:
        competitor = self.competitor

        def take() -> Step:
            processes = Processes(competitor.worker, others)
            return measured(call, competitor.directory, processes)

        self.attempt("prepare", lambda: competitor.prepare(given))
        _start_workers(given.sparkSession)
        step: Step | None = self.attempt(what, take)
        return step


@dataclass(slots=True)
class Size:
    """All competitors on one workload of one size."""

    bench: Bench
    workload: Workload
    rows: int
    runs: dict[str, Run]
    _truths: dict[tuple[Batch, ...], dict[str, int]] = field(default_factory=dict)

    @staticmethod
    def of(
        bench: Bench, workload: Workload, rows: int, peers: Mapping[str, type[Competitor]]
    ) -> Size:
        """Start the competitors, each in a directory of its own."""
        place = bench.work / f"{workload.name}-{rows}"
        runs = {
            name: Run(kind(bench.spark, place / name, workload)) for name, kind in peers.items()
        }
        return Size(bench, workload, rows, runs)

    def load(self) -> None:
        """Run the first load of each."""
        for run in self.runs.values():
            rows = self.workload.loaded(self.bench.spark, self.rows)
            run.take_load(rows, self._other_workers(run))
            _say_step(
                f"{self.workload.name}, {self.rows:,} rows, {run.competitor.name}: load", run.load
            )

    def case(self, keys: int, efforts: Mapping[str, Effort], number: int) -> dict[str, Any]:
        """Run steps of this many keys; return the figures of the participants.

        Args:
            number: the number of the case's first step; each step of a size has another number.
        """
        for name in efforts:
            run = self.runs[name]
            run.steps, run.figures, run.settling = [], [], 0.0
        for done in range(max(effort.warm_up + effort.steps for effort in efforts.values())):
            batch = Batch(keys, number + done)
            changes = self.workload.changes(self.bench.spark, self.rows, keys, batch.step)
            for name, effort in efforts.items():
                run = self.runs[name]
                if done < effort.warm_up + effort.steps and run.failure is None:
                    run.take_step(changes, batch, self._other_workers(run))
                    _say_step(run.competitor.name, run.steps[-1] if not run.failure else None)
        longest = max((self.runs[name].batches for name in efforts), key=len)
        feeds = {name: self._feed(self.runs[name], longest) for name in efforts}
        self.bench.events.read()
        found = {n: self._result(self.runs[n], efforts[n], feeds[n]) for n in efforts}
        return {"changed": keys, "competitors": found}

    def loads(self) -> dict[str, Any]:
        """Return the figures of the first loads."""
        self.bench.events.read()
        return {
            name: self.bench.events.counted(run.load)
            for name, run in self.runs.items()
            if run.load is not None
        }

    def storage(self) -> dict[str, Any]:
        """Return the storage of the tables of competitors that report it."""
        found = {n: run.attempt("storage", run.competitor.storage) for n, run in self.runs.items()}
        return {name: tables for name, tables in found.items() if tables}

    def wrong(self) -> dict[str, str]:
        """Compare all tables with the right answer; return who is wrong, and in which tables."""
        expected: dict[tuple[Batch, ...], dict[str, tuple[int, int]]] = {}
        checked = [(name, run) for name, run in self.runs.items() if run.failure is None]
        for _, run in checked:
            taken = tuple(run.batches)
            if taken not in expected:
                sources = source_rows(self.workload, self.bench.spark, self.rows, taken)
                right = answers(self.workload, sources)
                expected[taken] = {name: digest(rows) for name, rows in right.items()}
            run.attempt("check", partial(_check, run, expected[taken]))
        return {name: run.failure for name, run in checked if run.failure is not None}

    def close(self, names: Collection[str]) -> None:
        """Let competitors stop what they started."""
        for name in names:
            self.runs[name].attempt("close", self.runs[name].competitor.close)

    def delete(self) -> None:
        """Stop all, and delete their tables."""
        for run in self.runs.values():
            run.failure = None  # it must still be closed
            run.attempt("close", run.competitor.close)
            shutil.rmtree(run.competitor.directory, ignore_errors=True)

    def _other_workers(self, run: Run) -> frozenset[int]:
        workers = {other.competitor.worker for other in self.runs.values() if other is not run}
        return frozenset(worker for worker in workers if worker is not None)

    def _feed(self, run: Run, longest: Sequence[Batch]) -> dict[str, Any] | None:
        """Return the last step's feed and true changes, for competitors that took all steps."""
        if run.failure is not None or run.batches != longest:
            return None
        feed = run.attempt("feed", lambda: counted(self.workload, run.competitor.feed()))
        taken = tuple(run.batches)
        if taken not in self._truths:
            sources = (
                source_rows(self.workload, self.bench.spark, self.rows, batches)
                for batches in (taken[:-1], taken)
            )
            self._truths = {taken: truly_changed(self.workload, *sources)}
        return {"listed": feed, "changed": self._truths[taken]}

    def _result(self, run: Run, effort: Effort, feed: dict[str, Any] | None) -> dict[str, Any]:
        if run.failure is not None:
            return {"name": run.competitor.name, "failure": run.failure}
        steps = [self.bench.events.counted(step) for step in run.steps[effort.warm_up :]]
        found = {
            "name": run.competitor.name,
            "steps": steps,
            "median": medians(steps),
            "feed": feed,
            "settling": round(run.settling, 1),
        }
        return found | {"figures": run.figures[effort.warm_up :]} if any(run.figures) else found


def cases(
    size: Size, efforts: Mapping[int, Mapping[str, Effort]], result: dict[str, Any]
) -> Iterator[None]:
    """Run all cases of a size into a result, which can be stored at each yield."""
    result |= {"rows": size.rows, "checked": False, "cases": []}
    try:
        size.load()
        result["loads"] = size.loads()
        result["storage"] = {"after load": size.storage()}
        yield
        number, waiting = 1, list(efforts)
        for keys, taking_part in efforts.items():
            result["cases"].append(size.case(keys, taking_part, number))
            number += max(effort.warm_up + effort.steps for effort in taking_part.values())
            waiting.remove(keys)
            size.close(
                {n for n in taking_part if all(n not in efforts[other] for other in waiting)}
            )
            yield
        result["storage"]["at the end"] = size.storage()
        for name, failure in size.wrong().items():
            for case in result["cases"]:
                if name in case["competitors"]:
                    case["competitors"][name] = {
                        "name": case["competitors"][name]["name"],
                        "failure": failure,
                    }
        result["checked"] = True
        yield
    finally:
        size.delete()


def guarded(what: str, call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return a call's result, or its failure, so that later measurements still run."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 whatever it is
        traceback.print_exc()
        say(f"{what}: failed")
        return {"failure": f"failed: {type(error).__name__}"}


def medians(steps: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of each figure."""
    return {name: statistics.median(step[name] for step in steps) for name in steps[0]}


def say(text: str) -> None:
    """Print the progress."""
    print(text, flush=True)


def _start_workers(spark: SparkSession) -> None:
    """Restart Spark's Python workers if they have ended, as they do when idle for a minute.

    So all competitors' steps meet a warm session, however long the steps before them took.
    """
    slots = spark.sparkContext.defaultParallelism
    spark.range(0, slots, 1, slots).mapInArrow(_unchanged, "id long").collect()


def _unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def _say_step(what: str, step: Step | None) -> None:
    if step is not None:
        say(f"{what}: {step.seconds:.2f} s")


def _check(run: Run, expected: Mapping[str, tuple[int, int]]) -> None:
    found = {name: digest(run.competitor.table(name)) for name in expected}
    wrong = [name for name in expected if found[name] != expected[name]]
    if wrong:
        run.failure = f"wrong: {', '.join(wrong)}"
        say(f"{run.competitor.name}: {run.failure}")
