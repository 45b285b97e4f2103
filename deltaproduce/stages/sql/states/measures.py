"""Measures: the states that a stage keeps of each group, and updates by added and removed rows.

A measure is a state that adds up: the state of a set of rows is the sum of theirs. A removed row is
added with its sign flipped, if the measure `subtracts`; otherwise rows are only added. The
invariant: equal groups have equal states, bit for bit, whatever the order of their rows, or within
a stated error; so an update and a refresh store the same.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from datetime import tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from typing_extensions import override

from deltaproduce.engines.local.arrays import Marks, Numbers, decimals, whole_numbers
from deltaproduce.engines.spark.data_types import in_spark
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.stages.sql.states.exact.numbers import (
    ExactNumbers,
    concatenated,
    doubles_summed,
    of_decimals,
    of_doubles,
    of_integers,
)
from deltaproduce.stages.sql.states.exact.states import from_binary, to_binary
from deltaproduce.stages.sql.states.exact.whole import squared, summed
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.data_types import BinaryType, DataType, DecimalType, LongType
from deltaproduce.types.pandas_on_demand import in_numpy

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression

_DIGITS: Final = 38
TOTAL_DIGITS: Final = 28
"""Terms of at most this many digits add up in 38 digits without overflow, up to 10**10 terms."""
SQUARED: Final = 2
_PART_ROWS: Final = 1 << 16
"""The number of rows that are added up exactly at once, about a hundred bytes each."""


class GroupError(ValueError):
    """An error in a group's state or value.

    Attributes:
        group: the first group at fault.
    """

    def __init__(self, message: str, group: int) -> None:
        super().__init__(message)
        self.group = group


@dataclass(frozen=True, slots=True)
class Measure(ABC):
    """A state that adds up.

    Attributes:
        argument: the position of its argument among the stage's; None if it measures rows as such.
    """

    argument: int | None

    @property
    @abstractmethod
    def data_type(self) -> DataType:
        """The type that it is stored as; never null."""

    @property
    def subtracts(self) -> bool:
        """Whether states can be subtracted; otherwise a group that loses a row is recomputed."""
        return True

    @property
    def arguments(self) -> tuple[int, ...]:
        """The positions of its arguments among the stage's, for rows on the driver."""
        return () if self.argument is None else (self.argument,)

    @property
    def of_none(self) -> Measure:
        """The same measure without arguments; if two are equal, their states add up."""
        return replace(self, argument=None)

    def on_clock(self, zone: tzinfo) -> Measure:
        """Return the same measure for timestamps on this clock, if it calls user functions."""
        del zone
        return self

    @abstractmethod
    def here(self, values: pa.Array | None, signs: Numbers, groups: Numbers, size: int) -> pa.Array:
        """Return the state of each of ``size`` groups, from rows on the driver; no group is empty.

        Args:
            values: the argument's values, one per row; structs if there are several arguments.
            signs: 1 for an added row, -1 for a removed one.
            groups: the group number of each row.
        """

    def in_spark(self, value: Expression | None, sign: Expression) -> Expression | None:
        """Return the same for one group as an aggregate expression; None if Spark has none."""
        del value, sign
        return None

    @abstractmethod
    def added(self, states: pa.Array, groups: Numbers, size: int) -> pa.Array:
        """Return the sum of the states of each group; no group is empty."""

    @abstractmethod
    def turned(self, states: pa.Array, turned: Marks) -> pa.Array:
        """Return the states, flipping the signs of the marked ones."""

    def settled(self, states: pa.Array) -> pa.Array:
        """Return the sums of all states of non-empty groups, as they are stored."""
        return states

    def added_in_spark(self, state: Expression, sign: Expression) -> Expression | None:
        """Return the sum of one group's signed states, as `in_spark`; None if Spark has none."""
        del state, sign
        return None


@dataclass(frozen=True, slots=True)
class Count(Measure):
    """The number of rows or values of a sort."""

    @property
    @override
    def data_type(self) -> DataType:
        return LongType()

    @abstractmethod
    def counted(self, values: pa.Array) -> pa.Array:
        """Return which values count."""

    @override
    def here(self, values: pa.Array | None, signs: Numbers, groups: Numbers, size: int) -> pa.Array:
        if values is not None:
            counted = in_numpy(self.counted(values))
            if not counted.all():
                signs, groups = signs[counted], groups[counted]
        return pa.array(_sums(signs, groups, size))

    @override
    def added(self, states: pa.Array, groups: Numbers, size: int) -> pa.Array:
        return pa.array(_sums(in_numpy(states), groups, size))

    @override
    def turned(self, states: pa.Array, turned: Marks) -> pa.Array:
        numbers = in_numpy(states)
        return pa.array(np.where(turned, -numbers, numbers))


@dataclass(frozen=True, slots=True)
class _SparkCount(Count):
    """A count that Spark computes, too."""

    @abstractmethod
    def counted_in_spark(self, value: Expression) -> Expression:
        """Return which values count."""

    @override
    def in_spark(self, value: Expression | None, sign: Expression) -> Expression:
        counted = sign if value is None else f.when(self.counted_in_spark(value), sign)
        return f.coalesce(f.sum(counted), f.lit(0)).cast("bigint")

    @override
    def added_in_spark(self, state: Expression, sign: Expression) -> Expression:
        return f.sum(state * sign).cast("bigint")


@dataclass(frozen=True, slots=True)
class Rows(_SparkCount):
    """The number of rows."""

    argument: None = None

    @override
    def counted(self, values: pa.Array) -> pa.Array:
        """All of them."""
        return pa.repeat(pa.scalar(True, pa.bool_()), len(values))

    @override
    def counted_in_spark(self, value: Expression) -> Expression:
        """All of them."""
        del value
        return f.lit(True)


@dataclass(frozen=True, slots=True)
class ValueCount(_SparkCount):
    """The number of values that are not null."""

    @override
    def counted(self, values: pa.Array) -> pa.Array:
        return pc.is_valid(values)

    @override
    def counted_in_spark(self, value: Expression) -> Expression:
        return value.isNotNull()


@dataclass(frozen=True, slots=True)
class Trues(_SparkCount):
    """The number of values that are true."""

    @override
    def counted(self, values: pa.Array) -> pa.Array:
        return pc.fill_null(values, fill_value=False)

    @override
    def counted_in_spark(self, value: Expression) -> Expression:
        return value


@dataclass(frozen=True, slots=True)
class Beyond(Count):
    """The number of float or double values that are NaN, or infinite.

    Attributes:
        which: "nan", "inf" or "-inf".
    """

    which: str

    @override
    def counted(self, values: pa.Array) -> pa.Array:
        number = float(self.which)
        same = (
            pc.is_nan(values)
            if math.isnan(number)
            else pc.equal(values, pa.scalar(number, values.type))
        )
        return pc.fill_null(same, fill_value=False)


@dataclass(frozen=True, slots=True)
class Total(Measure):
    """The sum of whole numbers or decimals, or of their squares, in 38 digits.

    Attributes:
        scale: the number of digits after the point.
        power: 2 for squares. Terms have `TOTAL_DIGITS` at most.
    """

    scale: int = 0
    power: int = 1

    @property
    @override
    def data_type(self) -> DataType:
        return DecimalType(_DIGITS, self.power * self.scale)

    @property
    def _of_values(self) -> DecimalType:
        """The type that holds all values, in which they are multiplied without loss."""
        return DecimalType(TOTAL_DIGITS // self.power, self.scale)

    @override
    def here(self, values: pa.Array | None, signs: Numbers, groups: Numbers, size: int) -> pa.Array:
        assert values is not None
        wide, numbers = arrow_type(self.data_type), whole_numbers(values)
        if self.power == SQUARED and numbers is not None:
            numbers = squared(numbers)
        sums = None if numbers is None else summed(numbers * signs, groups, size)
        if sums is not None:
            return decimals(sums, wide)
        terms = values.cast(arrow_type(self._of_values))
        if self.power == SQUARED:
            terms = pc.multiply(terms, terms)
        terms = pc.fill_null(terms.cast(wide), pa.scalar(Decimal(0), wide))
        return self.added(self.turned(terms, signs < 0), groups, size)

    @override
    def in_spark(self, value: Expression | None, sign: Expression) -> Expression:
        assert value is not None
        term = value.cast(in_spark(self._of_values))
        if self.power == SQUARED:
            term = term * term
        term = term.cast(in_spark(self.data_type))
        signed = f.when(sign < 0, -term).otherwise(term)
        nothing = f.lit(0).cast(in_spark(self.data_type))
        return f.coalesce(f.sum(signed), nothing).cast(in_spark(self.data_type))

    @override
    def added(self, states: pa.Array, groups: Numbers, size: int) -> pa.Array:
        numbers = whole_numbers(states)
        sums = None if numbers is None else summed(numbers, groups, size)
        if sums is not None:
            return decimals(sums, arrow_type(self.data_type))
        together = pa.table({"group": groups, "state": states})
        summed_groups = together.group_by("group", use_threads=False).aggregate([("state", "sum")])
        places = np.empty(size, np.int64)
        places[in_numpy(summed_groups.column("group"))] = np.arange(size)
        return summed_groups.column("state_sum").combine_chunks().take(pa.array(places))

    @override
    def turned(self, states: pa.Array, turned: Marks) -> pa.Array:
        return pc.if_else(pa.array(turned), pc.negate(states), states)

    def added_in_spark(self, state: Expression, sign: Expression) -> None:
        """Return None: Spark rounds a decimal of more than 34 digits when it flips the sign."""
        del state, sign


@dataclass(frozen=True, slots=True)
class ExactTotal(Measure):
    """The exact sum of values or their squares: of doubles, or of decimals without their points.

    Values that are not finite are left out; `Beyond` counts them. It is stored as in
    `exact.states`.

    Attributes:
        power: 1 for values, 2 for squares.
        scale: the number of digits after the point, if values are decimals.
    """

    power: int = 1
    scale: int = 0

    @property
    @override
    def data_type(self) -> DataType:
        return BinaryType()

    @override
    def here(self, values: pa.Array | None, signs: Numbers, groups: Numbers, size: int) -> pa.Array:
        """In parts, since a value is many times as large there as a double."""
        assert values is not None
        if pa.types.is_floating(values.type) and self.power != SQUARED:
            dense = doubles_summed(_finite(values), signs, groups, size)
            if dense is not None:
                return to_binary(dense)
        parts, their_groups = [], []
        for begin in range(0, len(values) or 1, _PART_ROWS):
            part = slice(begin, begin + _PART_ROWS)
            numbers = exact_values(values.slice(begin, _PART_ROWS))
            if self.power == SQUARED:
                numbers = numbers.times(numbers)
            of_part, places = _groups_in(groups[part], size)
            parts.append(numbers.turned(signs[part] < 0).summed(places, len(of_part)))
            their_groups.append(of_part)
        return to_binary(concatenated(parts).summed(np.concatenate(their_groups), size))

    @override
    def added(self, states: pa.Array, groups: Numbers, size: int) -> pa.Array:
        return to_binary(from_binary(states).summed(groups, size))

    @override
    def turned(self, states: pa.Array, turned: Marks) -> pa.Array:
        return to_binary(from_binary(states).turned(turned))


@dataclass(frozen=True, slots=True)
class MergedMeasure(Measure):
    """A measure of the rows in groups of a feeder, merged from the states that the feeder keeps.

    Attributes:
        argument: the feeder's states.
        measure: the feeder's measure, without an argument.
    """

    measure: Measure

    @staticmethod
    def of(measure: Measure, argument: int) -> MergedMeasure:
        """Return the measure that merges the states that a feeder keeps by a measure."""
        return MergedMeasure(
            argument, measure.measure if isinstance(measure, MergedMeasure) else measure.of_none
        )

    @property
    @override
    def data_type(self) -> DataType:
        return self.measure.data_type

    @property
    @override
    def subtracts(self) -> bool:
        return self.measure.subtracts

    @override
    def on_clock(self, zone: tzinfo) -> Measure:
        return replace(self, measure=self.measure.on_clock(zone))

    @override
    def here(self, values: pa.Array | None, signs: Numbers, groups: Numbers, size: int) -> pa.Array:
        assert values is not None
        return self.added(self.turned(values, signs < 0), groups, size)

    @override
    def in_spark(self, value: Expression | None, sign: Expression) -> Expression | None:
        assert value is not None
        return self.added_in_spark(value, sign)

    @override
    def added(self, states: pa.Array, groups: Numbers, size: int) -> pa.Array:
        return self.measure.added(states, groups, size)

    @override
    def turned(self, states: pa.Array, turned: Marks) -> pa.Array:
        return self.measure.turned(states, turned)

    @override
    def settled(self, states: pa.Array) -> pa.Array:
        return self.measure.settled(states)

    @override
    def added_in_spark(self, state: Expression, sign: Expression) -> Expression | None:
        return self.measure.added_in_spark(state, sign)


def _groups_in(groups: Numbers, size: int) -> tuple[Numbers, Numbers]:
    """Return some groups, with all of these rows', and the place of each row's among them.

    Args:
        groups: the group of each of some rows.
        size: the number of all groups.
    """
    if size <= len(groups):
        return np.arange(size), groups
    present, places = np.unique(groups, return_inverse=True)
    return present, places


def exact_values(values: pa.Array) -> ExactNumbers:
    """Convert values to exact numbers: zero for null, NaN and infinity."""
    if pa.types.is_floating(values.type):
        return of_doubles(_finite(values))
    if pa.types.is_integer(values.type):
        return of_integers(in_numpy(values.cast(pa.int64()).fill_null(0)))
    return of_decimals(values.fill_null(pa.scalar(Decimal(0), values.type)))


def _finite(values: pa.Array) -> NDArray[np.float64]:
    """Return floating-point values as doubles: zero for null, NaN and infinity."""
    doubles = in_numpy(values.cast(pa.float64()).fill_null(0.0))
    return np.where(np.isfinite(doubles), doubles, 0.0)


def _sums(numbers: Numbers, groups: Numbers, size: int) -> Numbers:
    sums = np.zeros(size, np.int64)
    np.add.at(sums, groups, numbers)
    return sums
