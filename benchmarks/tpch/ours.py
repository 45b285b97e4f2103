"""This library: a store without a session that has queries as views, and what a step costs."""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import deltaproduce as dp
from benchmarks import measures
from benchmarks.storage import stored
from benchmarks.tpch.rows import Files, count, reader
from deltaproduce.storage.figures import StageFigures
from examples.tpch import Answer

SOURCE: Final = "sources"
HIDDEN: Final = "hidden tables"
VIEW: Final = "views"
COMMITS: Final = ("writing", "publishing")


@dataclass(frozen=True, slots=True)
class StageCost:
    """What a version did to one stage.

    Attributes:
        sort: `SOURCE`, `HIDDEN` or `VIEW`.
        owners: the views that a hidden table is for; otherwise the stage itself.
    """

    name: str
    sort: str
    owners: tuple[str, ...]
    figures: StageFigures


@dataclass(frozen=True, slots=True)
class HiddenTable:
    """A hidden table of views: its rows, and the bytes of its live files."""

    name: str
    owners: tuple[str, ...]
    role: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class StepCost:
    """What a version cost.

    Attributes:
        changed: the table -> the rows of its batch.
        whole: time, memory, commits and bytes of the call.
        settling: the seconds of the compaction after it.
        phases: sources, or views with their hidden tables, or neither ("") -> phase -> seconds.
    """

    changed: Mapping[str, int]
    whole: measures.Step
    settling: float
    phases: Mapping[str, Mapping[str, float]]
    stages: tuple[StageCost, ...]
    hidden: tuple[HiddenTable, ...]

    @property
    def rows(self) -> int:
        """The number of changed rows."""
        return sum(self.changed.values())

    def seconds(self, sort: str) -> float:
        """Return the seconds that stages of a sort took, without commits."""
        return sum(one.figures.seconds for one in self.stages if one.sort == sort)

    @property
    def committing(self) -> float:
        """The seconds in which tables and the version were written."""
        return sum(by_phase.get(name, 0) for by_phase in self.phases.values() for name in COMMITS)


class Ours:
    """A store of some pipeline, without a session."""

    def __init__(self, place: Path, pipeline: dp.Pipeline) -> None:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        self._place = place
        self._sources = frozenset(one.name for one in pipeline.graph().stages if not one.feeders)
        self._phases: dict[str, dict[str, float]] = {}
        self.store = dp.Store(None, str(place), pipeline, progress=self._listen)

    def __enter__(self) -> Ours:
        return self

    def __exit__(self, *error: object) -> None:
        self.store.close()

    def step(self, batch: Files) -> StepCost:
        """Apply a batch as one version."""
        self._phases = defaultdict(lambda: defaultdict(float))
        before = self.store.head.number
        whole = measures.measured(
            lambda: self.store.update({name: reader(file) for name, file in batch.items()}),
            self._place,
            measures.Processes(),
            own=True,
        )
        started = time.perf_counter()
        self.store.wait()
        settling = time.perf_counter() - started
        if self.store.head.number != before + 1:
            raise ValueError(f"the batch {sorted(batch)} made no version after {before}")
        phases = {sort: dict(by_phase) for sort, by_phase in self._phases.items()}
        changed = {name: count(file) for name, file in batch.items()}
        return StepCost(changed, whole, settling, phases, self._stages(), self._hidden())

    def answer(self, name: str, columns: list[str]) -> Answer:
        """Return the rows of a view."""
        rows: Any = self.store.content(name).select(columns)
        return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))

    def reasons(self, name: str) -> list[str]:
        """Return why operators of a view recompute at each change; none if all follow changes."""
        return sorted({one.reason for one in self.store.explain(name).operators if one.reason})

    def _listen(self, progress: dp.Progress) -> None:
        """Add up the seconds of phases."""
        if progress.phase and progress.event == "ends":
            sort = SOURCE if progress.stage in self._sources else VIEW if progress.stage else ""
            self._phases[sort][progress.phase] += progress.seconds or 0.0

    def _stages(self) -> tuple[StageCost, ...]:
        """Return what the newest version did; `Store.head` leaves hidden stages out."""
        opened = self.store._opened
        version, hidden = opened.log.head(), self._owners()

        def sort(name: str) -> str:
            return SOURCE if name in self._sources else HIDDEN if name in hidden else VIEW

        return tuple(
            StageCost(name, sort(name), hidden.get(name, (name,)), figures)
            for name, figures in version.stages.items()
        )

    def _hidden(self) -> tuple[HiddenTable, ...]:
        version = self.store._opened.log.head()
        bytes_of = stored(self._place, version)
        return tuple(
            HiddenTable(
                name,
                owners,
                version.stages[name].role,
                version.stages[name].rows,
                sum(table["live"] for table in bytes_of[name]["tables"].values()),
            )
            for name, owners in self._owners().items()
        )

    def _owners(self) -> dict[str, tuple[str, ...]]:
        """Return each hidden stage -> the views that it is for."""
        stages = self.store._opened.graph.stages
        return {one.name: one.hidden.owners for one in stages if one.hidden is not None}
