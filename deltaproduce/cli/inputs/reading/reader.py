"""The reader of a source's files: their rows in the declared columns, whatever their format.

The invariant: each file is read by itself, and its rows have exactly the declared types before
files are put together. Names of columns count in any case. Columns that the source does not declare
are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import BinaryIO, Final, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from deltaproduce.cli.inputs.reading.csv_rows import csv_lines, csv_names, csv_parts
from deltaproduce.cli.inputs.reading.faults import FileFault
from deltaproduce.cli.inputs.reading.file_parts import NO_ABSENCE, Absence, Declared, FilePart
from deltaproduce.cli.inputs.reading.folders import repeated
from deltaproduce.cli.inputs.reading.json_rows import json_lines, json_names, json_parts
from deltaproduce.cli.inputs.reading.parquet_rows import parquet_parts
from deltaproduce.cli.inputs.reading.texts import Forms
from deltaproduce.errors import InvalidChangesError
from deltaproduce.model.graph import Source
from deltaproduce.projects.file import Input
from deltaproduce.stages.sources.given.contents import DELETES
from deltaproduce.stages.sources.given.required import unchecked
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import CHANGE_TYPE, CHANGE_TYPE_COLUMN, ORDINAL_COLUMN
from deltaproduce.types.excerpts import escaped

CONTROLS: Final = (CHANGE_TYPE_COLUMN, ORDINAL_COLUMN)
"""The columns that a file may have besides those of its source."""


@dataclass(frozen=True, slots=True)
class SourceReader:
    """The reader of the files of one source.

    Attributes:
        forms: how values are written in them.
    """

    input: Input
    source: Source
    forms: Forms

    def parts(self, path: Path, absence: Absence = NO_ABSENCE) -> Iterator[FilePart]:
        """Yield the rows of a file, with all columns that the source declares.

        Args:
            absence: what is known of the columns that it lacks.

        Raises:
            InvalidChangesError: it does not have its format, lacks columns, or a value does not
                fit; with the file and, of CSV and JSON, the line.
        """
        with self._faults_of(str(path)), pa.OSFile(str(path)) as file:
            yield from self._complete(self._read_parts(file, str(path), absence), absence)

    def parts_of(
        self, content: pa.Buffer, name: str, absence: Absence = NO_ABSENCE
    ) -> Iterator[FilePart]:
        """Yield the rows of a file whose content is in memory; see `parts`."""
        with self._faults_of(name), pa.BufferReader(content) as file:
            yield from self._complete(self._read_parts(file, name, absence), absence)

    def lines(self, path: Path) -> Iterator[int] | None:
        """Return the line at which each row of a file begins, from 1; None if it has no lines."""
        if self.input.format not in ("csv", "json"):
            return None
        return self._lines(path)

    def _lines(self, path: Path) -> Iterator[int]:
        lines = csv_lines if self.input.format == "csv" else json_lines
        with self._faults_of(str(path)), pa.OSFile(str(path)) as file:
            yield from lines(_unpacked(file, str(path)), self.input)

    def names(self, path: Path) -> tuple[str, ...] | None:
        """Return the columns of a file, read as far as that takes; None if it has no rows.

        Raises:
            InvalidChangesError: it does not have its format.
        """
        with self._faults_of(str(path)), pa.OSFile(str(path)) as file:
            return self._names(file, str(path))

    def names_of(self, content: pa.Buffer, name: str) -> tuple[str, ...] | None:
        """Return the columns of a file whose content is in memory; see `names`."""
        with self._faults_of(name), pa.BufferReader(content) as file:
            return self._names(file, name)

    def _names(self, file: pa.NativeFile, name: str) -> tuple[str, ...] | None:
        names: tuple[str, ...] | None
        match self.input.format:
            case "csv":
                names = csv_names(_unpacked(file, name), self.input)
            case "json":
                wanted = [self._in_file(one) for one in self.source.schema.names]
                names = json_names(_unpacked(file, name), self.input, wanted)
            case _:
                names = tuple(parquet.read_schema(file).names)
        return None if names is None else self._own(names)

    def _in_file(self, column: str) -> str:
        """Return the name of a column in files."""
        return self.input.names.get(column, column)

    def _own(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that names in a file are; names that are none stay."""
        columns = {name.lower(): column for column, name in self.input.names.items()}
        return tuple(columns.get(name.lower(), name) for name in names)

    def _read_parts(self, file: pa.NativeFile, name: str, absence: Absence) -> Iterator[FilePart]:
        folders = absence.folders
        keys = [key for key in self.source.schema.key.names if key not in folders]
        every = _declared(self.source)
        declared = {
            self._in_file(column.name).lower(): column
            for column in every.values()
            if column.name not in folders
        }
        match self.input.format:
            case "csv":
                return csv_parts(_unpacked(file, name), self.input, declared, self.forms)
            case "json":
                return json_parts(_unpacked(file, name), self.input, keys, declared, self.forms)
        return parquet_parts(file, declared, self.forms)

    def _complete(self, parts: Iterator[FilePart], absence: Absence) -> Iterator[FilePart]:
        """Yield parts with all declared columns: rows of deletes may have only those of the key."""
        names, rows, has_only_deletes, is_whole = dict[str, str](), 0, True, False
        for part in parts:
            own = self._own(part.names)
            names |= {name.lower(): name for name in own}
            rows += part.rows
            has_only_deletes = has_only_deletes and _deletes(part)
            is_whole = part.is_whole
            if is_whole:
                self._check(own, absence, has_only_deletes=has_only_deletes)
            yield replace(part, columns=self._filled(part, absence))
        if rows and not is_whole:
            self._check([*names.values()], absence, has_only_deletes=has_only_deletes)

    def _check(self, names: Sequence[str], absence: Absence, *, has_only_deletes: bool) -> None:
        if self.input.mode == "snapshot" and CHANGE_TYPE in map(str.lower, names):
            finding = f"it has column {CHANGE_TYPE}, and a snapshot is all rows, without changes: "
            mend = 'drop the column, or say mode = "changes"'
            raise FileFault(finding + mend, columns=[CHANGE_TYPE])
        fault = fault_in(names, self.source, absence, deletes=has_only_deletes)
        if fault is not None:
            raise fault

    def _filled(self, part: FilePart, absence: Absence) -> dict[str, pa.Array]:
        """Return the columns of a part, with those of the source that it does not have.

        They are null, or what the names of the file's folders say.
        """
        arrays, schema = dict(part.columns), self.source.schema
        for column in unchecked((*schema.key, *schema.value)):
            if column.name in arrays:
                continue
            text = absence.folders.get(column.name)
            arrays[column.name] = (
                pa.nulls(part.rows, arrow_type(column.data_type))
                if text is None
                else repeated(text, column, self.forms, part.rows)
            )
        return arrays

    @contextmanager
    def _faults_of(self, name: str) -> Iterator[None]:
        """Turn what is wrong with a file into an error that names it.

        Raises:
            InvalidChangesError: it cannot be read.
        """
        source = self.source.name
        try:
            yield
        except FileFault as fault:
            raise fault.error(name, source) from fault.__cause__
        except (pa.ArrowException, OSError) as error:
            said = escaped(" ".join(str(error).split()))
            raise InvalidChangesError(
                f"{name!r} of source {source!r} cannot be read as {self.input.format}: {said}",
                source=source,
                file=name,
            ) from error


def _unpacked(file: pa.NativeFile, name: str) -> BinaryIO:
    """Return the content of a file that its name says is compressed, or the file."""
    kind = _COMPRESSED.get(PurePath(name).suffix.lower())
    return cast(BinaryIO, file if kind is None else pa.CompressedInputStream(file, kind))


_COMPRESSED: Final = MappingProxyType(
    {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4", ".br": "brotli"}
)


def fault_in(
    names: Sequence[str], source: Source, absence: Absence = NO_ABSENCE, *, deletes: bool
) -> FileFault | None:
    """Return what is wrong with the columns of rows for a source; None if nothing is.

    Args:
        names: the columns that the rows have.
        absence: what is known of those that they lack.
        deletes: whether the rows need only keys.
    """
    schema, lower = source.schema, [name.lower() for name in names]
    needed = schema.key.names if deletes else schema.names
    missing = [name for name in needed if name.lower() not in lower]
    missing = [name for name in missing if name not in absence.columns]
    if absence.fault is not None and missing and {*absence.fault.columns} >= {*missing}:
        return absence.fault
    if missing:
        finding = f"it has no column {', '.join(missing)}; it has {', '.join(names)}"
        return FileFault(finding, columns=missing)
    twice = [c.name for low, c in _declared(source).items() if lower.count(low) > 1]
    if twice:
        finding = f"it has column {', '.join(twice)} twice; leave one out"
        return FileFault(finding, columns=twice)
    return None


def _declared(source: Source) -> Declared:
    """Return the columns that files may have; nulls in them are checked where all batches are."""
    columns = unchecked((*source.schema.key, *source.schema.value, *CONTROLS))
    return {column.name.lower(): column for column in columns}


def _deletes(part: FilePart) -> bool:
    """Return whether all rows of a part are deletes."""
    types = part.columns.get(CHANGE_TYPE)
    if types is None:
        return not part.rows and CHANGE_TYPE in map(str.lower, part.names)
    return bool(pc.all(pc.is_in(types, value_set=pa.array(DELETES))).as_py() is not False)
