"""Dropped columns: which files of a source still have a column that it no longer declares.

The store refuses to drop or rename a column of a source whose rows it keeps. The files show whether
the column is still in use, and under which name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from deltaproduce.cli.inputs.files import files_of
from deltaproduce.cli.inputs.reading.reader import SourceReader
from deltaproduce.cli.inputs.reading.texts import Forms
from deltaproduce.errors import DefinitionError, InvalidChangesError
from deltaproduce.model.graph import Source
from deltaproduce.pipeline import Pipeline
from deltaproduce.projects.file import FILE_FORMATS, Input, ProjectFile, has_scheme
from deltaproduce.reading.opened import opened_by
from deltaproduce.storage.versions import stage_at
from deltaproduce.store import Store
from deltaproduce.types.excerpts import shown

_MOST_NAMES: Final = 3


@contextmanager
def by_files(file: ProjectFile, pipeline: Pipeline, store: Store) -> Iterator[None]:
    """Name files in errors about columns that a source had, and does not declare any more.

    Raises:
        DefinitionError: the error, with the files that have the columns.
    """
    try:
        yield
    except DefinitionError as error:
        one = file.inputs.get(error.stage or "")
        if one is None or one.format not in FILE_FORMATS or has_scheme(one.path):
            raise
        (source,) = (known for known in pipeline.graph().sources if known.name == one.source)
        was = stage_at(opened_by(store).log.head(), source).schema
        declared = {name.lower() for name in source.schema.names}
        dropped = [name for name in was.names if name.lower() not in declared]
        names = _having(file, one, replace(source, schema=was), dropped) if dropped else []
        if not names:
            raise
        more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
        listed = ", ".join(map(shown, names[:_MOST_NAMES])) + more
        raise DefinitionError(
            f"{error}. Files that have {', '.join(dropped)}: {listed}",
            stage=error.stage,
            column=error.column,
            file=error.file,
            line=error.line,
        ) from error


def _having(file: ProjectFile, one: Input, was: Source, columns: Collection[str]) -> list[str]:
    """Return the files that have one of the columns.

    Args:
        was: the source with the columns that it had, which JSON files are searched for.
    """
    read, wanted, missing = (
        SourceReader(one, was, Forms()),
        {name.lower() for name in columns},
        list[str](),
    )
    for name, path in files_of(file, one).items():
        try:
            names = read.names(path) or ()
        except InvalidChangesError:  # a run refuses it, which is another error
            continue
        if wanted & {own.lower() for own in names}:
            missing.append(name)
    return missing
