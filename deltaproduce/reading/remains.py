"""Remains: where a deleted key can still be read, in the history of a store.

Pure: a function of the versions and their figures alone. The invariant: nothing is left out. A
table is named for each version in which it may have rows of the key, or rows made from it, though a
function may have made none.

An old version is a kept delta version, updates are only ever added, and with merge on read a table
may be older than the version that pins it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deltaproduce.model.layouts import CONTENT, KEY_MAPPINGS, RUNS, UPDATES
from deltaproduce.shown.table import Table
from deltaproduce.shown.tabular import Tabular, one_line
from deltaproduce.storage.figures import StageFigures
from deltaproduce.storage.versions import Version


@dataclass(frozen=True, slots=True)
class Remaining:
    """A table in which rows of a forgotten key, or rows made from it, can still be read.

    Attributes:
        stage: the stage that has the table.
        table: ``content``, ``key_mappings``, ``updates`` or ``runs``.
        versions: the numbers of the versions in which it may have them, in order. The Delta table's
            version is ``version.stages[stage].delta_versions[table]``.
    """

    stage: str
    table: str
    versions: tuple[int, ...]

    def __repr__(self) -> str:
        return one_line(self, self.stage, self.table, versions=len(self.versions))

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {"stage": self.stage, "table": self.table, "versions": list(self.versions)}


@dataclass(frozen=True, slots=True)
class Forgotten(Tabular):
    """What forgetting a key did, and where the key remains.

    Attributes:
        version: the version without the key: a new one, or the head if the key had no rows.
        remains: where the key can still be read, by stage and table. Updates are listed up to the
            newest version, because one table has those of all versions.
    """

    version: Version
    remains: tuple[Remaining, ...]

    def __repr__(self) -> str:
        return one_line(self, version=self.version.number, remains=len(self.remains))

    def as_tables(self) -> tuple[Table, ...]:
        """The version, and the tables that still have rows."""
        columns = ("stage", "table", "in versions")
        rows = tuple((r.stage, r.table, ", ".join(map(str, r.versions))) for r in self.remains)
        left = Table("where the key may still be read", columns, rows)
        return (*self.version.as_tables(), left)

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "version": self.version.as_dict(),
            "remains": [remaining.as_dict() for remaining in self.remains],
        }


def remains(
    versions: Sequence[Version], stages: Collection[str], alive: Collection[int]
) -> tuple[Remaining, ...]:
    """Return the tables of some stages that may still have a key's rows.

    Args:
        versions: all versions of a store, oldest first.
        stages: the source of the key, and all stages downstream of it.
        alive: the numbers of the versions in which the source has rows of the key.
    """
    every_table = (
        Remaining(stage, kind, tuple(_having(versions, stage, kind, alive)))
        for stage in stages
        for kind in (CONTENT, KEY_MAPPINGS, UPDATES, RUNS)
    )
    return tuple(remaining for remaining in every_table if remaining.versions)


def alive_in(versions: Iterable[Version], changes: Mapping[int, bool]) -> frozenset[int]:
    """Return the numbers of the versions in which a key has rows.

    Args:
        versions: consecutive versions, oldest first.
        changes: the numbers of the versions that changed the key -> whether it had rows then.
    """
    numbers, is_alive = set(), False
    for version in versions:
        is_alive = changes.get(version.number, is_alive)
        if is_alive:
            numbers.add(version.number)
    return frozenset(numbers)


def _having(
    versions: Sequence[Version], stage: str, kind: str, alive: Collection[int]
) -> list[int]:
    """Return the versions whose table of this kind may have rows of the key."""
    numbers: list[int] = []
    was_alive = False  # in this version or an earlier one that had the stage
    for version in versions:
        figures = version.stages.get(stage)
        if figures is None or CONTENT not in figures.delta_versions:
            continue
        was_alive = was_alive or version.number in alive
        kept = kind in (UPDATES, RUNS) or _has(figures, version.number, alive)
        if was_alive and kept and kind in figures.delta_versions:
            numbers.append(version.number)
    return numbers


def _has(figures: StageFigures, number: int, alive: Collection[int]) -> bool:
    """Return whether content or key mappings may have the key, at the version or at its fold."""
    return number in alive or (figures.base.runs > 0 and figures.base.folded in alive)
