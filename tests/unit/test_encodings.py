"""Encodings: values as keys of sorted multisets have Spark's order, and decode unchanged."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from deltaproduce.engines.local.arrays import order_codes
from deltaproduce.stages.sql.states.functions.encodings import decoded, encoded, encoded_type
from deltaproduce.types import data_types as t
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import Column, row_schema

FLOATS = [-math.inf, -2.5, -1.0, -1e-45, 0.0, 1e-45, 1.0, 2.5, math.inf, math.nan]
DAYS = [datetime(1, 1, 1), datetime(1969, 12, 31), datetime(2013, 1, 1, 0, 0, 0, 1)]
CENTS = (-(10**18) + 1, -1, 0, 1, 10**18 - 1)
IN_ORDER = {
    "double": (t.DoubleType(), [*FLOATS[:3], -5e-324, 0.0, 5e-324, 1e308, math.inf, math.nan]),
    "float": (t.FloatType(), FLOATS),
    "timestamp": (t.TimestampType(), [day.replace(tzinfo=UTC) for day in DAYS]),
    "timestamp_ntz": (t.TimestampNTZType(), DAYS),
    "small decimal": (t.DecimalType(18, 2), [Decimal(n).scaleb(-2) for n in CENTS]),
    "decimal of no whole digits": (t.DecimalType(4, 4), [Decimal("-0.9999"), Decimal("0.0001")]),
    "large decimal": (t.DecimalType(38, 2), [Decimal("-1e30"), Decimal("0.01"), Decimal("1e30")]),
    "date": (t.DateType(), [date(1969, 12, 31), date(2013, 1, 1)]),
    "text": (t.StringType(), ["", "a", "ü", "\uffff", "\U0001f600"]),
    "binary": (t.BinaryType(), [b"", b"\x00", b"a", b"\xff"]),
    "boolean": (t.BooleanType(), [False, True]),
}


@pytest.mark.parametrize("case", IN_ORDER)
def test_keys_are_in_the_order_of_their_values_and_give_them_back(case: str) -> None:
    data_type, values = IN_ORDER[case]
    array = pa.array([None, *values], arrow_type(data_type))
    keys = encoded(array, data_type)
    stored = encoded_type(data_type)
    assert keys.type == arrow_type(stored)
    assert keys.null_count == 1
    row_schema(t.StructType([t.StructField("v", stored)]), "n int", stage="s")  # it may be a key
    (codes,) = order_codes(pa.table({"v": keys}), [Column("v", stored)])
    assert (codes[1:] > codes[:-1]).all()
    back = decoded(keys, data_type)
    assert back.type == array.type
    assert str(back.to_pylist()) == str(array.to_pylist())
    nothing = pa.array([], array.type)
    assert decoded(encoded(nothing, data_type), data_type) == nothing


@pytest.mark.parametrize("data_type", [t.DoubleType(), t.FloatType()])
def test_there_is_one_zero_and_one_nan(data_type: t.DataType) -> None:
    other_nan = -math.nan
    array = pa.array([0.0, -0.0, math.nan, other_nan], arrow_type(data_type))
    zero, minus_zero, nan, minus_nan = encoded(array, data_type).to_pylist()
    assert zero == minus_zero
    assert nan == minus_nan
    assert str(decoded(pa.array([minus_zero]), data_type)[0]) == "0.0"
