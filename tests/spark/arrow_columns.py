"""Arrow arrays of any type, with declared types that they may fit."""

import datetime as dt
from contextlib import suppress
from decimal import Decimal

import pandas as pd
import pyarrow as pa
from hypothesis import strategies as st

UTC = dt.UTC
NUMBERS = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()),
    *(pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.decimal32(7, 2)),
    *(pa.decimal64(12, 3), pa.decimal128(20, 0), pa.decimal128(38, 20), pa.decimal256(50, 10)),
]
TEXTS = [
    *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()),
    *(pa.binary_view(), pa.binary(2), pa.dictionary(pa.int8(), pa.string())),
    pa.dictionary(pa.uint32(), pa.large_string()),
]
TIMES = [
    *(pa.date32(), pa.date64(), pa.time64("us"), pa.duration("us")),
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")),
    pa.timestamp("us", "Asia/Kolkata"),
]
FAMILIES = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), NUMBERS),
    **dict.fromkeys(("decimal(5,2)", "decimal(38,10)", "double", "float"), NUMBERS),
    **dict.fromkeys(("string", "binary"), TEXTS),
    **dict.fromkeys(("date", "timestamp", "timestamp_ntz"), TIMES),
    "boolean": [pa.bool_(), pa.null()],
}
"""Declared types, and the Arrow types some of which they take."""
ANY = [*NUMBERS, *TEXTS, *TIMES, pa.bool_(), pa.null()]
small = st.integers(-130, 260) | st.integers(-(2**31) - 1, 2**32) | st.integers(-(2**63), 2**64)
numbers = small | st.floats(width=16) | st.floats() | small.map(float)
decimals = st.decimals(-10_000, 10_000, places=2) | st.integers(-(10**6), 10**6).map(Decimal)
moments = st.datetimes(dt.datetime(1800, 1, 1), dt.datetime(2200, 1, 1)) | st.dates(
    dt.date(1800, 1, 1), dt.date(2200, 1, 1)
).map(lambda date: dt.datetime(date.year, date.month, date.day))


@st.composite
def arrow_arrays(draw, types):
    """Arrays of Arrow types, or of lists or structs of them, of values that they can hold."""
    arrow = draw(st.sampled_from(types))
    if pa.types.is_null(arrow):
        return pa.nulls(draw(st.integers(0, 3)))
    if arrow in NUMBERS:
        values = decimals if pa.types.is_decimal(arrow) else numbers
    elif arrow in TEXTS:
        values = st.text(max_size=2) if "string" in str(arrow) else st.binary(max_size=2)
    else:
        values = st.booleans() if arrow == pa.bool_() else moments
    array = pa.array([], arrow)
    few = st.integers(0, 100) if values is numbers else values
    found = draw(st.lists(st.none() | few) | st.lists(st.none() | values, max_size=5))
    for value in found:
        try:
            if pa.types.is_integer(arrow) and value is not None:
                value = int(value)
            array = pa.concat_arrays([array, pa.array([value], arrow)])
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            continue
    wrap = draw(st.sampled_from(["plain", "plain", "list", "large_list", "struct", "dictionary"]))
    match wrap:
        case "list" | "large_list":
            kind = pa.list_(array.type) if wrap == "list" else pa.large_list(array.type)
            return pa.array([[value] for value in array.to_pylist()], kind)
        case "struct" if not pa.types.is_dictionary(array.type):
            return pa.StructArray.from_arrays([array], ["a"])
        case "dictionary" if not pa.types.is_dictionary(array.type):
            with suppress(pa.ArrowNotImplementedError):  # of small decimals
                return array.dictionary_encode()
    return array


def plain(value):
    """A value as Python compares it, whatever type it was in."""
    match value:
        case list():
            return [plain(part) for part in value]
        case dict():
            return {name: plain(part) for name, part in value.items()}
        case bool() | None:
            return value
        case float() if value != value:
            return "NaN"
        case int() | float() | Decimal():
            return Decimal(value)
        case pd.Timestamp():
            value = value.to_pydatetime(warn=False)
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=value.tzinfo or UTC).astimezone(UTC)
    return value


@st.composite
def columns(draw):
    """An array, and a declared type that it may fit."""
    name = draw(st.sampled_from(list(FAMILIES)))
    array = draw(arrow_arrays(draw(st.sampled_from([FAMILIES[name]] * 4 + [ANY]))))
    if pa.types.is_struct(array.type):
        return array, f"struct<a:{name}>"
    nested = pa.types.is_list(array.type) or pa.types.is_large_list(array.type)
    return array, f"array<{name}>" if nested else name
