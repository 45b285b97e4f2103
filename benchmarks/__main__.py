"""``python -m benchmarks``: times competitors on W1, checks their results, writes a report."""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

import deltaproduce as dp
from benchmarks import report, w1
from benchmarks.competitors import COMPETITORS, Competitor
from benchmarks.measures import Step, job_starts, measured, with_jobs

WARM_UP: Final = 3
MEASURED: Final = 5
QUICK: Final = ["--rows", "100000", "--changed", "1000", "--peers", "ours,recompute,merge"]


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark; returns 1 if a competitor was wrong or failed."""
    options = _options(arguments)
    names = list(COMPETITORS) if options.peers == "all" else options.peers.split(",")
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        work = Path(directory)
        events = work / "events"
        events.mkdir()
        config = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.compress": "false",
        }
        with dp.local_session(memory=options.memory, config=config) as spark:
            sizes = [_size(spark, work, rows, names, options) for rows in options.rows]
        starts = job_starts(events)
        for size in sizes:
            for case in size["cases"]:
                _finish(case["competitors"], starts)
    run = {
        "command": shlex.join(["python", "-m", "benchmarks", *_without_places(arguments)]),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": report.machine(),
        "names": {name: COMPETITORS[name].name for name in names},
        "sizes": sizes,
    }
    report.write(run, Path(options.out))
    found = [c for size in sizes for case in size["cases"] for c in case["competitors"].values()]
    return int(any("failure" in competitor for competitor in found))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    def numbers(text: str) -> list[int]:
        return [int(part.replace("_", "")) for part in text.split(",")]

    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=numbers, default=[1_000_000], help="orders, e.g. 1000000")
    parser.add_argument("--changed", type=numbers, default=[1_000], help="changed orders a step")
    parser.add_argument("--stages", type=int, choices=(1, 2, 3), default=3)
    parser.add_argument("--peers", default="all", help=f"all, or some of {','.join(COMPETITORS)}")
    parser.add_argument("--steps", type=int, default=MEASURED, help="measured steps")
    parser.add_argument("--memory", default="8g", help="of the Java process")
    parser.add_argument("--directory", default=None, help="where to work; a temporary one if none")
    parser.add_argument("--out", default="benchmark-results", help="where the report goes")
    parser.add_argument("--quick", action="store_true", help=f"as if {' '.join(QUICK)} were given")
    options = parser.parse_args(arguments)
    return parser.parse_args([*QUICK, *arguments]) if options.quick else options


@dataclass(slots=True)
class _Run:
    """One competitor on one size: what it took so far, or why it stopped."""

    competitor: Competitor
    load: Step | None = None
    steps: list[Step] = field(default_factory=list)
    failure: str | None = None

    def measure(self, call: Callable[[], object]) -> Step | None:
        """Measure a call; an error ends this competitor's run, and no other's."""
        try:
            return measured(call, self.competitor.directory)
        except Exception as error:  # noqa: BLE001 the others are still worth measuring
            traceback.print_exc()
            self.failure = f"failed: {type(error).__name__}"
            return None

    def result(self) -> dict[str, Any]:
        """The last case's figures."""
        name = self.competitor.name
        if self.failure is not None:
            return {"name": name, "failure": self.failure}
        notes = self.competitor.notes()
        return {"name": name, "load": self.load, "steps": self.steps[WARM_UP:], "notes": notes}


def _without_places(arguments: Sequence[str]) -> list[str]:
    """The arguments that the figures depend on: not where things were written."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--out")
    parser.add_argument("--directory")
    return parser.parse_known_args(arguments)[1]


def _size(
    spark: SparkSession, work: Path, rows: int, names: Sequence[str], options: argparse.Namespace
) -> dict[str, Any]:
    """All competitors on one size: all load, then take each step one after the other.

    So they meet the machine's good and bad moments alike, and the same state of Java's compiler.
    """
    stages = w1.STAGES[: options.stages]
    runs = {n: _Run(COMPETITORS[n](spark, work / f"{rows}-{n}", stages)) for n in names}
    for run in runs.values():
        run.load = run.measure(lambda run=run: run.competitor.load(w1.orders(spark, rows)))
        _say(f"{rows:,} orders, {run.competitor.name}: load", run.load)
    cases, done = [], 0
    for changed in options.changed:
        for run in runs.values():
            run.steps = []
        for number in range(done + 1, done + WARM_UP + options.steps + 1):
            _step(runs, w1.changes(spark, rows, changed, number))
        done += WARM_UP + options.steps
        _check(runs)
        found = {name: run.result() for name, run in runs.items()}
        cases.append({"changed": changed, "competitors": found})
    return {"rows": rows, "cases": cases}


def _step(runs: Mapping[str, _Run], batch: DataFrame) -> None:
    for run in runs.values():
        if run.failure is None:
            run.competitor.prepare(batch)
            step = run.measure(partial(run.competitor.step, batch))
            if step is not None:
                run.steps.append(step)
            _say(run.competitor.name, step)


def _say(what: str, step: Step | None) -> None:
    print(f"{what}: {'failed' if step is None else f'{step.seconds:.2f} s'}", flush=True)


def _check(runs: Mapping[str, _Run]) -> None:
    """Fail those whose derived tables are not what their orders give, or whose orders differ."""
    agreed = None
    for run in runs.values():
        if run.failure is not None:
            continue
        right = run.competitor.table("orders")
        found = w1.digest(right)
        agreed = agreed or found
        wrong = ["orders"] if found != agreed else []
        for stage in run.competitor.stages:
            right = w1.derived(stage, right)
            if w1.digest(run.competitor.table(stage)) != w1.digest(right):
                wrong.append(stage)
        if wrong:
            run.failure = f"wrong: {', '.join(wrong)}"


def _finish(competitors: dict[str, Any], starts: Sequence[int]) -> None:
    """Add the numbers of jobs and the medians, now that Spark's event log is complete."""
    for found in competitors.values():
        if "steps" in found:
            found["steps"] = [with_jobs(step, starts) for step in found["steps"]]
            found["median"] = report.median(found["steps"])
            found["load"] = with_jobs(found["load"], starts)
        else:
            found.pop("load", None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
