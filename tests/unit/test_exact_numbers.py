"""Exact numbers, compared with Python's fractions: sums, products, states, rounding."""

import math
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deltaproduce.stages.sql.states.exact.numbers import (
    ExactNumbers,
    concatenated,
    doubles_summed,
    of_decimals,
    of_doubles,
    of_integers,
)
from deltaproduce.stages.sql.states.exact.rounding import nearest_decimals, nearest_doubles
from deltaproduce.stages.sql.states.exact.states import from_binary, to_binary

GROUPS = 4
TINY, LEAST, MOST = 5e-324, 2.0**-1022, 1.7976931348623157e308
DOUBLES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, TINY, -TINY, LEAST, MOST, -MOST, 1e308, -1e308, 1.0, 1e16, -1e16]),
    st.integers(-(2**60), 2**60).map(float),
)
DECIMALS = st.integers(-(10**38) + 1, 10**38 - 1)
INTEGERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, -(2**63), 2**63 - 1]))
DIVISORS = st.one_of(st.integers(1, 10), st.integers(1, 2**46), st.sampled_from([2**46, 10**13]))


def doubles(values: list[float]) -> ExactNumbers:
    return of_doubles(np.array(values, np.float64))


def signed(rows: list[tuple[float, int, bool]]) -> ExactNumbers:
    turned = np.array([is_gone for *_, is_gone in rows], bool)
    return doubles([value for value, *_ in rows]).turned(turned)


def decimals(values: list[int]) -> ExactNumbers:
    padded = pa.array([0, *map(Decimal, values), 0], pa.decimal128(38))
    return of_decimals(padded.slice(1, len(values)))


def all_of(numbers: ExactNumbers) -> list[Fraction]:
    return [numbers.exactly(row) for row in range(len(numbers))]


def assert_canonical(numbers: ExactNumbers) -> None:
    for row in range(len(numbers)):
        limbs = numbers.limbs[numbers.ends[row] : numbers.ends[row + 1]]
        if len(limbs):
            assert limbs[0] > 0
            assert limbs[-1] > 0
            assert ((limbs >= 0) & (limbs < 2**32)).all()
        else:
            assert (numbers.lowest[row], numbers.negative[row]) == (0, False)


def nearest(value: Fraction) -> float:
    """The double nearest to a fraction: Python's division of whole numbers is rounded once."""
    try:
        found = value.numerator / value.denominator
    except OverflowError:
        found = math.inf if value > 0 else -math.inf
    return found if found else 0.0


def same_bits(found: np.ndarray, expected: list[float]) -> None:
    assert found.tobytes() == np.array(expected, np.float64).tobytes()


ROWS = st.lists(st.tuples(DOUBLES, st.integers(0, GROUPS - 1), st.booleans()), max_size=30)


@given(ROWS)
@example([(2.0**32 - 1, 0, False)] * 3 + [(2.0**32 - 1, 1, True)] * 3 + [(2.0**64, 2, True)])
def test_sums_of_doubles_are_exact_and_rounded_once(rows):
    groups = np.array([group for _, group, _ in rows], np.int64)
    found = signed(rows).summed(groups, GROUPS)
    expected = [
        sum((Fraction(-v if t else v) for v, g, t in rows if g == group), Fraction(0))
        for group in range(GROUPS)
    ]
    assert_canonical(found)
    assert all_of(found) == expected
    same_bits(nearest_doubles(found), [nearest(value) for value in expected])


NEAR = st.lists(
    st.tuples(
        st.one_of(st.floats(2.0**-30, 2.0**90), st.floats(-(2.0**90), -1.0), st.just(0.0)),
        st.integers(0, GROUPS - 1),
        st.booleans(),
    ),
    max_size=30,
)


@given(st.one_of(ROWS, NEAR), st.integers(-900, 900))
@example([(2.0**32 - 1, 0, False)] * 3 + [(2.0**32 - 1, 1, True)] * 3 + [(2.0**64, 2, True)], 0)
@example([(TINY, 0, False), (3 * TINY, 1, True), (0.0, 2, False)], 0)
@example([(MOST, 0, True), (MOST, 0, True), (2.0**900, 1, False)], 0)
def test_doubles_with_near_places_are_summed_to_the_same(rows, exponent):
    with np.errstate(over="ignore"):
        values = np.ldexp(np.array([value for value, *_ in rows], np.float64), exponent)
    values = np.where(np.isfinite(values), values, 0.0)
    groups = np.array([group for _, group, _ in rows], np.int64)
    turned = np.array([is_gone for *_, is_gone in rows], bool)
    found = doubles_summed(values, np.where(turned, -1, 1), groups, GROUPS)
    sizes = np.abs(values[values != 0])
    near = not len(sizes) or sizes.max() / 2.0**120 < sizes.min()
    assert found is not None or not near
    if found is not None:
        assert_canonical(found)
        expected = of_doubles(values).turned(turned).summed(groups, GROUPS)
        assert to_binary(found) == to_binary(expected)


@given(ROWS, st.randoms(use_true_random=False))
def test_equal_sums_are_stored_alike_however_they_came_about(rows, chance):
    def stored(parts):
        states = []
        for part in parts:
            numbers = signed(part).summed(np.zeros(len(part), np.int64), 1)
            states.append(to_binary(numbers))
        together = from_binary(pa.concat_arrays(states))
        return to_binary(together.summed(np.zeros(len(states), np.int64), 1))

    extra = rows[::2]
    again = [*rows, *((v, g, not t) for v, g, t in extra), *extra]
    chance.shuffle(again)
    cut = chance.randrange(len(again) + 1)
    assert stored([rows]) == stored([again[:cut], again[cut:]])


@given(st.lists(DOUBLES, max_size=10), st.integers(0, 3))
def test_states_are_read_as_they_were_written(values, cut):
    numbers = doubles(values)
    assert_canonical(numbers)
    states = to_binary(numbers)
    assert [not state for state in states.to_pylist()] == [not value for value in values]
    found = from_binary(states.slice(cut))
    assert all_of(found) == [Fraction(value) for value in values[cut:]]
    assert to_binary(found) == states.slice(cut)


@given(st.lists(st.tuples(DOUBLES, DOUBLES), max_size=10))
def test_products_are_exact(pairs):
    some, others = (doubles([pair[n] for pair in pairs]) for n in (0, 1))
    found = some.times(others)
    assert_canonical(found)
    assert all_of(found) == [Fraction(a) * Fraction(b) for a, b in pairs]
    assert all_of(found.times(found)) == [value**2 for value in all_of(found)]


@given(st.lists(INTEGERS, max_size=10), st.lists(DECIMALS, max_size=10))
def test_integers_and_decimals_are_what_they_are(integers, others):
    found = concatenated([of_integers(np.array(integers, np.int64)), decimals(others)])
    assert_canonical(found)
    assert all_of(found) == [*integers, *others]
    total = found.summed(np.zeros(len(found), np.int64), 1)
    assert all_of(total) == [sum(integers) + sum(others)]


@given(st.lists(st.tuples(DOUBLES, DOUBLES, DIVISORS, DIVISORS, DIVISORS), min_size=1, max_size=8))
@example([(TINY, 1.0, 2, 1, 1), (3 * TINY, 1.0, 2, 1, 1), (5 * TINY, 1.0, 4, 1, 1)])
@example([(MOST, 2.0**1000, 1, 1, 1), (MOST, 1.0 + 2.0**-52, 1, 1, 1), (LEAST, LEAST, 1, 1, 1)])
@example([(2.0**53 + 2, 2.0**53, 2**46, 10**13, 3), (TINY, TINY, 2**46, 2**46, 2**46)])
def test_quotients_are_rounded_once(rows):
    numbers = doubles([row[0] for row in rows]).times(doubles([row[1] for row in rows]))
    divisors = [np.array([row[n] for row in rows], np.int64) for n in (2, 3, 4)]
    expected = [Fraction(a) * Fraction(b) / (m * n * o) for a, b, m, n, o in rows]
    same_bits(nearest_doubles(numbers, divisors), [nearest(value) for value in expected])


@given(st.integers(-1080, 970), st.integers(2**53, 2**54 - 1), st.sampled_from([-1, 0, 1]))
def test_of_two_doubles_as_near_the_even_one_is_taken(exponent, size, beside):
    """Of doubles side by side what is in the middle, and what is hardly beside it."""
    scale = 2.0 ** max(exponent, -1074)
    middle = of_integers(np.array([size])).times(doubles([scale]))
    tail = doubles([float(beside)]).times(doubles([TINY])).times(doubles([TINY]))
    total = concatenated([middle, tail]).summed(np.zeros(2, np.int64), 1)
    divisor = np.array([2 ** max(0, -1074 - exponent)])
    exact = (size * Fraction(scale) + beside * Fraction(TINY) ** 2) / int(divisor[0])
    for turned in (False, True):
        found = nearest_doubles(total.turned(np.array([turned])), [divisor])
        same_bits(found, [nearest(-exact if turned else exact)])


@pytest.mark.parametrize("divisor", [3, 10**13, 2**46 - 1, 2**46])
@pytest.mark.parametrize("divisors", range(5))
def test_the_least_that_is_behind_a_half_counts(divisor, divisors):
    """However far behind, in what the quotient's digits show or in what is left over."""
    sizes = [*range(2**53, 2**53 + 8)] * 3
    beside = np.repeat([-1, 0, 1], 8)
    columns = np.full(len(sizes), divisor)
    whole = of_integers(np.array(sizes))
    for _ in range(divisors):
        whole = whole.times(of_integers(columns))
    for tail in (doubles(beside * step) for step in (1.0, 2.0**-12, 2.0**-20, 2.0**-30, TINY)):
        rows = np.tile(np.arange(len(sizes)), 2)
        numbers = concatenated([whole, tail]).summed(rows, len(sizes))
        found = nearest_doubles(numbers, [columns] * divisors)
        exact = [value / divisor**divisors for value in all_of(numbers)]
        same_bits(found, [nearest(value) for value in exact])


@pytest.mark.parametrize("precision", [1, 19, 20, 38])
@given(rows=st.lists(st.tuples(DECIMALS, DECIMALS, st.integers(1, 2**46)), min_size=1, max_size=8))
@example(rows=[(15, 0, 10), (-15, 0, 10), (25, 0, 10), (-5, 0, 10), (4, 0, 10), (0, 0, 7)])
@example(rows=[(10**38 - 1, 0, 1), (-(10**38) + 1, -1, 1), (10**38 - 1, 10**38 - 1, 2)])
@example(rows=[(10**19, 0, 1), (10**19 - 1, 0, 1), (10**20, 0, 1), (99, 0, 10), (95, 0, 10)])
def test_decimals_are_rounded_half_up_and_null_where_they_do_not_fit(precision, rows):
    numbers = concatenated([decimals([row[n] for row in rows]) for n in (0, 1)])
    totals = numbers.summed(np.tile(np.arange(len(rows)), 2), len(rows))
    divisors = np.array([row[2] for row in rows], np.int64)
    found = nearest_decimals(totals, divisors, pa.decimal128(precision, 1))
    found.validate(full=True)
    exact = Context(prec=200)
    for (one, other, divisor), value in zip(rows, found.to_pylist(), strict=True):
        quotient = exact.divide(Decimal(one + other), Decimal(divisor))
        expected = quotient.quantize(Decimal(1), ROUND_HALF_UP, exact)
        fits = expected.copy_abs() < 10**precision
        assert value == (exact.scaleb(expected, -1) if fits else None)
