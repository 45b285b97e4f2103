"""Repairs: how the tables of a stage are put right, and which updates that makes.

What is wrong with a stage decides what is done (`findings.RepairAction`): its rows stay, are
written anew, or are made again from what its feeders, or its own updates, have. Where only tasks
could make them again, the stage has none until they are run. The rows are compared with those that
readers last had, as far as anybody knows, and the difference is the stage's updates, as in any
version. The invariant: afterwards all updates together come to the content, those of older versions
too unless they had to be begun anew, which the version says (`StageFigures.past`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from deltaproduce.engines.comparisons import Comparison
from deltaproduce.errors import CorruptStoreError
from deltaproduce.model.graph import Graph, Stage, belongs_to, is_auxiliary
from deltaproduce.model.layouts import RUNS, UPDATES
from deltaproduce.model.window_moves import Shift
from deltaproduce.operations.making.salvage import ROW_BYTES, Damage
from deltaproduce.operations.making.updates import Update
from deltaproduce.operations.making.work import Means
from deltaproduce.operations.step.edits import Read, emptied, updates_edit
from deltaproduce.operations.step.expiry import forgotten_by
from deltaproduce.operations.step.incremental import difference, full_step
from deltaproduce.operations.step.plan import Step
from deltaproduce.operations.step.redefinitions import Redefinition
from deltaproduce.operations.step.writes import Edits, StageWrite, StepResult, Write
from deltaproduce.operations.verifying.findings import Finding, RepairAction
from deltaproduce.stages.batches import Batch
from deltaproduce.stages.productions import Found
from deltaproduce.storage.edits import Edit, Restore
from deltaproduce.storage.figures import Past, StageFigures
from deltaproduce.storage.stored import Overlay, Stored
from deltaproduce.storage.versions import Version, has_tables
from deltaproduce.storage.window_states import WindowState


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair(Update):
    """A version that puts damaged stages right, and brings up to date what depends on them.

    Attributes:
        actions: the damaged stages -> what is done about them.
    """

    damage: Damage
    actions: Mapping[str, RepairAction]

    @staticmethod
    def after(
        means: Means,
        operation: str,
        head: Version,
        started_at: datetime,
        versions: Sequence[Version],
        findings: Iterable[Finding],
        *,
        batches: Mapping[str, Batch],
        update_id: str | None = None,
    ) -> Repair:
        """What is done about some findings; one Spark job for a source that has lost rows.

        Args:
            head: the newest version, of the tables as compactions have left them.
            versions: all of the store, oldest first.
            findings: what is wrong with the newest.
            batches: all rows of some sources.

        Raises:
            CorruptStoreError: rows of a source are lost, and not given; or a stage would have to be
                made again of rows that are forgotten.
        """
        damage, graph = Damage(versions, means.reader, means.engines), means.graph
        actions = damage.actions(graph, findings, batches)
        unknown = [name for name, action in actions.items() if action.before == "nothing"]
        refreshed = {name for name, action in actions.items() if action.rows == "feeders"}
        unknown += filter(is_auxiliary, actions)  # what is answered from one goes by its steps
        refreshed |= {
            reader.name
            for name in unknown
            for reader in graph.readers_of(name)
            if not reader.kind.scheduled  # its records tell which tasks are dirty then
        }
        refreshed |= {
            reader.name
            for name in actions
            for reader in graph.readers_of(name)
            if reader.kind.reads_states  # nobody knows which states the feeder had
        }
        for name in refreshed:
            _check_remembered(graph.stage(name), head)
        update = Update.of(
            means, operation, head, started_at, batches=batches, arrivals={}, refreshed=refreshed
        )
        return Repair(
            means=means,
            operation=operation,
            head=head,
            steps=_steps(graph, damage.head, update.steps, actions),
            attempt=update.attempt,
            update_id=update_id,
            batches=batches,
            arrivals={},
            windows=update.windows,
            damage=damage,
            actions=actions,
        )

    @property
    def trusts_tables(self) -> bool:
        """See `Work.trusts_tables`."""
        return False

    def weighed(self, step: Step, results: Mapping[str, StepResult]) -> Step:
        """See `Update.weighed`: damage decides alone what is produced in full."""
        del results
        return step

    def found(
        self,
        step: Step,
        results: Mapping[str, StepResult],
        shift: Shift | None,
        state: WindowState,
    ) -> Found | None:
        """See `Update.found`: of a damaged stage what puts its rows right."""
        stage, redefined = step.stage, Redefinition.of(step.stage, self.head)
        if stage.name not in self.actions:
            return Update.found(self, step, results, shift, state)
        if stage.name in self.batches:
            given = partial(self.given, stage.name, redefined=redefined, state=state, anew=True)
            return self._righted(stage, given, is_moved=True)
        if not stage.feeders:
            return self._righted(stage, _nothing, is_moved=False)
        production, inputs = self.production(stage, shift), self.inputs(stage, results)
        if redefined is None:
            made = partial(full_step, production, inputs)
            is_moved = not stage.kind.scheduled and any(each.changed for each in inputs)
            return self._righted(stage, made, is_moved=is_moved)
        content = self._readers_had(stage)
        if step.how == "full":
            return full_step(production, inputs, content, redefined)
        mappings = partial(self.means.reader.key_mappings, self.head, stage)
        return production.kind.changed(production, inputs, content, mappings)

    def rows_before(
        self, feeder: Stage, results: Mapping[str, StepResult]
    ) -> Callable[[], Stored | None]:
        """See `Update.rows_before`: of a damaged feeder the rows that were put right."""
        if feeder.name not in self.actions:
            return Update.rows_before(self, feeder, results)
        return partial(self._rows_after, results[feeder.name].comparison)

    def are_after(self, feeder: Stage) -> bool:
        """See `Update.are_after`."""
        return feeder.name in self.actions or Update.are_after(self, feeder)

    def write(self, result: StepResult, head: Version) -> StageWrite:
        """See `Work.write`: a damaged stage whole, unless its rows stay as they are."""
        name = result.stage.name
        if name not in self.actions:
            return Update.write(self, result, head)
        action, last, overlay = self.actions[name], head.stages[name], None
        if action.rows != "kept" or result.comparison.counts.pairs_changed:
            result = replace(result, anew=True)
        else:
            overlay = self.means.reader.overlay(head, result.stage)
        write = self.means.write(result, last, overlay)
        begun = None
        if action.begins:
            rows = self._rows_after(result.comparison)
            begun = difference(result.stage, None, rows, None, self.means.engines)
        return Mended(result, last, write, action, begun)

    def _righted(
        self, stage: Stage, produced: Callable[[Stored | None], Found | None], *, is_moved: bool
    ) -> Found:
        """What is found out about a stage whose rows are put right.

        Args:
            produced: given the rows before, makes those that take their place, from what the
                feeders have, or from what is given for a source; None if there are none.
            is_moved: what they are made from is not the same any more.
        """
        rows, before = self.actions[stage.name].rows, self._readers_had(stage)
        if is_moved or rows == "feeders":
            _check_remembered(stage, self.head)
            made, after = produced(before), None
        else:
            made, after = None, self._rows_left(stage, rows)
        given_out = self.damage.head.stages[stage.name].numbering.surrogates
        return made or Found(difference(stage, before, after, None, self.means.engines), given_out)

    def _rows_left(self, stage: Stage, rows: str) -> Stored | None:
        """The rows of a damaged stage that are written anew, or stay; see `RepairAction`."""
        match rows:
            case "none":
                return None
            case "updates":
                return self.damage.folded(stage)
            case _:
                return self.damage.content(stage)

    def _readers_had(self, stage: Stage) -> Stored | None:
        """The rows that readers last had; None if there were none, or nobody knows."""
        match self.actions[stage.name].before:
            case "content":
                return self.damage.content(stage)
            case "updates":
                return self.damage.folded(stage)
            case _:
                return None

    def _rows_after(self, comparison: Comparison) -> Stored:
        """The rows that a damaged stage has when it is put right."""
        counts, columns = comparison.counts, comparison.layout.content
        seen = counts.rows_before + counts.rows_after
        row_bytes = counts.bytes // seen if seen else ROW_BYTES
        rows = comparison.content_after(None)
        return Stored(rows, columns, None, counts.rows_after, row_bytes, self.means.engines)


def _check_remembered(stage: Stage, head: Version) -> None:
    """Refuse to make a stage again that was made of rows which a source has forgotten.

    Raises:
        CorruptStoreError: with the stage.
    """
    source = forgotten_by(stage, head.windows) if stage.feeders else None
    if source is not None:
        name = belongs_to(stage.name)
        raise CorruptStoreError(
            f"stage {name!r} cannot be made again: {source!r} has forgotten rows that it was made "
            "of; roll back to a version before, or restore its tables from a backup",
            table=name,
        )


def _nothing(before: Stored | None) -> Found | None:
    """What is made of what is not given."""
    del before
    return None


def _steps(
    graph: Graph, head: Version, planned: Sequence[Step], damaged: Collection[str]
) -> tuple[Step, ...]:
    """The steps of a plan, and those that are due because of the damage, feeders first."""
    known = {step.stage.name: step for step in planned}
    for stage in graph.stages:
        reached = [feeder.name for feeder in stage.feeders if feeder.name in known]
        if stage.name in damaged:
            found = known.get(stage.name, Step(stage, "incremental", ""))
            known[stage.name] = replace(found, reason="damaged")
        elif reached and stage.name not in known and has_tables(head, stage.name):
            known[stage.name] = Step(stage, "incremental", f"reached through {', '.join(reached)}")
    return tuple(known[stage.name] for stage in graph.stages if stage.name in known)


@dataclass(frozen=True, slots=True)
class Mended:
    """What is done to the tables of a damaged stage (a `StageWrite`).

    Attributes:
        last: the stage's figures in the head.
        begun: all its rows, as new, if its updates begin with them.
    """

    result: StepResult
    last: StageFigures
    write: Write
    mend: RepairAction
    begun: Comparison | None

    @property
    def in_place(self) -> bool:
        """See `StageWrite.in_place`."""
        return True

    def edits(self, number: int, before: Mapping[str, Read]) -> Edits:
        """See `StageWrite.edits`; tables that others have only added commits to are set back."""
        edits: dict[str, Edit | Restore] = dict(self.write.edits(number, before))
        if self.begun is not None:
            begun = updates_edit(self.begun, number, exists=False)
            assert begun is not None  # there is none only for a table that is there
            edits[UPDATES] = begun
        if self.mend.runs_lost:
            edits[RUNS] = emptied(self.result.stage, RUNS)
        for kind in self.mend.set_back:
            edits.setdefault(kind, Restore(self.last.delta_versions[kind]))
        return edits

    def overlay_after(self) -> Overlay | None:
        """See `StageWrite.overlay_after`."""
        return self.write.overlay_after()

    def figures(self, number: int, edits: Edits) -> StageFigures:
        """See `StageWrite.figures`."""
        last = self.last
        begun = (number, -1) if self.begun is not None else (last.past.begun, last.past.begun_at)
        return replace(
            self.write.figures(number, edits),
            origin=last.origin,
            past=Past(*begun, {**last.past.remade, **dict.fromkeys(self.mend.remade, number)}),
        )
