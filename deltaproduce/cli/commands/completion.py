"""Shell completion: the names of the project's stages and sources.

A shell gets names or nothing, never an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from deltaproduce.model.graph import Graph, Stage


def stages(context: typer.Context, incomplete: str) -> list[str]:
    """Return names of stages, also after the operators of a selection."""
    before = incomplete[: len(incomplete) - len(incomplete.lstrip("+0123456789"))]
    graph = _graph(context)
    return [] if graph is None else _matching(graph.stages, before, incomplete)


def sources(context: typer.Context, incomplete: str) -> list[str]:
    """Return names of sources."""
    graph = _graph(context)
    return [] if graph is None else _matching(graph.sources, "", incomplete)


def _matching(stages: Sequence[Stage], before: str, incomplete: str) -> list[str]:
    offered = (f"{before}{one.name}" for one in stages if one.hidden is None)
    return [name for name in offered if name.startswith(incomplete)]


def _graph(context: typer.Context) -> Graph | None:
    from deltaproduce.cli.commands.invocation import Invocation

    try:
        return Invocation(Path(context.params.get("project_dir") or ".")).pipeline.graph()
    except Exception:  # noqa: BLE001 a project may raise anything; a shell gets nothing
        return None
