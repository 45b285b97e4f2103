"""Options and arguments that several verbs share, in typer's form."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from deltaproduce.cli.commands.completion import sources, stages

Stage: TypeAlias = Annotated[
    str, typer.Argument(metavar="STAGE", help="A source or stage.", autocompletion=stages)
]
Source: TypeAlias = Annotated[
    str, typer.Argument(metavar="SOURCE", help="A source.", autocompletion=sources)
]
Key: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="KEY", help=r"A key; several columns as a,b; null as \N."),
]
Select: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--select",
        "-s",
        metavar="TERMS",
        help="Stages, as dbt selects: NAME, +NAME, NAME+, 2+NAME, 'sales_*', tag:T, group:G.",
        autocompletion=stages,
    ),
]
Version: TypeAlias = Annotated[
    int | None, typer.Option("--version", metavar="N", help="The version; default: the newest.")
]
StoreAt: TypeAlias = Annotated[
    str | None,
    typer.Option("--store", metavar="PLACE", help="Read the store here; needs no project."),
]
Limit: TypeAlias = Annotated[
    int, typer.Option("--limit", min=0, metavar="ROWS", help="The most rows to print; 0 for all.")
]
DryRun: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Write nothing; list the tasks that would run.")
]
ExitCode: TypeAlias = Annotated[
    bool, typer.Option("--exit-code", help="Exit with 3 if there is nothing to do.")
]
AsOf: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="DAY",
        help="The day of tasks, or time in UTC; a run also ends windows on it from now on.",
    ),
]
Recompute: TypeAlias = Annotated[
    bool, typer.Option("--recompute", help="Also call the functions, for all keys.")
]
Sample: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--sample",
        min=1,
        metavar="KEYS",
        help="Also call the functions, for this many keys per stage.",
    ),
]
Folder: TypeAlias = Annotated[Path, typer.Argument(metavar="NAME", help="The folder to create.")]
