"""The aggregates of `own_aggregates` over whole columns: each has the values of its twin."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def of_groups(groups: pa.Array, size: int, columns: Sequence[pa.Array], how: str) -> list[pa.Array]:
    """What there is of each group in each column: the sum, the least or the greatest."""
    names = [str(n) for n in range(len(columns))]
    numbers = pa.concat_arrays([groups, pa.array(range(size), pa.int64())])
    values = [pa.concat_arrays([column, pa.nulls(size, column.type)]) for column in columns]
    rows = pa.table([numbers, *values], ["group", *names])
    found = rows.group_by("group", use_threads=False).aggregate([(name, how) for name in names])
    places = pa.array(np.argsort(found.column("group").to_numpy()))
    return [found.column(f"{name}_{how}").combine_chunks().take(places) for name in names]


def summed(groups: pa.Array, size: int, states: pa.StructArray) -> pa.StructArray:
    """The sums of each group, by field."""
    sums = of_groups(groups, size, states.flatten(), "sum")
    of_type = [one.fill_null(pa.scalar(0, one.type)) for one in sums]
    return pa.StructArray.from_arrays(of_type, fields=list(states.type))


class Sums:
    """A struct of sums, from which sums are taken."""

    def merge(self, groups: pa.Array, size: int, states: pa.StructArray) -> pa.StructArray:
        return summed(groups, size, states)

    def subtract(self, a: pa.StructArray, b: pa.StructArray) -> pa.StructArray:
        turned = [pc.negate(one) for one in b.flatten()]
        both = pa.concat_arrays([a, pa.StructArray.from_arrays(turned, fields=list(b.type))])
        return summed(pa.array([*range(len(a))] * 2), len(a), both)


class SquaresOfColumns(Sums):
    """The sum of squares, null of nulls alone."""

    input_types = ("int",)
    state = "struct<n: bigint, total: decimal(38,0)>"
    type = "decimal(38,0)"

    def add(self, groups: pa.Array, size: int, numbers: pa.Array) -> pa.Array:
        wide = numbers.cast(pa.int64())
        squares = pc.multiply(wide, wide).cast(pa.decimal128(38, 0))
        parts = {"n": numbers.is_valid().cast(pa.int64()), "total": squares.fill_null(0)}
        return summed(groups, size, pa.StructArray.from_arrays([*parts.values()], [*parts]))

    def result(self, states: pa.StructArray) -> pa.Array:
        n, total = states.flatten()
        return pc.if_else(pc.greater(n, 0), total, pa.scalar(None, total.type))


class WeightedColumns(Sums):
    """How much of prices there is by weight, and how often one of the two is null."""

    input_types = ("int", "decimal(12,2)")
    state = "struct<total: decimal(38,2), nulls: bigint>"
    type = "struct<total: decimal(38,2), nulls: bigint>"

    def add(self, groups: pa.Array, size: int, weights: pa.Array, prices: pa.Array) -> pa.Array:
        nulls = pc.or_(weights.is_null(), prices.is_null())
        digits = pa.array(np.mod(weights.fill_null(0).to_numpy(), 10), pa.int64())
        products = pc.multiply(digits.cast(pa.decimal128(19, 0)), prices)
        total = pc.if_else(nulls, pa.scalar(None, products.type), products)
        parts = {"total": total.cast(pa.decimal128(38, 2)), "nulls": nulls.cast(pa.int64())}
        return summed(groups, size, pa.StructArray.from_arrays([*parts.values()], [*parts]))

    def result(self, states: pa.StructArray) -> pa.Array:
        return states


@dataclass(frozen=True)
class LeastOfColumns:
    """The least different texts, from which nothing can be taken."""

    size: int
    input_types = ("string",)
    state = "array<string>"
    type = "array<string>"

    def add(self, groups: pa.Array, size: int, texts: pa.Array) -> pa.Array:
        rows = pa.table([groups, texts], ["group", "text"]).drop_null()
        rows = rows.group_by(["group", "text"], use_threads=False).aggregate([])
        rows = rows.sort_by([("group", "ascending"), ("text", "ascending")])
        numbers = rows.column("group").to_numpy()
        first = np.searchsorted(numbers, numbers)
        rows = rows.filter(pa.array(np.arange(len(numbers)) - first < self.size))
        offsets = np.searchsorted(rows.column("group").to_numpy(), np.arange(size + 1))
        found = rows.column("text").combine_chunks()
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), found)

    def merge(self, groups: pa.Array, size: int, states: pa.ListArray) -> pa.Array:
        return self.add(groups.take(states.value_parent_indices()), size, states.flatten())

    def result(self, states: pa.Array) -> pa.Array:
        return states


class MomentsOfColumns:
    """The first moment and the last one; its state is null of nothing."""

    input_types = ("timestamp",)
    state = "struct<least: timestamp, most: timestamp>"
    type = "struct<first: timestamp, last: timestamp>"

    def add(self, groups: pa.Array, size: int, at: pa.Array) -> pa.Array:
        return self._between(groups, size, at, at, ["least", "most"])

    def merge(self, groups: pa.Array, size: int, states: pa.StructArray) -> pa.Array:
        return self._between(groups, size, *states.flatten(), ["least", "most"])

    def result(self, states: pa.StructArray) -> pa.Array:
        return self._structs(*states.flatten(), ["first", "last"])

    def _between(
        self, groups: pa.Array, size: int, least: pa.Array, most: pa.Array, names: list[str]
    ) -> Any:
        (first,) = of_groups(groups, size, [least], "min")
        (last,) = of_groups(groups, size, [most], "max")
        return self._structs(first, last, names)

    def _structs(self, first: pa.Array, last: pa.Array, names: list[str]) -> Any:
        return pa.StructArray.from_arrays([first, last], names, mask=first.is_null())
