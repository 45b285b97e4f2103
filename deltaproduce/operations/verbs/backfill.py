"""Backfills: make marked tasks again, and those that depend on them, some in each version.

The marks of what is not made yet are in the version that makes the first ones. So a backfill that
stops, or in which a task fails, goes on with the next run. The invariant: of the tasks that are not
marked, none turns dirty because marked ones are made again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from deltaproduce.errors import InvalidArgumentError
from deltaproduce.model import arguments
from deltaproduce.model.graph import Stage
from deltaproduce.operations.making.request import Request
from deltaproduce.operations.verbs.selections import (
    Selection,
    checked_where,
    selection,
    spells_null,
)
from deltaproduce.operations.verbs.tasks import (
    Wave,
    in_waves,
    look,
    newest,
    passing,
    present_at,
    schedule_of_marked,
    scheduled,
    succeeded,
)
from deltaproduce.operations.writer import Writer
from deltaproduce.reading.opened import Opened
from deltaproduce.shown.tasks import Backfill, Partition, Size, Task
from deltaproduce.stages.scheduled.outcomes import Outcomes
from deltaproduce.stages.scheduled.schedules import Looking, Marked, Schedule
from deltaproduce.storage.figures import StageFigures
from deltaproduce.storage.versions import Version
from deltaproduce.types.excerpts import shown

_Looked: TypeAlias = Callable[[Opened, Version], tuple[dict[str, pa.Table], Backfill]]
"""Finds the tasks that are marked, by stage, and as users see them."""

Downstream: TypeAlias = Literal["all", "none"] | Collection[str]


def backfill(
    writer: Writer,
    stage: str | Stage,
    where: object,
    downstream: object,
    *,
    dry_run: bool = False,
    atomic: bool = False,
) -> Backfill:
    """See `Store.backfill`."""
    store, through = writer.opened, _stages(downstream)
    arguments.flag(dry_run, "dry_run")
    arguments.flag(atomic, "atomic")
    wanted, start = checked_where(where), store.stage(stage)
    if not start.kind.tasks.make_rows:
        raise InvalidArgumentError(
            f"stage {start.name!r} has no tasks; store.refresh makes it again", argument="stage"
        )
    named = _downstream(store, start, through)
    chosen = selection(wanted, start, store.engines)

    def looked(store: Opened, head: Version) -> tuple[dict[str, pa.Table], Backfill]:
        marked, result = _marked(store, head, start, chosen, named)
        if not len(result):
            null = "; a null is None, on a command line \\N" if spells_null(where) else ""
            raise InvalidArgumentError(
                f"no task of {start.name!r} meets `where`, so there is none to be made again{null}",
                argument="where",
            )
        return marked, result

    def at_once() -> Backfill:
        writer.opened.log.versions()
        store, executor = writer.computing.now()
        head = store.log.last_read
        marked, result = looked(store, head)
        if not dry_run:
            schedule = schedule_of_marked(store, head, marked)
            request = Request(operation="backfill", schedule=schedule)
            result.number = executor.update(request, head).number
        return result

    if dry_run:
        return at_once()
    if atomic:
        return writer.published("backfill", at_once)
    return _in_waves(writer, looked)


def _in_waves(writer: Writer, looked: _Looked) -> Backfill:
    """Make tasks in several versions, the first of which marks those that it does not make."""
    known: list[tuple[dict[str, pa.Table], Backfill]] = []

    def attempt(limit: int, done: Collection[Partition], failed: Collection[Partition]) -> Outcomes:
        writer.opened.log.versions()
        store, executor = writer.computing.now()
        head = store.log.last_read
        marked, result = known[0] if done or failed else looked(store, head)
        schedule = Schedule(
            newest(store, head),
            Marked(marked, finished=done),
            present_at(store, head),
            limit=limit,
            passed=failed,
        )
        version, outcomes = executor.tasked(Request(operation="backfill", schedule=schedule), head)
        result.number = version.number
        known[:] = [(marked, result)]
        return outcomes

    def publish(limit: int, done: Collection[Partition], failed: Collection[Partition]) -> Wave:
        of_wave = partial(attempt, limit, done, failed)
        return Wave.of(writer.published("backfill", of_wave, "retry"))

    succeeded(in_waves(passing(publish), None))
    return known[0][1]


def _marked(
    store: Opened, head: Version, stage: Stage, where: Selection, named: Collection[str]
) -> tuple[dict[str, pa.Table], Backfill]:
    """Return the tasks to make again, by stage; only the named stages propagate them."""
    there = present_at(store, head)
    outcomes = look(store, head, Schedule(newest(store, head), Looking(of_other_dates=True), there))
    marks_by_stage, tasks, sizes = dict[str, pa.Table](), list[Task](), list[Size]()
    for name, listed in ((name, one.listed) for name, one in outcomes.stages.items()):
        if name == stage.name:
            marks = where(listed.partitions)
        elif name in named:
            marks = listed.reading(marks_by_stage)
        else:
            continue
        marks_by_stage[name] = listed.partitions.filter(pa.array(marks))
        places = np.flatnonzero(marks)
        if len(places):
            tasks += listed.tasks(places)
            rows, figures = listed.rows_of(places), head.stages.get(name, StageFigures("skipped"))
            sizes.append(Size(name, len(places), rows, rows * figures.row_bytes))
    result = Backfill(tasks)
    result.number, result.sizes = None, tuple(sizes)
    return marks_by_stage, result


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
                f"{shown(name)} is not a stage with tasks downstream of {stage.name!r}; those are: "
                f"{', '.join(known) or 'none'}",
                argument="downstream",
            )
    return [name for name in known if name in named]
