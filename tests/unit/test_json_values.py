"""Keys and exception arguments as JSON: they decode whole, and no other JSON decodes."""

import json
import math
from collections import OrderedDict, namedtuple
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaproduce.testing import strategies
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import key_columns, row_type
from deltaproduce.types.ddl import ATOMIC_TYPES
from deltaproduce.types.json.values import NotPlainError, read, written
from deltaproduce.types.row_readers import row_reader

KEY_TYPES = [
    *(name for name in ATOMIC_TYPES if name not in ("float", "real", "double")),
    *("decimal(38,18)", "decimal(5,0)"),
]
PARIS = ZoneInfo("Europe/Paris")


def travelled(value):
    """A value after its way through text."""
    return read(json.loads(json.dumps(written(value))))


def same(found, value):
    """Whether they are equal, and of the same types all the way down."""
    if isinstance(value, tuple | list):
        kinds = (
            getattr(type(found), "_fields", type(found)),
            getattr(type(value), "_fields", type(value)),
        )
        return kinds[0] == kinds[1] and len(found) == len(value) and all(map(same, found, value))
    if isinstance(value, float) and math.isnan(value):
        return isinstance(found, float) and math.isnan(found)
    return type(found) is type(value) and found == value and repr(found) == repr(value)


@given(st.lists(st.sampled_from(KEY_TYPES), min_size=1, max_size=4), st.data())
def test_keys_of_all_types_arrive_as_functions_get_them(types, data):
    columns = key_columns(", ".join(f"`k-{n}` {name}" for n, name in enumerate(types)))
    row = data.draw(strategies.keys(columns))
    arrays = [
        pa.array([value], arrow_type(column.data_type))
        for value, column in zip(row, columns, strict=True)
    ]
    (key,) = row_reader(columns, data.draw(st.sampled_from([UTC, PARIS])))(arrays)
    assert same(travelled(key), key)


ATOMS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.dates()
    | st.datetimes()
    | st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(seconds=-12345))]))
    | st.builds(lambda moment: moment.replace(fold=1), st.datetimes())
)
VALUES = st.recursive(
    ATOMS,
    lambda parts: (
        st.lists(parts, max_size=3)
        | st.tuples(parts, parts)
        | st.dictionaries(st.text() | st.integers(), parts, max_size=3)
        | st.builds(row_type(("a", "b-c", "class")), parts, parts, parts)
    ),
    max_leaves=8,
)


@given(VALUES)
def test_what_is_written_is_read_as_it_was(value):
    assert same(travelled(value), value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text() | st.integers(),
        lambda j: (
            st.lists(j, max_size=3)
            | st.dictionaries(st.text(max_size=4), j, max_size=3)
            | st.tuples(
                st.sampled_from(
                    ["float", "bytes", "decimal", "date", "datetime", "tuple", "list", "row"]
                ),
                j,
            ).map(list)
        ),
        max_leaves=10,
    )
)
def test_any_json_is_read_as_plain_values_or_not_at_all(found):
    try:
        value = read(found)
    except NotPlainError:
        return
    assert same(travelled(value), value)


MALFORMED = [
    *(1.5, {}, {"float": "1"}, [], ["float"], ["float", 1], ["float", "x"], ["date", "x"]),
    *(["bytes", "xyz"], ["decimal", "x"], ["datetime", "2020-01-01"], ["datetime", " "]),
    *(["tuple", "ab"], ["list", None], ["row", []], ["row", [["a"], []]], ["row", [["a"], "b"]]),
    *(["__import__", "os"], ["tuple", [["eval", "1"]]], ["float", "0x1p99999"]),
    *(["datetime", "2020-01-01 7"], ["int", "9" * 5_000]),
]


@pytest.mark.parametrize("found", MALFORMED, ids=lambda found: repr(found)[:40])
def test_other_json_is_no_value(found):
    with pytest.raises(NotPlainError):
        read(found)


def test_json_that_goes_too_deep_is_no_value():
    deep = []
    for _ in range(100_000):
        deep = ["list", [deep]]
    with pytest.raises(NotPlainError):
        read(deep)


class Colour(IntEnum):
    RED = 1


@pytest.mark.parametrize(
    "value",
    [
        *(Colour.RED, np.int64(1), np.float64(1), pd.Timestamp("2020-01-01"), object(), open),
        *(
            OrderedDict(a=1),
            {1},
            "\ud800",
            "\udc80",
            ("a", "\ud83d"),
            [lambda: 1],
            timedelta(1),
            1j,
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_values_have_no_json(value):
    with pytest.raises(NotPlainError):
        written(value)


def test_named_tuples_keep_their_names():
    Pair = namedtuple("Pair", "x y")
    found = travelled((Pair(1, Decimal("1.50")), date(2020, 1, 1)))
    assert (found[0].x, str(found[0].y)) == (1, "1.50")
    assert found[1] == date(2020, 1, 1)
    assert travelled(datetime(2020, 1, 1, tzinfo=PARIS)) == datetime(2020, 1, 1, tzinfo=PARIS)
