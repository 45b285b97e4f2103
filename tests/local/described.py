"""Data sets for tests: random rows and options, crashes at effects, and the expected rows."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import deltaproduce as dp
from deltaproduce.storage import failpoints

SCHEMA = "id bigint NOT NULL, day date, kind string"
FORMS: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "sorted": {"order": "kind desc, id"},
    "by nothing": {"partition": "", "order": "id"},
    "by day and kind": {"partition": "day, kind", "order": "id desc"},
    "by expressions": {"partition": "kind, id % 3 AS bucket, year(day) AS `ye-ar`"},
}

Row = tuple[int, date | None, str | None]


def made(place: Path | str, form: str = "plain", **more: Any) -> dp.Dataset:
    return dp.Dataset.create(None, place, schema=SCHEMA, **FORMS[form], **more)


def rows_from(number: int, count: int) -> list[Row]:
    """Rows of several days and kinds, with nulls and signs that paths cannot have."""
    days = (date(2026, 1, 31), None, date(1999, 12, 31))
    kinds = ("a/b", "ä %41=", None, "a/b", ".")
    return [(n, days[n // 2 % 3], kinds[n * 7 % 5]) for n in range(number, number + count)]


def found_in(dataset: dp.Dataset, where: str | None = None) -> Counter[Row]:
    table: Any = dataset.read(where)
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def partition_of(form: str, row: Row) -> tuple[object, ...]:
    """The partition of a row, said in plain Python."""
    number, day, kind = row
    if form == "by day and kind":
        return day, kind
    if form == "by expressions":
        return kind, number % 3, day and day.year
    return ()


def files_of(form: str, rows: Sequence[Row], roll_rows: int | None) -> int:
    """How many files one writer makes."""
    counts = Counter(partition_of(form, row) for row in rows)
    return sum(-(-count // (roll_rows or count)) for count in counts.values())


def check_sorted(dataset: dp.Dataset) -> None:
    """The rows of each file are in the data set's order."""
    for path in dataset.files():
        table = pq.read_table(Path(dataset.location) / path, partitioning=None)
        order = [text.partition(" ") for text in dataset.descriptor.order]
        keys = [
            tuple(_key(row[n], descending=bool(d)) for n, _, d in order if n in row)
            for row in table.to_pylist()
        ]
        assert keys == sorted(keys)


def _key(value: Any, *, descending: bool) -> tuple[bool, Any]:
    """Nulls first, or last if it descends; text by its bytes, which these texts sort by."""
    if value is None:
        return descending, 0
    number = [ord(c) for c in value] if isinstance(value, str) else value
    if not descending:
        return True, number
    return False, [-c for c in number] + [1] if isinstance(number, list) else -number


class Crash(BaseException):
    """The process ended here."""


@contextmanager
def crashing(at: int | None) -> Iterator[list[tuple[str, str]]]:
    """The effects that are begun, with a crash before one of them or, if it is odd, after it.

    Nothing has an effect any more then, as of a process that has ended.
    """
    begun = list[tuple[str, str]]()
    ended = False

    def reach(when: str, name: str, table: str) -> None:
        nonlocal ended
        if ended:
            raise Crash
        begun.append((when, name))
        if at is not None and len(begun) > at:
            ended = True
            raise Crash

    with failpoints.armed(reach):
        yield begun


def crashed(action: Callable[[], object], at: int) -> bool:
    """Whether an action was crashed, at that many fail points."""
    try:
        with crashing(at):
            action()
    except Crash:
        return True
    return False


_KILLED = """
import os, signal, sys
sys.path.insert(0, os.path.join({root!r}, "tests", "local"))
import deltaproduce as dp
from described import rows_from
from deltaproduce.storage import failpoints
reached = 0
def reach(when, name, table):
    global reached
    reached += 1
    if reached > {at}:
        os.kill(os.getpid(), signal.SIGKILL)
with failpoints.armed(reach):
    {action}
"""


def killed(action: str, at: int) -> bool:
    """Whether a process was killed (SIGKILL), at that many fail points of what it does."""
    root = str(Path(__file__).parents[2])
    script = _KILLED.format(root=root, at=at, action=action)
    ran = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": root})
    assert ran.returncode in (0, -9)
    return ran.returncode == -9


def left_over(dataset: dp.Dataset) -> set[str]:
    """Files in its directory that its newest snapshot does not have."""
    top = Path(dataset.location)
    there = {path.relative_to(top).as_posix() for path in top.rglob("*.parquet")}
    return {path for path in there if not path.startswith("_")} - set(dataset.files())
