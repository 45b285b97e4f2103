"""Multisets: the values of ordered functions, from the rows of sorted multisets, as whole columns.

The invariant: the answer for a group depends on its rows alone, whatever other groups are there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deltaproduce.engines.local.arrays import (
    Numbers,
    codes,
    factorize,
    firsts_of,
    key_ends,
    order_codes,
    sorted_by,
)
from deltaproduce.stages.sql.states.functions.encodings import decoded, encoded, encoded_type
from deltaproduce.stages.sql.states.functions.ordered import Ordered
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import LongType
from deltaproduce.types.pandas_on_demand import in_numpy

_GROUP: Final = "group"
_VALUE: Final = "value"
_COUNT: Final = "count"
_ANSWER: Final = "answer"


@dataclass(frozen=True)
class Groups:
    """Rows of a multiset, group by group, in the order of their values.

    Attributes:
        keys: the columns of the values, encoded as keys.
        counts: how often each row's group has the value.
        ends: for each group, the row after its last; no group is empty.
    """

    keys: tuple[pa.Array, ...]
    counts: Numbers
    ends: Numbers

    @staticmethod
    def of(
        rows: pa.Table, group: Sequence[Column], values: Sequence[Column], counted: str
    ) -> tuple[pa.Table, Groups]:
        """Return the keys of the groups of rows, and the groups.

        Args:
            group: the key columns that identify a group.
            values: the columns of the values.
            counted: the column with the counts.
        """
        rows = sorted_by(rows, order_codes(rows, (*group, *values))).combine_chunks()
        keys = rows.select([c.name for c in group])
        ends = key_ends(keys) if len(rows) else np.zeros(0, np.int64)
        arrays = tuple(rows.column(c.name).combine_chunks() for c in values)
        counts = in_numpy(rows.column(counted), np.int64)
        groups = Groups(arrays, counts, ends)
        return keys.take(pa.array(groups.starts)), groups

    @cached_property
    def starts(self) -> Numbers:
        """The first row of each group."""
        return np.append(np.zeros(min(len(self.ends), 1), np.int64), self.ends[:-1])

    @cached_property
    def of_row(self) -> Numbers:
        """The group of each row."""
        return np.repeat(np.arange(len(self.ends)), self.ends - self.starts)

    @cached_property
    def totals_until(self) -> Numbers:
        """For each row the number of values up to and including it, over all groups."""
        return np.cumsum(self.counts)


_Answer: TypeAlias = Callable[[Groups, Ordered], pa.Array]


def answers(
    rows: pa.Table,
    group: Sequence[Column],
    values: Sequence[Column],
    counted: str,
    functions: Mapping[str, Ordered],
) -> pa.Table:
    """Return the groups of a multiset's rows, and a column with each function's values.

    Args:
        rows: all rows that the functions read of a group, of each non-empty group.
        group: the key columns that identify a group.
        values: the columns of the values.
        counted: the column with the counts.
    """
    keys, groups = Groups.of(rows, group, values, counted)
    for name, function in functions.items():
        keys = keys.append_column(name, _ANSWERS[function.name](groups, function))
    return keys


def answers_of_values(
    values: Sequence[pa.Array], groups: Numbers, size: int, function: Ordered
) -> pa.Array:
    """Return a function's value for each of some groups, from the values of their rows.

    Args:
        values: the function's arguments in the order of its multiset, one value per row.
        groups: the group of each row.
        size: the number of groups.
    """
    names = [f"{_VALUE}{place}" for place in range(len(values))]
    pairs = zip(values, function.types, strict=True)
    columns = {_GROUP: pa.array(groups)}
    columns |= {name: encoded(one, kind) for name, (one, kind) in zip(names, pairs, strict=True)}
    counted = pa.table(columns).filter(pc.is_valid(columns[names[0]]))
    each = factorize(counted.columns) if len(counted) else np.zeros(0, np.int64)
    rows = counted.take(pa.array(firsts_of(each)))
    rows = rows.append_column(_COUNT, pa.array(np.bincount(each).astype(np.int64)))
    kinds = [
        Column(name, encoded_type(kind)) for name, kind in zip(names, function.types, strict=True)
    ]
    answered = answers(rows, [Column(_GROUP, LongType())], kinds, _COUNT, {_ANSWER: function})
    places = np.full(size, len(answered))
    places[in_numpy(answered.column(_GROUP), np.int64)] = np.arange(len(answered))
    pool = pa.concat_arrays([answered.column(_ANSWER).combine_chunks(), nothing(function)])
    return pool.take(pa.array(places))


def nothing(function: Ordered) -> pa.Array:
    """Return a function's value for a group without values, as a column of one row."""
    return pa.array([_OF_NOTHING.get(function.name)], arrow_type(function.data_type))


def _least(groups: Groups, function: Ordered) -> pa.Array:
    return _values(groups, function, groups.starts)


def _greatest(groups: Groups, function: Ordered) -> pa.Array:
    return _values(groups, function, groups.ends - 1)


def _by_least(groups: Groups, function: Ordered) -> pa.Array:
    return _values(groups, function, groups.starts, place=1)


def _by_greatest(groups: Groups, function: Ordered) -> pa.Array:
    """Return the first value in each group's rows with the greatest ``by``."""
    by = codes(pa.chunked_array([groups.keys[0]]))
    begins = np.append(True, by[1:] != by[:-1])
    begins[groups.starts] = True
    first = np.maximum.accumulate(np.where(begins, np.arange(len(by)), 0))
    return _values(groups, function, first[groups.ends - 1], place=1)


def _values(groups: Groups, function: Ordered, rows: Numbers, place: int = 0) -> pa.Array:
    return decoded(groups.keys[place].take(pa.array(rows)), function.types[place])


def _count(groups: Groups, function: Ordered) -> pa.Array:
    del function
    return pa.array(groups.ends - groups.starts)


def _top(groups: Groups, function: Ordered) -> pa.Array:
    """Return the last ``count`` values of each group, or all if it has fewer."""
    behind = groups.totals_until[groups.ends - 1][groups.of_row] - groups.totals_until
    taken = np.clip(function.count - behind, 0, groups.counts)
    backwards = (groups.starts + groups.ends - 1)[groups.of_row] - np.arange(len(taken))
    return _lists(groups, function, backwards, taken[backwards])


def _all(groups: Groups, function: Ordered) -> pa.Array:
    return _lists(groups, function, np.arange(len(groups.counts)), groups.counts)


def _lists(groups: Groups, function: Ordered, rows: Numbers, times: Numbers) -> pa.Array:
    """Return for each group the values of the given rows, each repeated."""
    values = _values(groups, function, np.repeat(rows, times))
    sizes = np.add.reduceat(times, groups.starts) if len(groups.starts) else times
    offsets = np.append(0, np.cumsum(sizes)).astype(np.int32)
    wanted = pa.list_(pa.field("element", values.type))
    return pa.ListArray.from_arrays(pa.array(offsets), values).cast(wanted)


def _text(groups: Groups, function: Ordered) -> pa.Array:
    (delimiter,) = function.parameters
    return pc.binary_join(_all(groups, function), delimiter)


def _mode(groups: Groups, function: Ordered) -> pa.Array:
    """Return the most frequent value; on a tie the first, which is the least."""
    most = np.maximum.reduceat(groups.counts, groups.starts) if len(groups.ends) else groups.counts
    places = np.flatnonzero(groups.counts == most[groups.of_row])
    _, firsts = np.unique(groups.of_row[places], return_index=True)
    return _values(groups, function, places[firsts])


def _median(groups: Groups, function: Ordered) -> pa.Array:
    return pa.array(_at(groups, function, 0.5))


def _percentiles(groups: Groups, function: Ordered) -> pa.Array:
    (wanted,) = function.parameters
    if not isinstance(wanted, tuple):
        assert isinstance(wanted, float)
        return pa.array(_at(groups, function, wanted))
    items = np.stack([_at(groups, function, p) for p in wanted], axis=1)
    offsets = np.arange(0, items.size + 1, len(wanted), dtype=np.int32)
    element = pa.list_(pa.field("element", pa.float64()))
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(items.ravel())).cast(element)


def _at(groups: Groups, function: Ordered, p: float) -> NDArray[np.float64]:
    """Return a percentile of each group, rounded as Spark's `Percentile` does.

    A percentile between two values is interpolated.
    """
    totals = groups.totals_until[groups.ends - 1]
    until = np.append(0, groups.totals_until)[groups.starts]  # the total of the groups before
    place = (totals - until - 1) * p
    lower, higher = np.floor(place), np.ceil(place)
    rows = [
        groups.totals_until.searchsorted(until + end.astype(np.int64), "right")
        for end in (lower, higher)
    ]
    low, high = (_doubles(_values(groups, function, row)) for row in rows)
    with np.errstate(invalid="ignore"):  # between infinities there is no value
        between = (higher - place) * low + (place - lower) * high
    return np.where(rows[0] == rows[1], low, between)


def _doubles(values: pa.Array) -> NDArray[np.float64]:
    if pa.types.is_decimal(values.type):  # each decimal is rounded once
        return np.array([float(value) for value in values.to_pylist()], np.float64)
    return in_numpy(values, np.float64)


_OF_NOTHING: Final = MappingProxyType[str, object](
    {"count_distinct": 0, "top_k": [], "array_sorted": []}
)
"""The values of functions without input values, if not null."""
_ANSWERS: Final = MappingProxyType[str, _Answer](
    {
        "min": _least,
        "max": _greatest,
        "min_by": _by_least,
        "max_by": _by_greatest,
        "count_distinct": _count,
        "top_k": _top,
        "mode": _mode,
        "median": _median,
        "percentile": _percentiles,
        "array_sorted": _all,
        "listagg": _text,
    }
)
