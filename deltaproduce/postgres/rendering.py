r"""Rendering: rows as the text that PostgreSQL's ``COPY … FROM STDIN`` reads.

Text rather than the binary format: Arrow writes text for whole columns, of all types, while the
binary form of ``numeric`` would need a loop over digits. The invariant: a value that is not refused
reads back equal, and values that are equal in a store have the same text. Refused are a NUL in
text, which PostgreSQL cannot store, and dates outside the years 1 to 9999, which PostgreSQL spells
differently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BinaryType, DataType, StringType

from deltaproduce.errors import SyncError
from deltaproduce.postgres.json_text import float_text, hexadecimal, json_text
from deltaproduce.types.catalogue import atom
from deltaproduce.types.columns import Column
from deltaproduce.types.excerpts import shown

_ESCAPES: Final[Mapping[str, str]] = MappingProxyType(
    {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
)
_SPECIAL: Final = r"[\\\n\r\t]"
_DAYS: Final = (-719_162, 2_932_896)
_MICROS_A_DAY: Final = 86_400_000_000
"""From January 1 of the year 1 to December 31 of the year 9999."""


def copy_text(
    rows: pa.Table, columns: Sequence[Column], key: Sequence[Column], *, stage: str
) -> bytes:
    """Return columns of rows as text for COPY.

    Args:
        key: the columns that identify a row in messages.
        stage: the stage of the rows, for messages.

    Raises:
        SyncError: PostgreSQL cannot store a value; with `stage`, `column` and `keys`.
    """
    if not len(rows):
        return b""
    rows = rows.combine_chunks()
    texts = []
    for column in columns:
        array = rows.column(column.name).chunk(0)
        text = _text(array, column.data_type)
        _check(array, text, column, rows.select([c.name for c in key]), stage)
        texts.append(_escaped(text))
    lines = pc.binary_join_element_wise(
        *texts, "\t", null_handling="replace", null_replacement="\\N"
    )
    lines = pc.binary_join_element_wise(lines, "\n", "")
    _, offsets, data = lines.buffers()
    first, last = np.frombuffer(offsets, np.int32)[[lines.offset, lines.offset + len(lines)]]
    return bytes(data[int(first) : int(last)])


def _text(array: pa.Array, data_type: DataType) -> pa.Array:
    if atom(data_type) is None:
        return json_text(array, data_type)
    if isinstance(data_type, StringType):
        return array
    if isinstance(data_type, BinaryType):
        return pc.binary_join_element_wise("\\x", hexadecimal(array), "")
    return float_text(array) if pa.types.is_floating(array.type) else array.cast(pa.string())


def _escaped(texts: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring_regex(texts, _SPECIAL)).as_py():
        return texts
    for found, written in _ESCAPES.items():
        texts = pc.replace_substring(texts, found, written)
    return texts


def _check(array: pa.Array, text: pa.Array, column: Column, keys: pa.Table, stage: str) -> None:
    """Refuse values that PostgreSQL cannot store, or spells differently."""
    what, wrong = "a NUL character, which PostgreSQL's text cannot have", None
    if pa.types.is_temporal(array.type):
        what, wrong = "a date that is not in the years 1 to 9999", _beyond(array)
    elif atom(column.data_type) is None or isinstance(column.data_type, StringType):
        wrong = pc.match_substring(text, "\0")
    if wrong is None or not pc.any(wrong).as_py():
        return
    found = keys.filter(pc.fill_null(wrong, False)).slice(0, 3).to_pylist()
    some = tuple(tuple(row.values()) for row in found)
    raise SyncError(
        f"column {column.name!r} of stage {stage!r} has {what}, in rows of the keys "
        f"{', '.join(map(shown, some)) or '(it has no key)'}; nothing was written",
        stage=stage,
        column=column.name,
        keys=some,
    )


def _beyond(array: pa.Array) -> pa.Array:
    first, last = _DAYS
    if pa.types.is_date(array.type):
        numbers = array.cast(pa.int32())
    else:
        numbers = array.cast(pa.int64())
        first, last = first * _MICROS_A_DAY, (last + 1) * _MICROS_A_DAY - 1
    return pc.or_(pc.less(numbers, first), pc.greater(numbers, last))
