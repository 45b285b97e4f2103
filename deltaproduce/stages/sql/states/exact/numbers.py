"""Columns of whole numbers of any size, times powers of two, with exact sums and products.

A number is a sign and limbs of 32 bits; the limb at place p counts 2**(32 p). Places may be
negative, so every finite double is such a number, and so are sums and products of them. This is a
superaccumulator (Kulisch; Neal, "Fast exact summation using small and large superaccumulators",
2015) that holds only the limbs from the lowest to the highest in use.

The invariant: numbers are canonical. No number has a zero limb at either end; zero has no limbs and
is not negative. So equal numbers have equal limbs, however they were computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from deltaproduce.engines.local.arrays import Marks, Numbers, places_within

LIMB_BITS: Final = 32
_LIMB: Final = (1 << LIMB_BITS) - 1
_MANTISSA_BITS: Final = 53
_FAR: Final = 1 << 32
"""A place that no limb has."""
_LIMB_SHIFT: Final = LIMB_BITS.bit_length() - 1
"""A place has this power of two of bits."""
_LIMBS_OF_DOUBLE: Final = 3
_DENSE_LIMBS: Final = 8
"""Sums of doubles have limbs at the same places if that takes no more than these."""
_PART_ROWS: Final = 1 << 16
_ROOM: Final = 1
"""How many limbs a sum may have more than its terms, which are fewer than 2**31."""


@dataclass(frozen=True, slots=True, eq=False)
class ExactNumbers:
    """A column of numbers.

    Attributes:
        negative: whether each is negative.
        lowest: the place of each number's first limb; 0 for zero.
        ends: each number's limbs end before this index in all limbs, and begin at the end of the
            number before. The first entry is 0.
        limbs: the limbs of all numbers, least significant first within each, each below 2**32.
    """

    negative: Marks
    lowest: Numbers
    ends: Numbers
    limbs: Numbers

    def __len__(self) -> int:
        return len(self.negative)

    @property
    def lengths(self) -> Numbers:
        """The number of limbs of each."""
        return np.diff(self.ends)

    def turned(self, turned: Marks) -> ExactNumbers:
        """Return the numbers, flipping the signs of the marked ones."""
        return replace(self, negative=(self.negative ^ turned) & (self.lengths > 0))

    def summed(self, groups: Numbers, size: int) -> ExactNumbers:
        """Return the sum of each of ``size`` groups.

        Args:
            groups: the group of each number; no group has 2**31 numbers or more.
        """
        lengths = self.lengths
        signed = np.where(np.repeat(self.negative, lengths), -self.limbs, self.limbs)
        return accumulated([(np.repeat(groups, lengths), self._places(), signed)], size)

    def of_ranges(self, begin: Numbers, end: Numbers) -> ExactNumbers:
        """Return the sum of each range of numbers: a difference of two sums from the first one on.

        Args:
            begin: where each range begins.
            end: the place after its last number; there are fewer than 2**31 numbers.
        """
        there = self.lengths > 0
        lowest = int(self.lowest.min(initial=_FAR, where=there)) if there.any() else 0
        highest = int((self.lowest + self.lengths).max(initial=lowest, where=there))
        width = highest - lowest + _ROOM
        signed = np.where(np.repeat(self.negative, self.lengths), -self.limbs, self.limbs)
        owners = np.repeat(np.arange(len(self)), self.lengths)
        running = np.zeros((len(self) + 1, width), np.int64)
        running[owners + 1, self._places() - lowest] = signed
        np.cumsum(running, axis=0, out=running)
        limbs = (running[end] - running[begin]).reshape(-1)
        return _settled(limbs, np.arange(len(begin) + 1) * width, np.full(len(begin), lowest))

    def times(self, others: ExactNumbers) -> ExactNumbers:
        """Return the products with another column's numbers, row by row."""
        lengths = self.lengths
        places, other_places = self._places(), others._places()
        terms = []
        for n in range(int(lengths.max(initial=0))):
            longer = np.flatnonzero(lengths > n)
            limbs, owners = others._of(longer)
            mine = (self.ends[:-1] + n)[owners]
            products = self.limbs[mine].astype(np.uint64) * others.limbs[limbs].astype(np.uint64)
            at = places[mine] + other_places[limbs]
            terms.append((owners, at, (products & _LIMB).astype(np.int64)))
            terms.append((owners, at + 1, (products >> LIMB_BITS).astype(np.int64)))
        return accumulated(terms, len(self)).turned(self.negative ^ others.negative)

    def exactly(self, row: int) -> Fraction:
        """Return the number of a row as a Python Fraction."""
        limbs = self.limbs[self.ends[row] : self.ends[row + 1]].tolist()
        size = sum(limb << (LIMB_BITS * n) for n, limb in enumerate(limbs))
        number: Fraction = size * Fraction(2) ** (LIMB_BITS * int(self.lowest[row]))
        return -number if self.negative[row] else number

    def _places(self) -> Numbers:
        """Return the place of each limb."""
        first = self.lowest - self.ends[:-1]
        return np.repeat(first, self.lengths) + np.arange(len(self.limbs))

    def _of(self, places: Numbers) -> tuple[Numbers, Numbers]:
        """Return the limbs of selected numbers, and the number that each limb belongs to."""
        lengths = self.lengths[places]
        return places_within(self.ends[places], lengths), np.repeat(places, lengths)


def concatenated(columns: Sequence[ExactNumbers]) -> ExactNumbers:
    """Concatenate columns."""
    before = np.cumsum([0, *(len(column.limbs) for column in columns)])
    ends = [column.ends[1:] + start for column, start in zip(columns, before[:-1], strict=True)]
    return ExactNumbers(
        np.concatenate([column.negative for column in columns]),
        np.concatenate([column.lowest for column in columns]),
        np.concatenate([np.zeros(1, np.int64), *ends]),
        np.concatenate([column.limbs for column in columns]),
    )


def accumulated(terms: Sequence[tuple[Numbers, Numbers, Numbers]], size: int) -> ExactNumbers:
    """Return numbers, each the sum of its terms.

    Args:
        terms: for each term its number, place and amount, which is below 2**32 in absolute value.
        size: the number of numbers.
    """
    lowest, highest = np.full(size, _FAR), np.full(size, -_FAR)
    for owners, places, _ in terms:
        np.minimum.at(lowest, owners, places)
        np.maximum.at(highest, owners, places)
    lengths = np.maximum(highest - lowest + 1 + _ROOM, 0)
    ends = _ends(lengths)
    limbs = np.zeros(ends[-1], np.int64)
    for owners, places, amounts in terms:
        np.add.at(limbs, (ends[:-1] - lowest)[owners] + places, amounts)
    return _settled(limbs, ends, np.where(lengths > 0, lowest, 0))


def doubles_summed(
    values: NDArray[np.float64], signs: Numbers, groups: Numbers, size: int
) -> ExactNumbers | None:
    """Return the sum of each of ``size`` groups of doubles; None if their places are far apart.

    All groups have limbs at the same places, so no row becomes a number of its own: a fifth of the
    time of `summed`.

    Args:
        values: all of them finite.
        signs: 1 for a value to add, -1 for one to subtract.
        groups: the group of each; no group has 2**31 values or more.
    """
    sizes = np.abs(values)
    ends = sizes.min(initial=np.inf, where=sizes > 0), sizes.max(initial=0.0)
    if not ends[1]:
        ends = 1.0, 1.0
    (lowest, highest), _ = _limbs_of(np.array(ends))
    width = int(highest - lowest) + _LIMBS_OF_DOUBLE + _ROOM
    if width > _DENSE_LIMBS:
        return None
    limbs = np.zeros(size * width, np.int64)
    for begin in range(0, len(values), _PART_ROWS):
        part = slice(begin, begin + _PART_ROWS)
        places, amounts = _limbs_of(sizes[part])
        above = np.clip(places, lowest, highest) - lowest  # a zero is at any place
        at = groups[part] * width + above
        signed = np.where(values[part] < 0, -signs[part], signs[part])
        for n, amount in enumerate(amounts):
            np.add.at(limbs, at + n, amount * signed)
    return _settled(limbs, np.arange(size + 1) * width, np.full(size, lowest))


def of_doubles(values: NDArray[np.float64]) -> ExactNumbers:
    """Convert doubles, all of them finite."""
    places, limbs = _limbs_of(np.abs(values))
    return _of_rows(values < 0, places, np.stack(limbs, axis=1))


def _limbs_of(sizes: NDArray[np.float64]) -> tuple[Numbers, list[Numbers]]:
    """Return the place of the first limb of each double, and the limbs, column by column.

    Args:
        sizes: finite, and not negative.
    """
    fractions, exponents = np.frexp(sizes)
    mantissas = np.ldexp(fractions, _MANTISSA_BITS).astype(np.int64)
    exponents = exponents.astype(np.int64) - _MANTISSA_BITS
    shifts = exponents & (LIMB_BITS - 1)
    low = (mantissas & _LIMB) << shifts
    high = (low >> LIMB_BITS) + ((mantissas >> LIMB_BITS) << shifts)
    return exponents >> _LIMB_SHIFT, [low & _LIMB, high & _LIMB, high >> LIMB_BITS]


def of_integers(values: Numbers) -> ExactNumbers:
    """Convert whole numbers of 64 bits."""
    negative = values < 0
    sizes = np.where(negative, -values, values).view(np.uint64)  # -(2**63) is itself, and right
    limbs = np.stack([sizes & _LIMB, sizes >> LIMB_BITS], axis=1)
    return _of_rows(negative, np.zeros(len(values), np.int64), limbs.astype(np.int64))


def of_decimals(values: pa.Decimal128Array) -> ExactNumbers:
    """Convert decimals without null, dropping their points: 1.25 is 125."""
    halves = np.frombuffer(values.buffers()[1] or b"", "<u8")
    low, high = halves.reshape(-1, 2)[values.offset : values.offset + len(values)].T
    negative = high.view(np.int64) < 0 if len(values) else np.zeros(0, bool)
    low_size = np.where(negative, ~low + np.uint64(1), low)
    high_size = np.where(negative, ~high + (low == 0), high)
    limbs = [low_size & _LIMB, low_size >> LIMB_BITS, high_size & _LIMB, high_size >> LIMB_BITS]
    in_rows = np.stack(limbs, axis=1).astype(np.int64)
    return _of_rows(negative, np.zeros(len(values), np.int64), in_rows)


def _of_rows(negative: Marks, lowest: Numbers, limbs: Numbers) -> ExactNumbers:
    """Return numbers with equally many limbs each."""
    rows, width = limbs.shape
    ends = np.arange(rows + 1) * width
    return _without_zeros(ExactNumbers(negative, lowest, ends, limbs.reshape(-1)))


def _settled(limbs: Numbers, ends: Numbers, lowest: Numbers) -> ExactNumbers:
    """Return the numbers that have these limbs, not all of which are below 2**32 or positive."""
    _carry(limbs, ends)
    lengths = np.diff(ends)
    negative = np.zeros(len(lengths), bool)
    is_present = lengths > 0
    negative[is_present] = limbs[ends[1:][is_present] - 1] < 0
    limbs[np.repeat(negative, lengths)] *= -1
    _carry(limbs, ends)
    return _without_zeros(ExactNumbers(negative, lowest, ends, limbs))


def _ends(lengths: Numbers) -> Numbers:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])


def _carry(limbs: Numbers, ends: Numbers) -> None:
    """Carry so that all limbs but a number's last are below 2**32, and none is below 0."""
    is_last = np.zeros(len(limbs) + 1, bool)
    is_last[ends - 1] = True
    active = np.flatnonzero(~is_last[:-1])
    while len(active):
        carries = limbs[active] >> LIMB_BITS
        moved = carries != 0
        active, carries = active[moved], carries[moved]
        limbs[active] &= _LIMB
        active = active + 1
        limbs[active] += carries
        active = active[~is_last[active]]


def _without_zeros(numbers: ExactNumbers) -> ExactNumbers:
    """Trim zeros at both ends of the limbs."""
    owners = np.repeat(np.arange(len(numbers)), numbers.lengths)
    used = np.flatnonzero(numbers.limbs)
    first = np.zeros(len(numbers), np.int64)
    last = np.full(len(numbers), -1)
    first[owners[used][::-1]] = used[::-1]
    last[owners[used]] = used
    place = np.arange(len(owners))
    kept = (first[owners] <= place) & (place <= last[owners])
    lengths = last - first + 1
    lowest = np.where(lengths > 0, numbers.lowest + first - numbers.ends[:-1], 0)
    return ExactNumbers(numbers.negative, lowest, _ends(lengths), numbers.limbs[kept])
