"""Projections: columns that expressions compute from rows, and a filter, on either engine.

The invariant: on either engine the rows are Spark's in ANSI mode. Rows on the driver are projected
there if all expressions are certain to match Spark (`expressions.analysis`), else in Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.spark.data_types import frame_struct, in_spark
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.engines.spark.sessions.on_demand import spark_errors
from deltaproduce.errors import DefinitionError, ProducerError, SessionError
from deltaproduce.stages.sql.expressions.analysis import analysed
from deltaproduce.stages.sql.expressions.evaluation import evaluated, holds
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError
from deltaproduce.stages.sql.expressions.terms import Term
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import BooleanType, DataType, NullType, StructField, StructType
from deltaproduce.types.excerpts import escaped

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

_SETTINGS = (
    "spark.sql.ansi.enabled",
    "spark.sql.decimalOperations.allowPrecisionLoss",
    "spark.sql.icu.caseMappings.enabled",
)


@dataclass(frozen=True, slots=True)
class Projection:
    """``SELECT outputs WHERE condition``.

    Attributes:
        outputs: the names of the columns, with their expressions.
        where: the condition of the rows that count; all count if None.
    """

    outputs: tuple[tuple[str, Expression], ...]
    where: Expression | None = None

    def beside(self, columns: Sequence[Column]) -> Projection:
        """Return the same projection, plus columns of the rows as they are."""
        added = ((c.name, Expression.of_column(c.name)) for c in columns)
        return replace(self, outputs=(*self.outputs, *added))

    @property
    def columns(self) -> frozenset[str]:
        """The names of the columns that it reads."""
        return frozenset(name for one in self._expressions for name in one.columns)

    @property
    def _expressions(self) -> tuple[Expression, ...]:
        own = () if self.where is None else (self.where,)
        return (*own, *(expression for _, expression in self.outputs))

    def types(self, columns: Sequence[Column]) -> dict[str, DataType]:
        """Return the types of the outputs, as far as they are certain without Spark.

        Args:
            columns: the columns of the rows; their types may be unknown.

        Returns:
            `NullType` for an unknown type.

        Raises:
            DefinitionError: types do not fit together.
        """
        known = {c.name: c.data_type for c in columns if c.is_known}

        def type_in(expression: Expression) -> DataType:
            term = analysed(expression, known) if known.keys() >= {*expression.columns} else None
            return NullType() if term is None else term.data_type

        if self.where is not None:
            _check_condition(self.where, type_in(self.where))
        return {name: type_in(expression) for name, expression in self.outputs}

    def resolved(self, columns: Sequence[Column], engines: Engines) -> dict[str, DataType]:
        """Return the types of the outputs.

        Args:
            columns: the columns of the rows, with their types.

        Raises:
            DefinitionError: types do not fit together, or Spark refuses an expression.
            SessionError: only Spark computes an expression, and there is no session.
        """
        types = self.types(columns)
        terms = self._terms(columns, engines)
        others = [one for one in self._expressions if one not in terms]
        if engines.session is None:
            if others:
                raise SessionError(
                    f"{others[0].text!r} is computed by Spark only, and the store was opened "
                    "without a session; open it with Store(deltaproduce.local_session(), …)"
                )
        elif others or any(one.column is None for one in self._expressions):
            check_ansi(engines.session)
        if others:
            of_spark = dict(zip(others, _spark_types(others, columns, engines.spark), strict=True))
            types |= {name: of_spark[one] for name, one in self.outputs if one in of_spark}
            if self.where in of_spark:
                _check_condition(self.where, of_spark[self.where])
        return types

    def of(self, rows: Rows, columns: Sequence[Column], engines: Engines, *, stage: str) -> Rows:
        """Return the outputs of rows.

        Args:
            rows: in ``columns``, perhaps with others.
            stage: the stage that they belong to, for messages.

        Raises:
            ProducerError: a value cannot be computed; for rows in Spark it is raised on
                computation.
        """
        terms = self._terms(columns, engines)
        if isinstance(rows, pa.Table) and terms.keys() >= {*self._expressions}:

            def outputs(part: pa.Table) -> pa.Table:
                return self._here(part, terms, stage=stage)

            return engines.by_slices(rows, outputs)
        return self._in_spark(engines.frame(rows, columns))

    def is_here(self, columns: Sequence[Column], engines: Engines) -> bool:
        """Return whether the driver computes the outputs of rows that are there."""
        return self._terms(columns, engines).keys() >= {*self._expressions}

    def failed(self, error: PySparkException, *, stage: str) -> ProducerError:
        """Return the error for Spark's failure to compute the outputs of rows."""
        parts = [context.fragment() for context in error.getQueryContext()]
        texts = (one.text for one in self._expressions)
        text = next((text for text in texts if any(part in text for part in parts)), None)
        return _failed(text, str(error).partition("\n")[0], stage)

    def _terms(self, columns: Sequence[Column], engines: Engines) -> dict[Expression, Term]:
        """Return the terms of the expressions that the driver computes."""
        types, zone = {c.name: c.data_type for c in columns}, engines.time_zone
        terms = ((one, analysed(one, types, zone)) for one in self._expressions)
        return {one: term for one, term in terms if term is not None}

    def _in_spark(self, rows: DataFrame) -> DataFrame:
        if self.where is not None:
            rows = rows.where(f.expr(self.where.text))
        return rows.select(*(f.expr(one.text).alias(name) for name, one in self.outputs))

    def _here(self, rows: pa.Table, terms: Mapping[Expression, Term], *, stage: str) -> pa.Table:
        computing = None
        try:
            if self.where is not None:
                computing = self.where
                rows = rows.filter(pa.array(holds(terms[self.where], rows)))
            arrays = dict[str, pa.Array]()
            for name, computing in self.outputs:
                arrays[name] = evaluated(terms[computing], rows)
        except EvaluationError as error:
            assert computing is not None
            raise _failed(computing.text, str(error), stage) from error
        return pa.table(arrays)


@contextmanager
def naming(stage: str) -> Iterator[None]:
    """Add the stage to errors of its expressions."""
    try:
        yield
    except DefinitionError as error:
        raise DefinitionError(f"stage {stage!r}: {error}", stage=stage) from error.__cause__
    except SessionError as error:
        raise SessionError(f"stage {stage!r}: {error}", stage=stage) from None


def _failed(text: str | None, said: str, stage: str) -> ProducerError:
    what = "an expression" if text is None else repr(text)
    return ProducerError(f"stage {stage!r}: {what} failed: {escaped(said)}", stage=stage)


def _check_condition(condition: Expression, data_type: DataType) -> None:
    if not isinstance(data_type, BooleanType | NullType):
        raise DefinitionError(
            f"{condition.text!r} is of type {data_type.simpleString()}; write a condition"
        )


def is_ansi(session: SparkSession | None) -> bool:
    """Return whether rows in a session are computed as without one, in ANSI mode."""
    return session is None or all(session.conf.get(name) == "true" for name in _SETTINGS)


def check_ansi(session: SparkSession) -> None:
    """Refuse a session with settings under which expressions have other results.

    Raises:
        SessionError: it is one.
    """
    for name in _SETTINGS:
        if session.conf.get(name) != "true":
            raise SessionError(
                f"the session has {name} = false, and expressions of stages are computed with "
                "true, in ANSI mode; set it to true"
            )


def _spark_types(
    expressions: Sequence[Expression], columns: Sequence[Column], spark: SparkSession
) -> list[DataType]:
    """Return the types of expressions, which Spark analyses together.

    Raises:
        DefinitionError: Spark refuses one of them.
    """
    rows = spark.createDataFrame(
        [], in_spark(StructType([StructField(c.name, c.data_type) for c in columns]))
    )
    try:
        named = (f.expr(one.text).alias(f"_{place}") for place, one in enumerate(expressions))
        return [field.dataType for field in frame_struct(rows.select(*named))]
    except spark_errors("AnalysisException", "ParseException") as error:
        if len(expressions) > 1:  # find the one that is refused
            half = len(expressions) // 2
            parts = expressions[:half], expressions[half:]
            return [data_type for part in parts for data_type in _spark_types(part, columns, spark)]
        said = str(error).partition("\n")[0]
        raise DefinitionError(f"Spark refuses {expressions[0].text!r}: {said}") from error
