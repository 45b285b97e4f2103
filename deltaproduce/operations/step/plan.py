"""Plans: which stages an update has to process, how, and why.

Pure: a function of the graph, the head and the definitions' fingerprints; nothing is read. The
invariant: a stage is produced in full only for a reason that the plan states (a new stage, a
changed function, a requested refresh) or, if nearly all its input turns out
to have changed, that its version states; everything else is incremental.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from deltaproduce.errors import DefinitionError
from deltaproduce.model.fingerprints import NOT_COMPUTED, Fingerprint
from deltaproduce.model.graph import Graph, Producer, Source, Stage
from deltaproduce.model.limits import NEARLY_ALL, Limits
from deltaproduce.operations.step.widening import added, faults
from deltaproduce.shown.tabular import Word, one_line
from deltaproduce.storage.figures import StageFigures
from deltaproduce.storage.versions import Version, has_tables, stage_at

TableType = Literal["copy_on_write", "merge_on_read"]
"""How a stage's content and key mappings take a step, in Hudi's words.

``copy_on_write``: changed rows are replaced, so the tables are plain at every version.
``merge_on_read``: changed rows are added to a table of runs, and resolved when read.
"""

Policy = Literal["auto", "incremental", "strict"]
"""Whether an update may produce a stage in full that has rows.

``auto``: when its definition changed, or where that is quicker (see `weighed`).
``incremental``: only when its definition changed. ``strict``: never; such a change is refused.
"""

Writing = Literal["nothing", "run", "replace", "rewrite"]
"""Append a run; replace the pairs that differ; or rewrite the tables, with all runs applied."""


Compaction = Literal["fold", "merge", "feed", "log"]
"""Rewrite content and key mappings with their runs, or merge small files.

``merge`` merges those of content and key mappings whose rows are replaced by marking, and purges
marked rows; ``feed`` merges the files of updates, ``log`` those of the version log.
"""


_STORAGE_CHANGED: Final = "its storage layout changed"


@dataclass(frozen=True, slots=True)
class Step:
    """One stage that an update may touch.

    Attributes:
        how: ``changes`` (a source that is given some, or all its rows), ``incremental`` (if its
            feeder's keys turn out to have changed) or ``full``.
        reason: why, in words.
        redefined: its tables were made by another definition.
        if_changed: it is skipped if its feeders' keys turn out not to have changed, though it is
            produced in full.
    """

    stage: Stage
    how: Literal["changes", "incremental", "full"]
    reason: str
    redefined: bool = False
    if_changed: bool = False

    def __repr__(self) -> str:
        return one_line(self, self.stage.name, Word(self.how), self.reason)

    def as_dict(self) -> dict[str, Any]:
        """The step as JSON has it, with the name of its stage."""
        return {
            "stage": self.stage.name,
            "how": self.how,
            "reason": self.reason,
            "redefined": self.redefined,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Causes:
    """Why stages are processed, besides their definitions.

    Attributes:
        given: the sources that changes, or all rows, are given for.
        snapshots: the sources among these for which all rows are given.
        arrived: the sources whose own tables have news -> the reason for the step.
        refreshed: the stages that the caller asks to produce in full.
        due: stages that change though none of their inputs does -> why.
        tasks: why stages whose rows tasks make are processed; None if they are not.
        expiring: sources whose rows may leave though nothing is given for them -> why.
        stored: stage -> how files are to keep its content, as versions record it.
        rezoned: stages that were computed in another time zone -> why they are produced again.
        is_version: whether there will be a version, also if no stage is processed.
    """

    given: Collection[str] = ()
    snapshots: Collection[str] = ()
    arrived: Mapping[str, str] = field(default_factory=dict)
    refreshed: Collection[str] = ()
    due: Mapping[str, str] = field(default_factory=dict)
    tasks: str | None = None
    expiring: Mapping[str, str] = field(default_factory=dict)
    stored: Mapping[str, str] = field(default_factory=dict)
    rezoned: Mapping[str, str] = field(default_factory=dict)
    is_version: bool = False


def plan(
    graph: Graph,
    head: Version,
    definitions: Mapping[str, Fingerprint],
    causes: Causes,
    policy: Policy = "auto",
) -> tuple[Step, ...]:
    """Return the steps of an update, feeders first.

    Args:
        definitions: the fingerprints of the graph's stages.
        policy: whether changed definitions are accepted.

    Raises:
        DefinitionError: the rows of a source do not fit its columns (`widening`), and not all its
            rows are given; or the source has become an existing Delta table, or is no longer one;
            or the policy is strict, and a definition changed; with `stage`. Or the head has stages,
            but none of the graph's.
    """
    _check_pipeline(graph, head)
    steps: dict[str, Step] = {}
    for source in graph.sources:
        step = _source_step(source, head, definitions[source.name], causes, policy)
        if step is not None:
            steps[source.name] = step
    for stage in graph.producers:
        if stage.kind.tasks.make_rows:
            step = _tasks_step(stage, head, causes.tasks)
            if step is not None:
                steps[stage.name] = step
            continue
        step = _producer_step(stage, head, definitions[stage.name], steps, causes)
        for owner in _moving_with(stage, graph):
            other = _producer_step(owner, head, definitions[owner.name], steps, causes)
            step = _together(stage, step, other, head)
        if step is not None and step.redefined and policy == "strict":
            name = stage.owner
            raise DefinitionError(
                f"stage {name!r} would be produced in full, as {step.reason}, and the "
                "policy is 'strict': open the store with another, or undo the change",
                stage=name,
            )
        if step is not None:
            steps[stage.name] = step
    steps |= _storage_steps(graph, head, causes.stored, steps)
    return tuple(steps[stage.name] for stage in graph.stages if stage.name in steps)


def check_policy(graph: Graph, policy: Policy) -> None:
    """Refuse stages that a change recomputes, if the policy is strict.

    Raises:
        DefinitionError: with `stage`.
    """
    for stage in graph.producers if policy == "strict" else ():
        if stage.kind.upkeep.obstacle is not None:
            raise DefinitionError(
                f"stage {stage.owner!r} would be produced in full at a change, as "
                f"{stage.kind.upkeep.obstacle}, and the policy is 'strict': open the store with "
                "another one, or write a query that is incremental",
                stage=stage.owner,
            )


def _check_pipeline(graph: Graph, head: Version) -> None:
    """Refuse the store of another pipeline, which would lose all its stages."""
    had = [n for n, figures in head.stages.items() if has_tables(head, n) and not figures.role]
    if had and not any(stage.name in had for stage in graph.stages):
        names, others = ", ".join(had), ", ".join(stage.name for stage in graph.stages)
        raise DefinitionError(
            f"this store has the stages {names}, and the pipeline has none of them, but {others}: "
            "give the pipeline that the store was made with, or a location of its own"
        )


def changes_storage(stage: str, head: Version, stored: str) -> bool:
    """Return whether a stage's files keep its rows in another way than they should.

    Args:
        stored: how they should, as versions record it.
    """
    known = head.stages.get(stage)
    if known is None or known.origin.table or not known.rows:
        return False
    return has_tables(head, stage) and known.base.stored != stored


def _storage_steps(
    graph: Graph, head: Version, stored: Mapping[str, str], steps: Mapping[str, Step]
) -> dict[str, Step]:
    """Return the steps of stages whose content is rewritten to change how files keep it."""
    storage_steps: dict[str, Step] = {}
    for stage in graph.stages:
        name, step = stage.name, steps.get(stage.name)
        if not changes_storage(name, head, stored.get(name, "")):
            continue
        if step is None:
            how: Literal["incremental", "changes"] = "incremental" if stage.feeders else "changes"
            storage_steps[name] = Step(stage, how, _STORAGE_CHANGED)
        else:
            storage_steps[name] = replace(step, reason=f"{step.reason}; {_STORAGE_CHANGED}")
    return storage_steps


def _source_step(
    source: Source,
    head: Version,
    definition: Fingerprint,
    causes: Causes,
    policy: Policy,
) -> Step | None:
    _check_place(source, head)
    name, redefined = source.name, has_other_layout(definition, source.name, head)
    if name in causes.arrived:
        news = causes.arrived[name]
        reason = f"its columns changed; {news}" if redefined else news
        return Step(source, "changes", reason, redefined=redefined)
    if redefined and name in causes.snapshots:
        return Step(source, "changes", "its columns changed, all rows given", redefined=True)
    reasons = [_kept(source, head, policy)] if redefined else []
    if name in causes.given:
        reasons.append(f"{'all rows' if name in causes.snapshots else 'changes'} given")
    if name in causes.expiring:
        reasons.append(causes.expiring[name])
    return Step(source, "changes", "; ".join(reasons), redefined) if reasons else None


def _kept(source: Source, head: Version, policy: Policy) -> str:
    """Return why a source keeps its rows in other columns.

    Raises:
        DefinitionError: its rows do not fit the columns, or the policy is strict.
    """
    name, stored = source.name, stage_at(head, source)
    was = stored.schema
    reasons = ["which ones is not recorded"] if stored is source else faults(was, source.schema)
    if reasons:
        raise DefinitionError(
            f"source {name!r} has other columns than its tables of version {head.number}: "
            f"{'; '.join(reasons)}. Give all its rows in them, with Store.load or as a snapshot, "
            "or undo the change",
            stage=name,
        )
    if policy == "strict":
        raise DefinitionError(
            f"source {name!r} has other columns than its tables of version {head.number}, so all "
            "that reads it would be produced again, and the policy is 'strict': open the store "
            "with another, or undo the change",
            stage=name,
        )
    new = added(was, source.schema)
    return f"new in its rows, as null: {', '.join(new)}" if new else "its columns changed"


def _check_place(source: Source, head: Version) -> None:
    """Refuse a source whose rows have moved from this store's tables to another table, or back."""
    elsewhere = source.table is not None
    if not has_tables(head, source.name) or elsewhere == bool(
        head.stages[source.name].origin.table
    ):
        return
    was, is_now = ("in this store", "a Delta table that exists")[:: 1 if elsewhere else -1]
    raise DefinitionError(
        f"source {source.name!r} is {is_now}, and was {was}: give it a new name",
        stage=source.name,
    )


def _tasks_step(stage: Producer, head: Version, reason: str | None) -> Step | None:
    """Return the step of a stage whose rows tasks make."""
    redefined = stage_at(head, stage) is not stage
    if reason is not None:
        return Step(stage, "changes", reason, redefined=redefined)
    if redefined:
        name = stage.owner
        raise DefinitionError(
            f"stage {name!r} has other columns than its tables of version {head.number}: make its "
            "tasks again, with Store.run(as_of=…)",
            stage=name,
        )
    return None


def _producer_step(
    stage: Producer,
    head: Version,
    definition: Fingerprint,
    steps: Mapping[str, Step],
    causes: Causes,
) -> Step | None:
    through = [feeder for feeder in stage.feeders if feeder.name in steps]
    reached = [feeder.name for feeder in through]
    if not has_tables(head, stage.name):
        fed = reached or [x.name for x in stage.feeders if has_tables(head, x.name)]
        runs = fed or (stage.kind.upkeep.of_nothing and (steps or head.number or causes.is_version))
        return Step(stage, "full", "first version of this stage") if runs else None
    if head.definitions[stage.name].function == NOT_COMPUTED:
        return Step(stage, "full", "first version of this stage since a rollback")
    full = _full_step(stage, head, definition, causes)
    if full is not None:
        return full
    again = _again(stage, head, steps)
    if again is not None:
        return again
    return _reached(stage, through, causes.due.get(stage.name))


def _reached(stage: Producer, through: Sequence[Stage], due: str | None) -> Step | None:
    """Return the step of a stage that changes of its feeders reach, or that is due itself."""
    upkeep, reasons = stage.kind.upkeep, list[str]()
    if through:
        shown = [one.name for one in through if one.hidden is None] or [x.name for x in through]
        reasons.append(f"reached through {', '.join(shown)}")
    if due is not None and (upkeep.by_date or not through):
        reasons.append(due)
    if not reasons:
        return None
    if upkeep.recomputes is not None:
        reason = "; ".join([*reasons, upkeep.recomputes])
        return Step(stage, "full", reason, if_changed=due is None)
    reasons += [upkeep.note] if through and upkeep.note is not None else []
    return Step(stage, "incremental", "; ".join(reasons))


def _full_step(
    stage: Producer,
    head: Version,
    definition: Fingerprint,
    causes: Causes,
) -> Step | None:
    """Return a step in full if a stage has another definition now, or a refresh is asked for."""
    if has_other_layout(definition, stage.name, head):
        return Step(stage, "full", "its columns or feeders changed", redefined=True)
    if stage.name in causes.refreshed:
        return Step(stage, "full", "refresh asked for")
    if head.definitions[stage.name].function != definition.function:
        return Step(stage, "full", f"its {stage.kind.definition.maker} changed", redefined=True)
    if stage.name in causes.rezoned:
        return Step(stage, "full", causes.rezoned[stage.name], redefined=True)
    return None


def _again(stage: Producer, head: Version, steps: Mapping[str, Step]) -> Step | None:
    """Return a step in full if the old rows of feeders cannot be subtracted from a stage's rows."""
    reached = [feeder for feeder in stage.feeders if feeder.name in steps]
    rebuilt = [feeder.name for feeder in reached if steps[feeder.name].redefined]
    if rebuilt and stage.kind.upkeep.reads_states:
        return Step(stage, "full", f"the states of {', '.join(rebuilt)} changed", redefined=True)
    others = [feeder.name for feeder in reached if _has_other_columns(feeder, stage, head)]
    if others and stage.kind.upkeep.subtracts:
        return Step(stage, "full", f"the columns of {', '.join(others)} changed")
    return None


def _has_other_columns(feeder: Stage, stage: Producer, head: Version) -> bool:
    """Return whether a feeder's old rows are not known in its new columns.

    A window may read them as they are stored.
    """
    was, now = stage_at(head, feeder).schema, feeder.schema
    if stage.kind.upkeep.window is None and not stage.kind.upkeep.by_all_columns:
        return bool(faults(was, now))
    return (was.key.ddl, was.value.ddl) != (now.key.ddl, now.value.ddl)


def weighed(step: Step, changed: int, rows: int, policy: Policy, limits: Limits) -> Step:
    """Return the step, in full if so many rows are of changed keys that this is quicker.

    A function is then called for at most a ninth more keys, however long a call takes, and no key
    is looked up. Does not apply if the stored value depends on what keys had before.

    Args:
        changed: the number of feeder rows whose keys this version changes.
        rows: the number of feeder rows after it.
        policy: whether a stage may be produced in full without need.
    """
    upkeep = step.stage.kind.upkeep
    if step.how != "incremental" or policy != "auto" or upkeep.by_history:
        return step
    if not limits.is_nearly_all(changed, rows, upkeep.full_from or NEARLY_ALL):
        return step
    reason = f"{step.reason}, {changed:,} of {rows:,} rows are of changed keys"
    return replace(step, how="full", reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSize:
    """How large a step is beside the tables that it is written to.

    Attributes:
        complete: whether the step knows all rows of the content.
        rows: the number of content rows after the step.
        row_bytes: the approximate size of a row.
        pairs_changed: the number of pairs of source key and key whose rows differ.
        pairs_replaced: how many of these had rows before.
        run_rows: the number of rows of the pairs that differ.
        overlay_rows: the number of rows in runs that are not folded yet.
        overlay_runs: the number of these runs.
        added: the number of commits that added to the content since its rows were last put in
            order.
        alone: whether there is no Spark, which replaces rows by predicate.
        marks: whether the driver replaces rows, by marking them in the files that have them.
        scattered: the number of rows beside those that were last put in order.
    """

    complete: bool
    rows: int
    row_bytes: int
    pairs_changed: int
    pairs_replaced: int
    run_rows: int
    overlay_rows: int
    overlay_runs: int
    added: int
    alone: bool = False
    marks: bool = False
    scattered: int = 0


def writing(table_type: TableType, limits: Limits, size: StepSize) -> Writing:
    """Return how a step is written to a stage's content and key mappings."""
    rows, row_bytes = size.rows, size.row_bytes
    if not size.pairs_changed:
        return "nothing"
    if size.complete or limits.is_small(rows, row_bytes):
        return "rewrite"
    if table_type == "merge_on_read":
        beside = size.overlay_rows, size.overlay_runs
        return "run" if limits.fits_overlay(size.run_rows, *beside, row_bytes) else "rewrite"
    if size.overlay_runs:
        return "rewrite"
    if size.marks:
        few = limits.is_replaced(size.run_rows, size.scattered, rows, row_bytes)
        return "replace" if few else "rewrite"
    if size.added >= limits.compaction_commits:
        return "rewrite"
    rewritten = limits.is_rewritten(rows, row_bytes) or size.pairs_changed > limits.seek_keys
    return "rewrite" if size.pairs_replaced and (size.alone or rewritten) else "replace"


def compactions(
    figures: StageFigures | None, limits: Limits, *, at_once: bool = False
) -> Collection[Compaction]:
    """Return the compactions that a stage's tables need.

    Args:
        at_once: whether any run or small file is enough.
    """
    due: list[Compaction] = []
    if figures is None:
        return due
    if figures.base.runs and (at_once or limits.is_full(figures.base.run_rows, figures.base.runs)):
        due.append("fold")
    replaced = figures.base.added.get("content", 0)
    if not figures.base.runs and replaced and (at_once or replaced % limits.merged_commits == 0):
        due.append("merge")
    added = figures.base.added.get("updates", 0)
    if added and (at_once or added % limits.compaction_commits == 0):
        due.append("feed")
    return due


def rolled_back(head: Version, wanted: Version) -> dict[str, Fingerprint]:
    """Return the definitions of the tables after a rollback of ``head`` to ``wanted``.

    A stage that ``wanted`` does not have keeps its tables, then empty and made by no function, so
    the next update makes it from all rows of its feeders.
    """
    definitions = {
        name: replace(known, function=NOT_COMPUTED) for name, known in head.definitions.items()
    }
    had = {name: known for name, known in wanted.definitions.items() if has_tables(wanted, name)}
    return {**definitions, **had}


def check_layouts(definitions: Mapping[str, Fingerprint], version: Version) -> None:
    """Refuse a version whose tables have other columns or feeders than the stages define.

    Raises:
        DefinitionError: with the stage.
    """
    for name, description in definitions.items():
        if has_other_layout(description, name, version):
            raise DefinitionError(
                f"stage {name!r} has other columns or feeders than its tables of version "
                f"{version.number}: give it a new name, or keep the pipeline in a new location",
                stage=name,
            )


def _moving_with(stage: Producer, graph: Graph) -> Iterator[Producer]:
    """Yield the owners of a hidden stage that has a limited window, which is theirs."""
    window = stage.kind.upkeep.window
    if stage.hidden is not None and window is not None and window.is_limited:
        yield from (one for one in graph.producers if one.name in stage.hidden.owners)


def _together(stage: Producer, step: Step | None, owner: Step | None, head: Version) -> Step | None:
    """Return the step of a hidden stage whose window moves with its owner's.

    A limited window with another definition begins again, so its place depends on when that
    happens: the hidden stage begins again with it.

    Args:
        step: the step that it would have alone.
        owner: the step of the stage that it belongs to.
    """
    if owner is None or not owner.redefined or not has_tables(head, stage.name):
        return step
    return replace(owner, stage=stage)


def has_other_layout(definition: Fingerprint, stage: str, version: Version) -> bool:
    """Return whether a stage has tables in a version, with other columns or feeders."""
    known = version.definitions.get(stage)
    return known is not None and has_tables(version, stage) and known.layout != definition.layout
