"""The choice of an engine: where rows are worked on, and when they change over.

The invariant: this is the only place that decides it. Rows stay where they are: on the driver while
all that take part are there, else in Spark. What Spark has computed comes to the driver if it is
little (`Limits.is_local`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from deltaproduce.engines.engine import Engine, Rows
from deltaproduce.engines.local.engine import LocalEngine
from deltaproduce.engines.spark.engine import SparkEngine
from deltaproduce.engines.spark.frames import fetched
from deltaproduce.model.limits import Limits
from deltaproduce.types.columns import Column

_LOCAL: Final = LocalEngine()


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines of one store.

    Attributes:
        spark: the user's session.
        limits: up to which sizes rows are worked on where.
    """

    spark: SparkSession
    limits: Limits

    @property
    def time_zone(self) -> str:
        """The session's: on its clock functions see timestamps, and times without a zone are."""
        return self.spark.conf.get("spark.sql.session.timeZone") or "UTC"

    def of(self, *rows: Rows) -> Engine[Any]:
        """The engine that works on some rows together."""
        return _LOCAL if all(is_local(one) for one in rows) else self.distributed

    @property
    def distributed(self) -> SparkEngine:
        """Spark, whatever rows there are."""
        return SparkEngine(self.spark, self.limits.plan_rows)

    def frame(self, rows: Rows, columns: Sequence[Column]) -> DataFrame:
        """Some columns of the rows, in Spark, wherever they are."""
        return self.distributed.here(rows, columns)

    def table(self, rows: Rows, columns: Sequence[Column]) -> pa.Table:
        """Some columns of the rows, on the driver, wherever they are."""
        return fetched(rows, columns) if isinstance(rows, DataFrame) else _LOCAL.here(rows, columns)

    def united(self, one: Rows, other: Rows, columns: Sequence[Column]) -> Rows:
        """These columns of both."""
        found: Rows = self.of(one, other).united([one, other], columns)
        return found

    def settled(
        self, computed: DataFrame, columns: Sequence[Column], rows: int, total_bytes: int
    ) -> Rows:
        """Rows that Spark has computed, on the driver if they are few."""
        is_few = self.limits.is_local(rows, total_bytes)
        return fetched(computed, columns) if is_few else computed


def is_empty(rows: Rows) -> bool:
    """Whether it is known that there are no rows."""
    return isinstance(rows, pa.Table) and not len(rows)


def is_local(rows: Rows) -> bool:
    """Whether rows are on the driver."""
    return isinstance(rows, pa.Table)
