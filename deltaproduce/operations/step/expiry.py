"""Expiry: which rows a source keeps, when rows leave it, and which stages cannot be rebuilt then.

The first value that a source keeps (`Floor`) is part of a version, like windows. The invariant:
after a step a source has no row before its floor. Forgetting rows makes no update, so the stages
that were made from them keep their results, and are never rebuilt from the remaining rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from deltaproduce.engines.engine import Rows
from deltaproduce.engines.spark.kernels.ranges import rows_outside, rows_within
from deltaproduce.errors import DefinitionError
from deltaproduce.model.fingerprints import NOT_COMPUTED
from deltaproduce.model.graph import Graph, Source, Stage
from deltaproduce.model.partitions import Ranges, partitioning
from deltaproduce.model.retention import Retention, first_kept, value_of
from deltaproduce.model.windows import PlannedWindow, planned
from deltaproduce.operations.step.incremental import source_comparison
from deltaproduce.operations.step.plan import Step
from deltaproduce.operations.step.redefinitions import Redefinition
from deltaproduce.operations.step.windowing import Root, root_kept_by
from deltaproduce.stages.batches import IS_DELETE, Batch
from deltaproduce.stages.productions import ProductionResult
from deltaproduce.storage.stored import Stored
from deltaproduce.storage.versions import Version, has_tables
from deltaproduce.storage.window_states import Floor, WindowState
from deltaproduce.times.zones import OF_UTC
from deltaproduce.types.columns import Column

_NEW: Final = "its retention changed"


@dataclass(frozen=True, slots=True)
class RetainedSource:
    """A source that does not keep all rows.

    Attributes:
        root: the column whose partitions decide which rows it keeps.
    """

    source: Source
    retention: Retention
    window: PlannedWindow
    root: Root

    @property
    def text(self) -> str:
        """What decides which partitions it keeps, and when they begin, as text."""
        text, zone = self.retention.text, self.root.partitions.zone
        return text if zone == OF_UTC else f"{text} in {zone}"

    def floor(self, state: WindowState) -> Floor | None:
        """Return the first value that it keeps; None if it keeps all.

        The floor never goes back, unless another retention is defined and none of the source's rows
        is forgotten.
        """
        known = state.floors.get(self.source.name)
        present = self.window.present(state.present.get(self.root.tracked, Ranges()))
        first = first_kept(self.window, present, state.day_in(self.window.partitions))
        has_forgotten = known is not None and known.has_forgotten
        if known is not None and (has_forgotten or known.retention == self.text):
            first = known.first if first is None else max(first, known.first)
        if first is None:
            return None
        return Floor(self.root.column.name, first, self.text, has_forgotten)

    def due(self, head: Version, state: WindowState) -> str | None:
        """Return why it has a step if nothing is given for it; None if it has none."""
        floor, known = self.floor(state), head.windows.floors.get(self.source.name)
        if self.root.tracked not in head.windows.present:
            return _NEW
        if floor is None or floor == known:
            return None
        if known is None or known.retention != floor.retention:
            return _NEW
        return f"rows before {self._floor_text(floor)} are {self._word}"

    def step(
        self,
        batch: Batch,
        content: Stored | None,
        redefined: Redefinition | None,
        before: WindowState,
        state: WindowState,
        *,
        rebuilds: bool = False,
    ) -> ProductionResult | None:
        """Take the given rows from the floor on, and drop existing rows before it.

        Args:
            batch: the given rows; empty if only the floor moves.
            content: the source's rows; None if there are none yet.
            redefined: set if the source has other columns than its tables.
            before: what the floor depended on in the version before.
            state: what the floor depends on now, without the given rows.
            rebuilds: whether having no rows is a change.

        Returns:
            The changes; None if nothing changes and all given rows were taken.
        """
        floor = self.floor(state.with_present(self.root.units(batch.upserts())))
        known, column, gone = before.floors.get(self.source.name), self.root.column, Ranges()
        is_new = self.root.tracked not in before.present
        if floor is not None:
            gone = self.window.partitions.values_before(floor.first)
            is_new |= known is None or known.retention != floor.retention
        taken, refused = _taken(batch, column, gone, with_deletes=self.retention.forgets)
        expired, dropped = None, 0
        keeps_rows = redefined is None or redefined.keeps_rows
        if content is not None and keeps_rows and gone and floor != known:
            rows = content.within(column, gone)
            expired, dropped = batch.engines.of(rows).computed(rows)
        compared = source_comparison(self.source, taken, content, redefined, expired)
        if self.retention.forgets and dropped:
            compared = compared.silenced(column, gone)
        is_change = compared.counts.pairs_changed or refused or rebuilds or redefined is not None
        if not is_change and not (is_new and content is not None):
            return None
        return ProductionResult(compared, rows_expired=dropped, rows_not_taken=refused)

    def _floor_text(self, floor: Floor) -> str:
        return str(value_of(self.window.partitions, floor.first))

    @property
    def _word(self) -> str:
        return "forgotten" if self.retention.forgets else "deleted"


@dataclass(frozen=True, slots=True)
class Retentions:
    """The sources of a graph that do not keep all rows, by name."""

    sources: Mapping[str, RetainedSource]

    @staticmethod
    def of(graph: Graph, zone: str) -> Retentions:
        """Return the retentions of a graph.

        Args:
            zone: the time zone whose days divide timestamps.
        """
        sources = {}
        for source in graph.sources:
            kept, root = source.kind.intake.retention, root_kept_by(source, zone)
            if kept is not None and root is not None:
                window = planned(kept.window, source.schema.key, zone, stage=source.name)
                sources[source.name] = RetainedSource(source, kept, window, root)
        return Retentions(sources)

    @property
    def texts(self) -> dict[str, str]:
        """The retention of each source, as text."""
        return {name: one.text for name, one in self.sources.items()}

    def settled(self, state: WindowState, expired: Collection[str] = ()) -> WindowState:
        """Return the state with the floors that follow from it.

        Args:
            expired: the sources that have dropped rows to reach it.
        """
        floors = {name: floor for name, floor in state.floors.items() if floor.has_forgotten}
        for name, one in self.sources.items():
            floor = one.floor(state)
            if floor is not None:
                forgets = name in expired and one.retention.forgets
                floors[name] = floor._replace(has_forgotten=floor.has_forgotten or forgets)
        return replace(state, floors=floors)

    def due(self, head: Version, state: WindowState) -> dict[str, str]:
        """Return the sources that have a step if nothing is given for them, and why."""
        expiring = {
            name: one.due(head, state)
            for name, one in self.sources.items()
            if has_tables(head, name)
        }
        return {name: why for name, why in expiring.items() if why is not None}

    def check(self, graph: Graph, head: Version, steps: Iterable[Step]) -> None:
        """Refuse steps that would need forgotten rows again.

        Raises:
            DefinitionError: a source that has forgotten rows has another retention now, or a stage
                that was made from such rows would be rebuilt; with `stage`.
        """
        for source in graph.sources:
            floor = head.windows.floors.get(source.name)
            if floor is None or not floor.has_forgotten:
                continue
            kept = source.kind.intake.retention
            if kept is None or not kept.forgets or kept.window.column != floor.column:
                raise DefinitionError(
                    f"source {source.name!r} has forgotten rows, by {floor.column!r}: leave it "
                    "expire='forget' and that column, or give it a new name",
                    stage=source.name,
                )
        for step in steps:
            check_not_rebuilt(step, head, head.windows)


def check_not_rebuilt(step: Step, head: Version, state: WindowState) -> None:
    """Refuse a step that rebuilds a stage or a source with forgotten rows.

    Args:
        state: records which sources have forgotten rows.

    Raises:
        DefinitionError: with `stage`.
    """
    stage, rebuilds = step.stage, step.how == "full" or step.redefined
    redefined = None if stage.feeders else Redefinition.of(stage, head)
    if redefined is not None and redefined.keeps_rows:
        return
    if not rebuilds or not has_tables(head, stage.name):
        return
    source = forgotten_by(stage, state)
    if source is not None and head.definitions[stage.name].function != NOT_COMPUTED:
        name = stage.owner
        raise DefinitionError(
            f"stage {name!r} would be made anew, as {step.reason}, and {source!r} has forgotten "
            "rows that it was made of: undo the change, or define a new stage beside it",
            stage=name,
        )


def forgotten_by(stage: Stage, state: WindowState) -> str | None:
    """Return the source that has forgotten rows of a stage, or the source itself; None if none has.

    A stage with a window has no results of forgotten rows any more.
    """
    if stage.kind.upkeep.window is not None:
        return None
    names = [feeder.name for feeder in stage.merged] or [stage.name]
    floors = ((name, state.floors.get(name)) for name in names)
    return next((name for name, floor in floors if floor and floor.has_forgotten), None)


def may_forget(stage: Stage) -> bool:
    """Return whether a stage has, or will have, results of forgotten rows."""
    kept = (feeder.kind.intake.retention for feeder in stage.merged)
    return stage.kind.upkeep.window is None and any(one is not None and one.forgets for one in kept)


def remembered(rows: Rows, stage: Stage, state: WindowState, zone: str) -> Rows:
    """Return the rows of a source, or of its updates, that it has not forgotten.

    Args:
        zone: the time zone whose days divide timestamps.
    """
    floor = state.floors.get(stage.name)
    if floor is None or not floor.has_forgotten:
        return rows
    column = next(column for column in stage.schema.key if column.name == floor.column)
    kept = stage.kind.intake.retention
    place = None if kept is None else kept.window.zone
    partitions = partitioning(column.data_type.simpleString(), None, zone, place)
    assert partitions is not None  # the source was kept by these partitions
    return rows_outside(rows, column, partitions.values_before(floor.first))


def _taken(batch: Batch, column: Column, gone: Ranges, *, with_deletes: bool) -> tuple[Batch, int]:
    """Return a batch without the rows before the floor, and the number of these rows.

    Args:
        with_deletes: whether deletes count among these rows.
    """
    if not gone:
        return batch, 0
    engine = batch.engines.of(batch.rows)
    early, count = engine.computed(rows_within(batch.rows, column, gone))
    if not count:
        return batch, 0
    taken, rows = engine.computed(rows_outside(batch.rows, column, gone))
    if not with_deletes:
        count = engine.computed(engine.select(early, (column,), {IS_DELETE.name: False}))[1]
    return replace(batch, rows=taken, count=rows), count
