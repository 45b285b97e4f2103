r"""JSON text of nested values, column by column.

An array is a JSON array, a struct an object, a map an object whose keys are text. Numbers are
JSON's, except those that JSON lacks: ``"NaN"``, ``"Infinity"``, ``"-Infinity"``. Dates and times
are text in ISO 8601; bytes are text in PostgreSQL's form, ``"\\x00ff"``. The invariant: each value
is valid JSON, unless a text has a NUL, which stays unchanged and is refused later.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.types.data_types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

_NOTHING: Final = "null"
_DIGITS: Final = np.frombuffer(bytes(range(256)).hex().encode(), np.uint8).reshape(256, 2)
"""The two hexadecimal digits of each byte."""
_CONTROL: Final = r"[\x01-\x1f]"
_BEYOND: Final = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}


def json_text(array: pa.Array, data_type: DataType) -> pa.Array:
    """Return values as JSON text; null for null."""
    match data_type:
        case ArrayType(elementType=element):
            return _arrays(array, element)
        case MapType(keyType=key, valueType=value):
            return _maps(array, key, value)
        case StructType():
            return _structs(array, data_type)
        case FloatType() | DoubleType():
            return _floats(array)
        case StringType():
            return _quoted(_escaped(array))
        case BinaryType():
            return _quoted(_joined(["\\\\x", hexadecimal(array)]))
        case DateType():
            return _quoted(array.cast(pa.string()))
        case TimestampType() | TimestampNTZType():
            return _quoted(pc.replace_substring(array.cast(pa.string()), " ", "T"))
    return array.cast(pa.string())


def float_text(array: pa.Array) -> pa.Array:
    """Return floats as text, -0.0 as the 0.0 that it equals."""
    return pc.add(array, pa.scalar(0.0, array.type)).cast(pa.string())


def hexadecimal(array: pa.Array) -> pa.Array:
    """Return bytes as text of two hexadecimal digits each."""
    _, offsets, data = array.buffers()
    places = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    whole = np.frombuffer(data or b"", np.uint8)[places[0] : places[-1]]
    ends, digits = ((places - places[0]) * 2).astype(np.int32), _DIGITS[whole]
    texts = pa.StringArray.from_buffers(len(array), pa.py_buffer(ends), pa.py_buffer(digits))
    return _where_there(array, texts)


def _arrays(array: pa.Array, element: DataType) -> pa.Array:
    start, offsets = _offsets(array)
    values = array.values.slice(start, offsets[-1].as_py())
    return _bracketed(array, offsets, _texts(values, element), "[", "]")


def _maps(array: pa.Array, key: DataType, value: DataType) -> pa.Array:
    start, offsets = _offsets(array)
    keys, values = array.values.slice(start, offsets[-1].as_py()).flatten()
    names = json_text(keys, key)
    bare = pc.invert(pc.starts_with(names, '"'))
    names = pc.if_else(bare, _quoted(names), names)
    entries = _joined([names, ":", _texts(values, value)])
    return _bracketed(array, offsets, entries, "{", "}")


def _structs(array: pa.Array, struct: StructType) -> pa.Array:
    parts: list[pa.Array | str] = []
    for field, values in zip(struct.fields, array.flatten(), strict=True):
        name = json.dumps(field.name, ensure_ascii=False)
        parts += [f"{',' if parts else '{'}{name}:", _texts(values, field.dataType)]
    return _where_there(array, _joined([*parts, "}"]))


def _floats(array: pa.Array) -> pa.Array:
    texts = float_text(array)
    if pc.all(pc.is_finite(array)).as_py() is not False:
        return texts
    named = (pc.equal(texts, text) for text in _BEYOND)
    pairs = zip(named, _BEYOND.values(), strict=True)
    return reduce(lambda text, pair: pc.if_else(pair[0], pair[1], text), pairs, texts)


def _texts(values: pa.Array, data_type: DataType) -> pa.Array:
    return json_text(values, data_type).fill_null(_NOTHING)


def _offsets(array: pa.Array) -> tuple[int, pa.Array]:
    """Return where the values of lists begin, and where each list begins from there."""
    offsets = array.offsets
    return offsets[0].as_py(), pc.subtract(offsets, offsets[0])


def _bracketed(
    array: pa.Array, offsets: pa.Array, parts: pa.Array, opening: str, closing: str
) -> pa.Array:
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, parts), ",")
    return _where_there(array, _joined([opening, joined, closing]))


def _where_there(array: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.if_else(array.is_valid(), texts, pa.scalar(None, pa.string()))


def _quoted(texts: pa.Array) -> pa.Array:
    return _joined(['"', texts, '"'])


def _escaped(texts: pa.Array) -> pa.Array:
    for special, written in (("\\", "\\\\"), ('"', '\\"')):
        texts = pc.replace_substring(texts, special, written)
    if not pc.any(pc.match_substring_regex(texts, _CONTROL)).as_py():
        return texts
    for number in range(1, 32):
        texts = pc.replace_substring(texts, chr(number), f"\\u{number:04x}")
    return texts


def _joined(parts: Sequence[pa.Array | str]) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")
