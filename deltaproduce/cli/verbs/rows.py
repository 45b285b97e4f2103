"""Verbs that read rows: of a stage, of its updates, between versions, and along a lineage."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from deltaproduce.cli.answers.answer import Answer
from deltaproduce.cli.commands.invocation import Invocation
from deltaproduce.cli.commands.options import AsOf, Key, Limit, Stage, StoreAt, Version


def show(
    call: Invocation,
    stage: Stage,
    key: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY] [PARTITION]…", help="A key; or column=value for some of its columns."
        ),
    ] = None,
    version: Version = None,
    limit: Limit = 20,
    rows: Annotated[
        bool, typer.Option("--rows", help="Print the rows of a partition, not its task.")
    ] = False,
    as_of: AsOf = None,
    place: StoreAt = None,
) -> Answer:
    """Print rows of a source or stage in order; for the partition of a task, the task."""
    from deltaproduce.cli.answers import readings
    from deltaproduce.cli.answers.values import filters_of

    with call.reading(place, stage) as store:
        recorded = readings.stage_of(store, stage, version)
        columns = readings.key_columns(recorded)
        filters = filters_of(key or (), columns, recorded.schema.value.names)
        if filters and not rows and place is None and readings.has_tasks(store):
            with call.store() as defined:  # only the pipeline knows what a task makes
                answer = readings.of_partition(defined, stage, filters, as_of)
            if answer is not None:
                return answer
        taken = readings.rows_of(store, recorded, filters, version, internal=place is None)
        return readings.printed(taken, limit)


def updates(
    call: Invocation,
    stage: Stage,
    version: Version = None,
    limit: Limit = 20,
    place: StoreAt = None,
) -> Answer:
    """Print what one version changed in a stage: for each key all rows, or one delete row."""
    from deltaproduce.cli.answers import readings

    with call.reading(place, stage) as store:
        return readings.printed(store.updates(stage, version, ordered=True), limit)


def changes(
    call: Invocation,
    stage: Stage,
    since: Annotated[int, typer.Option("--from", metavar="N", help="After this version.")],
    until: Annotated[
        int | None,
        typer.Option("--to", metavar="N", help="Up to this version; default: the newest."),
    ] = None,
    mode: Annotated[
        Literal["net", "complete"],
        typer.Option("--mode", help="One difference in total, or one per version."),
    ] = "net",
    limit: Limit = 20,
    place: StoreAt = None,
) -> Answer:
    """Print the rows of a stage that were inserted and deleted between two versions."""
    from deltaproduce.cli.answers import readings

    with call.reading(place, stage) as store:
        return readings.printed(store.changes(stage, since, until, mode), limit)


def diff(
    call: Invocation,
    before: Annotated[int, typer.Argument(metavar="V1", help="From this version.")],
    after: Annotated[
        int | None, typer.Argument(metavar="V2", help="To this version; default: the newest.")
    ] = None,
    sample: Annotated[
        int,
        typer.Option("--sample", min=0, metavar="KEYS", help="The most keys to show of each sort."),
    ] = 5,
    place: StoreAt = None,
) -> Answer:
    """Compare two versions: keys added, removed and changed of each stage, and some rows."""
    with call.reading(place) as store:
        differences = store.diff(before, after, sample=sample)
    return Answer(differences.as_dict(), differences.as_tables())


def lineage(
    call: Invocation, stage: Stage, key: Key, version: Version = None, limit: Limit = 20
) -> Answer:
    """Print the keys that a key was made from, and those made from it."""
    from deltaproduce.cli.answers import readings
    from deltaproduce.cli.answers.values import key_of

    with call.store() as store:
        columns = readings.key_columns(readings.stage_of(store, stage, version))
        return readings.of_lineage(store.lineage(stage, key_of(key, columns), version), limit)
