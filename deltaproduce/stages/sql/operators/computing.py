"""Expressions over the rows of relations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.local.arrays import Marks, one_of_each
from deltaproduce.engines.local.kernels.shared_sides import SharedSides
from deltaproduce.errors import ProducerError
from deltaproduce.stages.sql.algebra.scalars import Equality, Field, Scalar
from deltaproduce.stages.sql.expressions.evaluation import evaluated
from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError
from deltaproduce.stages.sql.expressions.terms import Call, Constants
from deltaproduce.types.data_types import NullType
from deltaproduce.types.excerpts import escaped
from deltaproduce.types.pandas_on_demand import in_numpy


class QueryError(ArithmeticError):
    """A row for which a query fails.

    Attributes:
        text: the part of the query that fails.
    """

    def __init__(self, text: str, message: str) -> None:
        super().__init__(message)
        self.text = text


@dataclass(frozen=True, slots=True)
class Computing:
    """The computation of a query's expressions.

    Attributes:
        zone: the time zone that they are computed in.
        constants: values of constants that they name, in place of those they were resolved with.
        shared: the tables that are joined with several parts of other rows.
    """

    zone: str
    constants: Constants = field(default_factory=dict)
    shared: SharedSides = field(default_factory=SharedSides, compare=False)

    def value(self, scalar: Scalar, rows: pa.Table, fields: Sequence[Field]) -> pa.Array:
        """Return the values of an expression, one per row.

        Args:
            rows: a table with the fields that it reads.
            fields: at least these.

        Raises:
            QueryError: a value cannot be computed.
        """
        if isinstance(scalar.data_type, NullType):
            return pa.nulls(len(rows), pa.bool_())
        try:
            return evaluated(scalar.term(fields, self.zone, self.constants), rows)
        except EvaluationError as error:
            raise QueryError(scalar.text, str(error)) from error

    def holds(self, condition: Scalar, rows: pa.Table, fields: Sequence[Field]) -> Marks:
        """Return in which rows a condition is true; null is not true."""
        is_true = pc.fill_null(self.value(condition, rows, fields), fill_value=False)
        marks: Marks = in_numpy(is_true, bool)
        return marks

    def sides(
        self,
        equal: Equality,
        left: tuple[pa.Table, Sequence[Field]],
        right: tuple[pa.Table, Sequence[Field]],
    ) -> tuple[pa.Array, pa.Array]:
        """Return the values of both sides of an equality, in one type."""
        call = equal.scalar.term((*left[1], *right[1]), self.zone, self.constants)
        assert isinstance(call, Call)
        one, other = call.arguments
        try:
            return evaluated(one, left[0]), evaluated(other, right[0])
        except EvaluationError as error:
            raise QueryError(equal.scalar.text, str(error)) from error


@contextmanager
def blaming(stage: str) -> Iterator[None]:
    """Raise the error of a row as one of a stage.

    Raises:
        ProducerError: with `stage`.
    """
    try:
        yield
    except QueryError as error:
        message = f"stage {stage!r}: {error.text!r} failed: {escaped(str(error))}"
        raise ProducerError(message, stage=stage) from error


def in_type(values: pa.Array | pa.ChunkedArray, wanted: pa.DataType) -> pa.Array:
    """Return values in another type that holds them; a column that is always null has any."""
    if values.type != wanted and values.null_count == len(values):
        return pa.nulls(len(values), wanted)
    return values.cast(wanted)


def is_null_safe(equal: Equality) -> bool:
    """Return whether null equals null in it."""
    return type(equal.scalar.expression.tree).__name__ == "NullSafeEQ"


def normal(array: pa.Array) -> pa.Array:
    """Return values in which equal ones are the same: a single NaN, and a single zero."""
    if not pa.types.is_floating(array.type):
        return array
    whole = one_of_each(array.fill_null(0.0))
    return pa.array(whole, array.type, mask=in_numpy(array.is_null(), bool))
