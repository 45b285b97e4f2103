"""Sketches: merged parts equal one sketch of everything, and estimates keep their error bounds."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deltaproduce.stages.sql.states.functions.plans import Planned
from deltaproduce.stages.sql.states.functions.sketches.distinct import (
    DistinctSketch,
    approx_count_distinct,
)
from deltaproduce.stages.sql.states.functions.sketches.frequent import Frequent, approx_top_k
from deltaproduce.stages.sql.states.functions.sketches.quantiles import (
    EXACT_VALUES,
    QuantilesSketch,
    approx_percentile,
)
from deltaproduce.stages.sql.states.measures import Measure
from deltaproduce.types import data_types as t
from deltaproduce.types.atoms import arrow_type

LONG, STRING = t.LongType(), t.StringType()


def state_of(measure: Measure, values: Sequence[Any], of: t.DataType = LONG) -> pa.Array:
    """The state of one group."""
    array, size = pa.array(values, arrow_type(of)), len(values)
    return measure.here(array, np.ones(size, np.int64), np.zeros(size, np.int64), 1)


def in_parts(
    measure: Measure, values: Sequence[Any], chance: random.Random, of: t.DataType = LONG
) -> pa.Array:
    """The same of values that come in parts, of which some are merged before the others."""
    shuffled = chance.sample(values, len(values))
    ends = sorted(chance.choices(range(len(values) + 1), k=6))
    cut = [shuffled[a:b] for a, b in zip([0, *ends], [*ends, len(values)], strict=True)]
    states = pa.concat_arrays([state_of(measure, part, of) for part in cut])
    groups = np.array([0, 1, 0, 2, 1, 2, 2])
    return measure.added(measure.added(states, groups, 3), np.zeros(3, np.int64), 1)


def value(planned: Planned | None, state: pa.Array) -> Any:
    assert planned is not None
    (found,) = planned.finish([state]).to_pylist()
    return found


SIZES = (0, 1, 7, 8, 9, 383, 384, 385, 386, 2_000, 50_000)
"""A sketch is a list of coupons, then a set of them, then registers."""


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("lg_k", [4, 12])
def test_a_sketch_of_distinct_values_is_decided_by_their_set(size: int, lg_k: int) -> None:
    chance, measure = random.Random(size), DistinctSketch(0, LONG, lg_k)
    once = state_of(measure, range(size))
    for _ in range(3):
        values = [*range(size), *chance.choices(range(size), k=size // 3)] if size else []
        assert in_parts(measure, values, chance) == once
    assert measure.added(once, np.zeros(1, np.int64), 1) == once


@pytest.mark.parametrize(("size", "error"), [(10, 0), (200, 0), (1_000, 0.05), (100_000, 0.05)])
def test_a_number_of_distinct_values_keeps_to_its_error(size: int, error: float) -> None:
    """Three times the standard error; of few values it is exact."""
    for first in range(0, 10 * size, size):
        state = state_of(DistinctSketch(0, LONG, 12), range(first, first + size))
        found = value(approx_count_distinct(12)(0, LONG), state)
        assert abs(found - size) <= error * size


def test_texts_differ_from_numbers_only_by_type_and_an_empty_one_is_a_text() -> None:
    texts = state_of(DistinctSketch(0, STRING, 12), ["", "", "ü", None, "=", "=="], STRING)
    assert value(approx_count_distinct(12)(0, STRING), texts) == 4
    binary = t.BinaryType()
    bytes_ = state_of(DistinctSketch(0, binary, 12), [b"", b"\xff", b"\xff\x00", None], binary)
    assert value(approx_count_distinct(12)(0, binary), bytes_) == 3
    double = t.DoubleType()
    floats = [0.0, -0.0, math.nan, -math.nan, 1.5, None]
    doubles = state_of(DistinctSketch(0, double, 12), floats, double)
    assert value(approx_count_distinct(12)(0, double), doubles) == 3


@pytest.mark.parametrize("size", [0, 1, 2, 199, 200])
def test_quantiles_of_few_values_are_exact_and_their_sketch_is_decided_by_the_values(
    size: int,
) -> None:
    chance, measure = random.Random(size), QuantilesSketch(0, LONG)
    values = [chance.randrange(-50, 50) for _ in range(size)]
    once = state_of(measure, values)
    assert in_parts(measure, values, chance) == once
    shares = (0.0, 0.07, 0.25, 0.5, 1 / 3, 0.99, 1.0)
    expected = [sorted(values)[max(math.ceil(p * size), 1) - 1] for p in shares] if size else None
    assert value(approx_percentile(shares)(0, LONG), once) == expected
    if size:
        assert (
            value(approx_percentile(0.5)(0, LONG), once)
            == sorted(values)[max(math.ceil(0.5 * size), 1) - 1]
        )


@pytest.mark.parametrize("size", [EXACT_VALUES + 1, 1_000, 30_000])
def test_quantiles_of_many_values_keep_to_their_error(size: int) -> None:
    """Twice of what is stated, since 99 of 100 keep to that: ranks of a uniform sequence."""
    chance, measure = random.Random(size), QuantilesSketch(0, LONG)
    shares = (0.01, 0.25, 0.5, 0.75, 0.99)
    for state in (state_of(measure, range(size)), in_parts(measure, range(size), chance)):
        found = value(approx_percentile(shares)(0, LONG), state)
        for p, number in zip(shares, found, strict=True):
            assert abs((number + 1) / size - p) <= 0.027
        assert len(state[0].as_py()) < 8_000


def test_the_most_frequent_values_are_exact_while_all_are_tracked() -> None:
    chance, measure = random.Random(1), Frequent(0, STRING, 30)
    values = [chance.choice("abcdefghijklmnopqrstuvwxyzäöüß") for _ in range(2_000)]
    once = state_of(measure, values, STRING)
    assert in_parts(measure, values, chance, STRING) == once
    found = value(approx_top_k(7)(0, STRING), once)
    counts = sorted(Counter(values).items(), key=lambda each: (-each[1], each[0]))[:7]
    assert [(each["item"], each["count"]) for each in found] == counts


@pytest.mark.parametrize("seed", range(3))
def test_counts_of_the_most_frequent_values_keep_to_their_error(seed: int) -> None:
    """However parts are merged."""
    chance, tracked = random.Random(seed), 20
    measure = Frequent(0, LONG, tracked)
    values = [int(chance.paretovariate(0.7)) for _ in range(5_000)]
    exact = Counter(values)
    for state in (state_of(measure, values), in_parts(measure, values, chance)):
        counts = {each["item"]: each["count"] for each in state[0].as_py()}
        assert len(counts) <= tracked < len(exact)
        lacking = [exact[item] - counts.get(item, 0) for item in exact]
        assert 0 <= min(lacking) <= max(lacking) <= len(values) / (tracked + 1)
