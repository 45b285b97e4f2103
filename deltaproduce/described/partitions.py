"""Partitions: by which columns or expressions rows are kept apart, and names.

Pure. The invariant: of which partition a row is depends on the row alone, whoever writes it and on
whichever clock: timestamps are taken in UTC. Delta's log has the values of a partition as text
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#partition-value-serialization).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import pyarrow as pa
from pyspark.sql.types import (
    BooleanType,
    DateType,
    DecimalType,
    IntegralType,
    StringType,
    StructField,
    StructType,
)

from deltaproduce.engines.delta_log import folder_of
from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.expressions.analysis import analysed
from deltaproduce.stages.sql.expressions.evaluation import evaluated
from deltaproduce.stages.sql.expressions.expression import Expression, items
from deltaproduce.stages.sql.expressions.terms import Term
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import Column, Columns, plain_columns
from deltaproduce.types.ddl import quoted

Values: TypeAlias = tuple[str | None, ...]
"""What tells a partition from others: its columns' values, as the log has them."""

CLOCK: Final = "UTC"
_KINDS: Final = (BooleanType, DateType, DecimalType, IntegralType, StringType)


@dataclass(frozen=True, slots=True)
class Partition:
    """One column that a data set is partitioned by.

    Attributes:
        column: its name and type.
        expression: what it is of a row; None if it is a column of the rows.
        term: the expression with its types.
    """

    column: Column
    expression: Expression | None = None
    term: Term | None = field(default=None, compare=False, repr=False)

    @property
    def text(self) -> str:
        """As it is declared."""
        name = quoted(self.column.name)
        return name if self.expression is None else f"{self.expression.text} AS {name}"


def partitions(text: str, columns: Columns) -> tuple[Partition, ...]:
    """Reads a list of columns, and of expressions with names.

    Raises:
        DefinitionError: it is none, names no column of these, or a type is none to partition by.
    """
    if not text.strip():
        return ()
    found = tuple(_partition(part, name, columns) for part, name in items(text))
    own = [one.column for one in found if one.expression is not None]
    _check_names(columns, own)
    if len({one.column.name for one in found}) < len(found):
        raise DefinitionError(f"the partition {text!r} has a column twice; name it once")
    return found


def _partition(text: str, name: str | None, columns: Columns) -> Partition:
    expression = Expression.read(text, columns.names)
    if name is None:
        if expression.column is None:
            raise DefinitionError(f"partition {text!r} has no name; write {text} AS name")
        (column,) = (c for c in columns if c.name == expression.column)
        return Partition(_checked(column))
    term = _term(expression, columns)
    return Partition(_checked(Column(name, term.data_type)), expression, term)


def _term(expression: Expression, columns: Columns) -> Term:
    found = analysed(expression, {c.name: c.data_type for c in columns}, CLOCK)
    if found is None:
        raise DefinitionError(
            f"partition {expression.text!r} is computed by Spark only, and rows are written "
            "without it, too; add a column that has the value, and partition by that"
        )
    return found


def _checked(column: Column) -> Column:
    if not isinstance(column.data_type, _KINDS):
        raise DefinitionError(
            f"partition column {column.name!r} is of type {column.data_type.simpleString()}; use a "
            "whole number, decimal, date, string or boolean, such as date(seen_at) AS day",
            column=column.name,
        )
    return column


def _check_names(columns: Columns, own: Sequence[Column]) -> None:
    """Refuse names that are no names of columns, or are those of others."""
    plain_columns(StructType([StructField(c.name, c.data_type) for c in (*columns, *own)]))


def values_of(rows: pa.Table, by: Sequence[Partition]) -> pa.Table:
    """The values of rows in the columns that they are partitioned by.

    Raises:
        EvaluationError: one cannot be computed.
    """
    return pa.table(
        {
            one.column.name: rows.column(one.column.name)
            if one.term is None
            else evaluated(one.term, rows)
            for one in by
        }
    )


def read_values(values: Values, by: Sequence[Partition]) -> dict[str, pa.Scalar]:
    """The values of a partition by column, from the log's text.

    Raises:
        pa.ArrowInvalid: a text is of no value.
    """
    return {
        one.column.name: pa.scalar(value).cast(arrow_type(one.column.data_type))
        if value is not None
        else pa.scalar(None, arrow_type(one.column.data_type))
        for value, one in zip(values, by, strict=True)
    }


def folder(values: Values, by: Sequence[Partition]) -> str:
    """The directory of a partition below the data set's, as Hive names it; empty if there is none.

    Readers take the values from the log; the name is for people, and long ones are cut.
    """
    names = (one.column.name for one in by)
    return folder_of(zip(names, values, strict=True))
