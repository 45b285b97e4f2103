"""Tasks: run the tasks that are due at a date, and backfill tasks.

The scheduler keeps no state outside the store: it finds the due tasks from the rows and records of
the head. The invariant: what a run has published stays, whatever becomes of the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from functools import partial
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Marks
from deltaproduce.errors import InvalidArgumentError, NotFoundError, TasksFailedError
from deltaproduce.model import arguments
from deltaproduce.model.graph import Producer, Stage, is_auxiliary
from deltaproduce.operations.writer import OnConflict, Writer
from deltaproduce.reading.opened import Opened
from deltaproduce.shown.tasks import Backfill, FailedTask, Partition, Run, Size, Task, told
from deltaproduce.stages.inputs import StageInput
from deltaproduce.stages.kind import arrivals
from deltaproduce.stages.partitioned.presence import presence_batches, presence_stage, present
from deltaproduce.stages.productions import Production
from deltaproduce.stages.scheduled import Agenda, scheduled_kind
from deltaproduce.storage.figures import StageFigures
from deltaproduce.storage.versions import Version, stage_at
from deltaproduce.times.zones import moment_on_clock, on_clock, zone_of
from deltaproduce.types.excerpts import shown
from deltaproduce.types.pandas_on_demand import in_numpy
from deltaproduce.types.python_values import python_values

Moment: TypeAlias = date | str
"""A date or a time, in the store's time zone if it has none; may be text in ISO 8601."""

Downstream: TypeAlias = Literal["all", "none"] | Collection[str]

_PER_VERSION: Final = 100
"""The most tasks per version, so that an interrupted run loses few."""


def tasks(store: Opened, as_of: Moment | None) -> list[Task]:
    """See `Store.tasks`."""
    store.log.versions()
    head = store.log.last_read
    zone = store.engines.time_zone
    moment = newest(store, head) if as_of is None else moment_of(as_of, zone)
    agenda = Agenda(moment, makes=False, present=present_at(store, head))
    look(store, head, agenda)
    return agenda.tasks()


def look(store: Opened, head: Version, agenda: Agenda) -> None:
    """Let an agenda list all tasks without making any."""
    with store.noticing():
        for stage in scheduled(store):
            inputs = [
                StageInput(each, partial(store.reader.content, head, each), None)
                for each in stage.feeders
            ]
            production = Production.of(
                stage, head.stages.get(stage.name, StageFigures("skipped")), store.engines
            )
            scheduled_kind(stage).tasked(
                production,
                inputs,
                None,
                partial(store.reader.content, head),
                agenda,
                version=head.number,
                anew=stage_at(head, stage) is not stage,
            )


def present_at(store: Opened, head: Version) -> dict[str, pa.Table]:
    """Return the partitions of sources that exist in a version, or ever did, by source."""
    return {
        source.name: present(store.reader.content(head, presence_stage(source)), source)
        for source in store.graph.sources
        if source.kind.partitioned_by
    }


def scheduled(store: Opened) -> list[Producer]:
    """Return the stages whose rows tasks make, feeders first."""
    found = (stage for stage in store.graph.producers if stage.kind.scheduled)
    return [stage for stage in found if not is_auxiliary(stage.name)]


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
    writer.opened.log.versions()
    moment = moment_of(as_of, writer.opened.engines.time_zone)
    if arguments.flag(dry_run, "dry_run"):
        return _rehearsed(writer.opened, moment, most)
    done, dropped = list[Partition](), list[Partition]()
    failed, known = dict[Partition, FailedTask](), dict[str, Any]()
    while True:
        left = None if most is None else most - len(done) - len(failed)
        limit = _PER_VERSION if left is None else min(_PER_VERSION, left)
        found = writer.published(
            "run",
            partial(_made, writer, moment, limit, set(failed), known),
            wanted,
        )
        done += found.done
        dropped += found.dropped
        failed |= {task.of: task for task in found.failed}
        if not found.leaves or limit == left or not (found.done or found.failed):
            break
    last = found.run
    result = replace(last, done=(*done,), failed=(*failed.values(),), dropped=(*dropped,))
    if failed:
        first = result.failed[0]
        others = f", and {len(failed) - 1} others" if len(failed) > 1 else ""
        message = f"task {first} failed{others}: {first.error}"
        raise TasksFailedError(message, run=result) from first.error
    return result


def _rehearsed(store: Opened, moment: datetime, most: int | None) -> Run:
    """Return what a run would make, as far as the existing rows tell."""
    store.log.versions()
    head = store.log.last_read
    there = present_at(store, head)
    agenda = Agenda(moment, limit=most, rehearses=True, present=there)
    look(store, head, agenda)
    return agenda.run


def _made(
    writer: Writer,
    moment: datetime,
    limit: int,
    failed: Collection[Partition],
    known: dict[str, Any],
) -> Agenda:
    """Make and publish some of the due tasks.

    Args:
        known: the state that agendas of the run share.
    """
    writer.opened.log.versions()
    store, executor = writer.computing.now()
    head = store.log.last_read
    there = present_at(store, head)
    agenda = Agenda(moment, limit=limit, passed=failed, present=there, known=known)
    sources = store.graph.sources
    news = arrivals(sources, head, store.tables)
    batches = presence_batches(sources, {}, news, {}, store.engines)
    executor.update("run", head, batches=batches, arrivals=news, agenda=agenda)
    return agenda


def backfill(
    writer: Writer, stage: str | Stage, where: object, downstream: object, *, dry_run: bool = False
) -> Backfill:
    """See `Store.backfill`."""
    store, wanted, through = writer.opened, _mapping(where), _stages(downstream)
    arguments.flag(dry_run, "dry_run")
    found = store.stage(stage)
    if not found.kind.scheduled:
        raise InvalidArgumentError(
            f"stage {found.name!r} has no tasks; store.refresh makes it again", argument="stage"
        )
    named = _downstream(store, found, through)
    chosen = _chosen(found, wanted)

    def attempt() -> Backfill:
        writer.opened.log.versions()
        store, executor = writer.computing.now()
        head = store.log.last_read
        marked, result = _marked(store, head, found, chosen, named)
        if not dry_run:
            agenda = agenda_of_marked(store, head, marked)
            result.number = executor.update("backfill", head, agenda=agenda).number
        return result

    return attempt() if dry_run else writer.published("backfill", attempt)


def agenda_of_marked(store: Opened, head: Version, marked: Mapping[str, pa.Table]) -> Agenda:
    """Return an agenda that makes all marked tasks, whatever their state, or none.

    Args:
        marked: stage -> the partitions of its tasks.
    """
    there = present_at(store, head)
    return Agenda(newest(store, head), marked=marked, raises=True, present=there)


def marked_of(store: Opened, head: Version, stages: Collection[str]) -> dict[str, pa.Table]:
    """Return all partitions with tasks, made or due, by stage; empty if no task was ever made."""
    try:
        moment = newest(store, head)
    except NotFoundError:
        return {}
    agenda = Agenda(moment, makes=False, marked={}, present=present_at(store, head))
    look(store, head, agenda)
    return {name: one.partitions for name, one in agenda.listed.items() if name in stages}


def _marked(
    store: Opened,
    head: Version,
    stage: Stage,
    where: Mapping[str, set[str | None]],
    named: Collection[str],
) -> tuple[dict[str, pa.Table], Backfill]:
    """Return the tasks to make again, by stage; only the named stages propagate them."""
    there = present_at(store, head)
    agenda = Agenda(newest(store, head), makes=False, marked={}, present=there)
    look(store, head, agenda)
    found, tasks, sizes = dict[str, pa.Table](), list[Task](), list[Size]()
    for name, listed in agenda.listed.items():  # feeders come first
        if name == stage.name:
            marks = _meeting(listed.partitions, where)
        elif name in named:
            marks = listed.reading(found)
        else:
            continue
        if name == stage.name and not marks.any():
            null = "; a null is None, on a command line \\N" if _has_null_as_text(where) else ""
            raise InvalidArgumentError(
                f"no task of {stage.name!r} meets `where`, so there is none to be made again{null}",
                argument="where",
            )
        found[name] = listed.partitions.filter(pa.array(marks))
        places = np.flatnonzero(marks)
        if len(places):
            tasks += listed.tasks(places)
            rows, figures = listed.rows_of(places), head.stages.get(name, StageFigures("skipped"))
            sizes.append(Size(name, len(places), rows, rows * figures.row_bytes))
    result = Backfill(tasks)
    result.number, result.sizes = None, tuple(sizes)
    return found, result


def _meeting(partitions: pa.Table, where: Mapping[str, set[str | None]]) -> Marks:
    """Mark the partitions whose value, as `_wanted` returns it, is wanted in each column."""
    found = np.ones(len(partitions), bool)
    for name, wanted in where.items():
        column = partitions.column(name).combine_chunks().dictionary_encode("encode")
        values = map(_wanted, python_values(column.dictionary))
        marks = np.array([value in wanted for value in values], bool)
        found &= marks[in_numpy(column.indices)]
    return found


def _wanted(value: object) -> str | None:
    """Return a value as text, so that dates may be given as dates or as text; null stays null."""
    return None if value is None else told(value)


def _has_null_as_text(where: Mapping[str, set[str | None]]) -> bool:
    """Return whether a value is spelled as names of tasks spell null."""
    return any(told(None) in wanted for wanted in where.values())


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


def _stages(downstream: object) -> Collection[object] | None:
    """Return the named stages; None for all.

    Raises:
        InvalidArgumentError: the argument names no stages.
    """
    if isinstance(downstream, str) and downstream in {"all", "none"}:
        return None if downstream == "all" else ()
    if isinstance(downstream, str | bytes) or not isinstance(downstream, Collection):
        raise InvalidArgumentError(
            f"downstream is {shown(downstream)}; give 'all', 'none' or a list of stages",
            argument="downstream",
        )
    return downstream


def _downstream(store: Opened, stage: Stage, named: Collection[object] | None) -> list[str]:
    """Return the downstream stages whose tasks are made again, too.

    Args:
        named: the stages to include; None for all.

    Raises:
        InvalidArgumentError: a named stage is not downstream.
    """
    reached = store.graph.downstream_of([stage.name])
    known = [s.name for s in scheduled(store) if s.name in reached]
    if named is None:
        return known
    for name in named:
        if name not in known:
            raise InvalidArgumentError(
                f"{shown(name)} is no stage with tasks downstream of {stage.name!r}; those are: "
                f"{', '.join(known) or 'none'}",
                argument="downstream",
            )
    return [name for name in known if name in named]


def _mapping(where: object) -> Mapping[str, object]:
    if not isinstance(where, Mapping):
        raise InvalidArgumentError(
            f"where is {shown(where)}; give a mapping of partition columns to values, or to lists "
            "of them",
            argument="where",
        )
    return where


def _chosen(stage: Stage, where: Mapping[str, object]) -> dict[str, set[str | None]]:
    """Return the wanted values of partition columns, as `_wanted` returns them.

    Raises:
        InvalidArgumentError: a name is not a partition column.
    """
    names = stage.kind.partitioned_by
    for name in where:
        if name not in names:
            raise InvalidArgumentError(
                f"{shown(name)} is no partition column of {stage.name!r}; those are: "
                f"{', '.join(names)}",
                argument="where",
            )
    return {
        name: set(map(_wanted, value if isinstance(value, list | tuple | set) else [value]))
        for name, value in where.items()
    }


def moment_of(as_of: object, zone: str) -> datetime:
    """Return a scheduled date, on the clock of a time zone.

    Raises:
        InvalidArgumentError: it is not a date.
    """
    found, clock = as_of, zone_of(zone)
    if isinstance(found, str):
        try:
            found = datetime.fromisoformat(found)
        except ValueError:
            found = None
    if isinstance(found, datetime):
        with suppress(OverflowError):  # there it is before the year 1, or after 9999
            return on_clock(found, clock) if found.tzinfo is None else found.astimezone(clock)
    elif isinstance(found, date):
        with suppress(OverflowError):
            return on_clock(datetime(found.year, found.month, found.day), clock)
    raise InvalidArgumentError(
        f"as_of is {shown(as_of)}; give a date or a datetime, or text in ISO 8601",
        argument="as_of",
    )
