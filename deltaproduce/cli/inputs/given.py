"""The input that a run gives its store: the new change files, and all snapshots.

Files mean the same for both engines: the driver reads those of this machine, and Spark's tasks read
others with the same reader. Spark itself reads only what has types in Spark: tables, and formats
that only it knows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from deltaproduce.cli.inputs import remote, tables
from deltaproduce.cli.inputs.files import digests, files_of
from deltaproduce.cli.inputs.forms import reader
from deltaproduce.cli.inputs.headers import absences
from deltaproduce.cli.inputs.positions import Again, TakenFiles
from deltaproduce.cli.inputs.reading.reader import SourceReader
from deltaproduce.cli.inputs.repeats import located
from deltaproduce.cli.inputs.rollbacks import Undone, held, retaken
from deltaproduce.errors import InvalidArgumentError, InvalidChangesError
from deltaproduce.model.graph import Source
from deltaproduce.pipeline import Pipeline
from deltaproduce.projects.file import FILE_FORMATS, Input, ProjectFile, has_scheme
from deltaproduce.projects.sections import ProjectFileError
from deltaproduce.projects.sessions import session
from deltaproduce.shown.update_ids import Digests
from deltaproduce.store import Store
from deltaproduce.types.ddl import quoted
from deltaproduce.types.excerpts import meant

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class RunInput:
    """The input of a run, without its rows.

    Attributes:
        files: source -> its new change files.
        snapshots: the sources that get all of their rows.
        update_id: the update id of the changes; None if there are none.
        begun: the sources that have rows, or had some.
        again: change files that the store has taken under another name.
    """

    files: Digests
    snapshots: tuple[str, ...]
    update_id: str | None
    begun: frozenset[str] = frozenset()
    again: tuple[Again, ...] = ()


def run_input(file: ProjectFile, pipeline: Pipeline, store: Store) -> RunInput:
    """Find the input for the next version of a store.

    Raises:
        ProjectFileError: a source of the file is not one of the pipeline's, or has no files.
    """
    check_sources(file, pipeline)
    there = {
        name: digests(files_of(file, one))
        for name, one in file.inputs.items()
        if one.mode == "changes"
    }
    ids = store.update_ids()
    position, holding = TakenFiles.of(ids), held(ids)
    new = position.new(there)
    snapshots = tuple(
        name
        for name, one in file.inputs.items()
        if one.mode == "snapshot"
        and (name not in holding or digests(files_of(file, one)) != holding[name])
    )
    released = [name for name in snapshots if name in holding]
    update_id = position.update_id(new, released)
    return RunInput(new, snapshots, update_id, begun_in(store), position.again(new))


def begun_in(store: Store) -> frozenset[str]:
    """Return the stages that have rows, or had some."""
    return frozenset(name for name, figures in store.head.stages.items() if figures.delta_versions)


def undone(
    file: ProjectFile, pipeline: Pipeline, store: Store, version: int, *, hold: bool, retake: bool
) -> Undone:
    """Return what a rollback undoes of the inputs.

    Raises:
        NotFoundError: there is no such version.
        InvalidArgumentError: a snapshot cannot be held, or there is nothing to hold or to retake.
    """
    later = {one.update_id for one in store.versions() if one.number > version}
    ids = store.update_ids()
    now, before = TakenFiles.of(ids), TakenFiles.of([one for one in ids if one not in later])
    snapshots = {
        name: digests(files_of(file, one)) if hold and not has_scheme(one.path) else {}
        for name, one in file.inputs.items()
        if one.mode == "snapshot"
    }
    files = retaken(before, now)
    if hold and not all(snapshots.values()):
        names = ", ".join(name for name, files in snapshots.items() if not files)
        said = f"--hold is given, and the files of {names} are not on this machine: leave it out"
        raise InvalidArgumentError(said, argument="--hold")
    if (hold and not snapshots) or (retake and not files):
        option, what = ("--hold", "snapshot") if hold and not snapshots else ("--retake", "file")
        said = f"{option} is given, and there is no {what} that version {version} undoes"
        raise InvalidArgumentError(f"{said}: leave it out", argument=option)
    tables = tuple(
        one.name for one in pipeline.graph().sources if one.kind.intake.table is not None
    )
    return Undone(version, now.runs, snapshots, files, tables, hold, retake)


def check_sources(file: ProjectFile, pipeline: Pipeline) -> None:
    """Refuse inputs of sources that take no rows.

    Raises:
        ProjectFileError: with the source.
    """
    known = {source.name for source in pipeline.graph().sources if source.kind.intake.takes_rows}
    for name in file.inputs:
        if name not in known:
            raise ProjectFileError(
                f"deltaproduce.toml: [sources.{name}] is there, and pipeline {pipeline.name!r} has "
                f"no source {name!r} that takes rows; {meant(name, sorted(known))}"
            )


def rows(
    file: ProjectFile, pipeline: Pipeline, given: RunInput, zone: str
) -> tuple[dict[str, object], dict[str, object]]:
    """Return the rows of the changes and of the snapshots, by source.

    Args:
        zone: the time zone of the store, on whose clock times without a zone are.

    Raises:
        InvalidChangesError: a file cannot be read.
    """
    sources = {source.name: source for source in pipeline.graph().sources}
    spark = session(file)
    changes: dict[str, object] = {
        name: _changes(file, reader(file.inputs[name], sources[name], zone), files, given.begun)
        for name, files in given.files.items()
    }
    snapshots = {
        name: _snapshot(file, reader(file.inputs[name], sources[name], zone), spark, given.begun)
        for name in given.snapshots
    }
    return changes, snapshots


@contextmanager
def by_lines(
    file: ProjectFile, pipeline: Pipeline, given: RunInput, taken: Mapping[str, object], zone: str
) -> Iterator[None]:
    """Name files and lines in errors about rows that the store refuses by their numbers.

    Args:
        taken: the rows that the store is given, by source.
        zone: see `rows`.

    Raises:
        InvalidChangesError: the error, with `file` and `line` if they are found.
    """
    try:
        yield
    except InvalidChangesError as error:
        one, rows = file.inputs.get(error.source or ""), taken.get(error.source or "")
        is_read = one is not None and one.format in FILE_FORMATS and not has_scheme(one.path)
        if one is None or not is_read or not error.rows or not isinstance(rows, pa.Table):
            raise
        files = every = files_of(file, one)
        if one.mode == "changes":
            files = {name: every[name] for name in given.files[one.source] if name in every}
        (source,) = (known for known in pipeline.graph().sources if known.name == one.source)
        read = reader(one, source, zone)
        known = absences(every, files, read, given.begun)
        raise located(error, rows, files, known, read) from error


def _changes(
    file: ProjectFile, read: SourceReader, files: Mapping[str, str], begun: Collection[str]
) -> object:
    source, there = read.source, files_of(file, read.input)
    paths = {name: there[name] for name in files if name in there}
    taken = None
    if len(paths) == len(files):
        taken = tables.changes(paths.values(), read, absences(there, paths, read, begun))
    if digests(paths) != files:
        raise InvalidChangesError(
            f"files of source {source.name!r} were changed while they were read; run again when "
            "they are whole",
            source=source.name,
        )
    return taken


def _snapshot(
    file: ProjectFile, read: SourceReader, spark: SparkSession | None, begun: Collection[str]
) -> object:
    place, source = file.place(read.input.path), read.source
    taken = _all_rows(file, read, spark, begun)
    is_empty = not len(taken) if isinstance(taken, pa.Table) else remote.is_empty(taken)
    if is_empty and not read.input.allow_empty:
        raise InvalidChangesError(
            f"{place!r} of source {source.name!r} has no rows, and a snapshot without rows deletes "
            "all that there are; if that is right, write allow_empty = true under "
            f"[sources.{source.name}]",
            source=source.name,
            file=place,
        )
    return taken


def _all_rows(
    file: ProjectFile, read: SourceReader, spark: SparkSession | None, begun: Collection[str]
) -> DataFrame | pa.Table:
    one, source = read.input, read.source
    if one.format in FILE_FORMATS:
        if spark is not None and has_scheme(one.path):
            return remote.snapshot(spark, one.path, read, is_begun=source.name in begun)
        files = files_of(file, one)
        return tables.snapshot(files.values(), read, absences(files, files, read, begun))
    if spark is not None:
        return _frame(spark, file.place(one.path), one, source)
    return tables.delta(file.place(one.path), source)


def _frame(spark: SparkSession, path: str, one: Input, source: Source) -> DataFrame:
    """Return rows that have types in Spark, which are compared where all batches are."""
    from pyspark.sql import functions as f

    columns = (*source.schema.key, *source.schema.value)
    strict = {"mode": "FAILFAST"} if one.format == "xml" else {}  # others fail by themselves
    frame = spark.read.format(one.format).options(**strict | dict(one.options)).load(path)
    return frame.select(*(f.col(quoted(c.name)) for c in columns))
