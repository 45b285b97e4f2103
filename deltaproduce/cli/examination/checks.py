"""Checks of a project before it runs: its inputs, and its definitions against the store.

The invariant: nothing is written, and an input is read only as far as its columns require.
"""

from __future__ import annotations

from collections.abc import Iterator

from deltaproduce.cli.inputs.files import files_of
from deltaproduce.cli.inputs.forms import reader
from deltaproduce.cli.inputs.given import check_sources
from deltaproduce.cli.inputs.reading.reader import fault_in
from deltaproduce.errors import DeltaProduceError
from deltaproduce.model.graph import Source
from deltaproduce.pipeline import Pipeline
from deltaproduce.projects.checks import Problem
from deltaproduce.projects.file import FILE_FORMATS, Input, ProjectFile, has_scheme
from deltaproduce.store import Store
from deltaproduce.types.columns import CHANGE_TYPE


def problems(file: ProjectFile, pipeline: Pipeline, store: Store) -> list[Problem]:
    """Return what would stop a run, as far as that can be known before."""
    found: list[Problem] = []
    try:
        check_sources(file, pipeline)
        store.plan(snapshots=[x.source for x in file.inputs.values() if x.mode == "snapshot"])
    except DeltaProduceError as error:
        found.append(_problem(getattr(error, "stage", None) or "", str(error)))
    sources = {source.name: source for source in pipeline.graph().sources}
    for name, one in file.inputs.items():
        if name in sources and one.format in FILE_FORMATS and not has_scheme(one.path):
            found += [_problem(name, text) for text in _of_input(file, one, sources[name])]
    return found


def _problem(stage: str, message: str) -> Problem:
    return Problem(stage, None, None, None, message)


def _of_input(file: ProjectFile, one: Input, source: Source) -> Iterator[str]:
    try:
        files, read = files_of(file, one), reader(one, source, "UTC")
        for path in files.values():
            there = read.names(path)
            if there is None:
                continue
            deletes = CHANGE_TYPE in map(str.lower, there)
            fault = fault_in(there, source, deletes=deletes)
            if fault is not None:
                yield str(fault.error(str(path), source.name))
    except DeltaProduceError as error:
        yield str(error)
