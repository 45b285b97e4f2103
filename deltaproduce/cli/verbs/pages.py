"""Verbs that write pages about a store's versions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deltaproduce.cli.answers.answer import Answer
from deltaproduce.cli.commands.invocation import Invocation
from deltaproduce.cli.commands.options import Version


def report(
    call: Invocation,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The file to write.", dir_okay=False)
    ] = Path("report.html"),
    version: Version = None,
    samples: Annotated[
        int,
        typer.Option("--samples", min=0, metavar="ROWS", help="Changed rows to show; 0 for none."),
    ] = 5,
) -> Answer:
    """Write a report of stages, versions and figures: one HTML file that needs no network."""
    with call.store() as store:
        path = store.report(out, version, samples=samples)
    return Answer({"path": str(path), "bytes": path.stat().st_size}, (f"wrote {path}",))
