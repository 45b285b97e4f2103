"""Tables: compares the rows of one stage with those of a table in another database.

The other table is read part by part, and a second time only if rows differ: first its hashes, then
the rows that have no equal. The invariant: both readings see the same rows, since the database is
read in one transaction, and the stage in one version.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.local.arrays import Numbers, taken
from deltaproduce.engines.local.kernels.row_hashes import Hashes
from deltaproduce.errors import DeltaProduceError
from deltaproduce.sync.comparing.forms import common_form, in_form, is_same_sort
from deltaproduce.sync.comparing.matching import (
    Surplus,
    close_pairs,
    hashes,
    key_pairs,
    surpluses,
)
from deltaproduce.sync.comparing.results import (
    ComparedColumn,
    ComparedRow,
    ComparedTable,
    RowSort,
)
from deltaproduce.sync.comparing.tolerance import are_close, has_floats
from deltaproduce.types.excerpts import one_line
from deltaproduce.types.pandas_on_demand import in_numpy
from deltaproduce.types.python_values import python_rows

PART_ROWS: Final = 1 << 18
"""About how many rows are read at a time."""


class UnreadableTableError(DeltaProduceError):
    """A table of another database, or the database, cannot be read."""


@dataclass(frozen=True, slots=True)
class OtherColumn:
    """A column of a table in another database.

    Attributes:
        type: the type in which it is read.
        declared: its type in the database's words.
    """

    type: pa.DataType
    declared: str


class OtherTable(ABC):
    """A table of another database. All of its methods see the same rows."""

    @property
    @abstractmethod
    def columns(self) -> Mapping[str, OtherColumn]:
        """Its columns, in their order.

        Raises:
            UnreadableTableError: it is not there, or cannot be read.
        """

    @abstractmethod
    def parts(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield all of its rows, some at a time.

        Raises:
            UnreadableTableError: it cannot be read.
        """


@dataclass(frozen=True, slots=True)
class StageRows:
    """The rows of a stage.

    Attributes:
        key: the columns of its key.
        types: the type of each column, in the words of SQL.
    """

    stage: str
    rows: pa.Table
    key: Sequence[str]
    types: Mapping[str, str]


def compared(
    here: StageRows, there: OtherTable, table: str, *, tolerance: float, sample: int
) -> ComparedTable:
    """Compare a stage with a table.

    Args:
        table: the name of the other table.
        tolerance: floats are equal if they differ by at most so much of the larger one.
        sample: the most rows that differ to return.

    Returns:
        The comparison; with a `problem` if the table cannot be read.
    """
    result = ComparedTable(here.stage, table, rows_here=len(here.rows))
    try:
        common = _Common.of(here, there)
        result = replace(result, columns=common.differing)
        if not common.names:
            return replace(result, problem="the tables have no column in common")
        return _compared(result, common, tolerance, sample)
    except UnreadableTableError as error:
        return replace(result, problem=str(error))


@dataclass(frozen=True, slots=True)
class _Common:
    """The columns that are compared.

    Attributes:
        names: their names in the stage.
        others: their names in the other table.
        forms: the types in which they are compared.
        differing: all columns that are not the same.
    """

    here: StageRows
    there: OtherTable
    names: tuple[str, ...]
    others: tuple[str, ...]
    forms: tuple[pa.DataType, ...]
    differing: tuple[ComparedColumn, ...]

    @staticmethod
    def of(here: StageRows, there: OtherTable) -> _Common:
        """Match the columns of both sides: names are the same without regard to case."""
        others = {name.lower(): (name, column) for name, column in there.columns.items()}
        matched, differing = list[tuple[str, str, pa.DataType]](), list[ComparedColumn]()
        for field in here.rows.schema:
            declared = here.types[field.name]
            if field.name.lower() not in others:
                differing.append(ComparedColumn(field.name, None, declared))
                continue
            name, column = others.pop(field.name.lower())
            form = common_form(field.type, column.type)
            if form is None or not is_same_sort(field.type, column.type):
                differing.append(
                    ComparedColumn(field.name, column.declared, declared, form is not None)
                )
            if form is not None:
                matched.append((field.name, name, form))
        differing += [
            ComparedColumn(name, column.declared, None) for name, column in others.values()
        ]
        names, other_names, forms = zip(*matched, strict=True) if matched else ((), (), ())
        return _Common(here, there, names, other_names, forms, tuple(differing))

    @property
    def key(self) -> tuple[int, ...]:
        """The positions of the key's columns; none if one is not compared."""
        if not set(self.here.key) <= set(self.names):
            return ()
        return tuple(map(self.names.index, self.here.key))

    def parts_here(self) -> Iterator[pa.Table]:
        """Yield the rows of the stage, in their forms; columns are named by their positions."""
        rows = self.here.rows
        for first in range(0, max(len(rows), 1), PART_ROWS):
            yield self._in_form(rows.slice(first, PART_ROWS), self.names)

    def parts_there(self) -> Iterator[pa.Table]:
        """Yield the rows of the other table, likewise."""
        yield self._in_form(pa.schema(self._fields()).empty_table(), self.others)
        for part in self.there.parts(self.others):
            yield self._in_form(part, self.others)

    def _fields(self) -> Iterator[pa.Field]:
        for name in self.others:
            yield pa.field(name, self.there.columns[name].type)

    def _in_form(self, rows: pa.Table, names: Sequence[str]) -> pa.Table:
        try:
            return in_form(rows, names, self.forms)
        except pa.ArrowException as error:
            message = f"its values cannot be brought to one form: {one_line(error)}"
            raise UnreadableTableError(message) from error


@dataclass(frozen=True, slots=True)
class _Rest:
    """The rows of both sides that have no equal on the other."""

    there: pa.Table
    here: pa.Table

    def except_at(self, there: Numbers, here: Numbers) -> _Rest:
        """Return the rest without the rows at these positions."""
        left = [
            taken(rows, np.setdiff1d(np.arange(len(rows)), positions))
            for rows, positions in ((self.there, there), (self.here, here))
        ]
        return _Rest(*left)

    def at(self, there: Numbers, here: Numbers) -> _Rest:
        """Return the rows at these positions."""
        return _Rest(taken(self.there, there), taken(self.here, here))


def _compared(
    result: ComparedTable, common: _Common, tolerance: float, sample: int
) -> ComparedTable:
    here = _hashes(common.parts_here(), tolerance)
    there = _hashes(common.parts_there(), tolerance)
    more_there, more_here = surpluses(there, here)
    result = replace(result, rows_there=len(there), rows_here=len(here))
    if not len(more_there.values) and not len(more_here.values):
        return replace(result, equal=len(here))
    rest = _Rest(
        _rows(common.parts_there(), more_there, tolerance),
        _rows(common.parts_here(), more_here, tolerance),
    )
    rest = rest.except_at(*close_pairs(rest.there, rest.here, tolerance))
    key = [str(place) for place in common.key]
    pairs = key_pairs(rest.there.select(key), rest.here.select(key)) if key else (_NO, _NO)
    changed, alone = rest.at(*pairs), rest.except_at(*pairs)
    return replace(
        result,
        equal=len(here) - len(rest.here),
        changed=len(changed.here),
        only_there=len(alone.there),
        only_here=len(alone.here),
        sample=_sample(common, changed, alone, tolerance, sample),
    )


_NO: Final = np.zeros(0, np.int64)


def _hashes(parts: Iterator[pa.Table], tolerance: float) -> Hashes:
    return np.concatenate([hashes(part, tolerance) for part in parts])


def _rows(parts: Iterator[pa.Table], surplus: Surplus, tolerance: float) -> pa.Table:
    """Return the rows that a side has more than the other."""
    chosen = [part.filter(pa.array(surplus.take(hashes(part, tolerance)))) for part in parts]
    return pa.concat_tables(chosen).combine_chunks()


def _sample(
    common: _Common, changed: _Rest, alone: _Rest, tolerance: float, most: int
) -> tuple[ComparedRow, ...]:
    """Return some of the rows that differ, of each sort about as many."""
    sizes = {"changed": len(changed.here), "only_there": len(alone.there)}
    shares = _shares((*sizes.values(), len(alone.here)), most)
    order = _first(changed.here, common.key, shares[0])
    rows = [
        *_changed_rows(common, changed.at(order, order), tolerance),
        *_rows_alone(common, alone.there, "only_there", shares[1]),
        *_rows_alone(common, alone.here, "only_here", shares[2]),
    ]
    return tuple(rows)


def _shares(counts: Sequence[int], most: int) -> list[int]:
    """Return how many of each count to show, ``most`` in all."""
    shares = [0] * len(counts)
    while sum(shares) < min(most, sum(counts)):
        least = min(share for share, count in zip(shares, counts, strict=True) if share < count)
        place = next(
            place
            for place, (share, count) in enumerate(zip(shares, counts, strict=True))
            if share == least and share < count
        )
        shares[place] += 1
    return shares


def _first(rows: pa.Table, key: Sequence[int], most: int) -> Numbers:
    """Return the positions of the first rows by the key; without a key, of any."""
    names = [str(place) for place in key]
    flat = [name for name in names if not pa.types.is_nested(rows.schema.field(name).type)]
    if not most or not flat:
        return np.arange(min(most, len(rows)))
    order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in flat])
    return in_numpy(order.slice(0, most)).astype(np.int64)


def _rows_alone(common: _Common, rows: pa.Table, sort: RowSort, most: int) -> Iterator[ComparedRow]:
    """Yield the first rows that one side has alone."""
    key = [common.names[place] for place in common.key]
    for row in _named(common, taken(rows, _first(rows, common.key, most))):
        values = {name: value for name, value in row.items() if name not in key}
        there, here = (values, None) if sort == "only_there" else (None, values)
        yield ComparedRow(sort, {name: row[name] for name in key}, there, here)


def _changed_rows(common: _Common, pairs: _Rest, tolerance: float) -> Iterator[ComparedRow]:
    """Yield pairs of rows with the columns that differ."""
    alike = {
        name: _alike(pairs.there.column(place), pairs.here.column(place), tolerance)
        for place, name in enumerate(common.names)
    }
    key = [common.names[place] for place in common.key]
    sides = zip(_named(common, pairs.there), _named(common, pairs.here), strict=True)
    for number, (there, here) in enumerate(sides):
        differing = [name for name in common.names if not alike[name][number]]
        yield ComparedRow(
            "changed",
            {name: here[name] for name in key},
            {name: there[name] for name in differing},
            {name: here[name] for name in differing},
        )


def _alike(one: pa.ChunkedArray, other: pa.ChunkedArray, tolerance: float) -> Sequence[bool]:
    """Return which values are equal or close, row by row."""
    first, second = (pa.table([side.combine_chunks()], ["value"]) for side in (one, other))
    same = hashes(first, tolerance) == hashes(second, tolerance)
    if has_floats(one.type) and len(one):
        rows = np.flatnonzero(~same)
        left, right = (taken(side, rows).column(0).combine_chunks() for side in (first, second))
        both = in_numpy(left.is_valid()) & in_numpy(right.is_valid())
        same[rows] = both & are_close(left, right, tolerance)
    return [bool(one) for one in same]


def _named(common: _Common, rows: pa.Table) -> list[dict[str, object]]:
    """Return rows as mappings, under the names that the stage has."""
    return python_rows(rows.rename_columns(list(common.names)))
