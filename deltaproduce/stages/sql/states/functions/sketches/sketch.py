"""Sketches of the Apache DataSketches library, as measures.

Spark uses the same library, in Java: each reads the other's bytes, and both turn values into items
the same way. So Spark may make a state that the driver merges. The invariant: every stored state is
a result of `Sketch.merge`, wherever its parts were made.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
from typing_extensions import override

from deltaproduce.engines.local.arrays import Marks, Numbers
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.stages.sql.states.functions.encodings import decoded, encoded, encoded_type
from deltaproduce.stages.sql.states.measures import Measure
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.data_types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    LongType,
    TimestampType,
)
from deltaproduce.types.pandas_on_demand import in_numpy

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression

Items: TypeAlias = Sequence[int | str]


@dataclass(frozen=True, slots=True)
class Sketch(Measure):
    """A sketch of the values of a group, without null.

    Attributes:
        of: the type of the values.
    """

    of: DataType

    @property
    @override
    def data_type(self) -> DataType:
        return BinaryType()

    @property
    @override
    def subtracts(self) -> bool:
        return False

    @abstractmethod
    def items(self, values: pa.Array) -> Items:
        """Return values as a sketch takes them; none is null."""

    @abstractmethod
    def item_in_spark(self, value: Expression) -> Expression | None:
        """Return the same for a value in Spark, with null for null; None if Spark cannot do it."""

    @abstractmethod
    def sketched(self, items: Items) -> bytes:
        """Return the sketch of items."""

    @abstractmethod
    def sketched_in_spark(self, item: Expression) -> Expression:
        """Return the same as an aggregate expression, which skips nulls."""

    @abstractmethod
    def merge(self, states: Sequence[bytes]) -> bytes:
        """Return the union of sketches."""

    @abstractmethod
    def merge_in_spark(self, state: Expression) -> Expression:
        """Return the same as an aggregate expression."""

    @override
    def here(self, values: pa.Array | None, signs: Numbers, groups: Numbers, size: int) -> pa.Array:
        """Rows are only added."""
        assert values is not None
        del signs
        there = values.is_valid()
        parts = _by_group(values.filter(there), groups[in_numpy(there)], size)
        return pa.array((self.sketched(self.items(part)) for part in parts), pa.binary(), size=size)

    @override
    def in_spark(self, value: Expression | None, sign: Expression) -> Expression | None:
        """Rows are only added."""
        assert value is not None
        del sign
        item = self.item_in_spark(value)
        return None if item is None else self.sketched_in_spark(item)

    @override
    def added(self, states: pa.Array, groups: Numbers, size: int) -> pa.Array:
        parts = _by_group(states, groups, size)
        return pa.array((self.merge(part.to_pylist()) for part in parts), pa.binary(), size=size)

    @override
    def turned(self, states: pa.Array, turned: Marks) -> pa.Array:
        """No sign is ever flipped."""
        assert not turned.any()
        return states

    @override
    def added_in_spark(self, state: Expression, sign: Expression) -> Expression:
        """States are only added."""
        del sign
        return self.merge_in_spark(state)


def whole_numbers(values: pa.Array, data_type: DataType) -> pa.Array:
    """Encode values as whole numbers in their order, for the types that `encodings` encodes so."""
    numbers = encoded(values, data_type)
    return (numbers.cast(pa.int32()) if pa.types.is_date(numbers.type) else numbers).cast(
        pa.int64()
    )


def from_whole_numbers(numbers: pa.Array, data_type: DataType) -> pa.Array:
    """Decode the numbers of `whole_numbers` to values, in the type of `arrow_type`."""
    if isinstance(data_type, DateType):
        return numbers.cast(pa.int32()).cast(arrow_type(data_type))
    return decoded(numbers, data_type)


def whole_number_in_spark(value: Expression, data_type: DataType) -> Expression | None:
    """Encode a value in Spark as `whole_numbers` does; None if Spark has no expression for it."""
    match data_type:
        case IntegralType() | BooleanType():
            return value.cast("bigint")
        case DateType():
            return f.unix_date(value).cast("bigint")
        case TimestampType():
            return f.unix_micros(value)
        case DecimalType(scale=scale) if isinstance(encoded_type(data_type), LongType):
            return (value * f.lit(10**scale).cast(f"decimal({scale + 1}, 0)")).cast("bigint")
    return None


def _by_group(values: pa.Array, groups: Numbers, size: int) -> Iterator[pa.Array]:
    """Yield the values of each group."""
    order = np.argsort(groups, kind="stable")
    bounds = np.searchsorted(groups[order], np.arange(size + 1))
    in_order = values.take(pa.array(order))
    return (in_order.slice(begin, end - begin) for begin, end in pairwise(bounds.tolist()))
