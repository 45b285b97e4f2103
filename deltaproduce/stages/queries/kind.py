"""Stages that are a query: Spark runs it over the rows of the affected source keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import dedent

import pyarrow as pa

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
from deltaproduce.stages.sql.expressions.terms import Constant
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
    def word(self) -> str:
        """See `Kind.word`."""
        return "sql"

    @property
    def made_by(self) -> object:
        """See `Kind.made_by`."""
        return self.query.text

    def definition(self, feeders: Sequence[str]) -> Definition:
        """See `Kind.definition`."""
        del feeders
        return Definition("sql", dedent(self.query.text).strip())

    @property
    def maker(self) -> str:
        """See `Kind.maker`."""
        return "query"

    @property
    def select(self) -> tuple[str, Mapping[str, Constant]]:
        """See `StageKind.select`."""
        return self.query.text, {}

    def depends_on_zone(self, schema: RowSchema, feeders: Sequence[RowSchema]) -> bool:
        """See `Kind.depends_on_zone`: by the text of the query."""
        del schema
        return depends_on_zone(QueryText.read(self.query.text).tree, types_of(feeders))

    def resolved(self, stage: Stage, tables: Tables) -> Stage:
        """See `StageKind.resolved`: Spark finds the types that are not certain without it."""
        found, session = on_driver.plan(stage, self.query), tables.engines.session
        if isinstance(found, str) or not is_ansi(session):
            if session is None:
                message = (
                    f"stage {stage.name!r}: {found!r} is computed by Spark only, and the store was "
                    f"opened without a session; {OPEN_IN_SESSION}"
                )
                raise SessionError(message, stage=stage.name)
            return replace(stage, schema=query_schema(stage, self.query, tables.spark))
        types = found.types
        return replace(stage, schema=typed_schema(stage, types))

    def emitted(
        self, production: Production, inputs: Sequence[StageInput], keys: Selection | None
    ) -> tuple[Rows, int] | None:
        """See `ProducerKind.emitted`."""
        stage = production.stage
        made = self._on_driver(production, inputs, keys)
        if made is not None:
            return made
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
        found = on_driver.plan(production.stage, self.query)
        if isinstance(found, str) or not is_ansi(production.engines.session):
            return None
        parts = all_parts(inputs) if keys is None else changed_parts(inputs, keys)
        contents = {each.stage.name: empty(each.content) for each in inputs}
        for each, rows in parts:
            if not isinstance(rows, pa.Table):
                return None
            contents[each.stage.name] = rows
        if not parts:
            return None
        made = on_driver.computed(production.stage, found, contents, production.engines.time_zone)
        return made, len(made)
