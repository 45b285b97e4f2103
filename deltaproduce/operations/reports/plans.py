"""Plans for readers: what an update would do to each stage, why, and what would be lost.

Pure: a function of the steps, the head and the definitions. The invariant: what is unknown before
anything is read, such as how many keys a change reaches, is None and shown as unknown; it is never
0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from deltaproduce.described.content import description, text_of
from deltaproduce.engines.marks import Counts
from deltaproduce.model.fingerprints import NOT_COMPUTED, Altered, Fingerprint
from deltaproduce.model.graph import Graph, Stage
from deltaproduce.model.limits import Limits
from deltaproduce.model.limits.placement import COMPRESSED, Cluster, Estimate, Work, estimate
from deltaproduce.operations.reports.planned_checks import (
    PlannedCheck,
    planned_checks,
    table_of,
)
from deltaproduce.operations.step.plan import Step
from deltaproduce.shown.table import UNKNOWN, Cell, Table
from deltaproduce.shown.tabular import Tabular, Word, one_line
from deltaproduce.storage.versions import Version, columns_of, has_tables

Counted: TypeAlias = Mapping[str, Counts | None]
"""Source -> how a snapshot of it differs from its rows; None if it does not."""

Cause = Literal["added", "changed", "given", "reached", "refreshed"]
"""Why a stage is processed.

It is new (``added``), its definition differs (``changed``), it is a source with new rows
(``given``), one of its feeders is processed (``reached``), or all its keys are due (``refreshed``).
"""


_GROUP_ROWS: Final = Limits().group_rows
"""The rows of a row group, which a look-up reads of each key."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What can be read before an update, but not after it.

    Attributes:
        stage: the stage that loses it.
        what: ``stage`` (no later version has it), ``changes`` (`Store.changes` does not reach
            across) or ``rows`` (a source forgets them).
        rows: the number of lost rows; None if unknown.
        sentence: the same in words.
    """

    stage: str
    what: Literal["stage", "changes", "rows"]
    rows: int | None
    sentence: str

    def __repr__(self) -> str:
        return one_line(self, self.stage, Word(self.what), rows=self.rows)

    def as_dict(self) -> dict[str, Any]:
        """The loss as JSON values."""
        return {
            "stage": self.stage,
            "what": self.what,
            "rows": self.rows,
            "sentence": self.sentence,
        }


@dataclass(frozen=True, slots=True)
class PlannedStep(Step):
    """A step, with what is known of it before anything is read.

    Attributes:
        cause: why the stage is processed, in one word.
        altered: the parts of its definition that differ from the one that its tables were made
            with.
        keys: the most keys of its feeders that change; for a source, the number of given keys, or
            of those that differ, if its snapshot is compared. None if unknown.
        share: about which share of its feeders' rows these are, from 0 to 1; 1 if all keys are
            produced. None if unknown.
        estimate: about how long it takes on the driver and in Spark, if executors are other
            machines and the number of rows is known; else None.
    """

    cause: Cause = "reached"
    altered: tuple[Altered, ...] = ()
    keys: int | None = None
    share: float | None = None
    estimate: Estimate | None = None

    __repr__ = Step.__repr__

    def as_dict(self) -> dict[str, Any]:
        """The step as JSON has it, with the name of its stage."""
        return {
            "stage": self.stage.name,
            "how": self.how,
            "reason": self.reason,
            "redefined": self.redefined,
            "cause": self.cause,
            "altered": [part.as_dict() for part in self.altered],
            "keys": self.keys,
            "share": self.share,
            **(
                {}
                if self.estimate is None
                else {
                    "driver_seconds": round(self.estimate.driver_seconds, 3),
                    "spark_seconds": round(self.estimate.spark_seconds, 3),
                }
            ),
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """What differs of its definition, beside what `diffs` shows, and how long it may take."""
        parts = (part for part in self.altered if not part.diff)
        altered_parts = tuple(f"{self.stage.name}: {part.sentence}" for part in parts)
        if self.estimate is None:
            return altered_parts
        seconds = f"{self.estimate.driver_seconds:.1f} s on the driver"
        seconds += f", {self.estimate.spark_seconds:.1f} s in Spark"
        return (*altered_parts, f"{self.stage.name}: about {seconds}")

    def diffs(self, head: int) -> tuple[Table, ...]:
        """How the text of its definition differs from the one that its tables were made by.

        Args:
            head: the number of the version that they are of.
        """
        return tuple(
            Table(
                f"{self.stage.name}: {part.sentence}",
                listing=(f"--- version {head}", "+++ now", *part.diff.split("\n")),
            )
            for part in self.altered
            if part.diff
        )


class Plan(Tabular, tuple[PlannedStep, ...]):
    """What an update would do: a tuple of the stages that it would process, feeders first.

    Attributes:
        head: the number of the version that the update would follow.
        skipped: the names of the stages that it would not process.
        losses: what can be read before it, but not after it. Existing versions stay readable; only
            a vacuum drops them.
        compared: source -> the keys that its snapshot changes, and the rows that it adds and
            removes, for the snapshots whose rows were given.
        moves: whether windows, or the day of the store, move, even if no stage is processed.
        checks: the checks of the version, and whether the head breaks them.
    """

    head: int
    skipped: tuple[str, ...]
    losses: tuple[Loss, ...]
    compared: Mapping[str, tuple[int, int, int]]
    moves: bool
    checks: tuple[PlannedCheck, ...]

    def __repr__(self) -> str:
        steps = Word(", ".join(f"{step.stage.name} {step.how}" for step in self))
        return one_line(self, steps, after=self.head)

    def __reduce__(self) -> tuple[Any, ...]:
        return Plan, (tuple(self),), self.__dict__

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return {
            "head": self.head,
            "steps": [step.as_dict() for step in self],
            "skipped": list(self.skipped),
            "losses": [loss.as_dict() for loss in self.losses],
            **({"checks": [one.as_dict() for one in self.checks]} if self.checks else {}),
        }

    def as_tables(self) -> tuple[Table, ...]:
        """The stages, what would be lost, the checks, and how texts of definitions differ."""
        columns = ("stage", "cause", "how", "keys", "share", "why")
        rows: list[tuple[Cell, ...]] = [
            (s.stage.name, s.cause, s.how, _or_unknown(s.keys), _percent(s.share), s.reason)
            for s in self
        ]
        rows += [
            (name, "unchanged", "skipped", "", "", "nothing reaches it") for name in self.skipped
        ]
        notes = [note for step in self for note in step.notes]
        notes += [f"lost: {loss.sentence}" for loss in self.losses]
        done = "would do this" if self else "has nothing to do"
        return (
            Table(
                f"an update after version {self.head} {done}",
                columns,
                tuple(rows),
                tuple(notes),
            ),
            *([table_of(self.checks)] if self.checks else []),
            *(table for step in self for table in step.diffs(self.head)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """What is known of the version that a plan is for.

    Attributes:
        given: source -> the number of given keys; None if unknown.
        compared: how snapshots differ.
        forgetting: sources whose rows may be dropped for good.
        zones: stages that were computed in another time zone -> that one, and today's.
        cluster: what is known of executors that are other machines; None if there are none.
        seconds_a_byte: how long the driver takes to read a stored byte.
    """

    given: Mapping[str, int | None]
    compared: Counted
    forgetting: Collection[str]
    zones: Mapping[str, tuple[str, str]]
    cluster: Cluster | None = None
    seconds_a_byte: float = 0.0


def planned(
    steps: Iterable[Step],
    graph: Graph,
    head: Version,
    definitions: Mapping[str, Fingerprint],
    foreseen: Foreseen,
) -> Plan:
    """Return the plan of some steps.

    Args:
        steps: the steps, feeders first.
        definitions: the fingerprints of the graph's stages.
    """
    known, steps = dict[str, PlannedStep](), tuple(steps)
    counted = {
        name: (0, 0, 0) if one is None else (one.keys_changed, one.rows_added, one.rows_removed)
        for name, one in foreseen.compared.items()
    }
    given = {**foreseen.given, **{name: keys for name, (keys, _, _) in counted.items()}}
    for step in steps:
        name = step.stage.name
        parts = altered(step.stage, head, definitions[name], foreseen.zones.get(name))
        plans = _planned(step, head, parts, known, given)
        plans = replace(plans, estimate=_estimate(plans, head, foreseen))
        known[name] = plans
    plan = Plan(step for step in known.values() if step.stage.hidden is None)
    plan.head, plan.compared, plan.moves = head.number, counted, False
    plan.checks = planned_checks(graph.checks, steps, head, definitions)
    names = [stage.name for stage in graph.shown]
    plan.skipped = tuple(name for name in names if name not in known)
    dropped = _forgotten(plan, foreseen.forgetting)
    plan.losses = (*_restarted_updates(plan), *_removed(names, head), *dropped)
    return plan


def altered(
    stage: Stage, head: Version, definition: Fingerprint, zones: tuple[str, str] | None
) -> tuple[Altered, ...]:
    """Return the parts of a stage's definition that differ from that of its tables.

    Args:
        zones: the time zones that they were, and are to be, computed in; None if they do not
            differ, or do not matter.
    """
    known = head.definitions.get(stage.name)
    if known is None or not has_tables(head, stage.name):
        return ()
    had, has = head.stages[stage.name].columns, columns_of(stage)
    parts = (
        Altered("key columns", had.key, has.key),
        Altered("value columns", had.value, has.value),
        Altered("source key columns", had.source_key, has.source_key),
    )
    altered_parts = [part for part in parts if part.before != part.after]
    if known.layout != definition.layout and not altered_parts:
        altered_parts.append(
            Altered("what it reads", None, ", ".join(x.name for x in stage.feeders))
        )
    was, is_now = head.stages[stage.name].base.stored, text_of(description(stage))
    if was != is_now:
        altered_parts.append(Altered("how it is stored", was, is_now))
    if known.function not in (NOT_COMPUTED, definition.function):
        altered_parts.append(Altered(stage.kind.definition.maker, known.text, definition.text))
    if zones is not None:
        altered_parts.append(Altered("time zone", *zones))
    return tuple(altered_parts)


def _planned(
    step: Step,
    head: Version,
    parts: tuple[Altered, ...],
    planned: Mapping[str, PlannedStep],
    given: Mapping[str, int | None],
) -> PlannedStep:
    stage = step.stage
    cause: Cause = "reached"
    if not has_tables(head, stage.name) and stage.feeders:
        cause = "added"
    elif step.redefined or parts:
        cause = "changed"
    elif not stage.feeders:
        cause = "given"
    elif step.how == "full" and not step.if_changed:
        cause = "refreshed"
    keys = _keys(step, planned, given)
    share = 1.0 if step.how == "full" else _share(step, keys, head)
    return PlannedStep(
        stage,
        step.how,
        step.reason,
        step.redefined,
        step.if_changed,
        cause=cause,
        altered=parts,
        keys=keys,
        share=share,
    )


def _keys(
    step: Step, planned: Mapping[str, PlannedStep], given: Mapping[str, int | None]
) -> int | None:
    """Return the most keys of a stage's feeders that can change; None if unknown."""
    stage = step.stage
    if not stage.feeders:
        return given.get(stage.name)
    reached = [feeder for feeder in stage.feeders if feeder.name in planned]
    if step.how == "full" or not reached or any(feeder.feeders for feeder in reached):
        return None  # only running a stage in between tells how many keys it changes
    counts = [planned[feeder.name].keys for feeder in reached]
    return None if None in counts else sum(filter(None, counts))


def _share(step: Step, keys: int | None, head: Version) -> float | None:
    """Return the approximate share of keys in the rows of a stage's feeders, or of a source."""
    read: Sequence[Stage] = step.stage.feeders or (step.stage,)
    figures = [head.stages.get(stage.name) for stage in read]
    rows = sum(figure.rows for figure in figures if figure is not None)
    return None if keys is None or not rows else min(1.0, keys / rows)


def _estimate(step: PlannedStep, head: Version, foreseen: Foreseen) -> Estimate | None:
    """Return how long a step takes on the driver and in Spark; None if that is not known."""
    read = [head.stages.get(stage.name) for stage in step.stage.feeders or (step.stage,)]
    rows = sum(figures.rows for figures in read if figures is not None)
    size = sum(figures.rows * figures.row_bytes for figures in read if figures is not None)
    keys = rows if step.how == "full" else step.keys
    if foreseen.cluster is None or keys is None:
        return None
    read_rows = rows if step.how == "full" else min(rows, keys * _GROUP_ROWS)
    row_bytes = size / rows if rows else 0.0
    read_seconds = read_rows * row_bytes / COMPRESSED * foreseen.seconds_a_byte
    work = Work(keys, round(keys * row_bytes), read_seconds)
    return estimate(work, foreseen.cluster)


def _restarted_updates(steps: Iterable[PlannedStep]) -> Iterable[Loss]:
    """Yield the losses of stages whose columns change: their updates begin again."""
    for step in steps:
        name = step.stage.name
        if any(part.part in ("key columns", "value columns") for part in step.altered):
            yield Loss(
                name,
                "changes",
                None,
                f"updates of {name} begin anew: changes() does not reach across the new version",
            )


def _removed(names: Collection[str], head: Version) -> Iterable[Loss]:
    """Yield the losses of stages that the pipeline no longer has."""
    for name, figures in head.stages.items():
        if name not in names and not figures.role and has_tables(head, name):
            yield Loss(
                name,
                "stage",
                figures.rows,
                f"{name} is not in the pipeline any more: no later version has its "
                f"{figures.rows:,} rows, and those up to {head.number} keep them until a vacuum",
            )


def _forgotten(steps: Iterable[PlannedStep], forgetting: Collection[str]) -> Iterable[Loss]:
    """Yield the losses of sources that drop rows for good."""
    for step in steps:
        name = step.stage.name
        if name in forgetting:
            yield Loss(name, "rows", None, f"{name} forgets rows: {step.reason}")


def _or_unknown(count: int | None) -> Cell:
    return UNKNOWN if count is None else count


def _percent(share: float | None) -> Cell:
    return UNKNOWN if share is None else f"{share:.1%}"
