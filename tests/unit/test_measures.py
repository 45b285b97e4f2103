"""Measures of many rows: adding up parts gives the same as adding up everything at once."""

import math
from decimal import localcontext

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from deltaproduce.stages.sql.states.exact.numbers import of_doubles
from deltaproduce.stages.sql.states.exact.rounding import nearest_doubles
from deltaproduce.stages.sql.states.exact.states import from_binary, to_binary
from deltaproduce.stages.sql.states.measures import ExactTotal, Total

ROWS, GROUPS = 150_000, 7


@pytest.mark.parametrize("power", [1, 2])
def test_many_rows_are_added_up_in_parts(power):
    chance = np.random.default_rng(23)
    values = chance.normal(0, 1, ROWS) * 10.0 ** chance.integers(-20, 20, ROWS)
    groups, signs = chance.integers(0, GROUPS, ROWS), chance.choice([-1, 1], ROWS)
    states = ExactTotal(0, power).here(pa.array(values), signs, groups, GROUPS)
    numbers = of_doubles(values)
    terms = numbers if power == 1 else numbers.times(numbers)
    assert states == to_binary(terms.turned(signs < 0).summed(groups, GROUPS))
    if power == 1:
        expected = [math.fsum((signs * values)[groups == group]) for group in range(GROUPS)]
        assert nearest_doubles(from_binary(states)).tolist() == expected


def numbers_of(digits):
    """Whole numbers of up to so many digits, and those at the ends."""
    most = 10**digits - 1
    return st.integers(-most, most) | st.sampled_from([0, most, -most, most // 2 + 1]) | st.none()


def unscaled_of(states):
    """Decimals without their points."""
    with localcontext(prec=60):
        return [int(one.scaleb(states.type.scale)) for one in states.to_pylist()]


SORTS = {
    "bigint": (pa.int64(), 0, st.integers(-(2**63), 2**63 - 1) | st.sampled_from([2**63 - 1])),
    "int": (pa.int32(), 0, st.integers(-(2**31), 2**31 - 1)),
    "short decimal": (pa.decimal128(14, 2), 2, numbers_of(14)),
    "fraction": (pa.decimal128(2, 2), 2, numbers_of(2)),
    "long decimal": (pa.decimal128(28, 3), 3, numbers_of(28)),
}


@given(st.sampled_from([*SORTS]), st.sampled_from([1, 2]), st.data())
def test_totals_are_exact_whether_or_not_they_fit_in_64_bits(sort, power, data):
    """Of what came and went, and of states: the sums of Python's whole numbers."""
    data_type, scale, values = SORTS[sort]
    assume(
        power == 1 or sort in ("int", "short decimal", "fraction")
    )  # of others, squares are no totals
    rows = data.draw(st.lists(st.tuples(values | st.none(), st.sampled_from([-1, 1]))))
    groups = np.array([n % 3 for n in range(len(rows))], np.int64)
    size, of_each = min(len(rows), 3), [0, 0, 0]
    for group, (value, sign) in zip(groups, rows, strict=True):
        of_each[group] += sign * (value or 0) ** power
    total = Total(0, scale, power)
    unscaled = [value for value, _ in rows]
    column = pa.array(unscaled, pa.decimal128(38, 0)) if scale else pa.array(unscaled, data_type)
    if scale:
        column = pa.Array.from_buffers(data_type, len(rows), column.buffers())
    padded = pa.concat_arrays([column[:0], column, column]).slice(len(rows))
    signs = np.array([sign for _, sign in rows], np.int64)
    states = total.here(padded, signs, groups, size)
    expected = of_each[:size]
    assert unscaled_of(states) == expected
    twice = pa.concat_arrays([states, states])
    again = total.added(twice, np.array([*range(size)] * 2, np.int64), size)
    assert unscaled_of(again) == [2 * one for one in expected]
    assert again.type == states.type == pa.decimal128(38, power * scale)
