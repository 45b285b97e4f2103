"""Options and arguments that several verbs have, as typer has them."""

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
    typer.Argument(metavar="KEY", help=r"A key; several columns as a,b; \N is null."),
]
Select: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--select",
        "-s",
        metavar="TERMS",
        help="Stages, as dbt selects: NAME, +NAME, NAME+, 2+NAME, 'sales_*'.",
        autocompletion=stages,
    ),
]
Version: TypeAlias = Annotated[
    int | None, typer.Option("--version", metavar="N", help="Of this version; else of the newest.")
]
Limit: TypeAlias = Annotated[
    int, typer.Option("--limit", min=0, metavar="ROWS", help="At most so many rows; 0 for all.")
]
DryRun: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Make and write nothing; say which tasks would be made.")
]
ExitCode: TypeAlias = Annotated[
    bool, typer.Option("--exit-code", help="Exit with 3 if there is nothing to do.")
]
AsOf: TypeAlias = Annotated[
    str | None,
    typer.Option("--as-of", metavar="DAY", help="The day that windows end at, from now on."),
]
Recompute: TypeAlias = Annotated[
    bool, typer.Option("--recompute", help="Call the functions too, for all keys.")
]
Sample: TypeAlias = Annotated[
    int | None,
    typer.Option("--sample", min=1, metavar="KEYS", help="Call them for so many keys a stage."),
]
Folder: TypeAlias = Annotated[Path, typer.Argument(metavar="NAME", help="The folder to make.")]
