"""Verbs that maintain a store: delete a key, find and fix damage, compact and remove files."""

from __future__ import annotations

from typing import Annotated

import typer

from deltaproduce.cli.answers import summaries
from deltaproduce.cli.answers.answer import Answer
from deltaproduce.cli.commands.invocation import Invocation
from deltaproduce.cli.commands.options import ExitCode, Key, Recompute, Sample, Select, Source
from deltaproduce.errors import InvalidArgumentError


def forget(call: Invocation, source: Source, key: Key) -> Answer:
    """Delete a key of a source and what was made from it; list where it can still be read."""
    from deltaproduce.cli.answers import readings
    from deltaproduce.cli.answers.values import key_of

    with call.store() as store:
        columns = readings.key_columns(readings.stage_of(store, source))
        return summaries.forgotten(store.forget(source, key_of(key, columns)))


def verify(
    call: Invocation, select: Select = None, recompute: Recompute = False, sample: Sample = None
) -> Answer:
    """Check the tables for damage; exit with 1 if there is any."""
    stages = call.selected(select)
    with call.store() as store:
        return summaries.findings(store.verify(sample or recompute), stages)


def repair(
    call: Invocation,
    recompute: Recompute = False,
    sample: Sample = None,
    exit_code: ExitCode = False,
) -> Answer:
    """Publish a version that fixes what verify finds."""
    with call.store() as store:
        before, version = store.head, store.repair(recompute=sample or recompute)
    return summaries.versions_published(before, version, exit_code=exit_code)


def compact(call: Invocation) -> Answer:
    """Sort the rows of all tables, and merge small files; makes no version."""
    with call.store() as store:
        store.compact()
        head = store.head
    return Answer(
        {"version": head.number}, ("all tables are in order", summaries.version_line(head))
    )


def vacuum(
    call: Invocation,
    keep_versions: Annotated[
        int | None,
        typer.Option("--keep-versions", metavar="N", help="Keep this many of the newest."),
    ] = None,
    keep_days: Annotated[
        float | None,
        typer.Option(
            "--keep-days",
            metavar="DAYS",
            help="Keep those that were the newest in the last DAYS days.",
        ),
    ] = None,
    unfinished_hours: Annotated[
        float, typer.Option("--unfinished-hours", help="Keep unfinished files for this long.")
    ] = 24,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Remove nothing; list the files.")
    ] = False,
    exit_code: ExitCode = False,
) -> Answer:
    """Drop old versions, and remove the files that only they need.

    Without --keep-versions and --keep-days, keep_days of the project file says what to keep.
    """
    if keep_versions is None and keep_days is None:
        keep_days = call.file.keep_days
    if keep_versions is None and keep_days is None:
        raise InvalidArgumentError(
            "nothing says which versions to keep: give --keep-versions N or --keep-days DAYS, or "
            "write keep_days = DAYS in [project] of deltaproduce.toml",
            argument="--keep-versions",
        )
    with call.store() as store:
        outcome = store.vacuum(
            keep_versions, keep_days, unfinished_hours=unfinished_hours, dry_run=dry_run
        )
    answer = summaries.vacuumed(outcome, dry_run=dry_run)
    done = bool(outcome.versions or outcome.tables or outcome.files)
    return summaries.nothing_is_3(answer, done, exit_code=exit_code)
