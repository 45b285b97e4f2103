"""Quotients of exact numbers as doubles and decimals: rounded once, to the nearest.

The quotient is computed digit by digit, for all numbers at once, as far as the result needs it; of
the rest only whether it is zero matters. The invariant: the result is the value nearest to the
exact one; on a tie the even one for a double, and the larger in size for a decimal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from deltaproduce.engines.local.arrays import Marks, Numbers
from deltaproduce.stages.sql.states.exact.numbers import (
    LIMB_BITS,
    ExactNumbers,
    concatenated,
    of_integers,
)

DIVISOR_BITS: Final = 47
"""The most bits of a divisor: a remainder and the next digit then fit 63 bits."""
_DIGIT_BITS: Final = 16
_DIGIT: Final = (1 << _DIGIT_BITS) - 1
_WORD: Final = (1 << 64) - 1
_DECIMAL_LIMBS: Final = 4
_WINDOW_DIGITS: Final = 5
"""This many digits, the first not zero, have the bits of a window."""
_WINDOW_BITS: Final = 63
_MANTISSA_BITS: Final = 53
_LEAST_EXPONENT: Final = -1074
"""The exponent of the smallest double."""


@dataclass(frozen=True, slots=True, eq=False)
class _Quotients:
    """Quotients as rows of digits.

    Attributes:
        digits: the most significant first.
        exponents: the exponent of each number's last digit, as a power of two.
        inexact: whether anything follows the last digit.
    """

    digits: Numbers
    exponents: Numbers
    inexact: Marks


def nearest_doubles(numbers: ExactNumbers, divisors: Sequence[Numbers] = ()) -> NDArray[np.float64]:
    """Return the doubles nearest to numbers, infinite if out of range; zero is 0.0.

    Args:
        divisors: each divides all numbers, row by row; above 0, and of `DIVISOR_BITS` at most.
    """
    bits = sum(int(each.max(initial=1)).bit_length() for each in divisors)
    digits = 1 + _WINDOW_DIGITS + -(-bits // _DIGIT_BITS)
    tops = numbers.lowest + numbers.lengths
    windows, exponents = _windows(_divided(numbers, divisors, tops, -(-digits // 2)))
    dropped = np.maximum(_LEAST_EXPONENT - exponents, _WINDOW_BITS - _MANTISSA_BITS)
    windows[dropped > _WINDOW_BITS] = 0
    shifts = np.minimum(dropped, _WINDOW_BITS)
    kept, rest = windows >> shifts, windows & ((1 << shifts) - 1)
    half = np.int64(1) << (shifts - 1)
    kept += (rest > half) | ((rest == half) & (kept & 1 == 1))
    with np.errstate(over="ignore"):
        sizes = np.ldexp(kept.astype(np.float64), (exponents + dropped).astype(np.int32))
    return np.where(numbers.negative & (kept > 0), -sizes, sizes)


def nearest_decimals(
    numbers: ExactNumbers, divisors: Numbers, data_type: pa.Decimal128Type
) -> pa.Decimal128Array:
    """Return the decimals nearest to divided whole numbers; null if the type does not hold one.

    Args:
        numbers: as `of_decimals` returns them, in units of the type's last digit.
        divisors: as for `nearest_doubles`, but one bit shorter.
    """
    terms = [numbers, numbers, of_integers(divisors).turned(numbers.negative)]
    raised = concatenated(terms).summed(np.tile(np.arange(len(numbers)), 3), len(numbers))
    limbs = max(_DECIMAL_LIMBS, int((raised.lowest + raised.lengths).max(initial=0)))
    tops = np.full(len(numbers), limbs)
    digits = _divided(raised, [2 * divisors], tops, limbs).digits.astype(np.uint64)
    words = np.zeros((len(numbers), 2), np.uint64)
    for n in range(_DECIMAL_LIMBS):
        words <<= np.uint64(_DIGIT_BITS)
        words |= digits[:, [n - 4, n - 8]]
    low, high = words.T
    most = 10**data_type.precision
    fits = (high < most >> 64) | ((high == most >> 64) & (low < most & _WORD))
    fits &= ~digits[:, : -2 * _DECIMAL_LIMBS].any(axis=1)
    turned = numbers.negative
    words[:, 0] = np.where(turned, ~low + np.uint64(1), low)
    words[:, 1] = np.where(turned, ~high + (words[:, 0] == 0), high)
    buffers = [pa.array(fits).buffers()[1], pa.py_buffer(words)]
    return pa.Array.from_buffers(data_type, len(numbers), buffers)


def _divided(
    numbers: ExactNumbers, divisors: Sequence[Numbers], tops: Numbers, limbs: int
) -> _Quotients:
    """Divide numbers by all divisors, to as many digits as ``limbs``.

    Args:
        tops: the place above the first limb that counts, in each number; no limb is above it.
    """
    digits = np.zeros((len(numbers), 2 * limbs), np.int64)
    for n in range(limbs):
        within = tops - 1 - n - numbers.lowest
        places = np.flatnonzero((within >= 0) & (within < numbers.lengths))
        limb = numbers.limbs[(numbers.ends[:-1] + within)[places]]
        digits[places, 2 * n], digits[places, 2 * n + 1] = limb >> _DIGIT_BITS, limb & _DIGIT
    inexact = numbers.lowest < tops - limbs  # the lowest limb is never zero
    for divisor in divisors:
        rest = np.zeros(len(numbers), np.int64)
        for n in range(2 * limbs):
            digits[:, n], rest = np.divmod((rest << _DIGIT_BITS) | digits[:, n], divisor)
        inexact |= rest > 0
    return _Quotients(digits, LIMB_BITS * (tops - limbs), inexact)


def _windows(quotients: _Quotients) -> tuple[Numbers, Numbers]:
    """Return the first bits of each quotient, from its first set bit, and the last one's exponent.

    The last bit is set, too, if any bit after it is.
    """
    digits = quotients.digits
    rows, width = np.arange(len(digits)), digits.shape[1]
    first = np.minimum((digits != 0).argmax(axis=1), width - _WINDOW_DIGITS)
    a, b, c, d, e = (digits[rows, first + n] for n in range(_WINDOW_DIGITS))
    bits = np.frexp(a.astype(np.float64))[1].astype(np.int64)
    last = (d << _DIGIT_BITS) | e
    room = _WINDOW_BITS - bits
    window = (a << room) | (b << (room - _DIGIT_BITS)) | (c << (room - 2 * _DIGIT_BITS))
    window |= last >> (bits + 1)
    behind = last & ((1 << (bits + 1)) - 1) != 0
    used = np.cumsum(digits != 0, axis=1)
    behind |= used[:, -1] > used[rows, first + _WINDOW_DIGITS - 1]
    window |= behind | quotients.inexact
    exponents = quotients.exponents + _DIGIT_BITS * (width - first - _WINDOW_DIGITS) + bits + 1
    return window, exponents
