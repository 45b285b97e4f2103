"""The windows of a graph: the columns they are over, where they are, and what moves them.

Pure, except that `Root.units` reads columns. The invariant: the place of a window follows from the
partitions and the day that its version records (`WindowState`), for every reader and writer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from types import MappingProxyType
from typing import Final

from deltaproduce.engines.comparisons import Comparison
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.marks import ALIVE, ROWS_OF_CHANGED_KEYS
from deltaproduce.engines.spark.kernels.ranges import units_of
from deltaproduce.errors import MissingPartitionsError
from deltaproduce.model.graph import Graph, Source, Stage
from deltaproduce.model.partitions import Partition, Partitioning, Ranges
from deltaproduce.model.window_moves import Shift, WindowMove, place_of
from deltaproduce.model.windows import NOWHERE, PlannedWindow, planned
from deltaproduce.shown.tasks import display_text
from deltaproduce.storage.figures import NO_TABLES
from deltaproduce.storage.versions import Version, has_tables
from deltaproduce.storage.window_states import Tracked, WindowState
from deltaproduce.types.columns import Column
from deltaproduce.types.excerpts import shown

Units = Mapping[Tracked, Ranges]
_NAMED: Final = 1_000
"""The most missing partitions that an error names."""
_NO_MOVES: Final[Mapping[str, WindowMove | None]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Root:
    """A column of a stage whose partitions decide where windows are."""

    stage: Stage
    column: Column
    partitions: Partitioning

    @property
    def tracked(self) -> Tracked:
        """The identity of the column in a store."""
        return Tracked(self.stage.name, self.column.name, self.partitions.unit)

    def units(self, rows: Rows) -> Units:
        """Return the units of rows of the stage."""
        return {self.tracked: units_of(rows, self.column, self.partitions)}

    def units_after(self, step: Comparison) -> Units:
        """Return the units of the rows that a step has written."""
        which = ALIVE if step.complete else ROWS_OF_CHANGED_KEYS
        return self.units(step.select((self.column,), which))


@dataclass(frozen=True, slots=True)
class WindowedStage:
    """A stage with a window.

    Attributes:
        roots: the origins of its feeders' partitions, each once.
    """

    stage: Stage
    window: PlannedWindow
    roots: tuple[Root, ...]

    def present(self, state: WindowState) -> Ranges:
        """Return the partitions that are present in any feeder."""
        units = (state.present.get(root.tracked, Ranges()) for root in self.roots)
        return self.window.present(Ranges.of(chain.from_iterable(u.pairs for u in units)))

    def place(self, state: WindowState) -> Ranges:
        """Return the partitions from the window's first to its last.

        A limited window begins to move when a partition is present, whatever the day is.
        """
        is_begun = self.present(state) or not self.is_limited
        return self._wanted(state) if is_begun else NOWHERE

    def _wanted(self, state: WindowState) -> Ranges:
        """Return the final place of the window, whether or not it has begun to move."""
        return self.window.place(self.present(state), state.day_in(self.window.partitions))

    @property
    def is_limited(self) -> bool:
        """See `Window.is_limited`."""
        return self.window.window.is_limited

    def shift(
        self, head: Version, state: WindowState, *, redefined: bool = False, advances: bool = False
    ) -> Shift:
        """Return how the window moves after a version.

        Args:
            redefined: whether it was another window, or none, until then.
            advances: whether it moves even if it is limited.
        """
        last = None if redefined else self.last_move(head, state)
        before = None if last is None else place_of(self.window, last)
        had = NOWHERE if last is None else self.present(head.windows)
        after, has, was = self.place(state), self.present(state), before or NOWHERE
        if self.is_limited:
            after = self.window.next_place(was, after, has) if advances else was
        return Shift(self.window, before, had, after, has)

    def last_move(self, version: Version, state: WindowState) -> WindowMove | None:
        """Return the move that led to the window's place in a version; None if it has no place yet.

        A window is on its way as soon as it is somewhere, even if no row ever was.
        """
        figures = version.stages.get(self.stage.name, NO_TABLES)
        begins = not figures.delta_versions and self.place(state)
        return WindowMove() if figures.window is None and begins else figures.window

    def check_present(self, state: WindowState) -> None:
        """Refuse a window that lacks partitions, unless it skips them.

        Raises:
            MissingPartitionsError: with `stage` and `partitions`.
        """
        if self.window.window.on_missing == "skip":
            return
        place = self._wanted(state)
        every = (
            place.difference(self.window.present(state.present.get(root.tracked, Ranges())))
            for root in self.roots
        )
        missing = Ranges.of(chain.from_iterable(units.pairs for units in every))
        if missing:
            stage = self.stage.owner
            names = tuple(map(self.window.partitions.name, islice(missing, _NAMED)))
            raise MissingPartitionsError(
                f"stage {stage!r}: its window over {self.window.window.column!r} lacks "
                f"{missing.count} partitions: {shown([*map(str, names)])}; give their rows, or "
                "name those that have none in partitions=",
                stage=stage,
                partitions=names,
            )


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a graph.

    Attributes:
        stages: the stages with a window, by name, in topological order.
        kept: the columns whose partitions decide which rows sources keep.
    """

    stages: Mapping[str, WindowedStage]
    kept: tuple[Root, ...] = ()

    @staticmethod
    def of(graph: Graph, zone: str) -> Windows:
        """Return the windows of a graph whose columns all have types.

        Args:
            zone: the time zone whose days divide timestamps.
        """
        windowed = (_windowed(stage, zone) for stage in graph.stages)
        every = (root_kept_by(source, zone) for source in graph.sources)
        kept = tuple(root for root in every if root is not None)
        return Windows({one.stage.name: one for one in windowed if one is not None}, kept)

    def roots(self, stage: str | None = None) -> tuple[Root, ...]:
        """Return the columns whose partitions count, each once; only those of a stage, if given."""
        roots = chain.from_iterable(windowed.roots for windowed in self.stages.values())
        once = {root.tracked: root for root in (*roots, *self.kept)}
        return tuple(root for root in once.values() if stage in (None, root.stage.name))

    def shared(self, stages: Collection[str]) -> Mapping[str, tuple[str, Collection[str]]]:
        """Return feeders under several windows -> the most common column, and the stages over it.

        Args:
            stages: the stages whose windows count.
        """
        over: dict[tuple[str, str], list[str]] = {}
        for name, windowed in self.stages.items():
            for feeder in windowed.stage.merged if name in stages else ():
                column = feeder.schema.key.columns[windowed.window.position].name
                over.setdefault((feeder.name, column), []).append(name)
        shared_roots: dict[str, tuple[str, Collection[str]]] = {}
        for (name, column), readers in over.items():
            if len(readers) > max(1, len(shared_roots[name][1]) if name in shared_roots else 0):
                shared_roots[name] = column, readers
        return shared_roots

    def check_present(self, state: WindowState, settled: Iterable[str]) -> None:
        """Refuse windows that lack partitions, also of stages that nothing reaches.

        Args:
            settled: the stages to skip.

        Raises:
            MissingPartitionsError: with `stage` and `partitions`.
        """
        for name, windowed in self.stages.items():
            if name not in settled:
                windowed.check_present(state)

    def unknown(self, head: Version, reached: Collection[str]) -> set[str]:
        """Return the stages whose windows may have partitions that nobody knows before an update.

        Args:
            reached: the stages that may get rows.
        """
        known = head.windows.present
        return {
            name
            for name, windowed in self.stages.items()
            if any(
                root.stage.name in reached
                or (root.tracked not in known and has_tables(head, root.stage.name))
                for root in windowed.roots
            )
        }

    def due(self, head: Version, state: WindowState, *, advances: bool) -> dict[str, str]:
        """Return the stages whose windows move though none of their inputs changes, and why.

        Args:
            advances: whether limited windows count, too.
        """
        moves = {}
        for name, windowed in self.stages.items():
            figures = head.stages.get(name)
            if figures is None or figures.window is None or not has_tables(head, name):
                continue
            place = windowed.place(state)
            stays = windowed.is_limited and not advances
            if not stays and place != place_of(windowed.window, figures.window):
                moves[name] = f"its window moves to {_range_text(windowed.window, place)}"
        return moves

    def behind(self, version: Version, moves: Mapping[str, WindowMove | None] = _NO_MOVES) -> bool:
        """Return whether a limited window has not reached its final place yet.

        Args:
            moves: the places of windows that differ from the version's figures.
        """
        for name, windowed in self.stages.items():
            move = moves.get(name, windowed.last_move(version, version.windows))
            if move is None or not windowed.is_limited:
                continue
            if place_of(windowed.window, move) != windowed.place(version.windows):
                return True
        return False

    def moved(
        self, head: Version, state: WindowState, settled: Iterable[str], *, advances: bool
    ) -> Version:
        """Return a version with the windows of a state, for stages whose rows stay.

        This includes stages that have no rows yet.

        Args:
            settled: the stages to skip.
            advances: as for `due`.
        """
        figures = {
            name: replace(
                head.stages.get(name, NO_TABLES),
                window=windowed.shift(head, state, advances=advances).move(
                    reused=False, why="no row of it changes"
                ),
            )
            for name, windowed in self.stages.items()
            if name not in settled and windowed.last_move(head, state) is not None
        }
        return replace(head, stages={**head.stages, **figures}, windows=state)

    def back(self, stage: str, head: Version, wanted: Version, why: str) -> WindowMove | None:
        """Return the move of a stage's window in a rollback."""
        figures, windowed = wanted.stages.get(stage), self.stages.get(stage)
        if figures is None or figures.window is None:
            return None
        same = head.definitions.get(stage) == wanted.definitions.get(stage)
        if windowed is None or not same:
            return replace(figures.window, entered=(), left=(), reused=False, why=why)
        shift = replace(
            windowed.shift(head, wanted.windows),
            after=place_of(windowed.window, figures.window),
        )
        return shift.move(reused=False, why=why)


def due_by_date(graph: Graph, head: Version, state: WindowState) -> dict[str, str]:
    """Return the stages whose rows depend on the date of the version, if it changes, and why."""
    if head.windows.date == state.date:
        return {}
    why = "as_of ends" if state.date is None else f"as_of is {display_text(state.date)}"
    return {
        stage.name: why
        for stage in graph.producers
        if stage.kind.upkeep.by_date and has_tables(head, stage.name)
    }


def differ(one: Version, other: Version) -> bool:
    """Return whether windows of two versions have other places or another state."""
    return one.windows != other.windows or _ends(one) != _ends(other)


def _ends(version: Version) -> dict[str, tuple[Partition | None, Partition | None]]:
    moves = {name: figures.window for name, figures in version.stages.items()}
    return {name: (move.first, move.last) for name, move in moves.items() if move is not None}


def _windowed(stage: Stage, zone: str) -> WindowedStage | None:
    window = stage.kind.upkeep.window
    if window is None:
        return None
    planned_window = planned(window, stage.feeders[0].schema.key, zone, stage=stage.name)
    roots = chain.from_iterable(
        _roots(
            feeder, feeder.schema.key.columns[planned_window.position], planned_window.partitions
        )
        for feeder in stage.merged
    )
    once = {root.tracked: root for root in roots}
    return WindowedStage(stage, planned_window, tuple(once.values()))


def root_kept_by(source: Source, zone: str) -> Root | None:
    """Return the column whose partitions decide which rows a source keeps; None if it keeps all.

    Args:
        zone: the time zone whose days divide timestamps.
    """
    kept, key = source.kind.intake.retention, source.schema.key
    if kept is None:
        return None
    planned_window = planned(kept.window, key, zone, stage=source.name)
    return Root(source, key.columns[planned_window.position], planned_window.partitions)


def _roots(stage: Stage, column: Column, partitions: Partitioning) -> Iterator[Root]:
    """Yield the origins of the partitions of a stage's column."""
    name = stage.kind.key_use.copied.get(column.name)
    if name is None:
        yield Root(stage, column, partitions)
        return
    place = stage.feeders[0].schema.names.index(name)
    for feeder in stage.merged:
        yield from _roots(feeder, _columns(feeder)[place], partitions)


def _columns(stage: Stage) -> Sequence[Column]:
    return (*stage.schema.key, *stage.schema.value)


def _range_text(window: PlannedWindow, place: Ranges) -> str:
    if not place:
        return "nowhere: it is empty"
    first, last = (window.partitions.name(end) for end in place.pairs[0])
    return f"{first} to {last}"
