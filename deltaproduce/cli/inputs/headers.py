"""Headers: reads the columns of a source's files, as far as it must to know what they lack."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from deltaproduce.cli.inputs.columns import Headers, Names
from deltaproduce.cli.inputs.reading.file_parts import Absence
from deltaproduce.cli.inputs.reading.reader import SourceReader
from deltaproduce.errors import InvalidChangesError


def headers(
    files: Mapping[str, Path], new: Collection[str], read: SourceReader, begun: Collection[str]
) -> Headers:
    """Return the columns of files: of all, if a new one lacks some, otherwise of the new ones.

    Args:
        files: all files of the source, in the order in which they are taken.
        new: the files that will be read.
        begun: the sources that have rows, or had some.

    Raises:
        InvalidChangesError: a new file does not have its format.
    """
    names: dict[str, Names] = {name: read.names(files[name]) for name in files if name in new}
    optional, is_begun = read.input.optional, read.source.name in begun
    header = Headers(names, read.source, optional, is_begun)
    if all(map(header.is_whole, names)):
        return header
    every = {
        name: names[name] if name in names else _names(path, read) for name, path in files.items()
    }
    return Headers(every, read.source, optional, is_begun)


def absences(
    files: Mapping[str, Path], new: Collection[str], read: SourceReader, begun: Collection[str]
) -> dict[Path, Absence]:
    """Return what is known of the columns that each new file lacks; see `headers`."""
    header = headers(files, new, read, begun)
    return {files[name]: header.absence(name) for name in files if name in new}


def _names(path: Path, read: SourceReader) -> Names:
    """Return the columns of a file that was taken before; none if it is no file of theirs now."""
    try:
        return read.names(path)
    except InvalidChangesError:
        return None
