"""Updates: versions made from given rows, from arrivals, or for a refresh.

The invariant: no function runs again for a version whose output is already stored, and an update
reads only what its head pins, or what has arrived since.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Self

from typing_extensions import override

from deltaproduce.described.content import text_of
from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.selections import Selection
from deltaproduce.model.checks.definitions import Refusal
from deltaproduce.model.fingerprints import Fingerprint
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import UPDATES, Layout
from deltaproduce.model.window_moves import Shift, WindowMove
from deltaproduce.operations.making.request import Request
from deltaproduce.operations.making.version_job import StoreContext, VersionJob
from deltaproduce.operations.step.expiry import check_not_rebuilt, may_forget
from deltaproduce.operations.step.incremental import (
    difference,
    full_step,
    source_step,
    stored_step,
)
from deltaproduce.operations.step.plan import Step, changes_storage, weighed
from deltaproduce.operations.step.redefinitions import Redefinition
from deltaproduce.operations.step.windowing import Units, differ
from deltaproduce.operations.step.writes import (
    StageWrite,
    StepResult,
    WriteInPlace,
    WriteKept,
)
from deltaproduce.stages.batches import Batch
from deltaproduce.stages.inputs import StageInput, inputs_of
from deltaproduce.stages.kind import Arrival, stage_kind
from deltaproduce.stages.productions import Production, ProductionResult
from deltaproduce.stages.scheduled.kinds import TaskArguments, scheduled_kind
from deltaproduce.stages.scheduled.outcomes import Outcomes, Tasked
from deltaproduce.stages.sql.operators.changes.shared import SharedChanges
from deltaproduce.storage.attempts import Attempt
from deltaproduce.storage.decisions.resumption import CompletedStage, Resumption
from deltaproduce.storage.figures import NO_TABLES
from deltaproduce.storage.parquet.held import Held
from deltaproduce.storage.parquet.neighbours import Neighbours
from deltaproduce.storage.parquet.shared_lookups import SharedLookups, Wanted, unshared
from deltaproduce.storage.stored import Stored
from deltaproduce.storage.versions import Version, has_tables
from deltaproduce.storage.window_states import WindowState
from deltaproduce.times.zones import OF_UTC


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(VersionJob):
    """An update, a load or a refresh.

    Attributes:
        request: what the version is asked to bring.
        windows: the state that windows depend on, without partitions that come with rows.
        held: what windows have read of a feeder that several windows are over, by feeder.
        neighbours: what steps have read of stages with groups of rows, by stage.
        looked_up: what views have looked up in stages, by stage.
        shared: the changes that several views need.
        settled: the stages whose outcome an earlier attempt has found completely.
        tasked: what became of the tasks of the stages that are processed so far, by stage.
    """

    request: Request
    windows: WindowState
    held: Mapping[str, Held] = field(default_factory=dict)
    neighbours: Mapping[str, Neighbours] = field(default_factory=dict)
    looked_up: Mapping[str, SharedLookups] = field(default_factory=dict)
    shared: SharedChanges = field(default_factory=SharedChanges)
    settled: Collection[str] = frozenset()
    tasked: dict[str, Tasked] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        context: StoreContext,
        head: Version,
        started_at: datetime,
        request: Request,
    ) -> Self:
        """Return an update; one Spark job for each batch if there is an id.

        Args:
            head: the newest version, with its tables as compactions have left them.

        Raises:
            DefinitionError: see `plan.plan`.
        """
        windows = request.window_arguments.state(head.windows)
        steps = context.plan(head, request.causes, windows, advances=request.advances)
        given = None if request.update_id is None else _digest(context, head, request)
        return cls(
            context=context,
            operation=request.operation,
            head=head,
            steps=steps,
            attempt=Attempt.after(head, started_at, given),
            update_id=request.update_id,
            request=request,
            windows=windows,
            held={
                name: Held(*shared)
                for name, shared in context.windows.shared([s.stage.name for s in steps]).items()
            },
            neighbours={
                stage.name: Neighbours(stage.schema.key.columns[: stage.kind.key_use.group_width])
                for stage in (step.stage for step in steps)
                if stage.kind.key_use.group_width
            },
            looked_up=context.reader.lookups(head, _look_ups(steps)),
            shared=_shared(steps),
        )

    @property
    @override
    def refusal(self) -> Refusal:
        """Rows that are to be forgotten go, whatever checks say."""
        return "never" if self.request.operation == "forget" else "broken"

    @property
    @override
    def definitions(self) -> Mapping[str, Fingerprint]:
        return {**self.head.definitions, **self.context.definitions}

    @override
    def carrying_on(self, kept: Resumption) -> Self:
        feeders_of = {
            step.stage.name: step.stage.feeders for step in self.steps if step.stage.feeders
        }
        settled = kept.settled(
            {
                name: [feeder.name for feeder in feeders if feeder.name in feeders_of]
                for name, feeders in feeders_of.items()
            }
        )
        return replace(self, kept=kept, settled=settled)

    @override
    def result(self, step: Step, results: Mapping[str, StepResult]) -> StepResult | None:
        name, step = step.stage.name, self.weighed(step, results)
        present = self._present_unknown(step.stage, results)
        state = self.state(results).with_present(present)
        shift = self._shift(step, state)
        check_not_rebuilt(step, self.head, state)
        if name not in self.settled:
            outcome = self.produce(step, results, shift, state)
        else:
            kept = self.kept.kept.get(name)
            outcome = None if kept is None else self._stored(step.stage, kept)
        if outcome is None and self._changes_storage(name):
            outcome = self._unchanged(step.stage)
        if outcome is None:
            return None
        for root in self.context.windows.roots(name):
            present = {**present, **root.units_after(outcome.comparison)}
        redefined = Redefinition.of(step.stage, self.head)
        return StepResult(
            step.stage,
            outcome.comparison,
            step.reason if outcome.recomputed is None else f"{step.reason}; {outcome.recomputed}",
            full=step.how == "full" or outcome.recomputed is not None or self._begins(step),
            surrogates=outcome.surrogates,
            rebuilt=redefined is not None,
            updates_rebuilt=redefined is not None and redefined.all_differ,
            window=outcome.window or _rebuilt_window(shift, step),
            present=present,
            rows_expired=outcome.rows_expired,
            rows_not_taken=outcome.rows_not_taken,
            tasks=self._computed_tasks(step.stage),
            ties=outcome.ties,
        )

    def _changes_storage(self, stage: str) -> bool:
        return changes_storage(stage, self.head, self.context.filing(stage).text)

    def _begins(self, step: Step) -> bool:
        """Return whether a source gets its first rows."""
        has_rows = self.head.stages.get(step.stage.name, NO_TABLES).rows
        return step.how == "changes" and not has_rows

    def _unchanged(self, stage: Stage) -> ProductionResult:
        """Return the outcome of a stage whose rows do not change."""
        content, engines = self.context.reader.content(self.head, stage), self.context.engines
        key = Layout.of(stage).key
        nothing = Selection.of(empty(key), key, engines)
        return ProductionResult(difference(stage, content, content, lambda: nothing, engines))

    def _computed_tasks(self, stage: Stage) -> tuple[str, ...]:
        """Return the made tasks, if the stage keeps their records."""
        if self.request.schedule is None or not (
            stage.kind.tasks.make_rows and stage.hidden is not None
        ):
            return ()
        return tuple(map(str, self.tasked[stage.owner].done))

    @override
    def results_to_publish(
        self, results: Mapping[str, StepResult]
    ) -> Mapping[str, StepResult] | None:
        """An id, or an overdue arrival, always gives a version."""
        now = self.attempt.started_at
        overdue = now is not None and any(a.is_overdue(now) for a in self.request.arrivals.values())
        after = self.before(self.head, results)
        moves = differ(after, self.head) or _has_moved(after.time_zone, self.head)
        return results if results or self.name(results) or overdue or moves else None

    @override
    def name(self, results: Mapping[str, StepResult]) -> str | None:
        """Of several versions only the last, with no window behind, has the id."""
        moves = {name: result.window for name, result in results.items()}
        is_behind = self.context.windows.behind(self.before(self.head, results), moves)
        return None if is_behind else self.update_id

    @override
    def write(self, result: StepResult, head: Version) -> StageWrite:
        name = result.stage.name
        last = head.stages.get(name, NO_TABLES)
        if name in self.kept.kept:
            return WriteKept(result, self.kept.kept[name])
        if name in self.request.arrivals:
            arrival = self.request.arrivals[name]
            return WriteInPlace(result, last, arrival.place, arrival.begins, result.mode)
        overlay = self.context.reader.overlay(head, result.stage)
        return self.context.write(result, last, overlay)

    @override
    def before(self, head: Version, results: Mapping[str, StepResult]) -> Version:
        """Record tables and windows that moved on with the same rows."""
        moved = {
            name: arrival.place.pinned(arrival.last)
            for name, arrival in self.request.arrivals.items()
            if name not in results and arrival.last is not None
        }
        stages = {**head.stages, **moved}
        head = replace(head, stages=stages, time_zone=self.context.time_zone)
        state, advances = self.state(results), self.request.advances
        return self.context.windows.moved(head, state, results, advances=advances)

    def state(self, results: Mapping[str, StepResult]) -> WindowState:
        """Return the state that windows depend on after some steps."""
        state = self.windows
        for result in results.values():
            state = state.with_present(result.present)
        expired = [name for name, result in results.items() if result.rows_expired]
        return self.context.retentions.settled(state, expired)

    def weighed(self, step: Step, results: Mapping[str, StepResult]) -> Step:
        """Return the step as it runs, given the changes of its feeders; see `plan.weighed`."""
        if may_forget(step.stage):
            return step
        changed = rows = 0
        for feeder in step.stage.feeders:
            last = self.head.stages.get(feeder.name, NO_TABLES)
            if feeder.name in results:
                changed += results[feeder.name].comparison.counts.rows_of_changed_keys
                rows += results[feeder.name].size(last)[0]
            else:
                rows += last.rows
        return weighed(
            step, changed, rows, self.context.options.policy, self.context.engines.limits
        )

    def produce(
        self,
        step: Step,
        results: Mapping[str, StepResult],
        shift: Shift | None,
        state: WindowState,
    ) -> ProductionResult | None:
        """Return the outcome of a step that is not stored yet; None if nothing reaches the step.

        Args:
            shift: how the stage's window moves.
            state: the state that windows depend on before the step.
        """
        stage, head, reader = step.stage, self.head, self.context.reader
        redefined = Redefinition.of(stage, head)
        if stage.name in self.request.arrivals:
            return self._arrived(self.request.arrivals[stage.name], redefined)
        content = _beside(reader.content(head, stage), self.neighbours.get(stage.name))
        if not stage.feeders:
            return self.given(stage.name, content, redefined, state)
        begins = stage.kind.upkeep.of_nothing and self.windows != head.windows
        if not (results or head.number or begins):  # there is no first version without rows (S9)
            return None
        production, inputs = self.production(stage, shift), self.inputs(stage, results)
        if stage.kind.tasks.make_rows:
            return self._tasked(production, inputs, content, redefined)
        if step.if_changed and not any(each.changed for each in inputs):
            return None
        if step.how == "full":
            return full_step(production, inputs, content, redefined)
        mappings = partial(reader.key_mappings, head, stage)
        return production.kind.changed(production, inputs, content, mappings)

    def _tasked(
        self,
        production: Production,
        inputs: Sequence[StageInput],
        content: Stored | None,
        redefined: Redefinition | None,
    ) -> ProductionResult | None:
        """Return what tasks change in their stage, or in the stage that keeps their records."""
        stage, schedule = production.stage, self.request.schedule
        if schedule is None:
            return None
        owner = self.tasked.get(inputs[0].stage.name)
        if stage.hidden is not None:
            batch = None if owner is None else owner.records
        else:
            given = TaskArguments(
                production=production,
                inputs=inputs,
                records=partial(self.context.reader.content, self.head),
                schedule=schedule,
                so_far=Outcomes(self.tasked),
                rebuilds=redefined is not None,
            )
            kept = None if given.rebuilds else content
            self.tasked[stage.name] = scheduled_kind(stage).tasked(
                given, kept, self.head.number + 1
            )
            batch = self.tasked[stage.name].rows
        return None if batch is None else source_step(stage, batch, content, redefined)

    def given(
        self,
        source: str,
        content: Stored | None,
        redefined: Redefinition | None,
        state: WindowState,
        *,
        rebuilds: bool = False,
    ) -> ProductionResult | None:
        """Return the outcome of a source that rows are given for, or that rows expire from.

        Args:
            content: its rows; None if there are none yet.
            state: the state that windows depend on before the step.
            rebuilds: see `source_step`.
        """
        batch, retained = (
            self.request.batches.get(source),
            self.context.retentions.sources.get(source),
        )
        clustering = self.context.filing(source).by_partitions
        if batch is None and redefined is not None:  # its rows stay, in other columns
            batch = Batch.nothing(redefined.new, self.context.engines)
        if retained is None:
            if batch is None:
                return None
            return source_step(
                batch.source,
                batch,
                content,
                redefined,
                rebuilds=rebuilds,
                clustering=clustering,
                looked_up=self.looked_up.get(source),
            )
        batch = batch or Batch.nothing(retained.source, self.context.engines)
        return retained.step(batch, content, redefined, self.head.windows, state, rebuilds=rebuilds)

    def production(self, stage: Stage, shift: Shift | None) -> Production:
        """Return what produces a stage."""
        last = self.head.stages.get(stage.name, NO_TABLES)
        clustering = self.context.filing(stage.name).by_partitions
        dates = self.head.windows.date, self.windows.date
        production = Production.of(stage, last, self.context.engines, shift, clustering, dates)
        return replace(production, shared=self.shared)

    def inputs(self, stage: Stage, results: Mapping[str, StepResult]) -> list[StageInput]:
        """Return the inputs of a stage."""
        inputs = inputs_of(stage, partial(self._input, results=results))
        return [
            replace(
                each,
                before=partial(_holding, each.before, self.held[each.stage.name], stage.name)
                if each.stage.name in self.held
                else each.before,
                by_states=stage.kind.upkeep.reads_states,
            )
            for each in inputs
        ]

    def _input(self, feeder: Stage, results: Mapping[str, StepResult]) -> StageInput:
        before, known = self.rows_before(feeder, results), self.neighbours.get(feeder.name)
        return StageInput(
            feeder,
            lambda: _beside(before(), known),
            results[feeder.name].comparison if feeder.name in results else None,
            is_after=self.are_after(feeder),
            looked_up=self.looked_up.get(feeder.name) or unshared(),
        )

    def rows_before(
        self, feeder: Stage, results: Mapping[str, StepResult]
    ) -> Callable[[], Stored | None]:
        """Return a reader of a feeder's rows; these include all rows that its step keeps."""
        del results
        arrival = self.request.arrivals.get(feeder.name)
        if arrival is not None and not arrival.begins:
            return arrival.content  # the table now still has all unchanged rows
        return partial(self.context.reader.content, self.head, feeder)

    def are_after(self, feeder: Stage) -> bool:
        """Return whether `rows_before` finds the rows of all keys after the feeder's step."""
        arrival = self.request.arrivals.get(feeder.name)
        return arrival is not None and not arrival.begins

    def _shift(self, step: Step, state: WindowState) -> Shift | None:
        """Return how a stage's window moves; None if it has no window.

        Raises:
            MissingPartitionsError: a partition is missing, and the window does not skip those.
        """
        windowed = self.context.windows.stages.get(step.stage.name)
        if windowed is None:
            return None
        windowed.check_present(state)
        name, redefined = step.stage.name, step.redefined
        if not has_tables(self.head, name):  # its window may be on its way already
            redefined = self.head.definitions.get(name) != self.context.definitions[name]
        return windowed.shift(self.head, state, redefined=redefined, advances=self.request.advances)

    def _present_unknown(self, stage: Stage, results: Mapping[str, StepResult]) -> Units:
        """Return the partitions under a stage's window that the store does not know yet.

        For a source, this includes the partitions by which it keeps its rows.
        """
        windowed, known = self.context.windows.stages.get(stage.name), self.head.windows.present
        rezoned = self.context.rezoned(self.head)
        roots = [root for root in self.context.windows.kept if root.stage is stage]
        units: Units = {}
        for root in (*roots, *(() if windowed is None else windowed.roots)):
            step = results.get(root.stage.name)
            is_complete = step is not None and step.comparison.complete  # that step records them
            is_moved = rezoned.moves(root.column) and not root.partitions.of_place
            is_known = root.tracked in known and not is_moved
            if is_known or is_complete:
                continue
            rows = self._input(root.stage, results).all_rows()
            units = units if rows is None else {**units, **root.units(rows)}
        return units

    def _arrived(self, arrival: Arrival, redefined: Redefinition | None) -> ProductionResult | None:
        """Return the outcome of a source that is read in place."""
        source = arrival.source
        with arrival.reading():
            if arrival.begins:
                return source_step(source, arrival.batch(), None, rebuilds=arrival.last is not None)
            content = self.context.reader.content(self.head, source)
            return source_step(source, arrival.batch(), content, redefined)

    def _stored(self, stage: Stage, kept: CompletedStage) -> ProductionResult:
        """Return the outcome of a step that an earlier attempt has stored."""
        head, reader = self.head, self.context.reader
        figures = {**head.stages, stage.name: kept.figures}
        after = replace(head, number=head.number + 1, stages=figures)
        readers = self.context.graph.readers_of(stage.name)
        by_states = any(
            reader.kind.upkeep.reads_states for reader in readers
        )  # updates hold no states
        has_updates = UPDATES in stage.kind.tables and not by_states
        comparison = stored_step(
            stage,
            reader.content(head, stage),
            reader.content(after, stage),
            partial(reader.changed_keys, (head, after), stage) if has_updates else None,
            self.context.engines,
            Redefinition.of(stage, head),
        )
        return ProductionResult(comparison, kept.figures.numbering.surrogates)


def _look_ups(steps: Iterable[Step]) -> Iterator[Wanted]:
    """Yield the look-ups that views may make."""
    for stage in _following(steps):
        yield from stage_kind(stage).look_ups(stage)


def _shared(steps: Iterable[Step]) -> SharedChanges:
    """Return no changes yet, for what several views compute."""
    stages = _following(steps)
    return SharedChanges.of(one for stage in stages for one in stage_kind(stage).subplans(stage))


def _following(steps: Iterable[Step]) -> Iterator[Stage]:
    """Yield the stages that may follow the changes of others."""
    return (step.stage for step in steps if step.stage.feeders and step.how == "incremental")


def _holding(before: Callable[[], Stored | None], held: Held, reader: str) -> Stored | None:
    stored = before()
    return None if stored is None else replace(stored, held=held.read_by(reader))


def _has_moved(time_zone: str | None, head: Version) -> bool:
    """Return whether a version has another time zone than the one before it records."""
    return head.time_zone not in (None, time_zone)


def _rebuilt_window(shift: Shift | None, step: Step) -> WindowMove | None:
    """Return the move of a stage's window after the stage was produced in full, if it has one."""
    return None if shift is None else shift.move(reused=False, why=step.reason)


def _digest(context: StoreContext, head: Version, request: Request) -> str:
    """Return a digest of all inputs of the outcome; one Spark job for each given batch."""
    parts = [
        request.operation,
        request.update_id,
        None if head.attempt is None else head.attempt.id,
        {name: batch.digest() for name, batch in request.batches.items()},
        {name: asdict(arrival.place) for name, arrival in request.arrivals.items()},
        {
            name: {"layout": definition.layout, "function": definition.function}
            for name, definition in context.definitions.items()
        },
        *request.window_arguments.json_values,
        *context.retentions.texts.items(),
        *sorted((name, text_of(description)) for name, description in context.descriptions.items()),
        *([] if context.time_zone == OF_UTC else [context.time_zone]),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _beside(stored: Stored | None, neighbours: Neighbours | None) -> Stored | None:
    """Return stored rows that are looked up with the neighbours that are held."""
    if stored is None or neighbours is None:
        return stored
    return replace(stored, neighbours=neighbours)
