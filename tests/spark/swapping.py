"""A small pipeline whose stage swaps key and value of the source: every change moves keys."""

from collections.abc import Iterator

from deltaproduce import Pipeline

swap = Pipeline("swap")
pairs = swap.source("pairs", key="a bigint", value="b bigint")


@swap.producer(pairs, key="b bigint", value="a bigint")
def swapped(a: int, values: Iterator[int]) -> Iterator[tuple[int, int]]:
    for b in values:
        yield b, a
