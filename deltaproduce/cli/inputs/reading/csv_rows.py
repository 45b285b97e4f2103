"""Rows of a CSV file: a header, and then a row for each record.

Arrow splits blocks of whole rows into texts, and `texts` says what these are. If something is
wrong, the block is read again, record by record, to find the line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain, islice
from typing import BinaryIO

import pyarrow as pa
from pyarrow import csv

from deltaproduce.cli.inputs.reading.blocks import ENCODE, Block, blocks, line_ends, utf8
from deltaproduce.cli.inputs.reading.faults import FileFault, Unfit, no_value
from deltaproduce.cli.inputs.reading.file_parts import Declared, FilePart
from deltaproduce.cli.inputs.reading.records import Record, end_of_rows, is_plain, records
from deltaproduce.cli.inputs.reading.texts import Forms, converted
from deltaproduce.projects.file import Input
from deltaproduce.types import data_types as t
from deltaproduce.types.columns import Column


def csv_parts(
    file: BinaryIO, input_: Input, declared: Declared, forms: Forms
) -> Iterator[FilePart]:
    """Yield the rows of a file, at first none.

    Raises:
        FileFault: it has no header, a row has more or fewer values, or a value does not fit.
    """
    text = _blocks(file, input_)
    names, rest = _header(text, input_.delimiter)
    yield FilePart(names, 0, {})
    columns = {
        n: declared[name.lower()] for n, name in enumerate(names) if name.lower() in declared
    }
    for column in columns.values():
        if isinstance(column.data_type, t.StructType | t.ArrayType | t.MapType):
            kind = column.data_type.simpleString()
            raise FileFault(f"a CSV file has no {kind}: use JSON or Parquet", column=column.name)
    read = _Reader(names, columns, input_, forms)
    for block in chain([rest], text):
        yield read.part(block)


def csv_names(file: BinaryIO, input_: Input) -> tuple[str, ...]:
    """Return the columns of a file.

    Raises:
        FileFault: it has no header.
    """
    names, _ = _header(_blocks(file, input_), input_.delimiter)
    return names


def csv_lines(file: BinaryIO, input_: Input) -> Iterator[int]:
    """Yield the line at which each row of a file begins, from 1.

    Raises:
        FileFault: it has no header, or a row is wrong.
    """
    text = _blocks(file, input_)
    _, rest = _header(text, input_.delimiter)
    for block in chain([rest], text):
        written = block.data.decode("utf-8", "surrogateescape")
        for record in records(written, input_.delimiter, block.first_line):
            yield record.line


def _blocks(file: BinaryIO, input_: Input) -> Iterator[Block]:
    return blocks(utf8(file, input_.encoding), partial(end_of_rows, delimiter=input_.delimiter))


class _Reader:
    """The reader of the blocks of a file.

    Args:
        columns: the columns to read, by their places.
    """

    def __init__(
        self, names: tuple[str, ...], columns: Mapping[int, Column], input_: Input, forms: Forms
    ) -> None:
        self._names = names
        self._columns = columns
        self._delimiter = input_.delimiter
        self._forms = forms
        self._parsing = csv.ParseOptions(delimiter=input_.delimiter, newlines_in_values=True)
        places = [str(place) for place in range(len(names))]
        self._converting = csv.ConvertOptions(
            check_utf8=False,
            column_types=dict.fromkeys(places, pa.string()),
            include_columns=[str(place) for place in columns],
            null_values=[input_.null],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        self._places = places

    def part(self, block: Block) -> FilePart:
        """Return the rows of a block."""
        self._check_text(block)
        texts = self._split(block)
        arrays: dict[str, pa.Array] = {}
        for place, column in self._columns.items():
            try:
                values = texts.column(str(place)).combine_chunks()
                arrays[column.name] = converted(values, column.data_type, self._forms)
            except Unfit as unfit:
                record = next(islice(self._records(block), unfit.place, None))
                raise FileFault(unfit.finding, line=record.line, column=column.name) from None
        return FilePart(self._names, len(texts), arrays)

    def _check_text(self, block: Block) -> None:
        """Check the encoding and the quotes of a block."""
        try:
            block.data.decode()
        except UnicodeDecodeError:
            for record in self._records(block):
                self._check_encoding(record)
            raise
        if not is_plain(block.data, self._delimiter):
            for _ in self._records(block):
                pass

    def _check_encoding(self, record: Record) -> None:
        for place, text in enumerate(record.values):
            if text is not None and not _is_unicode(text):
                column = self._columns.get(place)
                encoded = text.encode("utf-8", "surrogateescape")
                raise FileFault(
                    no_value(encoded, "UTF-8", ENCODE),
                    line=record.line,
                    column=None if column is None else column.name,
                )

    def _split(self, block: Block) -> pa.Table:
        """Return the values as texts; the columns are named by their places."""
        if not block.data.strip(b"\r\n"):
            return pa.table({str(place): pa.array([], pa.string()) for place in self._columns})
        # Arrow takes a last value after a quoted one for a quoted one if no line end follows.
        data = block.data if block.data.endswith((b"\n", b"\r")) else block.data + b"\n"
        reading = csv.ReadOptions(
            use_threads=False, block_size=len(data) + 1, column_names=self._places
        )
        try:
            return csv.read_csv(
                pa.BufferReader(data),
                read_options=reading,
                parse_options=self._parsing,
                convert_options=self._converting,
            )
        except pa.ArrowInvalid:
            self._check_lengths(block)
            raise

    def _check_lengths(self, block: Block) -> None:
        for record in self._records(block):
            size, wanted = len(record.values), len(self._names)
            if size != wanted:
                raise FileFault(
                    f"the row has {size} values, and the header {wanted}: {list(record.values)!r}",
                    line=record.line,
                )

    def _records(self, block: Block) -> Iterator[Record]:
        """Yield the rows of a block, whose text may be no UTF-8."""
        text = block.data.decode("utf-8", "surrogateescape")
        return records(text, self._delimiter, block.first_line)


def _header(text: Iterator[Block], delimiter: str) -> tuple[tuple[str, ...], Block]:
    """Return the names of the columns, and what follows them in their block."""
    block = next((block for block in text if block.data.strip(b"\r\n")), None)
    if block is None:
        raise FileFault("it is empty; its first line has the names of the columns")
    first = next(records(block.data.decode("latin-1"), delimiter))
    data, rest = block.data[: first.end], block.data[first.end :]
    (header,) = records(Block(data, block.first_line).text(), delimiter)
    names = tuple(name or "" for name in header.values)
    return names, Block(rest, block.first_line + line_ends(data))


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
