"""Repairs: rebuild the tables of damaged stages, and derive the updates of that.

The damage of a stage decides what happens to its rows (`findings.RepairAction`): they stay, are
rewritten, or are rebuilt from its feeders or from its own updates. If only tasks can rebuild the
rows, the stage has none until the tasks run. The repair compares the rows with those that readers
last had, as far as these are known; the difference becomes the stage's updates, as in any version.
The invariant: afterwards all updates together add up to the content. This includes the updates of
older versions, unless they had to begin again; then the version says so (`StageFigures.past`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from typing_extensions import override

from deltaproduce.engines.comparisons import Comparison
from deltaproduce.errors import CorruptStoreError, DefinitionError
from deltaproduce.model.checks.definitions import Refusal
from deltaproduce.model.graph import Graph, Source, Stage
from deltaproduce.model.layouts import RUNS, UPDATES
from deltaproduce.model.window_moves import Shift
from deltaproduce.operations.making.request import Request
from deltaproduce.operations.making.salvage import ROW_BYTES, Damage
from deltaproduce.operations.making.updates import Update
from deltaproduce.operations.making.version_job import StoreContext
from deltaproduce.operations.step.edits import Read, emptied, updates_edit
from deltaproduce.operations.step.expiry import forgotten_by
from deltaproduce.operations.step.incremental import difference, full_step
from deltaproduce.operations.step.plan import Step
from deltaproduce.operations.step.redefinitions import Redefinition
from deltaproduce.operations.step.writes import Edits, StageWrite, StepResult, StepWrite
from deltaproduce.operations.verifying.findings import Finding, RepairAction
from deltaproduce.stages.productions import ProductionResult
from deltaproduce.storage.edits import Edit, Restore
from deltaproduce.storage.figures import Past, StageFigures
from deltaproduce.storage.stored import Overlay, Stored
from deltaproduce.storage.versions import Version, has_tables, stage_at
from deltaproduce.storage.window_states import WindowState


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair(Update):
    """A version that repairs damaged stages, and brings the stages that depend on them up to date.

    Attributes:
        actions: damaged stage -> its repair.
    """

    damage: Damage
    actions: Mapping[str, RepairAction]

    @staticmethod
    def after(
        context: StoreContext,
        head: Version,
        started_at: datetime,
        versions: Sequence[Version],
        findings: Iterable[Finding],
        request: Request,
    ) -> Repair:
        """Return the repair of some findings; one Spark job for a source that has lost rows.

        Args:
            head: the newest version, with its tables as compactions have left them.
            versions: all versions of the store, oldest first.
            findings: the damage of the newest version.
            request: all rows of some sources, if they are given.

        Raises:
            CorruptStoreError: rows of a source are lost, and not given; or a stage would have to be
                rebuilt from forgotten rows.
            DefinitionError: a damaged source has other columns than its tables, and is not given.
        """
        findings = list(findings)
        damage, graph = Damage(versions, context.reader, context.engines), context.graph
        for source in graph.sources:
            if any(finding.stage == source.name for finding in findings):
                _check_columns(source, head, is_given=source.name in request.batches)
        actions = damage.actions(graph, findings, request.batches)
        unknown = [name for name, action in actions.items() if action.before == "nothing"]
        refreshed = {name for name, action in actions.items() if action.rows == "feeders"}
        hidden = [name for name in actions if graph.stage(name).hidden is not None]
        unknown += hidden  # readers of a hidden stage need its steps
        refreshed |= {
            reader.name
            for name in unknown
            for reader in graph.readers_of(name)
            if not reader.kind.tasks.make_rows  # its records tell which tasks are dirty
        }
        refreshed |= {
            reader.name
            for name in actions
            for reader in graph.readers_of(name)
            if reader.kind.upkeep.reads_states  # the states that the feeder had are unknown
        }
        for name in refreshed:
            _check_remembered(graph.stage(name), head)
        request = replace(request, refreshed=refreshed)
        update = Update.of(context, head, started_at, replace(request, update_id=None))
        return Repair(
            context=context,
            operation=request.operation,
            head=head,
            steps=_steps(graph, damage.head, update.steps, actions),
            attempt=update.attempt,
            update_id=request.update_id,
            request=request,
            windows=update.windows,
            damage=damage,
            actions=actions,
        )

    @property
    @override
    def refusal(self) -> Refusal:
        """A damaged store is repaired, also while its rows break a check."""
        return "newly broken" if self.request.operation == "repair" else "broken"

    @property
    @override
    def limits_shares(self) -> bool:
        return False

    @property
    @override
    def trusts_tables(self) -> bool:
        return False

    @override
    def weighed(self, step: Step, results: Mapping[str, StepResult]) -> Step:
        """Only the damage decides what is produced in full."""
        del results
        return step

    @override
    def produce(
        self,
        step: Step,
        results: Mapping[str, StepResult],
        shift: Shift | None,
        state: WindowState,
    ) -> ProductionResult | None:
        """For a damaged stage, return what repairs its rows."""
        stage, redefined = step.stage, Redefinition.of(step.stage, self.head)
        if stage.name not in self.actions:
            return Update.produce(self, step, results, shift, state)
        if stage.name in self.request.batches:
            given = partial(self.given, stage.name, redefined=redefined, state=state, rebuilds=True)
            return self._righted(stage, given, is_moved=True)
        if not stage.feeders:
            return self._righted(stage, _nothing, is_moved=False)
        production, inputs = self.production(stage, shift), self.inputs(stage, results)
        if redefined is None:
            compute = partial(full_step, production, inputs)
            is_moved = not stage.kind.tasks.make_rows and any(each.changed for each in inputs)
            return self._righted(stage, compute, is_moved=is_moved)
        content = self._readers_had(stage)
        if step.how == "full":
            return full_step(production, inputs, content, redefined)
        mappings = partial(self.context.reader.key_mappings, self.head, stage)
        return production.kind.changed(production, inputs, content, mappings)

    @override
    def rows_before(
        self, feeder: Stage, results: Mapping[str, StepResult]
    ) -> Callable[[], Stored | None]:
        """For a damaged feeder, return its repaired rows."""
        if feeder.name not in self.actions:
            return Update.rows_before(self, feeder, results)
        return partial(self._rows_after, results[feeder.name].comparison)

    @override
    def are_after(self, feeder: Stage) -> bool:
        return feeder.name in self.actions or Update.are_after(self, feeder)

    @override
    def write(self, result: StepResult, head: Version) -> StageWrite:
        """Rewrite a damaged stage, unless its rows stay unchanged."""
        name = result.stage.name
        if name not in self.actions:
            return Update.write(self, result, head)
        action, last, overlay = self.actions[name], head.stages[name], None
        if action.rows != "kept" or result.comparison.counts.pairs_changed:
            result = replace(result, rebuilt=True)
        else:
            overlay = self.context.reader.overlay(head, result.stage)
        write = self.context.write(result, last, overlay)
        begun = None
        if action.begins:
            rows = self._rows_after(result.comparison)
            begun = difference(result.stage, None, rows, None, self.context.engines)
        return Mended(result, last, write, action, begun)

    def _righted(
        self,
        stage: Stage,
        produced: Callable[[Stored | None], ProductionResult | None],
        *,
        is_moved: bool,
    ) -> ProductionResult:
        """Return the outcome of a stage whose rows are repaired.

        Args:
            produced: takes the previous rows and returns their replacement, made from the feeders
                or from the rows given for a source; None if there is none.
            is_moved: whether the inputs of the rows have changed.
        """
        rows, before = self.actions[stage.name].rows, self._readers_had(stage)
        if is_moved or rows == "feeders":
            _check_remembered(stage, self.head)
            computed, after = produced(before), None
        else:
            computed, after = None, self._rows_left(stage, rows)
        given_out = self.damage.head.stages[stage.name].numbering.surrogates
        return computed or ProductionResult(
            difference(stage, before, after, None, self.context.engines), given_out
        )

    def _rows_left(self, stage: Stage, rows: str) -> Stored | None:
        """Return the rows of a damaged stage that are rewritten, or stay; see `RepairAction`."""
        match rows:
            case "none":
                return None
            case "updates":
                return self.damage.folded(stage)
            case _:
                return self.damage.content(stage)

    def _readers_had(self, stage: Stage) -> Stored | None:
        """Return the rows that readers last had; None if there were none, or they are unknown."""
        match self.actions[stage.name].before:
            case "content":
                return self.damage.content(stage)
            case "updates":
                return self.damage.folded(stage)
            case _:
                return None

    def _rows_after(self, comparison: Comparison) -> Stored:
        """Return the rows of a damaged stage after its repair."""
        counts, columns = comparison.counts, comparison.layout.content
        seen = counts.rows_before + counts.rows_after
        row_bytes = counts.bytes // seen if seen else ROW_BYTES
        rows = comparison.content_after(None)
        return Stored(rows, columns, None, counts.rows_after, row_bytes, self.context.engines)


def _check_remembered(stage: Stage, head: Version) -> None:
    """Refuse to rebuild a stage from rows that a source has forgotten.

    Raises:
        CorruptStoreError: with the stage.
    """
    source = forgotten_by(stage, head.windows) if stage.feeders else None
    if source is not None:
        name = stage.owner
        raise CorruptStoreError(
            f"stage {name!r} cannot be made again: {source!r} has forgotten rows that it was made "
            "of; roll back to a version before, or restore its tables from a backup",
            table=name,
        )


def _nothing(before: Stored | None) -> ProductionResult | None:
    """Return the outcome of a source without given rows: none."""
    del before
    return None


def _steps(
    graph: Graph, head: Version, planned: Sequence[Step], damaged: Collection[str]
) -> tuple[Step, ...]:
    """Return the steps of a plan and the steps that the damage requires, feeders first."""
    known = {step.stage.name: step for step in planned}
    for stage in graph.stages:
        reached = [feeder.name for feeder in stage.feeders if feeder.name in known]
        if stage.name in damaged:
            step_before = known.get(stage.name, Step(stage, "incremental", ""))
            known[stage.name] = replace(step_before, reason="damaged")
        elif reached and stage.name not in known and has_tables(head, stage.name):
            known[stage.name] = Step(stage, "incremental", f"reached through {', '.join(reached)}")
    return tuple(known[stage.name] for stage in graph.stages if stage.name in known)


@dataclass(frozen=True, slots=True)
class Mended:
    """The write of a damaged stage (a `StageWrite`).

    Attributes:
        last: the stage's figures in the head.
        begun: all its rows as new, if its updates begin with them.
    """

    result: StepResult
    last: StageFigures
    write: StepWrite
    mend: RepairAction
    begun: Comparison | None

    @property
    def in_place(self) -> bool:
        """See `StageWrite.in_place`."""
        return True

    def edits(self, number: int, before: Mapping[str, Read]) -> Edits:
        """See `StageWrite.edits`; tables with added foreign commits are restored."""
        edits: dict[str, Edit | Restore] = dict(self.write.edits(number, before))
        if self.begun is not None:
            begun = updates_edit(self.begun, number, exists=False)
            assert begun is not None  # None is possible only if the table exists
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


def _check_columns(source: Source, head: Version, *, is_given: bool) -> None:
    """Refuse to repair the rows of a source in columns that its tables do not have.

    Raises:
        DefinitionError: with the source.
    """
    if is_given or stage_at(head, source) is source:
        return
    raise DefinitionError(
        f"source {source.name!r} is damaged, and has other columns than its tables of version "
        f"{head.number}: repair it with the columns that it had, and change them then",
        stage=source.name,
    )
