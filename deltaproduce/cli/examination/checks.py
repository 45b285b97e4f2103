"""Checks of a project before it runs: its inputs, and its definitions against the store.

The invariant: nothing is written, and an input is read only as far as its columns require.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from deltaproduce.cli.inputs.dropped import by_files
from deltaproduce.cli.inputs.files import files_of
from deltaproduce.cli.inputs.forms import reader
from deltaproduce.cli.inputs.given import begun_in, check_sources
from deltaproduce.cli.inputs.headers import headers
from deltaproduce.cli.inputs.reading.reader import fault_in
from deltaproduce.errors import DeltaProduceError, SessionError
from deltaproduce.model.graph import Source
from deltaproduce.pipeline import Pipeline
from deltaproduce.projects.checks import Checked, Problem
from deltaproduce.projects.file import FILE_FORMATS, Input, ProjectFile, has_scheme
from deltaproduce.projects.pipelines import (
    Examined,
    examined,
    in_project,
    locating_errors,
    sql_files,
)
from deltaproduce.projects.project import checked
from deltaproduce.projects.statements import SqlFile
from deltaproduce.projects.stores import opened
from deltaproduce.reading.opened import opened_by
from deltaproduce.store import Store
from deltaproduce.types.columns import CHANGE_TYPE


def check(file: ProjectFile) -> tuple[Pipeline | None, Checked]:
    """Return the pipeline of a project, and all that is wrong; None if it cannot be defined.

    The session of a project is not started for definitions that are wrong without it.
    """
    examination = examined(file)
    if examination.errors and file.engine == "spark":
        every = [
            source.name for source in examination.pipeline.graph().sources
        ]  # as far as is known
        return None, _with_inputs(file, examination, checked(examination, None), every)
    with opened(file, Pipeline(file.name)) as store:  # of no stage, since some may be refused
        outcome, begun = checked(examination, store), begun_in(store)
    if examination.errors or outcome.has_errors:
        pipeline = None if examination.errors else examination.pipeline
        return pipeline, _with_inputs(file, examination, outcome, begun)
    with locating_errors(file), opened(file, examination.pipeline) as store:
        more = problems(file, examination.pipeline, store)
    return examination.pipeline, Checked([*more, *outcome.problems], outcome.unchecked)


def _with_inputs(
    file: ProjectFile, examination: Examined, outcome: Checked, begun: Collection[str]
) -> Checked:
    """Add what is wrong with the inputs of the sources that are defined."""
    wrong = _of_inputs(file, examination.pipeline, begun)
    return Checked([*outcome.problems, *wrong], outcome.unchecked)


def problems(file: ProjectFile, pipeline: Pipeline, store: Store) -> list[Problem]:
    """Return what would stop a run, as far as that can be known before."""
    faults: list[Problem] = []
    needing = opened_by(store).needing
    files = {one.statement.name: one for one in sql_files(file, [])} if needing else {}
    for name, needed in needing.items():
        faults.append(_needing(in_project(needed, files.get(name)), name, files.get(name)))
    try:
        check_sources(file, pipeline)
        if not needing:
            all_of = [one.source for one in file.inputs.values() if one.mode == "snapshot"]
            with by_files(file, pipeline, store):
                store.plan(snapshots=all_of)
    except DeltaProduceError as error:
        faults.append(_problem(getattr(error, "stage", None) or "", str(error)))
    return [*faults, *_of_inputs(file, pipeline, begun_in(store))]


def _needing(error: SessionError, stage: str, file: SqlFile | None) -> Problem:
    place = (None, None) if file is None else (file.name, file.statement.line)
    return Problem(stage, None, place[0], place[1], str(error))


def _of_inputs(file: ProjectFile, pipeline: Pipeline, begun: Collection[str]) -> list[Problem]:
    faults: list[Problem] = []
    sources = {source.name: source for source in pipeline.graph().sources}
    for name, one in file.inputs.items():
        if name in sources and one.format in FILE_FORMATS and not has_scheme(one.path):
            texts = _of_input(file, one, sources[name], begun)
            faults += [_problem(name, text) for text in texts]
    return faults


def _problem(stage: str, message: str) -> Problem:
    return Problem(stage, None, None, None, message)


def _of_input(
    file: ProjectFile, one: Input, source: Source, begun: Collection[str]
) -> Iterator[str]:
    try:
        files, read = files_of(file, one), reader(one, source, "UTC")
        known = headers(files, files, read, begun)
        for name, path in files.items():
            there = known.names[name]
            if there is None:
                continue
            deletes = CHANGE_TYPE in map(str.lower, there)
            fault = fault_in(there, source, known.absence(name), deletes=deletes)
            if fault is not None:
                yield str(fault.error(str(path), source.name))
    except DeltaProduceError as error:
        yield str(error)
