r"""Rendering: rows as the text that PostgreSQL's ``COPY … FROM STDIN`` reads.

Text rather than the binary format: Arrow writes text for whole columns, of all types, while the
binary form of ``numeric`` would need a loop over digits. The invariant: a value that is not refused
reads back equal, and values that are equal in a store have the same text. Refused is what `holding`
says that PostgreSQL cannot hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.errors import SyncError
from deltaproduce.postgres.holding import fault, whole
from deltaproduce.postgres.json_text import float_text, hexadecimal, json_text
from deltaproduce.types.catalogue import atom
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import BinaryType, DataType, StringType
from deltaproduce.types.excerpts import shown
from deltaproduce.types.python_values import python_tuples

_ESCAPES: Final[Mapping[str, str]] = MappingProxyType(
    {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
)
_SPECIAL: Final = r"[\\\n\r\t]"


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
    texts = []
    for column in columns:
        array = whole(rows, column)
        _check(array, column, rows.select([c.name for c in key]), stage)
        texts.append(_escaped(text_of(array, column.data_type)))
    lines = pc.binary_join_element_wise(
        *texts, "\t", null_handling="replace", null_replacement="\\N"
    )
    lines = pc.binary_join_element_wise(lines, "\n", "")
    _, offsets, data = lines.buffers()
    first, last = np.frombuffer(offsets, np.int32)[[lines.offset, lines.offset + len(lines)]]
    return bytes(data[int(first) : int(last)])


def text_of(array: pa.Array, data_type: DataType) -> pa.Array:
    """Return values as the text that PostgreSQL reads, not escaped for COPY; null for null."""
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
    for special, written in _ESCAPES.items():
        texts = pc.replace_substring(texts, special, written)
    return texts


def _check(array: pa.Array, column: Column, keys: pa.Table, stage: str) -> None:
    """Refuse values that PostgreSQL cannot hold."""
    fault_text = fault(array, column.data_type)
    if fault_text is None:
        return
    what, wrong = fault_text
    keys_shown = tuple(python_tuples(keys.filter(wrong).slice(0, 3)))
    raise SyncError(
        f"column {column.name!r} of stage {stage!r} has {what}, in rows of the keys "
        f"{', '.join(map(shown, keys_shown)) or '(it has no key)'}; nothing was written",
        stage=stage,
        column=column.name,
        keys=keys_shown,
    )
