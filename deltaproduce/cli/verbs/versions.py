"""Verbs that publish versions, list them, or show the next one."""

from __future__ import annotations

from dataclasses import asdict
from datetime import time
from typing import TYPE_CHECKING, Annotated

import typer

from deltaproduce.cli.answers import summaries
from deltaproduce.cli.answers.answer import Answer
from deltaproduce.cli.commands.invocation import Invocation
from deltaproduce.cli.commands.options import AsOf, DryRun, ExitCode, Select, Stage, StoreAt
from deltaproduce.errors import InvalidArgumentError
from deltaproduce.shown.table import Table
from deltaproduce.types.excerpts import shown

if TYPE_CHECKING:
    from deltaproduce.store import Store


def plan(
    call: Invocation, select: Select = None, as_of: AsOf = None, exit_code: ExitCode = False
) -> Answer:
    """Show what a run would do to each stage, and why; writes nothing."""
    from deltaproduce.cli.inputs.dropped import by_files
    from deltaproduce.cli.inputs.given import by_lines, rows, run_input

    file, pipeline = call.file, call.pipeline
    stages = call.selected(select)
    with call.store() as store:
        given = run_input(file, pipeline, store)
        changes, snapshots = rows(file, pipeline, given, store.time_zone)
        lines = by_lines(file, pipeline, given, changes | snapshots, store.time_zone)
        with by_files(file, pipeline, store), lines:
            steps = store.plan(changes, snapshots=snapshots, as_of=... if as_of is None else as_of)
        tasks = None
        if as_of is not None and any(stage.kind.tasks.make_rows for stage in pipeline.stages):
            tasks = store.run(as_of=as_of, dry_run=True)
        answer = summaries.planned(store.head, steps, stages, given.files, tasks, given.again)
    done = bool(steps or steps.moves or (tasks is not None and (tasks.done or tasks.dropped)))
    return summaries.nothing_is_3(answer, done, exit_code=exit_code)


def run(
    call: Invocation,
    as_of: AsOf = None,
    exit_code: ExitCode = False,
    dry_run: DryRun = False,
    openlineage: Annotated[
        bool,
        typer.Option("--openlineage", help="Send events to OpenLineage, with its own settings."),
    ] = False,
) -> Answer:
    """Read the inputs, publish a version of their changes, and run the tasks of a day."""
    from deltaproduce.cli.inputs.dropped import by_files
    from deltaproduce.cli.inputs.given import by_lines, rows, run_input

    file, pipeline = call.file, call.pipeline
    if dry_run:
        if as_of is None:
            raise typer.BadParameter("it is about the tasks of a day: name it with --as-of")
        with call.store() as store:
            foreseen = store.run(as_of=as_of, dry_run=True)
        return summaries.nothing_is_3(
            summaries.rehearsed(foreseen), bool(foreseen.done), exit_code=exit_code
        )
    with call.store() as store:
        given = run_input(file, pipeline, store)
        changes, snapshots = rows(file, pipeline, given, store.time_zone)
        before = store.head
        lines = by_lines(file, pipeline, given, changes | snapshots, store.time_zone)
        with by_files(file, pipeline, store), lines:
            store.update(
                changes,
                given.update_id,
                snapshots=snapshots,
                as_of=... if as_of is None else as_of,
                on_conflict="retry",  # a concurrent run may have made the same version
            )
        has_tasks = any(stage.kind.tasks.make_rows for stage in pipeline.stages)
        if as_of is not None and has_tasks:
            store.run(as_of=as_of)
        new_versions = [version for version in store.versions() if version.number > before.number]
        for version in new_versions if openlineage else ():
            store.emit_openlineage(version.number)
        answer = summaries.versions_published(
            before, *(new_versions or [before]), again=given.again, exit_code=exit_code
        )
        return _with_dirty(answer, store) if as_of is None and has_tasks else answer


def _with_dirty(answer: Answer, store: Store) -> Answer:
    """Add the tasks that a run of no day has left dirty."""
    from deltaproduce.errors import NotFoundError
    from deltaproduce.operations.verbs.tasks import newest
    from deltaproduce.reading.opened import opened_by

    opened = opened_by(store)
    try:
        moment = newest(opened, opened.log.head())
    except NotFoundError:
        return summaries.with_dirty(answer, [], None)
    day = moment.date() if moment.time() == time() else moment.replace(tzinfo=None)
    tasks = store.tasks(as_of=moment)
    dirty = [str(task) for task in tasks if task.state == "dirty"]
    return summaries.with_dirty(answer, dirty, day.isoformat())


def versions(call: Invocation, select: Select = None, place: StoreAt = None) -> Answer:
    """List the versions, oldest first."""
    if place is not None and select:
        raise typer.BadParameter("--select goes by the stages of a project: leave out --store")
    stages = call.selected(select) if select else None
    with call.reading(place) as store:
        all_versions = store.versions()
    every = {name for version in all_versions for name in version.stages}
    return summaries.versions(all_versions, every if stages is None else {*stages})


def refresh(call: Invocation, select: Select = None, exit_code: ExitCode = False) -> Answer:
    """Recompute stages in full, and update what depends on them.

    Without --select all stages; otherwise each selected stage, one version for each.
    """
    graph = call.pipeline.graph()
    producers = {stage.name for stage in graph.producers}
    chosen = [name for name in call.selected(select, graph) if name in producers]
    if select and not chosen:
        raise typer.BadParameter("it selects sources only, whose rows are given: give a stage")
    with call.store() as store:
        before = version = store.head
        for name in chosen if select else (None,):
            version = store.refresh(name)
    return summaries.versions_published(before, version, exit_code=exit_code)


def backfill(
    call: Invocation,
    stage: Stage,
    where: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PARTITION]…",
            help="column=value for its partition columns; several values of one are all made.",
        ),
    ] = None,
    condition: Annotated[
        str | None,
        typer.Option(
            "--where", help="A condition over its partition columns, in SQL, instead of PARTITION."
        ),
    ] = None,
    downstream: Annotated[
        list[str] | None,
        typer.Option(
            "--downstream", help="Downstream stages to run too: names, or none; default: all."
        ),
    ] = None,
    atomic: Annotated[
        bool, typer.Option("--atomic", help="Make all tasks in one version, or none.")
    ] = False,
    dry_run: DryRun = False,
) -> Answer:
    """Run tasks of a stage again, and those that depend on them."""
    from deltaproduce.cli.answers.values import partitions_of

    if condition is not None and where:
        raise InvalidArgumentError(
            f"{shown(where[0])} and --where are given: give one of the two", argument="where"
        )

    names = downstream or ["all"]
    with call.store() as store:
        before = store.head
        wanted = names[0] if names in (["all"], ["none"]) else names
        outcome = store.backfill(
            stage,
            partitions_of(where or ()) if condition is None else condition,
            wanted,
            atomic=atomic,
            dry_run=dry_run,
        )
        version = store.head
    tasks = Table("", ("task",), tuple((name,) for name in outcome.tasks))
    data = {"tasks": list(outcome.tasks), "sizes": [asdict(one) for one in outcome.sizes]}
    if dry_run:
        return Answer({"made": False, **data}, (tasks, *outcome.as_tables(), "nothing was written"))
    answer = summaries.versions_published(before, version)
    return Answer({**answer.data, **data}, (tasks, *answer.parts))


def rollback(
    call: Invocation,
    version: Annotated[
        int, typer.Argument(metavar="VERSION", help="The version to restore; 0 for no rows.")
    ],
    hold: Annotated[
        bool,
        typer.Option("--hold", help="Let runs leave the snapshots until their files change."),
    ] = False,
    retake: Annotated[
        bool,
        typer.Option("--retake", help="Let the next run take the files again that it undoes."),
    ] = False,
    exit_code: ExitCode = False,
) -> Answer:
    """Publish a version that equals an earlier one, and say what the next run does.

    A snapshot has all rows, so the next run brings them back; files of changes stay taken.
    """
    from deltaproduce.cli.inputs.given import undone

    file, pipeline = call.file, call.pipeline
    with call.store() as store:
        undoing = undone(file, pipeline, store, version, hold=hold, retake=retake)
        before, new = store.head, store.rollback(version, undoing.update_id)
    answer = summaries.versions_published(before, new, exit_code=exit_code)
    data = {**answer.data, "inputs": undoing.as_dict()}
    return Answer(data, (*answer.parts, *undoing.sentences), answer.code)
