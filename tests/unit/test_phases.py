"""Seconds of phases add up at any nesting, and without a listener nobody is notified."""

from __future__ import annotations

import io
import logging
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaproduce.shown import phases
from deltaproduce.shown.live import LiveLine, live
from deltaproduce.shown.phases import (
    Progress,
    Watch,
    in_phase,
    jobs_begin,
    phase,
    reached,
    watching,
)

Tree = list[tuple[str, int, "Tree"]]
NAMES = st.sampled_from(["checking", "reading", "computing", "comparing", "writing"])
TREES: st.SearchStrategy[Tree] = st.recursive(
    st.just([]),
    lambda within: st.lists(st.tuples(NAMES, st.integers(0, 9), within), max_size=3),
    max_leaves=12,
)


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> float:
        return self.now


def work(tree: Tree, clock: Clock, spent: dict[str, int], around: str) -> None:
    """Spend some time in phases within each other, and add up how much in which."""
    for name, seconds, within in tree:
        with phase(name):  # type: ignore[arg-type]
            clock.now += seconds
            spent[name] = spent.get(name, 0) + seconds
            work(within, clock, spent, name)
        clock.now += 1
        spent[around] = spent.get(around, 0) + 1


@given(TREES)
def test_seconds_of_phases_are_their_own_and_add_up(tree: Tree) -> None:
    clock, heard, spent = Clock(), list[Progress](), dict[str, int]()
    with watching(Watch("update", (heard.append,), clock=clock)):
        work(tree, clock, spent, "planning")
    *told, last = [progress for progress in heard if progress.event == "ends"]
    assert (last.phase, last.stage, last.seconds) == ("", "", clock.now)
    assert sum(progress.seconds or 0 for progress in told) == clock.now
    for name in {progress.phase for progress in told}:
        found = sum(progress.seconds or 0 for progress in told if progress.phase == name)
        assert found == spent.get(name, 0)
    begun = [progress.phase for progress in heard if progress.event == "begins"]
    assert sorted(begun) == sorted(progress.phase for progress in told)


def test_work_that_nobody_watches_tells_nobody() -> None:
    heard: list[Progress] = []

    @in_phase("reading")
    def read(rows: int) -> int:
        return rows

    assert read(3) == 3
    reached(Progress("update", "totals", 0, 1))
    with watching(Watch("update", (heard.append,))):
        assert read(3) == 3
    assert {progress.phase for progress in heard} == {"planning", "reading", ""}
    assert phases._watch.get() is None


def test_jobs_are_described_by_the_innermost_phase_and_then_no_more() -> None:
    heard: list[str | None] = []
    with watching(Watch("update", describing=lambda: heard.append)):
        reached(Progress("update", "totals", 0, 1))
        with phase("computing"):
            assert heard == []  # Spark has nothing to do yet
            jobs_begin()
            with phase("reading"):
                jobs_begin()
    assert heard == [
        "deltaproduce: update totals computing",
        "deltaproduce: update totals reading",
        "deltaproduce: update totals computing",
        "deltaproduce: update totals planning",
        None,
    ]


def test_without_jobs_nothing_is_described() -> None:
    asked: list[None] = []
    with watching(Watch("update", describing=lambda: asked.append(None))), phase("computing"):
        pass
    assert asked == []
    with watching(Watch("update", describing=lambda: asked.append(None))):
        jobs_begin()
        jobs_begin()
    assert asked == [None]  # once, though there is nobody to describe them to, as with Connect
    jobs_begin()


def test_a_listener_stops_what_begins_and_not_what_is_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(progress: Progress) -> None:
        if (progress.phase, progress.event) in wrong:
            raise ValueError("no")

    wrong = {("writing", "ends")}
    with watching(Watch("update", (fails,))), phase("writing"):
        pass
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    wrong = {("writing", "begins")}
    watch = Watch("update", (fails,))
    with pytest.raises(ValueError, match="no"), watching(watch), phase("writing"):
        raise AssertionError("it has begun")
    assert phases._watch.get() is None


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_is_shown_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert live() is None
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert isinstance(live(), LiveLine)


def test_a_line_is_shown_after_two_seconds_and_is_gone_at_the_end() -> None:
    clock, stream = Clock(), Terminal()
    line = LiveLine(stream, clock)
    line(Progress("update", "totals", 0, 2))
    clock.now = 1
    line(Progress("update", "totals", 0, 2, "reading"))
    assert stream.getvalue() == ""
    clock.now = 3
    line(Progress("update", "totals", 1, 2, "computing"))
    assert stream.getvalue() == "\r\x1b[Kupdate totals computing (1/2 stages) 3 s"
    line(Progress("update", "", 2, 2, event="ends", seconds=3.0))
    assert stream.getvalue().endswith("\r\x1b[K")
    clock.now = 4
    line(Progress("update", "totals", 0, 2))  # the next one begins anew
    assert stream.getvalue().endswith("\r\x1b[K")


def test_what_is_told_is_what_there_is() -> None:
    ended = Progress("update", "t", 0, 1, "", "ends", 0.5, "seek", 3, 0, 7)
    assert ended.as_dict() == {
        "operation": "update",
        "stage": "t",
        "done": 0,
        "total": 1,
        "event": "ends",
        "seconds": 0.5,
        "mode": "seek",
        "keys_in": 3,
        "keys_changed": 0,
        "rows": 7,
    }
