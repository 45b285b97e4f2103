"""Retention: decides which versions, histories and tables a vacuum keeps.

Pure: a function of the versions and their figures. The invariant: the newest version is always
kept, the kept versions are the newest ones, and every row that one of them needs stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from deltaproduce.errors import InvalidArgumentError
from deltaproduce.model import arguments
from deltaproduce.model.layouts import RUNS, UPDATES
from deltaproduce.storage.figures import StageFigures
from deltaproduce.storage.versions import Version, updates_known_since
from deltaproduce.types.columns import VERSION

_CENTURY_DAYS: Final = 36_500
"""An upper limit: no version is older, and Python has no times before the year 1."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Rows of old versions, at the beginning of a table, that no kept version needs.

    Attributes:
        stage: the table's stage.
        kind: ``updates`` or ``runs``.
        below: rows of versions before this one are not needed.
        versions: the numbers of the kept versions whose rows all remain.
    """

    stage: str
    kind: str
    below: int
    versions: frozenset[int]

    @property
    def predicate(self) -> str:
        """The predicate of the rows that are not needed."""
        return f"{VERSION} < {self.below}"


def check_kept(keep_versions: int | None, keep_days: float | None) -> None:
    """Refuse arguments that do not say which versions to keep.

    Raises:
        InvalidArgumentError: neither is given, or no version would be kept, or one is not a number.
    """
    if keep_versions is None and keep_days is None:
        raise InvalidArgumentError(
            "vacuum needs keep_versions or keep_days: versions that neither keeps are dropped",
            argument="keep_versions",
        )
    if keep_versions is not None:  # the newest version is always kept
        arguments.integer(keep_versions, "keep_versions", least=1)
    if keep_days is not None:
        arguments.number(keep_days, "keep_days")


def retained(
    versions: Sequence[Version],
    keep_versions: int | None,
    keep_days: float | None,
    now: datetime,
) -> tuple[Version, ...]:
    """Return the versions that either argument keeps; both have passed `check_kept`.

    Args:
        versions: all versions of a store, oldest first.
        keep_versions: how many of the newest to keep.
        keep_days: keep versions that were the newest at any time in this many days before ``now``.
    """
    if not versions:
        return ()
    counted = 1 if keep_versions is None else keep_versions
    since = None if keep_days is None else now - timedelta(days=min(keep_days, _CENTURY_DAYS))
    overtaken = [version.committed_at for version in versions[1:]]
    timed = sum(1 for time in overtaken if since is not None and time and time >= since) + 1
    return tuple(versions[-max(counted, timed) :])


def cuts(versions: Sequence[Version], kept: Sequence[Version]) -> tuple[Cut, ...]:
    """Return the rows of append-only tables that are not needed any more.

    Args:
        versions: all versions of a store, oldest first.
        kept: the versions among these that stay.
    """
    dropped = versions[: len(versions) - len(kept)]
    if not dropped:
        return ()
    cuts = []
    for stage, figures in kept[-1].stages.items():
        had = [version.stages[stage] for version in dropped if stage in version.stages]
        if UPDATES in figures.delta_versions and any(old.changed_keys for old in had):
            alike = _same_history(kept, stage)
            cuts.append(Cut(stage, UPDATES, kept[0].number, alike))
        had_runs = any(old.base.runs for old in had)
        if RUNS in figures.delta_versions and figures.base.folded and had_runs:
            alike = frozenset(
                v.number for v in kept if _reads_the_same(v.stages.get(stage), figures)
            )
            cuts.append(Cut(stage, RUNS, figures.base.folded + 1, alike))
    return tuple(cuts)


def repointed(
    versions: Iterable[Version], delta_versions: Mapping[Cut, int]
) -> tuple[Version, ...]:
    """Return the versions, reading the cut tables at the delta versions of the cuts."""
    return tuple(_repointed(version, delta_versions) for version in versions)


def pins(versions: Iterable[Version], stage: str, kind: str) -> frozenset[int]:
    """Return the delta versions of one table that the versions need."""
    numbers = (version.pinned(stage, kind) for version in versions)
    return frozenset(pinned for pinned in numbers if pinned is not None)


def _repointed(version: Version, delta_versions: Mapping[Cut, int]) -> Version:
    stages = dict(version.stages)
    for cut, delta_version in delta_versions.items():
        if version.number in cut.versions:
            stages[cut.stage] = stages[cut.stage].at({cut.kind: delta_version})
    return replace(version, stages=stages)


def _same_history(kept: Sequence[Version], stage: str) -> frozenset[int]:
    """Return the latest versions that share one table of updates."""
    since, _ = updates_known_since(kept, stage)
    alike = (v for v in kept if v.pinned(stage, UPDATES) is not None)
    return frozenset(version.number for version in alike if version.number >= since)


def _reads_the_same(figures: StageFigures | None, newest: StageFigures) -> bool:
    """Return whether a version and the newest one read the same rows of runs."""
    return (
        figures is not None
        and figures.delta_versions.get(RUNS) == newest.delta_versions[RUNS]
        and figures.base.folded == newest.base.folded
    )
