"""Verbs on copies of a store elsewhere: update a database."""

from __future__ import annotations

from typing import Annotated

import typer

from deltaproduce.cli.answers import summaries
from deltaproduce.cli.answers.answer import Answer
from deltaproduce.cli.commands.completion import stages as known
from deltaproduce.cli.commands.invocation import Invocation
from deltaproduce.cli.commands.options import ExitCode


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
