"""Scalars: values of expressions over the names of a scope.

They are computed as for rows (`sql.expressions`). The invariant: a value is the one that Spark
returns in ANSI mode in a session with the same time zone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.expressions.analysis import analysed
from deltaproduce.stages.sql.expressions.evaluation import evaluated
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError
from deltaproduce.stages.sql.expressions.terms import Constant, Term
from deltaproduce.types.data_types import DataType

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
        value = evaluated(term, _ONE_ROW)[0].as_py()
    except (EvaluationError, OverflowError) as error:  # a date outside of the years 1 to 9999
        raise DefinitionError(f"{text!r} cannot be computed: {error}") from None
    return Constant(term.data_type, value)


def type_name(data_type: DataType) -> str:
    """Return a type's name for messages."""
    return data_type.simpleString().upper()
