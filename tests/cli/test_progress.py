"""Progress on standard error: a table on a terminal, lines elsewhere, no output if quick."""

import io

import pytest
from rich.console import Console

from deltaproduce.cli.answers.progress import Lines, LiveTable, on_standard_error
from deltaproduce.shown.phases import Progress


class Clock:
    """A clock that goes when it is told to."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def begins(stage: str, done: int, phase="") -> Progress:
    return Progress("update", stage, done, 2, phase)


def ends(stage: str, done: int, seconds: float = 1.0) -> Progress:
    return Progress(
        "update",
        stage,
        done,
        2,
        "",
        "ends",
        seconds,
        "seek",
        keys_in=5,
        keys_changed=3,
        rows=9,
        keys_affected=1200,
    )


OVER = Progress("update", "", 2, 2, "", "ends", 5.0)
LINE = "{}: keys 1,200, changed 3, rows 9, 1.00 s\n"


def test_elsewhere_each_stage_is_a_line_once_two_seconds_are_over():
    stream, clock = io.StringIO(), Clock()
    show = Lines(stream, clock)
    show(begins("orders", 0))
    clock.seconds = 1.0
    show(ends("orders", 0))
    assert stream.getvalue() == ""
    clock.seconds = 2.5
    show(begins("totals", 1, "computing"))
    assert stream.getvalue() == LINE.format("orders")
    show(ends("totals", 1))
    show(OVER)
    assert stream.getvalue() == LINE.format("orders") + LINE.format("totals")


def test_what_is_quick_shows_nothing_and_the_next_version_begins_anew():
    stream, clock = io.StringIO(), Clock()
    show = Lines(stream, clock)
    for _ in range(5):
        show(begins("orders", 0))
        show(ends("orders", 0))
        show(OVER)
        clock.seconds += 1.5
    assert stream.getvalue() == ""


def test_a_stage_that_nothing_reached_is_not_among_those_done():
    stream, clock = io.StringIO(), Clock()
    show, table = Lines(stream, clock), LiveTable(Terminal(), clock)
    for told in (begins("orders", 0), ends("orders", 0), begins("totals", 1)):
        show(told)
        table(told)
    clock.seconds = 3.0
    unreached = Progress("update", "totals", 1, 2, "", "ends", 0.0)
    show(unreached)
    table(unreached)
    assert stream.getvalue() == LINE.format("orders")
    assert shown(table)[2:] == [["orders", "done", "1,200", "3", "9", "1.00"]]
    table(OVER)


def shown(table: LiveTable) -> list[list[str]]:
    stream = io.StringIO()
    Console(file=stream, width=100).print(table.drawn())
    return [line.split() for line in stream.getvalue().splitlines()]


def test_on_a_terminal_a_table_has_what_is_done_and_what_is_being_done():
    stream, clock = Terminal(), Clock()
    show = LiveTable(stream, clock)
    show(begins("", 0, "planning"))
    assert shown(show) == []
    clock.seconds = 3.0
    assert shown(show)[2:] == [["planning", "3.00"]]
    show(begins("orders", 0))
    show(ends("orders", 0))
    show(begins("totals", 1))
    show(begins("totals", 1, "computing"))
    clock.seconds = 4.5
    assert shown(show)[0] == ["stage", "keys", "changed", "rows", "seconds"]
    assert shown(show)[2:] == [
        ["orders", "done", "1,200", "3", "9", "1.00"],
        ["totals", "computing", "1.50"],
    ]
    show(OVER)
    assert "\x1b[?25h" in stream.getvalue()  # the cursor is there again


@pytest.mark.parametrize(("stream", "kind"), [(Terminal(), LiveTable), (io.StringIO(), Lines)])
def test_who_looks_decides(monkeypatch, stream, kind):
    monkeypatch.setattr("sys.stderr", stream)
    assert isinstance(on_standard_error(), kind)
