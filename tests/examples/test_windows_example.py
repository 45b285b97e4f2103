"""The windows example, run for its last days, and its batches."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from loading import load_example
from rich.console import Console

import deltaproduce as dp

windows = load_example("03_windows")

LAST_DAYS = 5


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    table: pa.Table = windows.source_rows(windows.recorded_flights())
    return table


def test_each_day_equals_a_plain_aggregate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plot = tmp_path / "delays.png"
    assert windows.main(["--days", str(LAST_DAYS), "--plot", str(plot)]) == 0
    printed = capsys.readouterr().out
    assert "2013-01-30 to 2013-02-28, 1 in, 1 out; moving it reads about" in printed
    assert f"All {LAST_DAYS} days equal" in printed
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_each_day_moves_the_window(tmp_path: Path, rows: pa.Table) -> None:
    location = tmp_path / "store"
    console = Console(quiet=True)
    assert windows.run(location, console, rows, days=LAST_DAYS, plot=tmp_path / "delays.png")
    loaded, *moved = dp.Store(None, str(location), windows.air_traffic).versions()
    assert not loaded.stages["recent_delays"].window.reused
    assert len(moved) == LAST_DAYS
    for version, back in zip(moved, reversed(range(LAST_DAYS)), strict=True):
        day = windows.LAST_DAY - timedelta(days=back)
        move = version.stages["recent_delays"].window
        assert move.reused
        assert (move.entered, move.left) == ((day,), (day - timedelta(days=30),))


def test_a_difference_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(windows, "known", lambda rows, day: rows.filter(pc.field("day") <= day))
    assert windows.main(["--days", "1", "--plot", str(tmp_path / "delays.png")]) == 1
    assert "aggregates: 2013-02-28." in capsys.readouterr().out


def test_delays_differ_by_a_carrier_a_count_or_a_double() -> None:
    delays = {"UA": {"flights": 2, "average": 1.5}, "OO": {"flights": 1, "average": None}}
    assert windows.agree(delays, {**delays, "UA": {"flights": 2, "average": 1.5 + 1e-12}})
    for other in (
        {"UA": delays["UA"]},
        {**delays, "UA": {"flights": 3, "average": 1.5}},
        {**delays, "UA": {"flights": 2, "average": 1.5001}},
        {**delays, "OO": {"flights": 1, "average": 0.0}},
    ):
        assert not windows.agree(delays, other)
        assert not windows.agree(other, delays)


def test_batches_add_up_to_what_is_known(rows: pa.Table) -> None:
    known: dict[tuple[Any, ...], dict[str, Any]] = {}
    deleted = late = 0
    for number in range(1, 7):
        day = date(2013, 1, number)
        for row in windows.batch(rows, day).to_pylist():
            if row.pop("_change_type") == "delete":
                deleted += 1
                del known[key_of(row)]
            else:
                late += key_of(row) in known
                known[key_of(row)] = row
        assert {key_of(row): row for row in windows.known(rows, day).to_pylist()} == known
    assert deleted > 0
    assert late > 100


def key_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in windows.flights.schema.key.names)
