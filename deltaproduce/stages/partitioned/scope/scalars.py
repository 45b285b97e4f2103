"""Scalars: values of expressions over the names of a scope.

They are computed as for rows (`sql.expressions`). The invariant: a value is the one that Spark
returns in ANSI mode in a session with the same time zone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    StringType,
    TimestampType,
)

from deltaproduce.errors import DefinitionError
from deltaproduce.shown.tasks import told
from deltaproduce.stages.sql.expressions.analysis import analysed
from deltaproduce.stages.sql.expressions.evaluation import evaluated
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError
from deltaproduce.stages.sql.expressions.terms import Constant, Term

_ONE_ROW: Final = pa.table({"_": pa.nulls(1)})


def scalar(expression: Expression, scope: Mapping[str, Constant], zone: str) -> Constant:
    """Compute the value of an expression.

    Raises:
        DefinitionError: it cannot be computed, or not without Spark.
    """
    term = analysed(expression, {}, zone, scope)
    if term is None:
        raise DefinitionError(
            f"{expression.text!r} cannot be computed without Spark; use what the page "
            "docs/expressions.md lists"
        )
    return value_of(term, expression.text)


def value_of(term: Term, text: str) -> Constant:
    """Compute the value of a term that reads no column.

    Raises:
        DefinitionError: it cannot be computed.
    """
    if isinstance(term, Constant):
        return term
    try:
        found = evaluated(term, _ONE_ROW)[0].as_py()
    except (EvaluationError, OverflowError) as error:  # a date outside of the years 1 to 9999
        raise DefinitionError(f"{text!r} cannot be computed: {error}") from None
    return Constant(term.data_type, found)


def literal(value: Constant) -> str:
    """Return a value as a literal of its type in Spark's SQL."""
    found, data_type = value.value, value.data_type
    if found is None:
        return f"CAST(NULL AS {data_type.simpleString()})"
    match data_type:
        case ArrayType():
            items = ", ".join(literal(Constant(data_type.elementType, item)) for item in found)
            return f"CAST(array({items}) AS {data_type.simpleString()})"
        case StringType():
            return _quoted(found)
        case BooleanType():
            return "TRUE" if found else "FALSE"
        case DateType():
            return f"DATE {_quoted(told(found))}"
        case TimestampType():
            return f"TIMESTAMP {_quoted(told(found))}"
    return f"CAST({_quoted(str(found))} AS {data_type.simpleString()})"


def type_name(data_type: DataType) -> str:
    """Return a type's name for messages."""
    return data_type.simpleString().upper()


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
