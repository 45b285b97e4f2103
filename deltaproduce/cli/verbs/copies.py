"""Verbs on tables elsewhere: update a database, and compare with the tables of dbt."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deltaproduce.cli.answers import summaries
from deltaproduce.cli.answers.answer import Answer
from deltaproduce.cli.commands.completion import stages as known
from deltaproduce.cli.commands.invocation import Invocation
from deltaproduce.cli.commands.options import ExitCode, Select
from deltaproduce.errors import InvalidArgumentError, NotFoundError


def sync(
    call: Invocation,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            envvar="DATABASE_URL",
            metavar="ADDRESS",
            help="The database: postgresql://user@host/name.",
        ),
    ],
    stages: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="STAGE", help="Sources and stages; default: all.", autocompletion=known
        ),
    ] = None,
    key_tables: Annotated[
        list[str] | None,
        typer.Option(
            "--keys",
            metavar="STAGE",
            help="Also sync its table of numbered keys.",
            autocompletion=known,
        ),
    ] = None,
    schema: Annotated[str, typer.Option("--schema", help="The database's schema.")] = "public",
    reload: Annotated[
        bool, typer.Option("--reload", help="Reload a table if its changes are unknown.")
    ] = False,
    exit_code: ExitCode = False,
) -> Answer:
    """Bring tables of a PostgreSQL database to the newest version, in one transaction."""
    from deltaproduce.postgres import Sync

    with call.store() as store:
        copy = Sync(
            store,
            to,
            stages=stages or None,
            key_tables=key_tables or (),
            schema=schema,
            on_break="reload" if reload else "raise",
        ).run()
    done = any(one.reason or one.deleted or one.inserted for one in copy.tables)
    return summaries.nothing_is_3(summaries.synced(copy), done, exit_code=exit_code)


def compare(
    call: Invocation,
    database: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="DATABASE",
            help="A DuckDB file, or postgresql://user@host/name; default: dbt's target.",
        ),
    ] = None,
    dbt: Annotated[
        Path | None,
        typer.Option(
            "--dbt", metavar="FOLDER", help="The dbt project; default: the one under [dbt]."
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="TARGET", help="The target of dbt's profile."),
    ] = None,
    select: Select = None,
    sample: Annotated[
        int, typer.Option("--sample", min=0, metavar="ROWS", help="The most rows to show of each.")
    ] = 10,
    tolerance: Annotated[
        float,
        typer.Option(
            "--tolerance", min=0, max=0.1, help="By how much of the larger one floats may differ."
        ),
    ] = 1e-9,
) -> Answer:
    """Compare stages with the tables that dbt keeps; exit with 1 if any differs."""
    from deltaproduce.projects.dbt.folder import manifest_in
    from deltaproduce.projects.dbt.target.comparison import HowCompared, tables_of
    from deltaproduce.projects.dbt.target.comparison import compare as compared
    from deltaproduce.projects.dbt.target.profiles import address_of
    from deltaproduce.reading.opened import opened_by

    file = call.file
    if dbt is not None:
        folder = call.folder / dbt
    elif file.dbt is not None:
        folder = Path(file.place(file.dbt.project))
    else:
        raise InvalidArgumentError(
            "nothing says where the dbt project is: give --dbt FOLDER, or write project = "
            '"FOLDER" under [dbt] in deltaproduce.toml',
            argument="--dbt",
        )
    tables = tables_of(manifest_in(folder), file.dbt.stages if file.dbt else {})
    address = database or address_of(folder, target)
    chosen = call.selected(select) if select else None
    with call.reading(None) as store:
        opened = opened_by(store)
        number = opened.log.last_read.number
        if not number:
            raise NotFoundError("there is no version to compare: deltaproduce run makes one")
        how = HowCompared(number, tolerance, sample)
        return summaries.compared(compared(opened, tables, address, chosen, how))
