"""Measures of many rows: what is added up in parts is what is added up at once."""

import math

import numpy as np
import pyarrow as pa
import pytest

from deltaproduce.stages.aggregates.exact.numbers import of_doubles
from deltaproduce.stages.aggregates.exact.rounding import nearest_doubles
from deltaproduce.stages.aggregates.exact.states import from_binary, to_binary
from deltaproduce.stages.aggregates.measures import ExactTotal

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
