"""Rows that a quick check accepts: each of them is written unchanged."""

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from itertools import product
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from deltaproduce.datasets.writing.rows import RowTaker
from deltaproduce.datasets.writing.sure import sure_of
from deltaproduce.types import data_types as t
from deltaproduce.types.columns import Column, Columns


class Number(IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()


class Moment(datetime):
    __slots__ = ()


EDGES = [
    sign * (1 << bits) + more for bits, sign, more in product((7, 15, 31, 63), (1, -1), (-1, 0))
]
NAIVE = datetime(2026, 1, 2, 3, 4, 5, 6)
VALUES = [
    *(
        None,
        True,
        0,
        *EDGES,
        Number.ONE,
        np.int64(1),
        1.5,
        math.nan,
        -0.0,
        np.float64(1),
        "",
        "a",
        "\0",
    ),
    *(
        "é",
        "字",
        "😀",
        "\ud83d",
        "a\udc00",
        Text("a"),
        b"a",
        bytearray(b"a"),
        Decimal("1.5"),
        [1],
        {},
    ),
    *(date.min, date.max, NAIVE, datetime.min, datetime.max, Moment(2026, 1, 2)),
    *(
        NAIVE.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
        datetime.min.replace(tzinfo=UTC),
    ),
    *(
        NAIVE.replace(tzinfo=timezone(timedelta(hours=1))),
        datetime.max.replace(tzinfo=ZoneInfo("Asia/Tokyo")),
    ),
]
SURE = {
    t.BooleanType(): True,
    t.ByteType(): -128,
    t.ShortType(): 32767,
    t.IntegerType(): -(1 << 31),
    t.LongType(): (1 << 63) - 1,
    t.DoubleType(): math.nan,
    t.StringType(): "字",
    t.BinaryType(): b"a",
    t.DateType(): date.max,
    t.TimestampType(): datetime.max.replace(tzinfo=UTC),
    t.TimestampNTZType(): datetime.min,
}
OTHERS = (t.FloatType(), t.DecimalType(3, 1), t.ArrayType(t.LongType()))


@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("data_type", [*SURE, *OTHERS], ids=str)
def test_what_is_sure_is_written_as_it_is(data_type: t.DataType, nullable: bool) -> None:
    columns = Columns((Column("n", t.LongType()), Column("v", data_type, nullable=nullable)))
    taker, sure = RowTaker(columns, "d", ZoneInfo("Europe/Berlin")), sure_of(columns)
    for value in VALUES:
        if sure((1, value)):
            (found,) = taker.of_rows([(1, value)]).to_pylist()
            told = repr(value).replace("datetime.timezone.utc", "zoneinfo.ZoneInfo(key='UTC')")
            assert repr(found["v"]) == told
            assert value is None or type(value) in {type(known) for known in SURE.values()}
    assert sure((1, None)) == nullable
    if data_type in SURE:
        assert sure((1, SURE[data_type]))
    assert not any(map(sure, ((), (1,), (1, None, None))))
