"""Partitions of a column's values: days, weeks, months, or ranges of whole numbers.

A partition has a number, in the order of its values; partitions of consecutive numbers are
adjacent. `Ranges` records which partitions are present, whatever their step: as days, or as the
numbers of one step; weeks and months follow from days. The invariant: every non-null value is in
exactly one partition, and a timestamp belongs to its day in one time zone: the store's, or that of
a place.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from deltaproduce.times.local_times import DAY_MICROS, instants_from, local_micros
from deltaproduce.times.zones import OF_UTC

Partition: TypeAlias = date | int
"""The name of a partition: its first value, a date for timestamps."""

Step: TypeAlias = Literal["day", "week", "month"] | int

Sort: TypeAlias = Literal["dates", "moments", "integers"]
"""The sort of a column's values."""

SORTS: Final[Mapping[str, Sort]] = MappingProxyType(
    {
        "date": "dates",
        "timestamp": "moments",
        "timestamp_ntz": "moments",
        **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "integers"),
    }
)
"""The sorts of the column types that have partitions."""

_EPOCH: Final = date(1970, 1, 1).toordinal()
_MONDAY: Final = 3
"""The first of January 1970 is a Thursday, this many days after a Monday."""
LEAST: Final = -(2**63)
LEAST_DAY: Final = -(2**31)
GREATEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Ranges:
    """A set of whole numbers.

    Attributes:
        pairs: the first and the last of each run of consecutive numbers, in order.
    """

    pairs: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def of(pairs: Iterable[tuple[int, int]]) -> Ranges:
        """Return the numbers of some ranges, which may overlap."""
        merged: list[tuple[int, int]] = []
        for first, last in sorted(pairs):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = merged[-1][0], max(merged[-1][1], last)
            else:
                merged.append((first, last))
        return Ranges(tuple(merged))

    @staticmethod
    def of_numbers(numbers: NDArray[np.int64]) -> Ranges:
        """Return the numbers of an array."""
        once = np.unique(numbers)
        breaks = np.flatnonzero(np.diff(once) != 1)
        firsts, lasts = np.append(0, breaks + 1), np.append(breaks, len(once) - 1)
        if not len(once):
            return Ranges()
        return Ranges(tuple(zip(once[firsts].tolist(), once[lasts].tolist(), strict=True)))

    def __bool__(self) -> bool:
        return bool(self.pairs)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        for first, last in self.pairs:
            yield from range(first, last + 1)

    @property
    def count(self) -> int:
        """How many numbers it has; ``len`` cannot return more than 63 bits."""
        return sum(last - first + 1 for first, last in self.pairs)

    @property
    def greatest(self) -> int:
        """The greatest number; there is at least one."""
        return self.pairs[-1][1]

    def union(self, other: Ranges) -> Ranges:
        """Return the numbers of both."""
        return Ranges.of((*self.pairs, *other.pairs))

    def within(self, other: Ranges) -> Ranges:
        """Return the numbers that are in both."""
        return self.difference(other.complement())

    def difference(self, other: Ranges) -> Ranges:
        """Return the numbers that are not in the other."""
        pairs: list[tuple[int, int]] = []
        gone = other.pairs
        ends = [last for _, last in gone]
        for first, last in self.pairs:
            at = bisect_left(ends, first)
            while at < len(gone) and gone[at][0] <= last:
                if first < gone[at][0]:
                    pairs.append((first, gone[at][0] - 1))
                first = gone[at][1] + 1
                at += 1
            if first <= last:
                pairs.append((first, last))
        return Ranges(tuple(pairs))

    def complement(self) -> Ranges:
        """Return the 64-bit numbers that are not in it."""
        return Ranges(((LEAST, GREATEST),)).difference(self)

    def mapped(self, ascending: Callable[[int], int]) -> Ranges:
        """Return the images of the numbers under a function that never skips a number."""
        return Ranges.of((ascending(first), ascending(last)) for first, last in self.pairs)


@dataclass(frozen=True, slots=True)
class Partitioning:
    """How a column's values are divided into partitions.

    Attributes:
        sort: the sort of the values.
        step: the size of a partition.
        zone: the time zone whose days divide timestamps; UTC for all other values.
        of_place: whether these are the days of a place, whatever the time zone of the store is.
    """

    sort: Sort
    step: Step
    zone: str = OF_UTC
    of_place: bool = False

    @property
    def of_dates(self) -> bool:
        """Whether partitions are named by dates."""
        return self.sort != "integers"

    @property
    def unit(self) -> str:
        """The unit in which present partitions are recorded: days, or the partitions themselves."""
        if self.of_place:
            return f"day in {self.zone}"
        return "day" if self.of_dates else str(self.step)

    @property
    def unit_size(self) -> int:
        """The number of values (see `values`) in a unit."""
        if self.sort == "dates":
            return 1
        return int(self.step) if isinstance(self.step, int) else DAY_MICROS

    def number(self, unit: int) -> int:
        """Return the partition that a unit is in."""
        match self.step:
            case "week":
                return (unit + _MONDAY) // 7
            case "month":
                return int(np.datetime64(unit, "D").astype("datetime64[M]").astype(np.int64))
        return unit

    def first_unit(self, number: int) -> int:
        """Return the first unit of a partition."""
        match self.step:
            case "week":
                return number * 7 - _MONDAY
            case "month":
                return int(np.datetime64(number, "M").astype("datetime64[D]").astype(np.int64))
        return number

    def values(self, partitions: Ranges) -> Ranges:
        """Return the values of some partitions, as numbers: days, microseconds, or themselves."""
        if self.zone != OF_UTC:
            days = ((self.first_unit(a), self.first_unit(b + 1)) for a, b in partitions.pairs)
            every = (_from(a, self.zone).difference(_from(b, self.zone)).pairs for a, b in days)
            return Ranges.of(pair for pairs in every for pair in pairs)
        size = self.unit_size
        ranges = (
            (
                max(self.first_unit(first) * size, LEAST),
                min(self.first_unit(last + 1) * size - 1, GREATEST),
            )
            for first, last in partitions.pairs
        )
        return Ranges(tuple((first, last) for first, last in ranges if first <= last))

    def values_before(self, unit: int) -> Ranges:
        """Return the values of all units before one, as numbers."""
        if self.zone != OF_UTC:
            return _from(unit, self.zone).complement()
        least = LEAST_DAY if self.sort == "dates" else LEAST
        size = self.unit_size if self.of_dates else 1
        return Ranges(((least, unit * size - 1),)) if least < unit * size else Ranges()

    def units(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the units of values, given as numbers."""
        return local_micros(values, self.zone) // self.unit_size

    def named(self, partitions: Ranges) -> Ranges:
        """Return the partitions that have a name.

        Python has no date before the year 1 or after 9999, and no value has more than 64 bits.
        """
        ends: tuple[Partition, ...] = (date.min, date.max) if self.of_dates else (LEAST, GREATEST)
        first, last = (self.number(self.unit_of(end)) for end in ends)
        pairs = ((max(one, first), min(other, last)) for one, other in partitions.pairs)
        return Ranges(tuple((one, other) for one, other in pairs if one <= other))

    def name(self, number: int) -> Partition:
        """Return the name of a partition that is `named`."""
        unit = self.first_unit(number)
        return (
            date.fromordinal(_EPOCH + unit) if self.of_dates else max(unit * self.unit_size, LEAST)
        )

    def unit_of(self, named: Partition) -> int:
        """Return the unit of a value: a partition's name, or any other of its values."""
        if isinstance(named, date):
            return day_number(named)
        return named // self.unit_size


def partitioning(
    data_type: str, step: Step | None, zone: str = OF_UTC, place: str | None = None
) -> Partitioning | None:
    """Return how values of a type are partitioned; by default by day, or one by one.

    Args:
        zone: the time zone of the days of timestamps.
        place: another time zone, whose days divide these timestamps; None if there is none.

    Returns:
        None if they cannot be, or not by that step, or have no days of a place.
    """
    sort = SORTS.get(data_type)
    if sort is None or (step is not None and isinstance(step, str) == (sort == "integers")):
        return None
    if data_type != "timestamp" and place is not None:
        return None
    clock = (place or zone) if data_type == "timestamp" else OF_UTC
    size = step or (1 if sort == "integers" else "day")
    return Partitioning(sort, size, clock, place is not None)


def _from(day: int, zone: str) -> Ranges:
    """Return the instants of a local day and all later ones."""
    return Ranges(instants_from(day, zone))


def day_number(day: date) -> int:
    """Return the number of days from the first of January 1970 to a date."""
    return day.toordinal() - _EPOCH


def day_of(number: int) -> date:
    """Invert `day_number`."""
    return date.fromordinal(_EPOCH + number)
