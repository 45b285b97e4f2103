"""The input that a run gives its store: the new change files, and all snapshots.

The one place that reads files of rows: into Arrow or, for snapshots with Spark as the engine, as
DataFrames, which Spark computes when the store takes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaproduce.cli.inputs import tables
from deltaproduce.cli.inputs.files import digests, files_of
from deltaproduce.cli.inputs.positions import Digests, Position
from deltaproduce.errors import InvalidChangesError
from deltaproduce.model.graph import Source
from deltaproduce.pipeline import Pipeline
from deltaproduce.projects.file import Input, ProjectFile
from deltaproduce.projects.sections import ProjectFileError
from deltaproduce.projects.stores import session
from deltaproduce.store import Store
from deltaproduce.types.ddl import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Given:
    """The input of a run, without its rows.

    Attributes:
        files: source -> its new change files.
        snapshots: the sources that get all of their rows.
        update_id: the update id of the changes; None if there are none.
    """

    files: Digests
    snapshots: tuple[str, ...]
    update_id: str | None


def found(file: ProjectFile, pipeline: Pipeline, store: Store) -> Given:
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
    position = Position.of(store.update_ids())
    new = position.new(there)
    snapshots = tuple(name for name, one in file.inputs.items() if one.mode == "snapshot")
    return Given(new, snapshots, position.update_id(new))


def check_sources(file: ProjectFile, pipeline: Pipeline) -> None:
    """Refuse inputs of sources that take no rows.

    Raises:
        ProjectFileError: with the source.
    """
    known = {source.name for source in pipeline.graph().sources if source.kind.takes_rows}
    for name in file.inputs:
        if name not in known:
            raise ProjectFileError(
                f"deltaproduce.toml: [sources.{name}] is there, and pipeline {pipeline.name!r} has "
                f"no source {name!r} that takes rows; those that do: {', '.join(sorted(known))}"
            )


def rows(
    file: ProjectFile, pipeline: Pipeline, given: Given
) -> tuple[dict[str, object], dict[str, object]]:
    """Return the rows of the changes and of the snapshots, by source.

    Raises:
        InvalidChangesError: a file cannot be read.
    """
    sources = {source.name: source for source in pipeline.graph().sources}
    spark = session(file)
    changes: dict[str, object] = {
        name: _changes(file, file.inputs[name], sources[name], files)
        for name, files in given.files.items()
    }
    snapshots = {
        name: _snapshot(file, file.inputs[name], sources[name], spark) for name in given.snapshots
    }
    return changes, snapshots


def _changes(file: ProjectFile, one: Input, source: Source, files: Mapping[str, str]) -> object:
    there = files_of(file, one)
    paths = {name: there[name] for name in files if name in there}
    taken = tables.changes(paths.values(), one, source) if len(paths) == len(files) else None
    if digests(paths) != files:
        raise InvalidChangesError(
            f"files of source {source.name!r} were changed while they were read; run again when "
            "they are whole",
            source=source.name,
        )
    return taken


def _snapshot(file: ProjectFile, one: Input, source: Source, spark: SparkSession | None) -> object:
    if spark is not None:
        return _frame(spark, file.place(one.path), one, source)
    if one.format == "delta":
        return tables.delta(file.place(one.path), source)
    return tables.snapshot(files_of(file, one).values(), one, source)


def _frame(spark: SparkSession, path: str, one: Input, source: Source) -> Any:  # noqa: ANN401
    """Return rows that Spark reads, with text of CSV files cast to the declared types."""
    from pyspark.sql import functions as f

    columns = (*source.schema.key, *source.schema.value)
    options: dict[str, str] = {}
    if one.format == "csv":
        options = {"header": "true", "sep": one.delimiter, "nullValue": one.null}
    reader = spark.read.format(one.format).options(**options | dict(one.options))
    frame = reader.load(path)
    if one.format in ("csv", "json"):
        return frame.select(*(f.col(quoted(c.name)).cast(c.data_type) for c in columns))
    return frame.select(*(f.col(quoted(c.name)) for c in columns))
