"""Stages that are a query: Spark runs it over the rows of the affected source keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from typing_extensions import override

from deltaproduce.engines.choice import OPEN_IN_SESSION
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.sessions.on_demand import spark_errors
from deltaproduce.errors import ProducerError, SessionError
from deltaproduce.model.graph import Stage
from deltaproduce.model.kind import Definition
from deltaproduce.stages.inputs import StageInput, all_parts, changed_parts
from deltaproduce.stages.productions import Production
from deltaproduce.stages.queries import on_driver
from deltaproduce.stages.queries.query import Query
from deltaproduce.stages.queries.running import queried, query_schema, typed_schema
from deltaproduce.stages.source_keys import ProducerKind
from deltaproduce.stages.sql.projection import is_ansi
from deltaproduce.stages.sql.text import QueryText
from deltaproduce.stages.sql.zoned import depends_on_zone, types_of
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.types.columns import RowSchema
from deltaproduce.types.excerpts import escaped


@dataclass(frozen=True, slots=True, repr=False)
class KeyLocalQuery(ProducerKind):
    """A stage that is a query, each of whose rows comes from rows of one source key."""

    query: Query

    @property
    @override
    def word(self) -> str:
        return "sql"

    @property
    @override
    def definition(self) -> Definition:
        return Definition(self.query.text, sql=self.query.text)

    @override
    def depends_on_zone(self, schema: RowSchema, feeders: Sequence[RowSchema]) -> bool:
        """By the text of the query."""
        del schema
        return depends_on_zone(QueryText.read(self.query.text).tree, types_of(feeders))

    @override
    def resolved(self, stage: Stage, tables: Tables) -> Stage:
        """Spark finds the types that are not certain without it."""
        plan, session = on_driver.plan(stage, self.query), tables.engines.session
        if isinstance(plan, str) or not is_ansi(session):
            if session is None:
                message = (
                    f"stage {stage.name!r}: {plan!r} is computed by Spark only, and the store was "
                    f"opened without a session; {OPEN_IN_SESSION}"
                )
                raise SessionError(message, stage=stage.name)
            return replace(stage, schema=query_schema(stage, self.query, tables.spark))
        types = plan.types
        return replace(stage, schema=typed_schema(stage, types))

    @override
    def emitted(
        self, production: Production, inputs: Sequence[StageInput], keys: Selection | None
    ) -> tuple[Rows, int] | None:
        stage = production.stage
        computed = self._on_driver(production, inputs, keys)
        if computed is not None:
            return computed
        given = production.frames(inputs, keys)
        if given is None:
            return None
        with queried(stage, self.query, given, production.engines.spark) as rows:
            try:
                return production.computed(rows)
            except spark_errors("PySparkException") as error:
                said = escaped(str(error).partition("\n== ")[0])  # the rest is in the cause
                message = f"stage {stage.name!r}: its query failed: {said}"
                raise ProducerError(message, stage=stage.name) from error

    def _on_driver(
        self, production: Production, inputs: Sequence[StageInput], keys: Selection | None
    ) -> tuple[Rows, int] | None:
        """Return the rows that the driver makes; None if it does not, or has none to make."""
        plan = on_driver.plan(production.stage, self.query)
        if isinstance(plan, str) or not is_ansi(production.engines.session):
            return None
        parts = all_parts(inputs) if keys is None else changed_parts(inputs, keys)
        contents = {each.stage.name: empty(each.content) for each in inputs}
        for each, rows in parts:
            if not isinstance(rows, pa.Table):
                return None
            contents[each.stage.name] = rows
        if not parts:
            return None
        computed = on_driver.computed(
            production.stage, plan, contents, production.engines.time_zone
        )
        return computed, len(computed)
