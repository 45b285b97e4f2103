"""Values as Python objects: dates and times that Python cannot hold are text, at any depth."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deltaproduce.types.atoms import Misfit
from deltaproduce.types.columns import row_schema
from deltaproduce.types.python_values import (
    python_keys,
    python_rows,
    python_tuples,
    python_value,
    python_values,
)
from deltaproduce.types.row_readers import UnreadableError, row_reader
from deltaproduce.types.row_writers import rows_writer

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAYS = (date.min.toordinal() - EPOCH.toordinal(), date.max.toordinal() - EPOCH.toordinal())
MICROS = [days * 86_400_000_000 for days in (DAYS[0], DAYS[1] + 1)]


def days(numbers):
    return pa.array(numbers, pa.int32()).cast(pa.date32())


def moments(numbers, zone="UTC"):
    return pa.array(numbers, pa.int64()).cast(pa.timestamp("us", zone))


def day(number):
    """The date, or the text that NumPy has for it, with a sign and four digits of the year."""
    if DAYS[0] <= number <= DAYS[1]:
        return date.fromordinal(EPOCH.toordinal() + number)
    year, _, rest = str(np.datetime64(number, "D")).lstrip("-").partition("-")
    sign = "-" if str(np.datetime64(number, "D"))[0] == "-" else "+"
    return f"{sign}{year:0>4}-{rest}"


@given(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=5))
@example([DAYS[0], DAYS[0] - 1, DAYS[1], DAYS[1] + 1, -(2**31), 2**31 - 1])
def test_each_day_is_a_date_or_its_text(numbers):
    wanted = [None if number is None else day(number) for number in numbers]
    assert python_values(days(numbers)) == wanted
    nested = pa.table({"l": pa.array([list(days(numbers))], pa.list_(pa.date32()))})
    assert python_rows(nested) == [{"l": wanted}]
    struct = pa.StructArray.from_arrays([days(numbers), days(numbers)], ["a", "b"])
    assert python_tuples(pa.table({"s": struct})) == [({"a": one, "b": one},) for one in wanted]


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=5, unique=True))
@example([MICROS[0], MICROS[0] - 1, MICROS[1] - 1, MICROS[1], -(2**63), 2**63 - 1])
def test_each_time_is_a_datetime_or_its_text(numbers):
    found = python_values(moments(numbers))
    for number, value in zip(numbers, found, strict=True):
        if number is None or MICROS[0] <= number < MICROS[1]:
            assert value == (None if number is None else EPOCH + timedelta(microseconds=number))
        else:
            days, rest = divmod(number, 86_400_000_000)
            time = (EPOCH + timedelta(microseconds=rest)).strftime("T%H:%M:%S.%f+00:00")
            assert value == day(days) + time
    assert len({*found}) == len(numbers)
    local = python_values(moments(numbers, None))
    assert [str(one)[:10] for one in local] == [str(one)[:10] for one in found]


def test_maps_and_dictionaries_are_values_too():
    far = days([DAYS[1] + 1, 0])
    as_map = pa.MapArray.from_arrays([0, 2], far, far)
    assert python_value(as_map[0]) == [
        ("+10000-01-01", "+10000-01-01"),
        (date(1970, 1, 1), date(1970, 1, 1)),
    ]
    assert python_values(far.dictionary_encode()) == ["+10000-01-01", date(1970, 1, 1)]
    assert python_tuples(pa.table({"a": [1]}).select([])) == [()]


def test_keys_are_as_functions_get_them_and_never_fail():
    key = row_schema("d date, n bigint", "v int", stage="s").key
    arrays = [days([DAYS[1] + 1, None, 3]), pa.array([1, 2, 3])]
    assert python_keys(key, UTC, arrays) == (
        ("+10000-01-01", 1),
        (None, 2),
        (date(1970, 1, 4), 3),
    )
    bare = row_schema("d date", "v int", stage="s").key
    assert python_keys(bare, UTC, arrays[:1]) == ("+10000-01-01", None, date(1970, 1, 4))


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamp_ntz"])
@pytest.mark.parametrize("end", [-1, 1])
def test_functions_get_no_such_value_and_the_error_names_its_column(kind, end):
    """Not even the least time of all, which NumPy takes for none."""
    array = {
        "date": days([2**31 - 1 if end > 0 else -(2**31)]),
        "timestamp": moments([2**63 - 1 if end > 0 else -(2**63)]),
        "timestamp_ntz": moments([2**63 - 1 if end > 0 else -(2**63)], None),
    }[kind]
    read = row_reader(
        row_schema("k int", f"`odd one.x` {kind}".replace(" one", ""), stage="s").value, UTC
    )
    with pytest.raises(UnreadableError, match=r"column 'odd\.x' has [+-]") as raised:
        list(read([array]))
    assert raised.value.column == "odd.x"


@pytest.mark.parametrize(
    ("kind", "values", "wrong"),
    [
        ("string", ["a", None, "b\ud800", "c", "\udfff"], "b\\ud800"),
        ("tinyint", [1, 2, 300, 400], "300"),
        ("decimal(3,1)", [Decimal("1.5"), Decimal("1.55"), Decimal("100.5")], "1.55"),
    ],
)
def test_a_wrong_value_is_named_and_not_the_first_of_its_column(kind, values, wrong):
    write = rows_writer(row_schema("k int", f"v {kind}", stage="s").value, UTC)
    with pytest.raises(Misfit) as raised:
        write(values)
    assert repr(wrong).strip("'").replace("\\\\", "\\") in str(raised.value).partition(" does")[0]
