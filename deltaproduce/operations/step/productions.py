"""Productions: what a stage's function makes of some rows, computed once.

From the rows of some source keys to rows of the stage's content: the function is called, or the
query run; what it emits is computed (S4), and what is to be stored of it may depend on what the
target keys had before (S12). The invariant: whatever runs a user's function is computed exactly
once a step, and is on the driver afterwards if it is little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.selections import Rows, Selection, as_frame
from deltaproduce.engines.spark.checkpoints import checkpoint
from deltaproduce.engines.spark.columns import cols
from deltaproduce.engines.spark.frames import fetched, frame, row_bytes
from deltaproduce.errors import ProducerError
from deltaproduce.model import limits
from deltaproduce.model.graph import Producer
from deltaproduce.model.layouts import content_columns, sources_of
from deltaproduce.operations.step.inputs import (
    StageInput,
    all_parts,
    all_rows,
    changed_parts,
    changed_rows,
    input_columns,
)
from deltaproduce.stages.functions.by_key import produce
from deltaproduce.stages.functions.preservation import preserved
from deltaproduce.stages.functions.surrogates import numbered, numbered_here
from deltaproduce.stages.queries import Query
from deltaproduce.stages.queries.running import queried
from deltaproduce.storage.figures import StageFigures
from deltaproduce.types.columns import ORDINAL, ORDINAL_COLUMN, Column
from deltaproduce.types.excerpts import escaped

_ROWS_OF_ONE_TASK: Final = 5_000


@dataclass(frozen=True, slots=True)
class Production:
    """How a stage's function is run in one step.

    Attributes:
        surrogates: the last surrogate number that the stage has given out.
        time_zone: the session's, on whose clock functions see timestamps.
        is_numbered: whether the rows before have the surrogates that the stage is defined with.
    """

    stage: Producer
    surrogates: int
    time_zone: str
    spark: SparkSession
    is_numbered: bool = True

    @staticmethod
    def of(stage: Producer, last: StageFigures, spark: SparkSession) -> Production:
        """How it is run after a version that has these figures of the stage."""
        time_zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
        is_numbered = last.numbering.surrogate == stage.surrogate
        return Production(
            stage, last.numbering.surrogates if is_numbered else 0, time_zone, spark, is_numbered
        )

    @property
    def content(self) -> tuple[Column, ...]:
        """The columns of what is produced: those of the content."""
        return content_columns(self.stage.schema, sources_of(self.stage))

    def of_changed(self, inputs: Sequence[StageInput], keys: Selection) -> tuple[Rows, int]:
        """What the function makes of the changed keys, and how many rows."""
        query = self.stage.query
        if query is not None:
            return self._queried(query, changed_parts(inputs, keys))
        return self._emitted(changed_rows(self.stage, inputs, keys))

    def of_all(self, inputs: Sequence[StageInput]) -> tuple[Rows, int] | None:
        """What the function makes of all keys, and how many rows; None if there are no keys."""
        query = self.stage.query
        if query is not None:
            parts = all_parts(inputs)
            return self._queried(query, parts) if parts else None
        rows = all_rows(self.stage, inputs, self.spark)
        return None if rows is None else self._emitted(rows)

    def kept(self, before: Rows | None, emitted: Rows, count: int) -> tuple[Rows, int]:
        """The rows to be stored of what was emitted, and the last surrogate number given out then.

        Args:
            before: content before the step, of all keys of the emitted rows at least; None if
                there was none.
            count: how many rows were emitted.
        """
        stage, spark, content = self.stage, self.spark, self.content
        if stage.surrogate is None and stage.preserve is None:
            return emitted, self.surrogates
        known = before if before is not None and self.is_numbered else empty(content)
        if stage.surrogate is None:
            old, new = as_frame(known, spark, content), as_frame(emitted, spark, content)
            stored, _ = self._computed(preserved(old, new, count, stage, self.time_zone))
            return stored, self.surrogates
        if isinstance(known, pa.Table) and isinstance(emitted, pa.Table):
            return numbered_here(known, emitted, stage.schema, stage.surrogate, self.surrogates)
        old, new = as_frame(known, spark, content), as_frame(emitted, spark, content)
        return numbered(old, new, stage.schema, stage.surrogate, self.surrogates)

    def _emitted(self, rows: Rows) -> tuple[Rows, int]:
        """What the function makes of rows in the columns of `input_columns`, in order."""
        if isinstance(rows, pa.Table):
            if not len(rows):
                return empty(self.content), 0
            rows = self._in_tasks(rows)
        return self._computed(produce(rows, self.stage, self.time_zone))

    def _queried(self, query: Query, parts: Sequence[tuple[StageInput, Rows]]) -> tuple[Rows, int]:
        """What the query makes of some rows of its feeders."""
        given = {
            given.stage.name: as_frame(rows, self.spark, given.content) for given, rows in parts
        }
        for feeder in self.stage.feeders:
            if feeder.name not in given:
                columns = (*feeder.schema.key, *feeder.schema.value)
                given[feeder.name] = frame(empty(columns), self.spark, columns)
        with queried(self.stage, query, given, self.spark) as rows:
            try:
                return self._computed(rows)
            except PySparkException as error:
                said = escaped(str(error).partition("\n== ")[0])  # of which part, the cause says
                message = f"stage {self.stage.name!r}: its query failed: {said}"
                raise ProducerError(message, stage=self.stage.name) from error

    def _computed(self, rows: DataFrame) -> tuple[Rows, int]:
        size = f.coalesce(f.sum(row_bytes(self.content)), f.lit(0))
        counted = {"rows": f.count(f.lit(1)), "bytes": size}
        function = None if self.stage.query else self.stage.name
        computed, counts = checkpoint(rows, counted, stage=function)
        few = counts["rows"] <= limits.LOCAL_ROWS and counts["bytes"] <= limits.LOCAL_BYTES
        return (fetched(computed, self.content) if few else computed), counts["rows"]

    def _in_tasks(self, rows: pa.Table) -> DataFrame:
        """Rows from the driver, in order: in one task if they are few, else in many by key."""
        columns, key = input_columns(self.stage), self.stage.feeders[0].schema.key
        if len(rows) <= _ROWS_OF_ONE_TASK:
            return as_frame(rows, self.spark, columns).coalesce(1)
        numbered = rows.append_column(ORDINAL, pa.array(np.arange(len(rows))))
        ordered = as_frame(numbered, self.spark, (*columns, ORDINAL_COLUMN))
        clustered = ordered.repartition(*cols(key)).sortWithinPartitions(ORDINAL)
        return clustered.select(*cols(columns))
