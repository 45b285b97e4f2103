"""Invented reports: of any size, and with any text."""

from __future__ import annotations

from deltaproduce.report.model import (
    ColumnReport,
    DifferenceReport,
    Report,
    SampleReport,
    StageReport,
    StepReport,
    TableReport,
    VersionReport,
)

MODES = ("seek", "skipped", "rewrite", "full", "merge", "restore")
OPERATIONS = ("update", "update", "update", "load", "update", "rollback")
START = 1_767_225_600  # the first second of 2026

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    '"><svg onload=alert(3)>',
    "<!--<script>",
    "{{ report }}{% raw %}",
    "\u2028' onfocus=alert(4) autofocus x='",
)
"""Texts that would run, or break the page, where one is taken for markup or code."""


def version(number: int, operation: str = "update", update_id: str = "") -> VersionReport:
    keys = 1_000_000 if number == 1 else 10 * (number % 17)
    return VersionReport(
        number, START + 3600 * number, operation, update_id, 3, 0.04 * (number % 9), keys,
        keys // 3, number, number // 2, 1_000_000 + number * 10, 0.25,
    )  # fmt: skip


def step(number: int, mode: str, reason: str) -> StepReport:
    return StepReport(number, mode, reason, 1234, 56, 7, 8, 9_876_543, 1000, 123_456, 0.125, "")


def stage(
    name: str, feeders: tuple[str, ...], readers: tuple[str, ...], place: int, text: str
) -> StageReport:
    """A stage all of whose texts are the given one."""
    mode = MODES[place % len(MODES)]
    changed = ("add", "1", text), ("delete", "2", None)
    return StageReport(
        name, "rows", feeders, readers,
        (
            ColumnReport("k", "key", "bigint", False, True, text),
            ColumnReport(text, "value", "decimal(12,2)", True, False, None),
        ),
        ("k",), "python", text, step(3, mode, text),
        (TableReport("content", 3, 2, 2048), TableReport("updates", 7, 1, 10)),
        (step(3, mode, text), step(2, "seek", text)),
        (SampleReport(3, 56, ("_change_type", "k", text), (False, True, False), changed),),
        DifferenceReport(
            56, 1, ("k", text), (True, False), 1, (("before", "1", text), ("after", "1", None)),
        ),
    )  # fmt: skip


def made(names: tuple[str, ...], edges: set[tuple[int, int]], versions: int, text: str) -> Report:
    """A report of stages with these names and edges between them."""
    stages = tuple(
        stage(
            name,
            tuple(names[feeder] for feeder, reader in sorted(edges) if reader == place),
            tuple(names[reader] for feeder, reader in sorted(edges) if feeder == place),
            place,
            text,
        )
        for place, name in enumerate(names)
    )
    past = tuple(
        version(number, OPERATIONS[number % len(OPERATIONS)], text if number % 5 == 0 else "")
        for number in range(1, versions + 1)
    )
    return Report("shop", text, START, versions, past[-1], stages, past)


def layered(stages: int, width: int) -> set[tuple[int, int]]:
    """Edges of a graph of so many stages, of layers that are so wide: each reads one or two."""
    return {
        (feeder, place)
        for place in range(width, stages)
        for feeder in (place - width, place - width + (place % 3 == 0))
        if feeder < place - place % width
    }
