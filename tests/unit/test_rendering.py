"""The text that PostgreSQL copies: equal rows of a store have equal text, others have another."""

import math
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from deltaproduce.postgres.rendering import copy_text
from deltaproduce.types.atoms import arrow_schema
from deltaproduce.types.columns import row_schema

VALUE = (
    "x double, y float, m map<double, float>, a array<double>, s struct<x: float, l: array<float>>"
)
SCHEMA = row_schema("k int", VALUE, stage="floats")
COLUMNS = (*SCHEMA.key, *SCHEMA.value)
NUMBERS = st.sampled_from([0.0, 1.5, -1.0, math.nan, math.inf, None])


def text(numbers: list[float | None]) -> bytes:
    """The text of one row that has these numbers in values of all forms."""
    first = numbers[0]
    row: dict[str, Any] = {
        "k": 1,
        "x": first,
        "y": first,
        "m": [] if first is None else [(first, first)],
        "a": numbers,
        "s": {"x": first, "l": numbers},
    }
    table = pa.Table.from_pylist([row], arrow_schema(COLUMNS))
    return copy_text(table, COLUMNS, SCHEMA.key.columns, stage="floats")


@given(st.lists(NUMBERS, min_size=1, max_size=4), st.lists(NUMBERS, min_size=1, max_size=4))
def test_equal_rows_have_equal_text(one: list[float | None], other: list[float | None]) -> None:
    """Of floats, -0.0 equals 0.0, and NaN equals NaN."""
    negative = [-0.0 if number == 0 else number for number in one]
    assert text(one) == text(negative)
    assert (text(one) == text(other)) == (repr(one) == repr(other))
