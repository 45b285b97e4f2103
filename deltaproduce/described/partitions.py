"""Partitions: the columns and expressions that divide rows, and the values they give.

Pure. The invariant: the partition of a row depends on the row alone, not on the writer or its
clock: timestamps are taken in UTC. Delta's log stores the values of a partition as text
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#partition-value-serialization).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.delta.log import folder_of
from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError
from deltaproduce.stages.sql.expressions.terms import Term
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import Column, Columns, plain_columns
from deltaproduce.types.data_types import (
    BooleanType,
    DateType,
    DecimalType,
    IntegralType,
    StringType,
    StructField,
    StructType,
)
from deltaproduce.types.ddl import quoted
from deltaproduce.types.python_values import python_value

if TYPE_CHECKING:
    from deltaproduce.stages.sql.expressions.expression import Expression

Values: TypeAlias = tuple[str | None, ...]
"""The identity of a partition: the values of its columns, as text in the log's form."""

CLOCK: Final = "UTC"
_FIRST_DAY: Final = date.min.toordinal() - date(1970, 1, 1).toordinal()
_LAST_DAY: Final = date.max.toordinal() - date(1970, 1, 1).toordinal()
_BEYOND: Final = "and partitions by date are those of the years 1 to 9999"
EMPTY: Final = "is an empty text, which Delta's log cannot tell from null as a value of a partition"
"""What is wrong with a row whose partition is an empty text."""
_KINDS: Final = (BooleanType, DateType, DecimalType, IntegralType, StringType)


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """One partition column of a data set.

    Attributes:
        column: its name and type.
        expression: what computes it from a row; None if it is a column of the rows.
        term: the expression with its types.
    """

    column: Column
    expression: Expression | None = None
    term: Term | None = field(default=None, compare=False, repr=False)

    @property
    def text(self) -> str:
        """Its declaration."""
        name = quoted(self.column.name)
        return name if self.expression is None else f"{self.expression.text} AS {name}"

    @property
    def reads(self) -> frozenset[str]:
        """The names of the columns that it depends on."""
        names = (self.column.name,) if self.expression is None else self.expression.columns
        return frozenset(names)


def partitions(text: str, columns: Columns) -> tuple[PartitionColumn, ...]:
    """Read a list of columns and of named expressions.

    Raises:
        DefinitionError: the text is not such a list, names an unknown column, or has a type that
            cannot partition.
    """
    if not text.strip():
        return ()
    from deltaproduce.stages.sql.expressions.expression import Expression

    items = Expression.listed(text, columns.names)
    partition_columns = tuple(_partition(name, expression, columns) for name, expression in items)
    own = [one.column for one in partition_columns if one.expression is not None]
    _check_names(columns, own)
    if len({one.column.name for one in partition_columns}) < len(partition_columns):
        raise DefinitionError(f"the partition {text!r} has a column twice; name it once")
    return partition_columns


def _partition(name: str, expression: Expression, columns: Columns) -> PartitionColumn:
    for column in columns:
        if column.name == name == expression.column:
            return PartitionColumn(_checked(column))
    term = _term(expression, columns)
    return PartitionColumn(_checked(Column(name, term.data_type)), expression, term)


def _term(expression: Expression, columns: Columns) -> Term:
    from deltaproduce.stages.sql.expressions.analysis import analysed

    term = analysed(expression, {c.name: c.data_type for c in columns}, CLOCK)
    if term is None:
        raise DefinitionError(
            f"partition {expression.text!r} is computed by Spark only, and rows are written "
            "without it, too; add a column that has the value, and partition by that"
        )
    return term


def _checked(column: Column) -> Column:
    if not isinstance(column.data_type, _KINDS):
        raise DefinitionError(
            f"partition column {column.name!r} is of type {column.data_type.simpleString()}; use a "
            "whole number, decimal, date, string or boolean, such as date(seen_at) AS day",
            column=column.name,
        )
    return column


def _check_names(columns: Columns, own: Sequence[Column]) -> None:
    """Refuse partition names that are not valid column names, or are taken."""
    plain_columns(StructType([StructField(c.name, c.data_type) for c in (*columns, *own)]))


def values_of(rows: pa.Table, by: Sequence[PartitionColumn]) -> pa.Table:
    """Return the values of rows in their partition columns.

    Raises:
        EvaluationError: a value cannot be computed.
    """
    return pa.table(
        {
            one.column.name: rows.column(one.column.name)
            if one.term is None
            else _evaluated(one.term, rows)
            for one in by
        }
    )


def _evaluated(term: Term, rows: pa.Table) -> pa.Array:
    from deltaproduce.stages.sql.expressions.evaluation import evaluated

    return evaluated(term, rows)


def unstorable(values: pa.ChunkedArray) -> tuple[int, str] | None:
    """Return the first of a column's values that no partition can have, by position, and why."""
    if pa.types.is_string(values.type):
        place = pc.index(values, "").as_py()
        return None if place < 0 else (place, EMPTY)
    if pa.types.is_date(values.type):
        days = values.cast(pa.int32())
        beyond = pc.or_(pc.less(days, _FIRST_DAY), pc.greater(days, _LAST_DAY))
        place = pc.index(beyond, value=True).as_py()
        return None if place < 0 else (place, f"is {python_value(values[place])}, {_BEYOND}")
    return None


def values_of_keys(keys: pa.Table, by: Sequence[PartitionColumn]) -> pa.Table | None:
    """Return the values of the partition columns that depend on keys alone, for some keys.

    None if no column does, or a value cannot be computed: any partition may have the keys.
    """
    known = [one for one in by if one.reads <= {*keys.column_names}]
    try:
        return values_of(keys, known) if known else None
    except EvaluationError:
        return None


def read_values(values: Values, by: Sequence[PartitionColumn]) -> dict[str, pa.Scalar]:
    """Return the values of a partition by column, read from the log's text.

    Raises:
        pa.ArrowInvalid: a text is not a value of its column.
    """
    return {
        one.column.name: pa.scalar(value).cast(arrow_type(one.column.data_type))
        if value is not None
        else pa.scalar(None, arrow_type(one.column.data_type))
        for value, one in zip(values, by, strict=True)
    }


def folder(values: Values, by: Sequence[PartitionColumn]) -> str:
    """Return a partition's directory in the data set, in Hive's style; empty if unpartitioned.

    Readers take the values from the log; the name is for people, and long names are cut.
    """
    names = (one.column.name for one in by)
    return folder_of(zip(names, values, strict=True))
