"""The result of an Arrow producer: tables in, arrays of the declared columns out.

Columns are found by name. A column may have another Arrow type of its kind (`conversions`) if the
declared type holds each of its values.

The invariant: as in `row_writers`, the arrays hold everything that was returned, or a `Misfit` is
raised; and every row belongs to a source key that the function was given.

Types are Arrow's on both sides; no value becomes a Python object.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.local.arrays import Numbers, factorize
from deltaproduce.types.atoms import Misfit
from deltaproduce.types.columns import Column, RowSchema
from deltaproduce.types.conversions import conformed, conformed_column
from deltaproduce.types.excerpts import shown
from deltaproduce.types.pandas_on_demand import in_numpy


class RowMisfit(Misfit):
    """A row that does not fit.

    Attributes:
        source: the source key of the row, one item in each array.
    """

    def __init__(self, message: str, source: Sequence[pa.Array]) -> None:
        super().__init__(message)
        self.source = source


@dataclass(frozen=True, slots=True)
class SourceKeys:
    """The distinct source keys that a function got.

    Attributes:
        columns: the columns that name a source key in the function's output.
        arrays: the keys, in the input's own arrays.
    """

    columns: Sequence[Column]
    arrays: Sequence[pa.Array]

    def __len__(self) -> int:
        return len(self.arrays[0])

    def places(self, named: Sequence[pa.Array]) -> Numbers:
        """Return the position of each named key among these; -1 if it is not one of them."""
        given = [
            conformed(array, column.data_type)
            for array, column in zip(self.arrays, self.columns, strict=True)
        ]
        if len(given) == 1:  # takes a fifth of the time
            return in_numpy(pc.index_in(named[0], value_set=given[0]).fill_null(-1), np.int64)
        numbers = factorize(map(pa.chunked_array, zip(given, named, strict=True)))
        places = np.full(numbers.max() + 1, -1)
        places[numbers[: len(self)]] = np.arange(len(self))
        return places[numbers[len(self) :]]


@dataclass(frozen=True, slots=True)
class EmittedTableReader:
    """Reads a function's result.

    Attributes:
        sources: the columns that name a row's source key.
        schema: the declared key and value columns.
    """

    sources: Sequence[Column]
    schema: RowSchema

    def batches(self, returned: object) -> list[pa.RecordBatch]:
        """Return the rows of a function's result: one batch, unless they are huge.

        Raises:
            Misfit: it is not a table, or its columns differ in name or kind from the declared ones.
        """
        if isinstance(returned, pa.RecordBatch):
            returned = pa.Table.from_batches([returned])
        if not isinstance(returned, pa.Table):
            text = f"{type(returned).__name__} {shown(returned)}"
            raise Misfit(f"the function gave a {text}; give a pyarrow Table or RecordBatch")
        columns = (*self.sources, *self.schema.key, *self.schema.value)
        _check_names(returned.schema.names, [column.name for column in columns])
        for column in columns:
            none = pa.nulls(0, returned.schema.field(column.name).type)
            conformed_column(column.name, none, column.data_type)
        batches: list[pa.RecordBatch] = returned.combine_chunks().to_batches()
        return batches

    def arrays(
        self, rows: pa.RecordBatch, keys: SourceKeys
    ) -> tuple[list[pa.Array], list[pa.Array], list[pa.Array]]:
        """Return the source keys, keys and values of rows from `batches`.

        Args:
            keys: the function's input keys; the source keys are copied from its arrays.

        Raises:
            Misfit: a source key is not of its type.
            RowMisfit: a source key is not among ``keys``, or a key or value is not of its type.
        """
        named = [conformed_column(c.name, rows.column(c.name), c.data_type) for c in self.sources]
        places = keys.places(named)
        if (places < 0).any():
            row = int(np.argmax(places < 0))
            message = "a row names a source key that was not among those the function was given"
            raise RowMisfit(message, [array.slice(row, 1) for array in named])
        target, value = (
            [_written(rows.column(c.name), c, named) for c in columns]
            for columns in (self.schema.key, self.schema.value)
        )
        return [array.take(pa.array(places)) for array in keys.arrays], target, value


def _check_names(given_names: Sequence[str], declared: Sequence[str]) -> None:
    missing = [name for name in declared if name not in given_names]
    unknown = [name for name in given_names if name not in declared]
    doubled = [name for name, times in Counter(given_names).items() if times > 1]
    faults = (("lacks", missing), ("has unknown", unknown), ("repeats", doubled))
    if any(names for _, names in faults):
        said = ", ".join(f"{fault} {names!r}" for fault, names in faults if names)
        raise Misfit(f"the function's table {said}; its columns are to be {', '.join(declared)}")


def _written(array: pa.Array, column: Column, sources: Sequence[pa.Array]) -> pa.Array:
    """Name the wrong row in a RowMisfit: the last one of the shortest prefix that does not fit."""

    def misfits(rows: int) -> bool:
        try:
            conformed(array.slice(0, rows), column.data_type, nullable=column.nullable)
        except Misfit:
            return True
        return False

    try:
        return conformed_column(column.name, array, column.data_type, nullable=column.nullable)
    except Misfit as misfit:
        row = max(bisect_left(range(len(array) + 1), True, key=misfits) - 1, 0)
        source = [named.slice(row, 1) for named in sources]
        raise RowMisfit(str(misfit), source) from misfit.__cause__
