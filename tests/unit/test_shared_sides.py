"""Sides that are sorted once: rows with a key are where a search through all rows finds them."""

import numpy as np
import pyarrow as pa
import pytest

from deltaproduce.engines.local.kernels.shared_sides import SortedSide


@pytest.mark.parametrize("step", [1, 7, 1_000_003])
@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_rows_of_a_key_are_those_of_a_search(seed: int, width: int, step: int) -> None:
    """Also of keys that are less or greater than all, and where keys lie far apart."""
    chance = np.random.default_rng(seed)
    side = [chance.integers(-20, 20, 60 * (seed > 0)) * step for _ in range(width)]
    asked = [chance.integers(-30, 30, 200) * step + chance.integers(0, 2, 200) for _ in side]
    places = chance.permutation(200)[: len(side[0])]
    known = SortedSide.of([pa.array(column) for column in side], places)
    assert known is not None
    assert (known.keys is None) == (step <= 7 or seed == 0)
    ranges = known.ranges([pa.array(column) for column in asked])
    assert ranges is not None
    rows = list(zip(*side, strict=True))
    for key, start, count in zip(zip(*asked, strict=True), *ranges, strict=True):
        expected = [place for place, row in zip(places, rows, strict=True) if row == key]
        assert known.rows[start : start + count].tolist() == expected


def test_what_is_no_whole_number_is_not_sorted() -> None:
    texts, numbers = pa.array(["a", "b"]), pa.array([1, 2])
    assert SortedSide.of([texts], np.arange(2)) is None
    assert SortedSide.of([pa.array([-(1 << 62), 1 << 62])], np.arange(2)) is None
    known = SortedSide.of([numbers], np.arange(2))
    assert known is not None
    assert known.ranges([texts]) is None
