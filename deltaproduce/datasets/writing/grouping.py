"""Grouping: assigns rows to partitions, and refuses rows that fit none.

The invariant: the rows of a group keep their order and their numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from deltaproduce.datasets.writing.rows import RowTaker, wrong_rows
from deltaproduce.described.descriptor import Description
from deltaproduce.described.partitions import EMPTY, PartitionColumn, Values, unstorable, values_of
from deltaproduce.engines.delta.log import logged
from deltaproduce.engines.local.arrays import Numbers, factorize
from deltaproduce.errors import InvalidChangesError
from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError
from deltaproduce.types.conversions import misfits


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """The rows of one partition in one batch of input.

    Attributes:
        numbers: the rows' numbers in the input.
    """

    partition: Values
    rows: pa.Table
    numbers: Numbers

    def since(self, number: int) -> PartitionRows:
        """Return the rows from a number on."""
        begin = int(np.searchsorted(self.numbers, number))
        return PartitionRows(self.partition, self.rows.slice(begin), self.numbers[begin:])


class PartitionGrouping:
    """Assigns rows to the partitions of a data set, or of one part of it.

    Args:
        within: the values, in the log's form, that rows must have in some partition columns.
    """

    def __init__(
        self, descriptor: Description, location: str, within: Mapping[str, str | None]
    ) -> None:
        self._by = descriptor.partitions
        self._location = location
        self._within = within
        names = descriptor.columns.names
        self._in_rows = [
            (names.index(one.column.name), one) for one in self._by if one.term is None
        ]
        self._is_computed = any(
            one.term is not None and (one.term.may_fail or one.column.name in within)
            for one in self._by
        )

    @property
    def checks_rows(self) -> bool:
        """Whether a row may fail to fit a partition."""
        return bool(self._by)

    def check_row(self, values: Sequence[Any], number: int, taker: RowTaker) -> None:
        """Refuse one row that fits no partition, before it joins a batch.

        Raises:
            InvalidChangesError: as in `groups`.
        """
        tried = self._is_computed
        for place, one in self._in_rows:
            value = values[place]
            if value == "":
                raise self._wrong(one, number, EMPTY)
            if one.column.name in self._within:
                text = logged(value, one.column.data_type)
                tried |= text != self._within[one.column.name]  # or only spelled differently
        if tried:
            self.groups(taker.of_rows([values]), number)

    def groups(self, rows: pa.Table, first: int) -> list[PartitionRows]:
        """Return rows by partition, in the order in which partitions first appear.

        Args:
            first: the number of the first row.

        Raises:
            InvalidChangesError: a value cannot be computed, is not allowed for a partition, or
                belongs to a partition outside the part that is written.
        """
        numbers = np.arange(first, first + len(rows))
        if not self._by or not len(rows):
            return [PartitionRows((), rows, numbers)] if len(rows) else []
        values = self._values(rows, first)
        codes = factorize(values.columns)
        _, begins, codes = np.unique(codes, return_index=True, return_inverse=True)
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes))
        groups = list[PartitionRows]()
        for code in np.argsort(begins):
            begin = int(begins[code])
            partition = self._partition(values.slice(begin, 1), first + begin)
            places = order[ends[code - 1] if code else 0 : ends[code]]
            of_it = rows if len(places) == len(rows) else rows.take(pa.array(places))
            groups.append(PartitionRows(partition, of_it, numbers[places]))
        return groups

    def _values(self, rows: pa.Table, first: int) -> pa.Table:
        try:
            return values_of(rows, self._by)
        except EvaluationError as error:

            def works(start: int, end: int) -> bool:
                try:
                    values_of(rows.slice(start, end - start), self._by)
                except EvaluationError:
                    return False
                return True

            number = first + misfits(len(rows), works, 1)[0]
            finding = f"its partition cannot be computed: {error}"
            raise wrong_rows(self._location, finding, None, number) from error

    def _partition(self, row: pa.Table, number: int) -> Values:
        """Return the partition of a row of values."""
        names = list[str | None]()
        for one in self._by:
            values = row.column(one.column.name)
            if wrong := unstorable(values):
                raise self._wrong(one, number, wrong[1])
            text = logged(values[0].as_py(), one.column.data_type)
            if one.column.name in self._within:
                self._check(one, text, number)
            names.append(text)
        return tuple(names)

    def _check(self, one: PartitionColumn, text: str | None, number: int) -> None:
        wanted = self._within[one.column.name]
        if text != wanted:
            raise self._wrong(one, number, f"is {text!r}, and rows of {wanted!r} are written here")

    def _wrong(self, one: PartitionColumn, number: int, finding: str) -> InvalidChangesError:
        name = one.column.name
        return wrong_rows(self._location, f"column {name!r} {finding}", name, number)
