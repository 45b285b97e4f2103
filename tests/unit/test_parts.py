"""The parts that a Spark task compares: whole keys, unless a key is too large for a task."""

import random

import pyarrow as pa
import pytest

from deltaproduce.engines.spark.kernels.in_tasks import parts

KEY = ["k", "t"]


def batches(chance: random.Random, keys: int, most: int, rows: int) -> list[pa.Table]:
    """Rows of some keys, in order, in batches of so many."""
    found = [
        (None if key == 0 else key, "t" * (key % 3), number)
        for key in range(keys)
        for number in range(chance.choice((1, 2, most)))
    ]
    whole = pa.table(
        [pa.array(column) for column in zip(*found, strict=True)], names=[*KEY, "number"]
    )
    return [whole.slice(first, rows) for first in range(0, len(whole), rows)]


@pytest.mark.parametrize("part_bytes", [1, 2_000, 20_000, 1 << 30])
@pytest.mark.parametrize("rows", [1, 7, 100])
def test_a_part_has_all_rows_of_its_keys_or_is_of_one_that_no_part_has_whole(
    part_bytes: int, rows: int
) -> None:
    for seed in range(20):
        given = batches(random.Random(seed), keys=9, most=60, rows=rows)
        found = [*parts(iter(given), KEY, part_bytes)]
        assert pa.concat_tables(part for part, _ in found).equals(pa.concat_tables(given))
        whole = [keys_of(part) for part, is_whole in found if is_whole]
        assert sum(map(len, whole)) == len(set().union(*whole))
        large = [keys_of(part) for part, is_whole in found if not is_whole]
        assert all(len(keys) == 1 for keys in large)
        assert not set().union(*large) & set().union(*whole)
        if part_bytes == 1 << 30:
            assert not large
            assert len(found) == 1


def test_no_rows_are_no_parts() -> None:
    empty = pa.table({"k": pa.array([], pa.int32()), "t": pa.array([], pa.string())})
    assert not [*parts(iter([]), KEY, 10)]
    assert not [*parts(iter([empty]), KEY, 10)]


def keys_of(part: pa.Table) -> set[tuple[object, ...]]:
    return {tuple(row[name] for name in KEY) for row in part.to_pylist()}
