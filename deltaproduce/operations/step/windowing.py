"""The windows of a graph: over which columns they are, where they are, and what moves them.

Pure but for the reading of columns in `present_in`. The invariant: where a window is follows from
what its version says of partitions and the day (`WindowState`), whoever asks.
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
from deltaproduce.model.graph import Graph, Source, Stage, belongs_to
from deltaproduce.model.partitions import Partition, Partitioning, Ranges
from deltaproduce.model.window_moves import Shift, WindowMove, place_of
from deltaproduce.model.windows import NOWHERE, PlannedWindow, planned
from deltaproduce.storage.figures import NO_TABLES
from deltaproduce.storage.versions import Version, has_tables
from deltaproduce.storage.window_states import Tracked, WindowState
from deltaproduce.types.columns import Column
from deltaproduce.types.excerpts import shown

Units = Mapping[Tracked, Ranges]
_NAMED: Final = 1_000
"""So many missing partitions are named at most."""
_NO_MOVES: Final[Mapping[str, WindowMove | None]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Root:
    """A column of a stage whose partitions decide where windows are."""

    stage: Stage
    column: Column
    partitions: Partitioning

    @property
    def tracked(self) -> Tracked:
        """What a store calls it."""
        return Tracked(self.stage.name, self.column.name, self.partitions.unit)

    def units(self, rows: Rows) -> Units:
        """The units that some rows of the stage are in."""
        return {self.tracked: units_of(rows, self.column, self.partitions)}

    def units_after(self, step: Comparison) -> Units:
        """Those that the rows are in which a step has put there."""
        which = ALIVE if step.complete else ROWS_OF_CHANGED_KEYS
        return self.units(step.pick((self.column,), which))


@dataclass(frozen=True, slots=True)
class WindowedStage:
    """A stage with a window.

    Attributes:
        roots: where the partitions of its feeders come from, each once.
    """

    stage: Stage
    window: PlannedWindow
    roots: tuple[Root, ...]

    def present(self, state: WindowState) -> Ranges:
        """The partitions that there are in some feeder."""
        units = (state.present.get(root.tracked, Ranges()) for root in self.roots)
        return self.window.present(Ranges.of(chain.from_iterable(u.pairs for u in units)))

    def place(self, state: WindowState) -> Ranges:
        """The partitions from its first to its last one.

        A limited one begins to move when a partition is there, whatever the day is.
        """
        is_begun = self.present(state) or not self.is_limited
        return self._wanted(state) if is_begun else NOWHERE

    def _wanted(self, state: WindowState) -> Ranges:
        """Where it is to be, whatever is there."""
        return self.window.place(self.present(state), state.as_of)

    @property
    def is_limited(self) -> bool:
        """See `Window.is_limited`."""
        return self.window.window.is_limited

    def shift(
        self, head: Version, state: WindowState, *, redefined: bool = False, advances: bool = False
    ) -> Shift:
        """From where to where it moves after a version.

        Args:
            redefined: it was another window, or none, until then.
            advances: it moves even if it is limited.
        """
        last = None if redefined else self.last_move(head, state)
        before = None if last is None else place_of(self.window, last)
        had = NOWHERE if last is None else self.present(head.windows)
        after, has, was = self.place(state), self.present(state), before or NOWHERE
        if self.is_limited:
            after = self.window.next_place(was, after, has) if advances else was
        return Shift(self.window, before, had, after, has)

    def last_move(self, version: Version, state: WindowState) -> WindowMove | None:
        """How it came to where a version has left it; None if it is not anywhere yet.

        A limited one is on its way as soon as a partition is there, even if no row ever was.
        """
        figures = version.stages.get(self.stage.name, NO_TABLES)
        begins = self.is_limited and not figures.delta_versions and self.present(state)
        return WindowMove() if figures.window is None and begins else figures.window

    def check_present(self, state: WindowState) -> None:
        """Refuse a window with partitions that are missing, if they are an error.

        Raises:
            MissingPartitionsError: with `stage` and `partitions`.
        """
        if self.window.window.on_missing == "skip":
            return
        place = self._wanted(state)
        every = (
            place.without(self.window.present(state.present.get(root.tracked, Ranges())))
            for root in self.roots
        )
        missing = Ranges.of(chain.from_iterable(units.pairs for units in every))
        if missing:
            stage = belongs_to(self.stage.name)
            names = tuple(map(self.window.partitions.name, islice(missing, _NAMED)))
            raise MissingPartitionsError(
                f"stage {stage!r}: its window over {self.window.window.column!r} lacks "
                f"{len(missing)} partitions: {shown([*map(str, names)])}; give their rows, or name "
                "those that have none in partitions=",
                stage=stage,
                partitions=names,
            )


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a graph.

    Attributes:
        stages: those with a window, by name, in topological order.
        kept: the columns by whose partitions sources keep their rows.
    """

    stages: Mapping[str, WindowedStage]
    kept: tuple[Root, ...] = ()

    @staticmethod
    def of(graph: Graph) -> Windows:
        """Those of a graph whose columns all have types."""
        found = (_windowed(stage) for stage in graph.stages)
        kept = tuple(root for root in map(root_kept_by, graph.sources) if root is not None)
        return Windows({one.stage.name: one for one in found if one is not None}, kept)

    def roots(self, stage: str | None = None) -> tuple[Root, ...]:
        """The columns whose partitions count, each once; of one stage, if it is given."""
        found = chain.from_iterable(windowed.roots for windowed in self.stages.values())
        once = {root.tracked: root for root in (*found, *self.kept)}
        return tuple(root for root in once.values() if stage in (None, root.stage.name))

    def shared(self, stages: Collection[str]) -> Mapping[str, tuple[str, Collection[str]]]:
        """What several windows are over by one column -> that of most of them, and which they are.

        Args:
            stages: those whose windows count.
        """
        over: dict[tuple[str, str], list[str]] = {}
        for name, windowed in self.stages.items():
            for feeder in windowed.stage.merged if name in stages else ():
                column = feeder.schema.key.columns[windowed.window.position].name
                over.setdefault((feeder.name, column), []).append(name)
        found: dict[str, tuple[str, Collection[str]]] = {}
        for (name, column), readers in over.items():
            if len(readers) > max(1, len(found[name][1]) if name in found else 0):
                found[name] = column, readers
        return found

    def check_present(self, state: WindowState, settled: Iterable[str]) -> None:
        """Refuse windows with partitions that are missing, also of stages that nothing reaches.

        Args:
            settled: stages that are not looked at.

        Raises:
            MissingPartitionsError: with `stage` and `partitions`.
        """
        for name, windowed in self.stages.items():
            if name not in settled:
                windowed.check_present(state)

    def due(self, head: Version, state: WindowState, *, advances: bool) -> dict[str, str]:
        """The stages whose windows move though nothing that they read changes, and why.

        Args:
            advances: those that are limited, too.
        """
        found = {}
        for name, windowed in self.stages.items():
            figures = head.stages.get(name)
            if figures is None or figures.window is None or not has_tables(head, name):
                continue
            place = windowed.place(state)
            stays = windowed.is_limited and not advances
            if not stays and place != place_of(windowed.window, figures.window):
                found[name] = f"its window moves to {_told(windowed.window, place)}"
        return found

    def behind(self, version: Version, moves: Mapping[str, WindowMove | None] = _NO_MOVES) -> bool:
        """Whether a limited window is not yet where it is to be.

        Args:
            moves: where windows are that are not where the version's figures say.
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
        """A version with its windows where they are in a state, of stages whose rows stay.

        Of those, too, that have none yet.

        Args:
            settled: stages that are not looked at.
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
        """What a rollback makes of the window of a stage."""
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


def differ(one: Version, other: Version) -> bool:
    """Whether windows are elsewhere in two versions, or depend on something else."""
    return one.windows != other.windows or _ends(one) != _ends(other)


def _ends(version: Version) -> dict[str, tuple[Partition | None, Partition | None]]:
    moves = {name: figures.window for name, figures in version.stages.items()}
    return {name: (move.first, move.last) for name, move in moves.items() if move is not None}


def _windowed(stage: Stage) -> WindowedStage | None:
    window = stage.kind.window
    if window is None:
        return None
    found = planned(window, stage.feeders[0].schema.key, stage=stage.name)
    roots = chain.from_iterable(
        _roots(feeder, feeder.schema.key.columns[found.position], found.partitions)
        for feeder in stage.merged
    )
    once = {root.tracked: root for root in roots}
    return WindowedStage(stage, found, tuple(once.values()))


def root_kept_by(source: Source) -> Root | None:
    """The column by whose partitions a source keeps its rows; None if it keeps all."""
    kept, key = source.kind.retention, source.schema.key
    if kept is None:
        return None
    found = planned(kept.window, key, stage=source.name)
    return Root(source, key.columns[found.position], found.partitions)


def _roots(stage: Stage, column: Column, partitions: Partitioning) -> Iterator[Root]:
    """Where the partitions of a stage's column come from."""
    name = stage.kind.passed_on(column.name) if stage.feeders else None
    if name is None:
        yield Root(stage, column, partitions)
        return
    place = stage.feeders[0].schema.names.index(name)
    for feeder in stage.merged:
        yield from _roots(feeder, _columns(feeder)[place], partitions)


def _columns(stage: Stage) -> Sequence[Column]:
    return (*stage.schema.key, *stage.schema.value)


def _told(window: PlannedWindow, place: Ranges) -> str:
    if not place:
        return "nowhere: it is empty"
    first, last = (window.partitions.name(end) for end in place.pairs[0])
    return f"{first} to {last}"
