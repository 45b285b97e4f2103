"""``python -m benchmarks.tasks``: the cost of a run by the number of existing partitions.

A source has a row for each partition: a thousand stores a day, back from a day. One stage computes
a task for each of them, another a task for each day from all stores. After all of these, the
benchmark measures in processor seconds:

- ``nothing``: a run of the same day, which has nothing to do;
- ``tasks``: the tasks and dependencies of the day, as `look` finds them (no objects);
- ``correction``: an update of one row, and a run of the tasks that it makes dirty;
- ``day``: the rows of the next day, and a run of it: its thousand tasks and one more.

The tasks of the first days are planted: their results are computed at once, since single tasks
would take hours, and their records are the same. The last output is a Markdown table.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
import time
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeVar
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import deltaproduce as dp
from deltaproduce.engines.local.arrays import Numbers
from deltaproduce.model.layouts import Layout
from deltaproduce.operations.verbs import tasks as verb
from deltaproduce.shown.tasks import FailedTask
from deltaproduce.stages.partitioned import making
from deltaproduce.stages.scheduled.schedules import Looking, Schedule

T = TypeVar("T")

STORES: Final = 1000
LAST: Final = date(2022, 3, 31)


def pipeline(days: int) -> dp.Pipeline:
    """Return a pipeline of sales by day and store, and by day."""
    shop = dp.Pipeline("shop")
    each = f"FOR t IN timeseries('1 day', {days}), LET d = date_format(t, 'yyyy-MM-dd')"
    shop.source(
        "sales",
        key="day string, store bigint, n bigint",
        value="sold bigint",
        partition="day, store",
    )
    shop.partitioned(
        "stores",
        "SELECT n, sold + 1 AS sold FROM sales WHERE sales.day = d AND sales.store = s",
        key="n",
        partition="day = d, store = s",
        scopes=f"{each}, FOR s IN sequence(CAST(1 AS bigint), CAST({STORES} AS bigint))",
    )
    shop.partitioned(
        "days",
        "SELECT store, n, sold FROM stores WHERE stores.day = d",
        key="store, n",
        partition="day = d",
        scopes=each,
    )
    return shop


def sales(first: date, days: int) -> pa.Table:
    """Return a row for each day and store."""
    names = [(first + timedelta(days=n)).isoformat() for n in range(days)]
    return pa.table(
        {
            "day": pa.array(np.repeat(names, STORES)),
            "store": pa.array(np.tile(np.arange(1, STORES + 1), days)),
            "n": pa.array(np.ones(days * STORES, np.int64)),
            "sold": pa.array(np.arange(days * STORES) % 97),
        }
    )


def planted(looked: making.Looked) -> tuple[Numbers, pa.Table, list[FailedTask]]:
    """Return all tasks and their results at once, in place of `making._run_tasks`."""
    tasks, production = looked.tasks, looked.production
    feeders = making._feeders(looked.entries, looked.chosen.rows, looked.inputs, production.engines)
    ((_, stage, rows),) = feeders.values()
    assert rows is not None
    found = production.engines.table(rows, Layout.of(stage).content)
    if tasks.stage.name == "stores":
        sold = pa.array(np.asarray(found.column("sold")) + 1)
        found = found.set_column(found.column_names.index("sold"), "sold", sold)
    found = found.select([c.name for c in Layout.of(tasks.stage).content])
    return np.arange(len(looked.entries)), found, []


def spent(function: Callable[[], T]) -> tuple[float, T]:
    """Return the processor seconds of a call, and its result."""
    before = time.process_time()
    found = function()
    return time.process_time() - before, found


def measured(partitions: int, place: Path, profile: str | None) -> dict[str, float]:
    """Return the seconds of each measure, with this many partitions."""
    days = partitions // STORES
    with dp.Store(None, place / str(partitions), pipeline(days)) as store:
        store.load({"sales": sales(LAST - timedelta(days=days - 1), days)})
        with (
            patch.object(making, "_run_tasks", planted),
            patch.object(verb, "PER_VERSION", 1 << 40),
        ):
            run = store.run(as_of=LAST)
        assert len(run.done) == days * STORES + days
    found = dict[str, float]()

    def timed(name: str, function: Callable[[], T]) -> T:
        tracer = cProfile.Profile() if profile == name else None
        if tracer is not None:
            tracer.enable()
        found[name], given = spent(function)
        if tracer is not None:
            tracer.disable()
            pstats.Stats(tracer).sort_stats("cumulative").print_stats(45)
        return given

    with dp.Store(None, place / str(partitions), pipeline(days)) as store:
        assert timed("nothing", lambda: store.run(as_of=LAST)) == dp.Run()
        there = verb.present_at(store._opened, store.head)
        schedule = Schedule(verb.moment_of(LAST, "UTC"), Looking(), there)
        outcomes = timed("tasks", lambda: verb.look(store._opened, store.head, schedule))
        listed = [one.listed for one in outcomes.stages.values()]
        assert sum(map(len, listed)) == days * STORES + days
        store.update({"sales": sales(LAST, 1).slice(0, 1).set_column(3, "sold", pa.array([7]))})
        run = timed("correction", lambda: store.run(as_of=LAST))
        assert len(run.done) == 2
        store.update({"sales": sales(LAST + timedelta(days=1), 1)})
        run = timed("day", lambda: store.run(as_of=LAST + timedelta(days=1)))
        assert len(run.done) == STORES + 1
        assert not run.left
    return found


def main(arguments: Sequence[str]) -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tasks")
    parser.add_argument("--partitions", type=int, nargs="+", default=[10_000, 100_000, 730_000])
    parser.add_argument("--profile", help="the measure that is profiled")
    given = parser.parse_args(arguments)
    lines = list[str]()
    with TemporaryDirectory() as place:
        for partitions in given.partitions:
            found = measured(partitions, Path(place), given.profile)
            lines.append(
                f"| {partitions:,} | {' | '.join(f'{each:.2f}' for each in found.values())} |"
            )
            print(lines[-1], flush=True)
    names = ["partitions", *found]
    print("\n".join([f"| {' | '.join(names)} |", f"|{' ---: |' * len(names)}", *lines]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
