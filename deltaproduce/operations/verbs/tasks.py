"""Tasks: run the tasks that are due at a date.

The scheduler keeps no state outside the store: it finds the due tasks from the rows and records of
the head. The invariant: what a run has published stays, whatever becomes of the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import partial
from typing import Final, Literal, TypeAlias, get_args

import pyarrow as pa

from deltaproduce.errors import (
    ChecksFailedError,
    InvalidArgumentError,
    NotFoundError,
    TasksFailedError,
)
from deltaproduce.model import arguments
from deltaproduce.model.graph import Producer
from deltaproduce.operations.making.options import OnConflict
from deltaproduce.operations.making.request import Request
from deltaproduce.operations.writer import Writer
from deltaproduce.reading.opened import Opened
from deltaproduce.shown.tasks import FailedTask, Partition, Run, Task
from deltaproduce.stages.inputs import StageInput, inputs_of
from deltaproduce.stages.kind import arrivals
from deltaproduce.stages.partitioned.presence import presence_batches, presence_stage, present
from deltaproduce.stages.productions import Production
from deltaproduce.stages.scheduled.kinds import TaskArguments, scheduled_kind
from deltaproduce.stages.scheduled.outcomes import Outcomes
from deltaproduce.stages.scheduled.schedules import Absent, Looking, Marked, Memory, Schedule
from deltaproduce.storage.figures import StageFigures
from deltaproduce.storage.versions import Version, stage_at
from deltaproduce.times.zones import moment_on_clock, on_clock, zone_of
from deltaproduce.types.excerpts import shown

Moment: TypeAlias = date | str
"""A date or a time, in the store's time zone if it has none; may be text in ISO 8601."""

PER_VERSION: Final = 100
"""The most tasks per version, so that an interrupted run loses few."""


def tasks(store: Opened, as_of: Moment | None) -> list[Task]:
    """See `Store.tasks`."""
    store.log.versions()
    head = store.log.last_read
    zone = store.engines.time_zone
    moment = newest(store, head) if as_of is None else moment_of(as_of, zone)
    return look(store, head, Schedule(moment, Looking(), present_at(store, head))).tasks()


def look(store: Opened, head: Version, schedule: Schedule) -> Outcomes:
    """Return what would become of all tasks; none is made."""
    outcomes = Outcomes()
    with store.noticing():
        for stage in scheduled(store):
            inputs = inputs_of(
                stage, lambda one: StageInput(one, partial(store.reader.content, head, one), None)
            )
            production = Production.of(
                stage, head.stages.get(stage.name, StageFigures("skipped")), store.engines
            )
            given = TaskArguments(
                production=production,
                inputs=inputs,
                records=partial(store.reader.content, head),
                schedule=schedule,
                so_far=outcomes,
                rebuilds=stage_at(head, stage) is not stage,
            )
            outcomes = outcomes.beside(scheduled_kind(stage).foreseen(given))
    return outcomes


def present_at(store: Opened, head: Version) -> dict[str, pa.Table]:
    """Return the partitions of sources that exist in a version, or ever did, by source."""
    return {
        source.name: present(store.reader.content(head, presence_stage(source)), source)
        for source in store.graph.sources
        if source.kind.tasks.columns
    }


def scheduled(store: Opened) -> list[Producer]:
    """Return the stages whose rows tasks make, feeders first."""
    scheduled_stages = (stage for stage in store.graph.producers if stage.kind.tasks.make_rows)
    return [stage for stage in scheduled_stages if stage.hidden is None]


def run(
    writer: Writer,
    as_of: Moment,
    max_tasks: int | None,
    on_conflict: OnConflict | None,
    *,
    dry_run: bool,
) -> Run:
    """See `Store.run`."""
    most = None if max_tasks is None else arguments.integer(max_tasks, "max_tasks", least=0)
    wanted = "retry" if on_conflict is None else on_conflict
    arguments.choice(wanted, "on_conflict", get_args(OnConflict))
    versions = writer.opened.log.versions()
    moment = moment_of(as_of, writer.opened.engines.time_zone)
    if arguments.flag(dry_run, "dry_run"):
        return _rehearsed(writer.opened, moment, most)
    store, memory = writer.opened, Memory()
    resumed = Run()
    if _may_have_marks(versions) and _has_marks(store, store.log.last_read):
        resume = partial(_published, writer, "backfill", wanted, _resuming)
        resumed = in_waves(passing(resume), most)
    rest = None if most is None else most - len(resumed.done) - len(resumed.failed)
    make = partial(_published, writer, "run", wanted, partial(_due, moment, memory))
    return succeeded(after(resumed, in_waves(passing(make), rest, resumed.failed)))


@dataclass(frozen=True, slots=True)
class Wave:
    """What became of the tasks of one version.

    Attributes:
        leaves: whether there are tasks left for later.
    """

    run: Run
    leaves: bool

    @staticmethod
    def of(outcomes: Outcomes) -> Wave:
        """Return the outcomes of a version as a wave."""
        return Wave(outcomes.run, outcomes.leaves)


_Waves: TypeAlias = Callable[[int, Collection[Partition], Collection[Partition]], Wave]
"""Publishes at most so many tasks, given those that are done and those that failed."""


def passing(publish: _Waves) -> _Waves:
    """Return what publishes the tasks whose rows pass the checks; one whose rows do not has failed.

    If the rows of several tasks break a check together, fewer are tried at once, until it is known
    which one does.

    Raises:
        ChecksFailedError: a check is broken without any task: nothing can be published.
    """

    def published(limit: int, done: Collection[Partition], failed: Collection[Partition]) -> Wave:
        while True:
            try:
                return publish(limit, done, failed)
            except ChecksFailedError as error:
                tried: tuple[Partition, ...] = error.tasks
                if not tried:
                    raise
                if len(tried) == 1:
                    publish(0, done, failed)  # the rest passes, so the task is to blame
                    return Wave(Run(failed=(FailedTask(tried[0], error),)), leaves=True)
                limit = len(tried) // 2

    return published


def in_waves(publish: _Waves, most: int | None, tried: Collection[FailedTask] = ()) -> Run:
    """Make tasks, some in each version, until none is left that can be made.

    Args:
        most: how many are tried at most.
        tried: tasks that failed before, and are not tried again.
    """
    done, dropped = list[Partition](), list[Partition]()
    failed = {task.of: task for task in tried}
    while True:
        left = None if most is None else most - len(done) - (len(failed) - len(tried))
        limit = PER_VERSION if left is None else min(PER_VERSION, left)
        result = publish(limit, set(done), set(failed))
        run = result.run
        done += run.done
        dropped += run.dropped
        failed |= {task.of: task for task in run.failed}
        if not result.leaves or limit == left or not (run.done or run.failed):
            break
    return replace(run, done=(*done,), failed=(*failed.values(),), dropped=(*dropped,))


def after(first: Run, then: Run) -> Run:
    """Return one run and the one that went on after it, as one."""
    return replace(then, done=(*first.done, *then.done), dropped=(*first.dropped, *then.dropped))


def succeeded(result: Run) -> Run:
    """Return a run in which no task failed.

    Raises:
        TasksFailedError: one did.
    """
    if result.failed:
        first, number = result.failed[0], len(result.failed) - 1
        others = f", and {number} others" if number else ""
        message = f"task {first} failed{others}: {first.error}"
        raise TasksFailedError(message, run=result) from first.error
    return result


def _rehearsed(store: Opened, moment: datetime, most: int | None) -> Run:
    """Return what a run would make, as far as the existing rows tell."""
    store.log.versions()
    head = store.log.last_read
    return look(store, head, Schedule(moment, Absent(), present_at(store, head), most)).run


def _published(
    writer: Writer,
    operation: Literal["run", "backfill"],
    on_conflict: OnConflict,
    schedule_of: Callable[[Opened, Version], Schedule],
    limit: int,
    done: Collection[Partition],
    failed: Collection[Partition],
) -> Wave:
    """Make and publish some of the tasks of a schedule; a run takes what has arrived, too.

    Args:
        schedule_of: returns the schedule for a store at its head.
    """
    del done  # they are present

    def attempt() -> Outcomes:
        writer.opened.log.versions()
        store, executor = writer.computing.now()
        head = store.log.last_read
        schedule = replace(schedule_of(store, head), limit=limit, passed=failed)
        if operation == "backfill":
            return executor.tasked(Request(operation=operation, schedule=schedule), head)[1]
        sources = store.graph.sources
        news = arrivals(sources, head, store.tables)
        batches = presence_batches(sources, {}, news, {}, store.engines)
        request = Request(operation=operation, batches=batches, arrivals=news, schedule=schedule)
        return executor.tasked(request, head)[1]

    return Wave.of(writer.published(operation, attempt, on_conflict))


def _due(moment: datetime, memory: Memory, store: Opened, head: Version) -> Schedule:
    """Return the schedule of a date."""
    return Schedule(moment, Absent(), present_at(store, head), memory=memory)


def _resuming(store: Opened, head: Version) -> Schedule:
    """Return the schedule of the tasks that a backfill has left marked."""
    there = present_at(store, head)
    return Schedule(newest(store, head), Marked({}, resumes=True), there)


def _may_have_marks(versions: Sequence[Version]) -> bool:
    """Return whether one of the versions, oldest first, or one before them, is of a backfill."""
    is_cut = bool(versions) and versions[0].number > 1
    return is_cut or any(one.operation == "backfill" for one in versions)


def _has_marks(store: Opened, head: Version) -> bool:
    """Return whether a backfill has left tasks marked."""
    from deltaproduce.stages.partitioned.records import has_marks

    for stage in scheduled(store):
        keeper = scheduled_kind(stage).records(stage)
        kept = store.reader.content(head, keeper)
        if kept is not None and has_marks(kept, keeper):
            return True
    return False


def schedule_of_marked(store: Opened, head: Version, marked: Mapping[str, pa.Table]) -> Schedule:
    """Return a schedule that makes all marked tasks, whatever their state, or none.

    Args:
        marked: stage -> the partitions of its tasks.
    """
    there = present_at(store, head)
    return Schedule(newest(store, head), Marked(marked), there, raises=True)


def marked_of(store: Opened, head: Version, stages: Collection[str]) -> dict[str, pa.Table]:
    """Return all partitions with tasks, made or due, by stage; empty if no task was ever made."""
    try:
        moment = newest(store, head)
    except NotFoundError:
        return {}
    schedule = Schedule(moment, Looking(of_other_dates=True), present_at(store, head))
    marked_stages = look(store, head, schedule).stages
    return {name: one.listed.partitions for name, one in marked_stages.items() if name in stages}


def newest(store: Opened, head: Version) -> datetime:
    """Return the newest date for which tasks were made.

    Raises:
        NotFoundError: no task was ever made.
    """
    from deltaproduce.stages.partitioned.records import newest as newest_of

    dates = list[str]()
    for stage in scheduled(store):
        keeper = scheduled_kind(stage).records(stage)
        kept = store.reader.content(head, keeper)
        if kept is not None:
            dates.append(newest_of(kept, keeper))
    if not any(dates):
        raise NotFoundError("no task was ever made; run them first: store.run(as_of=…)")
    return moment_on_clock(max(dates), store.engines.time_zone)


def moment_of(as_of: object, zone: str) -> datetime:
    """Return a scheduled date, on the clock of a time zone.

    Raises:
        InvalidArgumentError: it is not a date.
    """
    moment, clock = as_of, zone_of(zone)
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            moment = None
    if isinstance(moment, datetime):
        with suppress(OverflowError):  # there it is before the year 1, or after 9999
            return on_clock(moment, clock) if moment.tzinfo is None else moment.astimezone(clock)
    elif isinstance(moment, date):
        with suppress(OverflowError):
            return on_clock(datetime(moment.year, moment.month, moment.day), clock)
    raise InvalidArgumentError(
        f"as_of is {shown(as_of)}; give a date or a datetime, or text in ISO 8601",
        argument="as_of",
    )
