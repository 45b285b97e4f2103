"""Row groups: their statistics in the footers of a table's files, and which may have some values.

Pure. The invariant: a row group is skipped only if its own range says that it has none of the
wanted values; a row group without a range may have any.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from decimal import localcontext
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from deltaproduce.engines.local.arrays import Marks, Numbers, codes
from deltaproduce.engines.selections import Selection
from deltaproduce.model.partitions import SORTS, Ranges
from deltaproduce.storage.parquet.readings import ReadAmount
from deltaproduce.types.catalogue import atom, is_whole
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import DecimalType, StringType
from deltaproduce.types.pandas_on_demand import in_numpy

Values = NDArray[np.generic]


_DIGITS: Final = 60
_FILE_BITS: Final = 32
_BEYOND: Final = 1 << 63


class RowGroup(NamedTuple):
    """A row group: its file, and its number in the file."""

    file: int
    number: int


class EveryRange(NamedTuple):
    """The least and the greatest value of one column, for each of several row groups or files."""

    least: Values
    greatest: Values

    def reach(self, values: Ranges) -> Marks:
        """Mark the row groups or files that may have a number in the ranges."""
        firsts, lasts = np.array(values.pairs, np.int64).reshape(-1, 2).T
        at = lasts.searchsorted(self.least, "left")  # the first range that does not end before
        reaches = np.append(firsts, np.iinfo(np.int64).max)[at] <= self.greatest
        return np.asarray((at < len(lasts)) & reaches, bool)

    @property
    def follow(self) -> bool:
        """Whether ranges overlap only at their ends, as in a table that is sorted by the column."""
        order = np.argsort(self.least, kind="stable")
        ends, begins = self.greatest[order][:-1], self.least[order][1:]
        return bool(np.less_equal(ends, begins).all())


class _Range(NamedTuple):
    """The least and the greatest value of one row group."""

    least: Any
    greatest: Any


class _PastAll:
    """A value that is greater than all bytes."""

    def __lt__(self, other: object) -> bool:
        return False

    def __le__(self, other: object) -> bool:
        return self is other

    def __gt__(self, other: object) -> bool:
        return self is not other

    def __ge__(self, other: object) -> bool:
        return True


_NO_COLUMNS: Final[Mapping[str, pa.Scalar]] = MappingProxyType({})
_PAST_ALL: Final = _PastAll()
NO_VALUE: Final = _Range(np.iinfo(np.int64).max, np.iinfo(np.int64).min)
"""The range of numbers that are all null."""
NO_TEXT: Final = _Range(_PAST_ALL, b"")
"""The range of texts that are all null."""


class Reach(NamedTuple):
    """The keys that each row group may have.

    Attributes:
        in_order: the places of the keys in the order of the ranges.
        first: for each row group, the first key in that order that it may have.
        last: for each row group, the key after its last one.
    """

    in_order: Numbers
    first: Numbers
    last: Numbers


class Bound(NamedTuple):
    """One column of the wanted keys, and the ranges that bound it.

    Attributes:
        keys: each key's value, in the form and order of the ranges.
        ranges: the ranges of the table's row groups.
    """

    keys: Values
    ranges: EveryRange


class FileFooter:
    """The statistics of a file's row groups in its footer, without empty row groups.

    Args:
        values: the values that all rows share in columns that the file lacks.
    """

    def __init__(
        self, said: pq.FileMetaData, values: Mapping[str, pa.Scalar] = _NO_COLUMNS
    ) -> None:
        self.said = said
        self.values = values
        counts = {group: said.row_group(group).num_rows for group in range(said.num_row_groups)}
        self._begins = np.concatenate(
            [np.zeros(1, np.int64), np.cumsum(list(counts.values()), dtype=np.int64)]
        )
        self.numbers: Numbers = np.array([n for n, rows in counts.items() if rows], np.int64)
        self.rows: Numbers = np.array([rows for rows in counts.values() if rows], np.int64)
        self._ranges: dict[str, EveryRange | None] = {}
        self._amounts: dict[tuple[int, frozenset[str] | None], ReadAmount] = {}

    def row_numbers(self, groups: Sequence[int]) -> Numbers:
        """Return the number in the file of each row of some row groups."""
        begins = self._begins
        return np.concatenate([np.arange(begins[n], begins[n + 1]) for n in groups])

    def located(self, groups: Sequence[int], places: Numbers) -> tuple[Numbers, Numbers]:
        """Return which of some row groups, and which row of the file, each of some rows is.

        Args:
            groups: the row groups, of which the rows are read one after the other.
            places: the places of the rows among all of these.
        """
        numbers = np.array(groups, np.int64)
        begins, ends = self._begins[numbers], self._begins[numbers + 1]
        read_before_end = np.cumsum(ends - begins)
        holders = read_before_end.searchsorted(places, "right")
        return holders, places - read_before_end[holders] + ends[holders]

    def amount_of(self, numbers: Iterable[int], names: Sequence[str] | None = None) -> ReadAmount:
        """Return the amount that is read with row groups.

        Args:
            names: the columns that are read; all if None.
        """
        read, rows, size = None if names is None else frozenset(names), 0, 0
        for number in numbers:
            amount = self._amounts.get((number, read))
            if amount is None:
                amount = self._amounts[number, read] = amount_of(self.said, number, read)
            rows, size = rows + amount.rows, size + amount.size
        return ReadAmount(rows, size)

    def ranges_in(self, name: str) -> EveryRange | None:
        """Return the ranges of one column; None if the footer lacks them."""
        if name not in self._ranges:
            range_ = self._one_value(name) if name in self.values else self._read_ranges(name)
            self._ranges[name] = None if range_ is None else _every(range_)
        return self._ranges[name]

    def _one_value(self, name: str) -> tuple[_Range, ...] | None:
        """Return the ranges of a column with one value; None if values of its type have none."""
        value = self.values[name]
        is_text, is_number = pa.types.is_string(value.type), _is_number(value.type)
        if not is_text and not is_number:
            return None
        if not value.is_valid:
            range_ = NO_TEXT if is_text else NO_VALUE
        elif is_text:
            range_ = _Range(*[value.as_py().encode()] * 2)
        else:
            number = value.cast(pa.int32()) if pa.types.is_date(value.type) else value
            range_ = _Range(number.as_py(), number.as_py())
        return (range_,) * len(self.numbers)

    def _read_ranges(self, name: str) -> tuple[_Range, ...] | None:
        place, ranges = place_of(self.said, name), []
        if place is None:
            return None
        column = self.said.schema.column(place)
        is_number = column.physical_type in ("BOOLEAN", "INT32", "INT64")
        is_text, logical = column.physical_type == "BYTE_ARRAY", column.logical_type
        if logical.type == "TIMESTAMP" and "microseconds" not in str(logical):
            return None
        is_long = logical.type == "DECIMAL" and not is_number
        for group, rows in zip(self.numbers.tolist(), self.rows.tolist(), strict=True):
            known = self.said.row_group(group).column(place).statistics
            if known is not None and known.has_min_max:
                ends = _Range(known.min_raw, known.max_raw)
                ranges.append(_Range(*map(_long_number, ends)) if is_long else ends)
            elif known is not None and known.null_count == rows and (is_number or is_long):
                ranges.append(NO_VALUE)
            elif known is not None and known.null_count == rows and is_text:
                ranges.append(NO_TEXT)
            else:
                return None
        return tuple(ranges)

    def nulls_in(self, name: str) -> Marks:
        """Mark the row groups that may have a null in one column."""
        if name in self.values:
            return np.full(len(self.numbers), not self.values[name].is_valid)
        place = place_of(self.said, name)
        if place is None:
            return np.ones(len(self.numbers), bool)
        statistics = (
            self.said.row_group(n).column(place).statistics for n in self.numbers.tolist()
        )
        return np.array(
            [s is None or not s.has_null_count or s.null_count > 0 for s in statistics], bool
        )


class Footers:
    """The statistics of some of a table's files.

    Args:
        files: the footers, by the numbers of the files.
    """

    def __init__(self, files: Mapping[int, FileFooter]) -> None:
        self.files = files
        self._of = np.repeat(
            np.array(list(files), np.int64), [len(file.rows) for file in files.values()]
        )
        nothing = np.zeros(0, np.int64)
        self._numbers = np.concatenate([nothing, *(file.numbers for file in files.values())])
        self.rows: Numbers = np.concatenate([nothing, *(file.rows for file in files.values())])

    @property
    def of(self) -> Numbers:
        """The number of the file of each row group."""
        return self._of

    def nulls_in(self, name: str) -> Marks:
        """Mark the row groups that may have a null in one column."""
        nulls = [file.nulls_in(name) for file in self.files.values()]
        return np.concatenate([np.zeros(0, bool), *nulls])

    def groups(self, places: Numbers) -> Iterator[RowGroup]:
        """Return the row groups at some places among all."""
        of, numbers = self._of[places].tolist(), self._numbers[places].tolist()
        return (RowGroup(file, number) for file, number in zip(of, numbers, strict=True))

    def codes(self, places: Numbers) -> Numbers:
        """Return for each of some row groups a number that no other one of the table has."""
        codes: Numbers = (self._of[places] << _FILE_BITS) | self._numbers[places]
        return codes

    def bounds(self, keys: Selection) -> list[Bound]:
        """Return bounds for the key columns before the first that is not plain or has no ranges.

        The first column that the table is sorted by comes first, whatever its place in the key.
        """
        assert isinstance(keys.keys, pa.Table)
        bounds = bounds_of(keys.columns, keys.keys, self.ranges_in)
        first = next((n for n, (_, ranges) in enumerate(bounds) if ranges.follow), 0)
        return [*bounds[first : first + 1], *bounds[:first], *bounds[first + 1 :]]

    def groups_within(self, column: Column, values: Ranges) -> Numbers:
        """Return the row groups that may have a value in the ranges; all if theirs are unknown."""
        is_number = column.data_type.simpleString() in SORTS
        ranges = self.ranges_in(column.name) if is_number else None
        return np.arange(len(self.rows)) if ranges is None else np.flatnonzero(ranges.reach(values))

    def ranges_in(self, name: str) -> EveryRange | None:
        """Return the ranges of one column; None if a footer lacks them."""
        each = [_every(())]
        for file in self.files.values():
            ranges = file.ranges_in(name)
            if ranges is None:
                return None
            each.append(ranges)
        return EveryRange(*map(np.concatenate, zip(*each, strict=True)))


def bounds_of(
    columns: Sequence[Column], keys: pa.Table, ranges_in: Callable[[str], EveryRange | None]
) -> list[Bound]:
    """Return bounds for the columns of keys before the first that is not plain or has no ranges."""
    bounds = list[Bound]()
    for column, values in zip(columns, keys.columns, strict=True):
        plain_values = plain(values, column)
        ranges = None if plain_values is None else ranges_in(column.name)
        if plain_values is None or ranges is None:
            break
        bounds.append(Bound(plain_values, ranges))
    return bounds


def plain(keys: pa.ChunkedArray, column: Column) -> Values | None:
    """Return keys in the form and order of a footer's ranges; None for nulls and other types."""
    if keys.null_count:
        return None
    known = atom(column.data_type)
    if known is None or known.in_footers is None:
        return None
    if isinstance(column.data_type, StringType) and column.data_type != StringType():
        return None  # a collation has another order
    if known.in_footers == "bytes":
        return _values(keys.cast(pa.binary()).to_pylist())
    if not isinstance(column.data_type, DecimalType) or is_whole(column.data_type):
        return codes(keys)
    with localcontext(prec=_DIGITS):
        return _values([int(one.scaleb(keys.type.scale)) for one in keys.to_pylist()])


def reach_of(bounds: Sequence[Bound]) -> Reach:
    """Return which keys are within the ranges of the row groups.

    For a group that has one value in a column, and in the columns before it, the next column
    narrows the range further. In a sorted table these are all groups except those at the border of
    two values, so a look-up works as well if the first column has few values as if it has many.
    """
    in_order = np.lexsort([_ranks(keys) for keys, _ in reversed(bounds)])
    (keys, (least, greatest)), *others = [(keys[in_order], ranges) for keys, ranges in bounds]
    first, last = keys.searchsorted(least, "left"), keys.searchsorted(greatest, "right")
    alike = least == greatest
    for keys, (least, greatest) in others:
        for group in np.flatnonzero(alike & (first < last)).tolist():
            start, among = first[group], keys[first[group] : last[group]]
            first[group] = start + among.searchsorted(least[group], "left")
            last[group] = start + among.searchsorted(greatest[group], "right")
        alike = alike & (least == greatest)
    return Reach(in_order, first, last)


def _every(ranges: Sequence[_Range]) -> EveryRange:
    least, greatest = zip(*ranges, strict=True) if ranges else ((), ())
    return EveryRange(_values(least), _values(greatest))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_date32(kind))


def _ranks(keys: Values) -> Values:
    """Return the ranks of keys as numbers: Arrow sorts bytes many times faster than Python."""
    if not len(keys) or not isinstance(keys[0], bytes):
        return keys
    ranked = pc.rank(pa.array(keys, pa.binary()), sort_keys="ascending", tiebreaker="dense")
    ranks: Values = in_numpy(ranked, np.int64)
    return ranks


def amount_of(
    footer: pq.FileMetaData, number: int, names: Collection[str] | None = None
) -> ReadAmount:
    """Return the amount that is read with a row group; ``names`` are its columns, all if None."""
    group = footer.row_group(number)
    columns = map(group.column, range(group.num_columns))
    sizes = (
        column.total_compressed_size
        for column in columns
        if names is None or column.path_in_schema.split(".")[0] in names
    )
    return ReadAmount(group.num_rows, sum(sizes))


def place_of(footer: pq.FileMetaData, name: str) -> int | None:
    """Return the place of a file's column by its name; a nested column may have an equal path."""
    columns = (footer.schema.column(i) for i in range(footer.num_columns))
    return next((i for i, c in enumerate(columns) if c.name == c.path == name), None)


def _long_number(stored: bytes) -> int:
    """Return the unscaled value of a decimal that is longer than 64 bits."""
    return int.from_bytes(stored, "big", signed=True)


def _values(values: Sequence[Any]) -> Values:
    """Return whole numbers, or bytes as Python objects: numpy's own bytes lose trailing zeros."""
    if values and isinstance(values[0], bytes | _PastAll):
        return np.array(values, object)
    most = max(map(abs, values), default=0)
    return np.array(values, np.int64 if most < _BEYOND else object)
