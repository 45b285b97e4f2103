"""Rows of a JSON file: an object on each line.

A value that an object does not have is null, as in what Spark writes; a key must be there. The
invariant: numbers keep their digits until their type is known, and no name that is there twice
counts once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final

import pyarrow as pa

from deltaproduce.cli.inputs.reading.blocks import Block, blocks, last_line_end, utf8
from deltaproduce.cli.inputs.reading.faults import FileFault, Unfit
from deltaproduce.cli.inputs.reading.file_parts import Declared, FilePart
from deltaproduce.cli.inputs.reading.json_values import Fraction, Repeated, array_of
from deltaproduce.cli.inputs.reading.texts import Forms
from deltaproduce.projects.file import Input
from deltaproduce.types.columns import CHANGE_TYPE, Column
from deltaproduce.types.excerpts import shown


def json_parts(
    file: BinaryIO, input_: Input, keys: Sequence[str], declared: Declared, forms: Forms
) -> Iterator[FilePart]:
    """Yield the rows of a file; a part knows the columns of the rows until its end.

    Args:
        keys: the names of the key columns.

    Raises:
        FileFault: a line is no object, an object has no key, or a value does not fit.
    """
    names: dict[str, None] = {}
    for block in blocks(utf8(file, input_.encoding), last_line_end):
        rows, lines = _objects(block)
        spelled = dict.fromkeys(name for row in rows for name in row)
        names |= spelled
        arrays: dict[str, pa.Array] = {}
        for in_file, column in declared.items():
            own = [name for name in spelled if name.lower() == in_file]
            if column.name in keys and rows and not own:
                finding = f"it has no column {column.name}; it has {', '.join(spelled)}"
                raise FileFault(finding, columns=[column.name])
            values = _values(rows, lines, own, column, is_key=column.name in keys)
            try:
                arrays[column.name] = array_of(values, column.data_type, forms)
            except Unfit as unfit:
                line = lines[unfit.place]
                raise FileFault(unfit.finding, line=line, column=column.name) from None
        yield FilePart(tuple(names), len(rows), arrays, is_whole=False)


def json_names(file: BinaryIO, input_: Input, wanted: Sequence[str]) -> tuple[str, ...] | None:
    """Return the columns of a file, read until all wanted ones are found; None without a row.

    Raises:
        FileFault: a line is no object.
    """
    names, missing = dict[str, None](), {name.lower() for name in wanted}
    for block in blocks(utf8(file, input_.encoding), last_line_end):
        rows, _ = _objects(block)
        names |= dict.fromkeys(name for row in rows for name in row)
        missing -= {name.lower() for name in names}
        if not missing:
            break
    return tuple(names) or None


def json_lines(file: BinaryIO, input_: Input) -> Iterator[int]:
    """Yield the line of each row of a file, from 1.

    Raises:
        FileFault: a line is no object.
    """
    for block in blocks(utf8(file, input_.encoding), last_line_end):
        yield from _objects(block)[1]


_ABSENT: Final = object()


def _values(
    rows: Sequence[dict[str, Any]],
    lines: Sequence[int],
    spelled: Sequence[str],
    column: Column,
    *,
    is_key: bool,
) -> list[Any]:
    """Return a column's values.

    Args:
        spelled: its names in these rows.
    """
    default = _ABSENT if is_key else "upsert" if column.name == CHANGE_TYPE else None
    if not spelled:
        values = [default] * len(rows)
    elif len(spelled) == 1 and not any(type(row) is Repeated for row in rows):
        values = [row.get(spelled[0], default) for row in rows]
    else:
        values = []
        for row, line in zip(rows, lines, strict=True):
            own = [name for name in spelled if name in row]
            if len(own) > 1 or (own and isinstance(row, Repeated) and own[0] in row.twice):
                raise FileFault(f"it is there twice: {shown(row)}", line=line, column=column.name)
            values.append(row[own[0]] if own else default)
    if is_key and _ABSENT in values:
        place = values.index(_ABSENT)
        raise FileFault(
            f"the key is missing in {shown(rows[place])}; null is a null key",
            line=lines[place],
            column=column.name,
        )
    return values


def _objects(block: Block) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the objects of a block, and the line of each.

    Raises:
        FileFault: a line is none.
    """
    text = block.text()
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    objects: list[dict[str, Any]] = []
    lines: list[int] = []
    for line, written in enumerate(text.split("\n"), block.first_line):
        written = written.strip(" \t")
        if written:
            objects.append(_object(written, line))
            lines.append(line)
    return objects, lines


def _object(written: str, line: int) -> dict[str, Any]:
    try:
        value, end = _DECODER.raw_decode(written)
    except (ValueError, RecursionError) as error:
        said = "it is too deep" if isinstance(error, RecursionError) else str(error)
        raise FileFault(f"{shown(written)} is not JSON: {said}", line=line) from None
    if end < len(written):
        raise FileFault(f"{shown(written[end:])} follows the object; end the line", line=line)
    if not isinstance(value, dict):
        raise FileFault(f"{shown(written)} is not an object, so it is not a row", line=line)
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        values = Repeated(values)
        times = Counter(name for name, _ in pairs)
        values.twice = frozenset(name for name, count in times.items() if count > 1)
    return values


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_distinct, parse_float=Fraction, parse_constant=Fraction
)
