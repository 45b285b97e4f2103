"""The flights example's functions as plain Python: their emissions, and their batches."""

from collections.abc import Iterable
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from loading import load_example

from deltaproduce.testing import Delete, Oracle, Upsert
from deltaproduce.types.columns import row_type

DAY, NEXT_DAY = date(2013, 3, 1), date(2013, 3, 2)

flights = load_example("01_flights")

Key = row_type(flights.flights.schema.key.names)
Flight = row_type(flights.flights.schema.value.names)
Leg = row_type(flights.flights_by_aircraft.schema.value.names)
Carried = row_type(flights.carried_delays.schema.value.names)


def leg(dep_delay: int | None, arr_delay: int | None, *, day: date = DAY, hhmm: int = 900) -> Any:
    return Leg(day, hhmm, "UA", 1, "EWR", "ORD", dep_delay, arr_delay)


def carried_minutes(legs: Iterable[Any]) -> list[int]:
    return [value[-1] for _, value in flights.carried_delays("N1", iter(legs))]


def test_re_keys_by_aircraft() -> None:
    key = Key(DAY, 900, "UA", 1, "EWR")
    emitted = list(flights.flights_by_aircraft(key, iter([Flight("N1", "ORD", 5, None)])))
    assert emitted == [("N1", (DAY, 900, "UA", 1, "EWR", "ORD", 5, None))]


def test_skips_flights_without_an_aircraft() -> None:
    values = [Flight(None, "ORD", 5, 7), Flight("N1", "ORD", 5, 7)]
    emitted = flights.flights_by_aircraft(Key(DAY, 900, "UA", 1, "EWR"), iter(values))
    assert [tailnum for tailnum, _ in emitted] == ["N1"]


def test_carried_delay_names_the_later_flight() -> None:
    later = Leg(DAY, 1800, "DL", 22, "JFK", "ATL", 20, 5)
    emitted = list(flights.carried_delays("N1", iter([leg(0, 30), later])))
    assert emitted == [(("DL", 3), (DAY, 1800, "N1", 22, 20))]


@pytest.mark.parametrize(
    ("arr_delay", "dep_delay", "carried"),
    [
        pytest.param(30, 20, [20], id="no more than the departure's"),
        pytest.param(20, 30, [20], id="no more than the arrival's"),
        pytest.param(20, 0, [], id="on time again"),
        pytest.param(20, -4, [], id="early again"),
        pytest.param(-8, 20, [], id="early arrival"),
        pytest.param(None, 20, [], id="diverted"),
    ],
)
def test_carries_the_smaller_delay(
    arr_delay: int | None, dep_delay: int, carried: list[int]
) -> None:
    assert carried_minutes([leg(0, arr_delay), leg(dep_delay, 0)]) == carried


def test_carries_nothing_over_night() -> None:
    next_day = [leg(20, 15, day=NEXT_DAY), leg(10, 0, day=NEXT_DAY)]
    assert carried_minutes([leg(0, 30), *next_day]) == [10]


def test_passes_over_cancelled_flights() -> None:
    assert carried_minutes([leg(0, 30), leg(None, None), leg(20, 0)]) == [20]


@pytest.mark.parametrize("legs", [[], [leg(30, 30)], [leg(None, None)]])
def test_one_flight_carries_nothing(legs: list[Any]) -> None:
    assert carried_minutes(legs) == []


def test_totals_by_carrier() -> None:
    values = [Carried(DAY, 900, "N1", 1, 20), Carried(DAY, 900, "N2", 2, 5)]
    assert list(flights.carried_by_carrier(("UA", 3), iter(values))) == [(("UA", 3), (2, 25))]


@pytest.fixture(scope="module")
def recorded() -> pa.Table:
    table: pa.Table = flights.recorded_flights()
    return table


def test_arrow_types_are_the_declared_ones(recorded: pa.Table) -> None:
    arrow_type = {"date": "date32[day]", "int": "int32", "string": "string"}
    columns = (*flights.flights.schema.key, *flights.flights.schema.value)
    declared = {column.name: arrow_type[column.data_type.simpleString()] for column in columns}
    assert {field.name: str(field.type) for field in recorded.schema} == declared


def test_recorded_flights(recorded: pa.Table) -> None:
    key = flights.flights.schema.key.names
    assert len(recorded) == 336_776
    assert len(recorded.group_by(list(key)).aggregate([])) == 336_776
    nulls = {name: recorded[name].null_count for name in recorded.column_names}
    assert {name: count for name, count in nulls.items() if count} == {
        "tailnum": 2_512,
        "dep_delay": 8_255,
        "arr_delay": 9_430,
    }


def test_batches_add_up_to_the_final_flights(recorded: pa.Table) -> None:
    batch = flights.corrections(recorded)
    change_types = batch["_change_type"].to_pylist()
    assert (change_types.count("upsert"), change_types.count("delete")) == (346, 108)
    december = rows_by_key(recorded.filter(flights.DECEMBER))
    for row in batch.to_pylist():
        change_type = row.pop("_change_type")
        december[key_of(row)] = row
        if change_type == "delete":
            del december[key_of(row)]
    assert rows_by_key(flights.final_flights(recorded).filter(flights.DECEMBER)) == december


def test_pipeline_on_one_aircraft() -> None:
    oracle = Oracle(flights.air_traffic)
    morning = (DAY, 900, "UA", 1, "EWR")
    evening = (DAY, 1800, "UA", 2, "LGA")
    # Given out of order: the key puts the flights in order.
    late = [Upsert(evening, ("N1", "ORD", 25, 10)), Upsert(morning, ("N1", "ORD", 5, 30))]
    oracle.update({"flights": late})
    assert oracle.content("carried_by_carrier") == [("UA", 3, 1, 25, "UA", 3, 0)]
    oracle.update({"flights": [Delete(morning)]})
    assert oracle.content("carried_by_carrier") == []


def rows_by_key(rows: pa.Table) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {key_of(row): row for row in rows.to_pylist()}


def key_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in flights.flights.schema.key.names)
