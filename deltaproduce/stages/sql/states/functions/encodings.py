"""Encodings: values as keys of a sorted multiset, in the same order.

Look-ups select keys by ranges in Parquet's footers. So floats, which no key may be, are encoded as
whole numbers, and so are timestamps and decimals of up to 18 digits, for which footers hold no
plain ranges. The invariant: `encoded` keeps Spark's order and equality (NaN is the greatest, all
NaN are equal, -0.0 is 0.0), and `decoded` returns the value.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.local.arrays import codes, decimals, one_of_each
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.catalogue import WHOLE_DIGITS
from deltaproduce.types.data_types import (
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    TimestampNTZType,
    TimestampType,
)
from deltaproduce.types.pandas_on_demand import in_numpy

_MAGNITUDE: Final = np.int64(2**63 - 1)
"""All bits but the sign: negative numbers have them flipped, since they count downwards."""


def encoded_type(data_type: DataType) -> DataType:
    """Return the key type for values of a type."""
    return LongType() if _is_encoded(data_type) else data_type


def encoded(values: pa.Array, data_type: DataType) -> pa.Array:
    """Encode values as keys; null stays null."""
    match data_type:
        case FloatType() | DoubleType():
            bits = one_of_each(values.cast(pa.float64()).fill_null(0.0)).view(np.int64)
            numbers = np.where(bits < 0, bits ^ _MAGNITUDE, bits)
        case DecimalType() if _is_encoded(data_type):
            zero = pa.scalar(Decimal(0), values.type)
            numbers = codes(pa.chunked_array([values.fill_null(zero)]))
        case TimestampType() | TimestampNTZType():
            return values.cast(pa.int64())
        case _:
            return values
    return pa.array(numbers, mask=in_numpy(values.is_null()))


def decoded(keys: pa.Array, data_type: DataType) -> pa.Array:
    """Decode keys to values, in the type of `arrow_type`."""
    wanted = arrow_type(data_type)
    if not isinstance(data_type, FloatType | DoubleType | DecimalType) or not _is_encoded(
        data_type
    ):
        return keys.cast(wanted)
    numbers, nulls = in_numpy(keys.fill_null(0), np.int64), in_numpy(keys.is_null())
    if isinstance(data_type, DecimalType):
        return pc.if_else(pa.array(~nulls), decimals(numbers, wanted), pa.scalar(None, wanted))
    bits = np.where(numbers < 0, numbers ^ _MAGNITUDE, numbers)
    return pa.array(bits.view(np.float64), mask=nulls).cast(wanted)


def _is_encoded(data_type: DataType) -> bool:
    match data_type:
        case FloatType() | DoubleType() | TimestampType() | TimestampNTZType():
            return True
        case DecimalType(precision=precision):
            return precision <= WHOLE_DIGITS
    return False
