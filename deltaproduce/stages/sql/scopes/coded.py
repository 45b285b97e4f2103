"""Coded columns: dictionary-encoded values, so that each value is processed once.

The names of a hundred thousand scopes take a few hundred days and stores as values. The invariant:
rows with the same code have the same value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Numbers
from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.expressions.analysis import analysed
from deltaproduce.stages.sql.expressions.evaluation import evaluated
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError
from deltaproduce.stages.sql.expressions.terms import Constant
from deltaproduce.stages.sql.scopes.scalars import scalar
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.data_types import DataType
from deltaproduce.types.pandas_on_demand import in_numpy
from deltaproduce.types.python_values import python_value

_MARKS_A_ROW: Final = 8


@dataclass(frozen=True, slots=True)
class Coded:
    """A dictionary-encoded column.

    Attributes:
        values: the values that occur in it, and perhaps others.
        codes: the index of each row's value.
    """

    data_type: DataType
    values: pa.Array
    codes: Numbers

    @staticmethod
    def of(column: pa.ChunkedArray, data_type: DataType) -> Coded:
        """Encode a column of Arrow."""
        dictionary = column.combine_chunks().dictionary_encode(null_encoding="encode")
        return Coded(data_type, dictionary.dictionary, in_numpy(dictionary.indices, np.int64))

    def __len__(self) -> int:
        return len(self.codes)

    def taken(self, rows: Numbers) -> Coded:
        """Return rows, by position."""
        return replace(self, codes=self.codes[rows])

    def constant(self, row: int) -> Constant:
        """Return the value of a row."""
        try:
            value = self.values[int(self.codes[row])].as_py()
        except OverflowError:
            message = f"a scope is of {python_value(self.values[int(self.codes[row])])}: "
            raise DefinitionError(f"{message}use the years 1 to 9999") from None
        if isinstance(value, datetime):
            value = value.astimezone(UTC)
        return Constant(self.data_type, _frozen(value))

    def constants(self) -> dict[int, Constant]:
        """Return the values that occur, by code."""
        codes, rows = np.unique(self.codes, return_index=True)
        return {
            code: self.constant(row)
            for code, row in zip(codes.tolist(), rows.tolist(), strict=True)
        }

    @property
    def array(self) -> pa.Array:
        """The rows' values."""
        return self.values.take(pa.array(self.codes))


def _frozen(value: object) -> object:
    """Return a value whose lists are tuples."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def combined(columns: Sequence[Coded], size: int) -> tuple[Numbers, list[Coded]]:
    """Return the combinations of values that occur in columns.

    Args:
        size: the number of rows.

    Returns:
        The number of each row's combination, and the columns with one row per combination.
    """
    numbers, rows = np.zeros(size, np.int64), np.zeros(min(size, 1), np.int64)
    for column in columns:
        span = len(column.values)
        _, rows, numbers = numbered(numbers * span + column.codes, len(rows) * span)
    return numbers, [column.taken(rows) for column in columns]


def numbered(codes: Numbers, span: int) -> tuple[Numbers, Numbers, Numbers]:
    """Return the codes that occur, sorted; the first row of each; and their positions by row.

    Args:
        span: more than any code; if it is not much more than their number, nothing is sorted.
    """
    size = len(codes)
    if span > _MARKS_A_ROW * size + 1024:
        return np.unique(codes, return_index=True, return_inverse=True)
    firsts = np.full(span, -1)
    firsts[codes[::-1]] = np.arange(size)[::-1]
    used = np.flatnonzero(firsts >= 0)
    positions = np.empty(span, np.int64)
    positions[used] = np.arange(len(used))
    return used, firsts[used], positions[codes]


def computed(expression: Expression, named: Mapping[str, Coded], size: int, zone: str) -> Coded:
    """Compute an expression over the names of scopes; there is at least one scope.

    Args:
        named: by name, with one row per scope.

    Raises:
        DefinitionError: a value cannot be computed, or not without Spark.
    """
    used = [name for name in expression.columns if name in named]
    numbers, columns = combined([named[name] for name in used], size)
    count = int(numbers.max()) + 1
    term = analysed(expression, {n: c.data_type for n, c in zip(used, columns, strict=True)}, zone)
    if term is not None:
        rows = {name: column.array for name, column in zip(used, columns, strict=True)}
        try:
            result = evaluated(term, pa.table({"_": pa.nulls(count), **rows}))
        except EvaluationError as error:
            message = f"{expression.text!r} cannot be computed: {error}"
            raise DefinitionError(message) from None
        return Coded(term.data_type, result, numbers)
    each = [
        scalar(expression, {n: c.constant(row) for n, c in zip(used, columns, strict=True)}, zone)
        for row in range(count)
    ]
    values = pa.array([one.value for one in each], arrow_type(each[0].data_type))
    return Coded(each[0].data_type, values, numbers)
