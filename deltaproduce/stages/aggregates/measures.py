"""Measures: what a stage keeps of each group, and changes by what comes and goes.

A measure is a state that adds up: that of some rows is the sum of theirs, and what goes is added
with the sign turned, where it `subtracts`; else rows only come. The invariant: equal groups have
equal states, bit for bit, however their rows came, or within an error that is stated; so a step and
a refresh store the same.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from datetime import tzinfo
from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as Expression
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType, DataType, DecimalType, LongType

from deltaproduce.engines.local.arrays import Marks, Numbers
from deltaproduce.stages.aggregates.exact.numbers import (
    ExactNumbers,
    concatenated,
    of_decimals,
    of_doubles,
    of_integers,
)
from deltaproduce.stages.aggregates.exact.states import from_binary, to_binary
from deltaproduce.stages.aggregates.exact.whole import as_decimals, squared, summed, whole_numbers
from deltaproduce.types.atoms import arrow_type

_DIGITS: Final = 38
TOTAL_DIGITS: Final = 28
"""Terms of so many digits are added up in 38 without overflow, up to 10**10 of them."""
_SQUARED: Final = 2
_PART_ROWS: Final = 1 << 16
"""So many rows are added up at once exactly, some hundred bytes each."""


class GroupError(ValueError):
    """What is kept of a group, or its value, cannot be made.

    Attributes:
        group: of which group; the first.
    """

    def __init__(self, message: str, group: int) -> None:
        super().__init__(message)
        self.group = group


@dataclass(frozen=True, slots=True)
class Measure(ABC):
    """A state that adds up.

    Attributes:
        argument: which of the stage's arguments it is of; None if it is of rows as such.
    """

    argument: int | None

    @property
    @abstractmethod
    def data_type(self) -> DataType:
        """What it is stored as; never null."""

    @property
    def subtracts(self) -> bool:
        """Whether states are taken away again; else a group that has lost a row is made again."""
        return True

    @property
    def arguments(self) -> tuple[int, ...]:
        """Which of the stage's arguments it is of, where rows are on the driver."""
        return () if self.argument is None else (self.argument,)

    @property
    def of_none(self) -> Measure:
        """The same without arguments: what the states of equal ones are of adds up."""
        return replace(self, argument=None)

    def on_clock(self, zone: tzinfo) -> Measure:
        """The same where moments are on this clock, if it calls functions of the user's."""
        del zone
        return self

    @abstractmethod
    def here(self, values: pa.Array | None, signs: Numbers, groups: Numbers, size: int) -> pa.Array:
        """The state of each of ``size`` groups, of rows on the driver; each group has some.

        Args:
            values: the argument's, one a row; a struct if there are several.
            signs: 1 for a row that has come, -1 for one that is gone.
            groups: of each row the number of its group.
        """

    def in_spark(self, value: Expression | None, sign: Expression) -> Expression | None:
        """The same for one group, as an aggregate expression; None if Spark has none for it."""
        del value, sign
        return None

    @abstractmethod
    def added(self, states: pa.Array, groups: Numbers, size: int) -> pa.Array:
        """The sum of the states of each group; each has some."""

    @abstractmethod
    def turned(self, states: pa.Array, turned: Marks) -> pa.Array:
        """The states, some of them with the sign turned."""

    def settled(self, states: pa.Array) -> pa.Array:
        """The sums of all states of groups that have rows, as they are stored."""
        return states

    def added_in_spark(self, state: Expression, sign: Expression) -> Expression | None:
        """The sum of one group's states with signs, as `in_spark`; None if Spark has none."""
        del state, sign
        return None


@dataclass(frozen=True, slots=True)
class _Count(Measure):
    """How many rows there are of some sort."""

    @property
    def data_type(self) -> DataType:
        """See `Measure.data_type`."""
        return LongType()

    @abstractmethod
    def counted(self, values: pa.Array) -> pa.Array:
        """Which values count."""

    def here(self, values: pa.Array | None, signs: Numbers, groups: Numbers, size: int) -> pa.Array:
        """See `Measure.here`."""
        if values is not None:
            signs = np.where(np.asarray(self.counted(values)), signs, 0)
        return pa.array(_sums(signs, groups, size))

    def added(self, states: pa.Array, groups: Numbers, size: int) -> pa.Array:
        """See `Measure.added`."""
        return pa.array(_sums(np.asarray(states), groups, size))

    def turned(self, states: pa.Array, turned: Marks) -> pa.Array:
        """See `Measure.turned`."""
        numbers = np.asarray(states)
        return pa.array(np.where(turned, -numbers, numbers))


@dataclass(frozen=True, slots=True)
class _SparkCount(_Count):
    """One that Spark counts too."""

    @abstractmethod
    def counted_in_spark(self, value: Expression) -> Expression:
        """Which values count."""

    def in_spark(self, value: Expression | None, sign: Expression) -> Expression:
        """See `Measure.in_spark`."""
        counted = sign if value is None else f.when(self.counted_in_spark(value), sign)
        return f.coalesce(f.sum(counted), f.lit(0)).cast(LongType())

    def added_in_spark(self, state: Expression, sign: Expression) -> Expression:
        """See `Measure.added_in_spark`."""
        return f.sum(state * sign).cast(LongType())


@dataclass(frozen=True, slots=True)
class Rows(_SparkCount):
    """How many rows there are."""

    argument: None = None

    def counted(self, values: pa.Array) -> pa.Array:
        """See `_Count.counted`: every one."""
        return pa.repeat(True, len(values))

    def counted_in_spark(self, value: Expression) -> Expression:
        """See `_SparkCount.counted_in_spark`: every one."""
        del value
        return f.lit(True)


@dataclass(frozen=True, slots=True)
class Values(_SparkCount):
    """How many values are not null."""

    def counted(self, values: pa.Array) -> pa.Array:
        """See `_Count.counted`."""
        return pc.is_valid(values)

    def counted_in_spark(self, value: Expression) -> Expression:
        """See `_SparkCount.counted_in_spark`."""
        return value.isNotNull()


@dataclass(frozen=True, slots=True)
class Trues(_SparkCount):
    """How many values are true."""

    def counted(self, values: pa.Array) -> pa.Array:
        """See `_Count.counted`."""
        return pc.fill_null(values, fill_value=False)

    def counted_in_spark(self, value: Expression) -> Expression:
        """See `_SparkCount.counted_in_spark`."""
        return value


@dataclass(frozen=True, slots=True)
class Beyond(_Count):
    """How many values of a float or double are one that is no number, or an infinite one.

    Attributes:
        which: "nan", "inf" or "-inf".
    """

    which: str

    def counted(self, values: pa.Array) -> pa.Array:
        """See `_Count.counted`."""
        number = float(self.which)
        same = pc.is_nan(values) if math.isnan(number) else pc.equal(values, number)
        return pc.fill_null(same, fill_value=False)


@dataclass(frozen=True, slots=True)
class Total(Measure):
    """The sum of whole numbers or decimals, or of their squares, in as many digits as there are.

    Attributes:
        scale: how many digits are behind the point.
        power: 2 for squares. Terms have `TOTAL_DIGITS` at most.
    """

    scale: int = 0
    power: int = 1

    @property
    def data_type(self) -> DataType:
        """See `Measure.data_type`."""
        return DecimalType(_DIGITS, self.power * self.scale)

    @property
    def _of_values(self) -> DecimalType:
        """What holds all values; and what is multiplied without loss, where that is done."""
        return DecimalType(TOTAL_DIGITS // self.power, self.scale)

    def here(self, values: pa.Array | None, signs: Numbers, groups: Numbers, size: int) -> pa.Array:
        """See `Measure.here`."""
        assert values is not None
        wide, numbers = arrow_type(self.data_type), whole_numbers(values)
        if self.power == _SQUARED and numbers is not None:
            numbers = squared(numbers)
        sums = None if numbers is None else summed(numbers * signs, groups, size)
        if sums is not None:
            return as_decimals(sums, wide)
        terms = values.cast(arrow_type(self._of_values))
        if self.power == _SQUARED:
            terms = pc.multiply(terms, terms)
        terms = pc.fill_null(terms.cast(wide), pa.scalar(Decimal(0), wide))
        return self.added(self.turned(terms, signs < 0), groups, size)

    def in_spark(self, value: Expression | None, sign: Expression) -> Expression:
        """See `Measure.in_spark`."""
        assert value is not None
        term = value.cast(self._of_values)
        if self.power == _SQUARED:
            term = term * term
        term = term.cast(self.data_type)
        signed = f.when(sign < 0, -term).otherwise(term)
        nothing = f.lit(0).cast(self.data_type)
        return f.coalesce(f.sum(signed), nothing).cast(self.data_type)

    def added(self, states: pa.Array, groups: Numbers, size: int) -> pa.Array:
        """See `Measure.added`."""
        numbers = whole_numbers(states)
        sums = None if numbers is None else summed(numbers, groups, size)
        if sums is not None:
            return as_decimals(sums, arrow_type(self.data_type))
        together = pa.table({"group": groups, "state": states})
        found = together.group_by("group", use_threads=False).aggregate([("state", "sum")])
        places = np.empty(size, np.int64)
        places[found.column("group").to_numpy()] = np.arange(size)
        return found.column("state_sum").combine_chunks().take(pa.array(places))

    def turned(self, states: pa.Array, turned: Marks) -> pa.Array:
        """See `Measure.turned`."""
        return pc.if_else(pa.array(turned), pc.negate(states), states)

    def added_in_spark(self, state: Expression, sign: Expression) -> None:
        """Spark rounds a decimal of more than 34 digits where it turns its sign."""
        del state, sign


@dataclass(frozen=True, slots=True)
class ExactTotal(Measure):
    """The sum of values or their squares, exactly: of doubles, or of decimals without their points.

    Values that are not finite are left out; they are `Beyond`. It is stored as `exact.states` says.

    Attributes:
        power: 1 for values, 2 for squares.
        scale: how many digits values have behind the point, if they are decimals.
    """

    power: int = 1
    scale: int = 0

    @property
    def data_type(self) -> DataType:
        """See `Measure.data_type`."""
        return BinaryType()

    def here(self, values: pa.Array | None, signs: Numbers, groups: Numbers, size: int) -> pa.Array:
        """See `Measure.here`: in parts, since a value is many times as long there as a double."""
        assert values is not None
        parts, their_groups = [], []
        for begin in range(0, len(values) or 1, _PART_ROWS):
            part = slice(begin, begin + _PART_ROWS)
            numbers = _exact(values.slice(begin, _PART_ROWS))
            if self.power == _SQUARED:
                numbers = numbers.times(numbers)
            found, places = np.unique(groups[part], return_inverse=True)
            parts.append(numbers.turned(signs[part] < 0).summed(places, len(found)))
            their_groups.append(found)
        return to_binary(concatenated(parts).summed(np.concatenate(their_groups), size))

    def added(self, states: pa.Array, groups: Numbers, size: int) -> pa.Array:
        """See `Measure.added`."""
        return to_binary(from_binary(states).summed(groups, size))

    def turned(self, states: pa.Array, turned: Marks) -> pa.Array:
        """See `Measure.turned`."""
        return to_binary(from_binary(states).turned(turned))


@dataclass(frozen=True, slots=True)
class Merged(Measure):
    """A measure of the rows that groups of a feeder have, from the states that it keeps of them.

    Attributes:
        argument: the feeder's states.
        measure: what they are of, without an argument.
    """

    measure: Measure

    @staticmethod
    def of(measure: Measure, argument: int) -> Merged:
        """What merges the states that a feeder keeps by a measure."""
        return Merged(argument, measure.measure if isinstance(measure, Merged) else measure.of_none)

    @property
    def data_type(self) -> DataType:
        """See `Measure.data_type`."""
        return self.measure.data_type

    @property
    def subtracts(self) -> bool:
        """See `Measure.subtracts`."""
        return self.measure.subtracts

    def on_clock(self, zone: tzinfo) -> Measure:
        """See `Measure.on_clock`."""
        return replace(self, measure=self.measure.on_clock(zone))

    def here(self, values: pa.Array | None, signs: Numbers, groups: Numbers, size: int) -> pa.Array:
        """See `Measure.here`."""
        assert values is not None
        return self.added(self.turned(values, signs < 0), groups, size)

    def in_spark(self, value: Expression | None, sign: Expression) -> Expression | None:
        """See `Measure.in_spark`."""
        assert value is not None
        return self.added_in_spark(value, sign)

    def added(self, states: pa.Array, groups: Numbers, size: int) -> pa.Array:
        """See `Measure.added`."""
        return self.measure.added(states, groups, size)

    def turned(self, states: pa.Array, turned: Marks) -> pa.Array:
        """See `Measure.turned`."""
        return self.measure.turned(states, turned)

    def settled(self, states: pa.Array) -> pa.Array:
        """See `Measure.settled`."""
        return self.measure.settled(states)

    def added_in_spark(self, state: Expression, sign: Expression) -> Expression | None:
        """See `Measure.added_in_spark`."""
        return self.measure.added_in_spark(state, sign)


def _exact(values: pa.Array) -> ExactNumbers:
    """Values as exact numbers: zero for a null, and for what is not finite."""
    if pa.types.is_floating(values.type):
        doubles = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        return of_doubles(np.where(np.isfinite(doubles), doubles, 0.0))
    if pa.types.is_integer(values.type):
        return of_integers(values.cast(pa.int64()).fill_null(0).to_numpy())
    return of_decimals(values.fill_null(pa.scalar(Decimal(0), values.type)))


def _sums(numbers: Numbers, groups: Numbers, size: int) -> Numbers:
    found = np.zeros(size, np.int64)
    np.add.at(found, groups, numbers)
    return found
