"""Keys: values of some fields, by which the rows of a relation are looked up.

A look-up goes through operators down to stages (`looked_up` of each operator's module). The
invariant: it returns exactly the rows that have one of the keys, by Spark's equality, null too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from deltaproduce.engines.local.arrays import Marks, distinct, isin_rows
from deltaproduce.stages.sql.algebra.scalars import Equality, Field
from deltaproduce.stages.sql.operators.changes.signed import Signed, together
from deltaproduce.stages.sql.operators.computing import is_null_safe
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.data_types import (
    ByteType,
    DataType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
)
from deltaproduce.types.pandas_on_demand import in_numpy

_MARKS_A_ROW: Final = 8
"""The most marks for each row with which equal numbers are found by a mark each."""
_WHOLE_NUMBERS = (ByteType, ShortType, IntegerType, LongType)


@dataclass(frozen=True, slots=True)
class LookupKeys:
    """Distinct keys, in columns named by fields."""

    rows: pa.Table

    @staticmethod
    def of(rows: pa.Table, fields: Iterable[str]) -> LookupKeys | None:
        """Return the keys of rows; None without fields."""
        names = list(dict.fromkeys(fields))
        return LookupKeys(_distinct(rows.select(names))) if names else None

    @property
    def fields(self) -> list[str]:
        """The ids of the fields."""
        names: list[str] = self.rows.column_names
        return names

    def marks(self, rows: pa.Table) -> Marks:
        """Mark the rows that have one of the keys."""
        keys = rows.select(self.fields)
        if keys.schema.types != self.rows.schema.types:
            keys = keys.cast(self.rows.schema)
        return isin_rows(keys, self.rows)

    def of_rows(self, rows: pa.Table) -> pa.Table:
        """Return the rows that have one of the keys."""
        return rows.filter(pa.array(self.marks(rows)))

    def of_change(self, change: Signed) -> Signed:
        """Return the changes of rows that have one of the keys."""
        return change.filter(self.marks(change.rows)) if len(change) else change

    def within(self, fields: Iterable[Field]) -> LookupKeys | None:
        """Return the part of the keys that these fields have; None if it is none."""
        own = {field.id for field in fields}
        return LookupKeys.of(self.rows, [name for name in self.fields if name in own])

    def named(self, names: Mapping[str, str]) -> LookupKeys | None:
        """Return the part of the keys that fields have under other names.

        Args:
            names: the ids of fields -> those that have the same values.
        """
        arrays = {names[name]: self.rows.column(name) for name in self.fields if name in names}
        return LookupKeys(distinct(pa.table(arrays))) if arrays else None

    def and_(self, other: LookupKeys) -> LookupKeys:
        """Return both keys, which are of the same fields."""
        return LookupKeys(distinct(together([self.rows, other.rows.select(self.fields)])))

    @property
    def has_all_null(self) -> bool:
        """Whether one of the keys consists of nulls."""
        null = np.ones(len(self.rows), bool)
        for column in self.rows.columns:
            null &= in_numpy(column.is_null(), bool)
        return bool(null.any())


@dataclass(frozen=True, slots=True)
class JoinKey:
    """A pair of fields of two relations that have equal values in rows that belong together.

    Attributes:
        is_null_safe: whether null belongs to null; else it belongs to nothing.
    """

    left: Field
    right: Field
    is_null_safe: bool


def _distinct(rows: pa.Table) -> pa.Table:
    """Return each distinct row once, in any order.

    Whole numbers of one column, as most keys are, are found by a mark each: ten times as quickly.
    """
    if rows.num_columns != 1 or not len(rows):
        return distinct(rows)
    (column,) = rows.columns
    if not pa.types.is_integer(column.type) or column.null_count:
        return distinct(rows)
    numbers = in_numpy(column).astype(np.int64, copy=False)
    least, greatest = int(numbers.min()), int(numbers.max())
    if greatest - least >= _MARKS_A_ROW * len(numbers):
        return distinct(rows)
    marks = np.zeros(greatest - least + 1, bool)
    marks[numbers - least] = True
    values = pa.array(np.flatnonzero(marks) + least).cast(column.type)
    return pa.table({rows.column_names[0]: values})


def links(
    equal: Iterable[Equality], left: Sequence[Field], right: Sequence[Field]
) -> tuple[JoinKey, ...]:
    """Return the equalities of two bare fields whose values can be looked up in each other."""
    links = []
    mine, theirs = ({field.id: field for field in side} for side in (left, right))
    for one in equal:
        tree = one.scalar.expression.tree
        sides = tree.this.unnest(), tree.expression.unnest()
        if all(isinstance(side, exp.Column) for side in sides):
            fields = mine[sides[0].name], theirs[sides[1].name]
            if _are_comparable(fields[0].data_type, fields[1].data_type):
                links.append(JoinKey(*fields, is_null_safe(one)))
    return tuple(links)


def turned(links: Iterable[JoinKey]) -> tuple[JoinKey, ...]:
    """Return the same links from the other side."""
    return tuple(JoinKey(one.right, one.left, one.is_null_safe) for one in links)


def across(rows: pa.Table, links: Sequence[JoinKey]) -> LookupKeys | None:
    """Return the keys by which rows of the right side belong to rows of the left; None for all.

    Args:
        rows: rows of the left side.
        links: the links between the sides.
    """
    keys = LookupKeys.of(rows, (one.left.id for one in links))
    if keys is None:
        return None
    there = np.ones(len(keys.rows), bool)
    columns = dict[str, pa.ChunkedArray]()
    for one in links:
        column = keys.rows.column(one.left.id)
        if not one.is_null_safe:
            there &= in_numpy(column.is_valid(), bool)
        assert one.right.data_type is not None
        wanted = arrow_type(one.right.data_type)
        if one.right.id in columns:  # further equalities of the same field filter later
            continue
        if column.type != wanted and pa.types.is_integer(wanted):
            fits = _fits(column, wanted)
            there &= fits
            column = pc.if_else(pa.array(fits), column, pa.scalar(None, column.type))
        columns[one.right.id] = column.cast(wanted)
    return LookupKeys(distinct(pa.table(columns).filter(pa.array(there))))


def _fits(column: pa.ChunkedArray, wanted: pa.DataType) -> Marks:
    """Mark the whole numbers that a type has."""
    most = 1 << (wanted.bit_width - 1)
    values = column.cast(pa.int64())
    fits = pc.and_(pc.greater_equal(values, -most), pc.less_equal(values, most - 1))
    return in_numpy(pc.fill_null(fits, fill_value=True), bool)


def _are_comparable(one: DataType | None, other: DataType | None) -> bool:
    if one is None or other is None or isinstance(one, NullType):
        return False
    return one == other or all(isinstance(kind, _WHOLE_NUMBERS) for kind in (one, other))
