"""The kind of a view: any SELECT over stages, which follows their changes if it can."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import dedent
from typing import Final, TypeAlias

import pyarrow as pa

from deltaproduce.engines.choice import OPEN_IN_SESSION
from deltaproduce.engines.comparisons import Comparison
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.sessions.on_demand import spark_errors
from deltaproduce.errors import DefinitionError, ProducerError, SessionError
from deltaproduce.model.graph import Stage
from deltaproduce.model.kind import Definition, Upkeep
from deltaproduce.model.layouts import CONTENT, RUNS, UPDATES, Layout
from deltaproduce.shown.explanations import Operator
from deltaproduce.stages.inputs import StageInput
from deltaproduce.stages.productions import DerivedKind, Found, Production
from deltaproduce.stages.sql.algebra.relations import Aggregate, Relation, Scan, Values
from deltaproduce.stages.sql.algebra.scalars import readable
from deltaproduce.stages.sql.algebra.spark_only import InSpark
from deltaproduce.stages.sql.algebra.windows import Window
from deltaproduce.stages.sql.expressions.terms import Constant
from deltaproduce.stages.sql.keys import key_columns
from deltaproduce.stages.sql.projection import check_ansi
from deltaproduce.stages.sql.projection import naming as of_stage
from deltaproduce.stages.sql.resolve import Resolved, resolved
from deltaproduce.stages.sql.text import QueryText
from deltaproduce.stages.sql.zoned import depends_on_zone, types_of
from deltaproduce.stages.views import in_spark
from deltaproduce.stages.views.following import TooManyRowsError
from deltaproduce.stages.views.grouped import Grouped
from deltaproduce.stages.views.kept_states import has_all_states, without_states
from deltaproduce.stages.views.keys import key_of, key_of_groups, naming
from deltaproduce.stages.views.modes import ORDER_OF_OTHER_COLUMNS, reasons
from deltaproduce.stages.views.on_driver import computed, followed_rows
from deltaproduce.storage.stored import Stored
from deltaproduce.storage.tables import Tables
from deltaproduce.types.columns import (
    Columns,
    RowSchema,
    keyless_schema,
    row_schema,
    unknown_schema,
)
from deltaproduce.types.data_types import (
    DataType,
    NullType,
    StructField,
    StructType,
)
from deltaproduce.types.ddl import DESCENDING
from deltaproduce.types.excerpts import escaped

LARGE_CHANGE: Final = "LARGE_CHANGE"
"""A change, or what has to be read for it, is more than the driver takes from Spark."""
NEVER: Final = "NEVER"
"""The view is defined with incremental="never"."""
FLOATS_IN_SPARK: Final = "FLOATS_IN_SPARK"
"""Sums of floats: with a session Spark may have computed some, with other last digits."""
UNSUPPORTED_FUNCTION: Final = "UNSUPPORTED_FUNCTION"
"""Only Spark computes a part of the operator."""


Known: TypeAlias = tuple[Mapping[str, RowSchema], Resolved]
"""The columns of the stages that a query reads, and what its text says over them."""


@dataclass(frozen=True, slots=True, repr=False)
class View(DerivedKind):
    """A stage that is a query over whole stages.

    Attributes:
        query: the user's text.
        of_nothing: whether it may have rows over stages without rows.
        recomputed: why it runs as a whole at each change; None if it follows changes.
        is_followed: whether it follows changes if it can.
        key: the key columns that its user names -> whether they sort descending; None for those
            that follow from the query.
        with_session: whether the store has a session, in which some rows may be computed.
        known: what its text says in an opened store; to find it takes longer than a small step.
    """

    query: str
    of_nothing: bool
    key: tuple[tuple[str, bool], ...] | None = None
    recomputed: str | None = None
    is_followed: bool = True
    with_session: bool = False
    known: Known | None = field(default=None, compare=False)

    @property
    def word(self) -> str:
        """See `Kind.word`."""
        return "view"

    @property
    def tables(self) -> tuple[str, ...]:
        """See `Kind.tables`: no key mappings, since a row comes from rows of many source keys."""
        return (CONTENT, UPDATES, RUNS)

    @property
    def made_by(self) -> object:
        """See `Kind.made_by`.

        What Spark and the driver make otherwise is made again by whoever opens the store.
        """
        is_by_spark = self.recomputed == FLOATS_IN_SPARK
        return (self.query, self.recomputed) if is_by_spark else self.query

    def definition(self, feeders: Sequence[str]) -> Definition:
        """See `Kind.definition`."""
        del feeders
        return Definition("sql", dedent(self.query).strip())

    @property
    def maker(self) -> str:
        """See `Kind.maker`."""
        return "query"

    @property
    def upkeep(self) -> Upkeep:
        """See `Kind.upkeep`: its expressions are of the columns' types."""
        return Upkeep(
            by_key=False,
            has_lineage=False,
            recomputes=self.recomputed and f"its query runs as a whole ({self.recomputed})",
            of_nothing=self.of_nothing,
            subtracts=True,
            by_all_columns=True,
        )

    @property
    def select(self) -> tuple[str, Mapping[str, Constant]]:
        """See `StageKind.select`."""
        return self.query, {}

    @staticmethod
    def defined(
        query: str,
        key: str | None,
        stages: Mapping[str, RowSchema],
        *,
        stage: str,
        is_followed: bool = True,
    ) -> View:
        """Return the kind of a stage from its definition.

        Args:
            is_followed: whether it follows changes if it can.
            key: the names of its key columns, perhaps with directions; one row over all if empty,
                those that follow from the query if None.
            stages: the columns of the stages that it may read.

        Raises:
            DefinitionError: the query is refused; with `stage`.
        """
        with naming(stage):
            found = resolved(query, stages)
        relations = [*found.relation.walk()]
        globals_ = (isinstance(one, Aggregate) and not one.keys for one in relations)
        constants = (isinstance(one, Values | InSpark) for one in relations)
        of_nothing = any(globals_) or any(constants)
        named = {} if not key else key_columns(key, found.names, stage=stage, needs_values=False)
        given = None if key is None else tuple(named.items())
        return View(query, of_nothing, given, is_followed=is_followed).explained(found)

    def explained(self, query: Resolved) -> View:
        """Return the same view, with the reason why it runs as a whole, if it does."""
        found = self._reasons(query)
        relations = query.relation.walk()
        first = next((found[id(one)] for one in relations if id(one) in found), None)
        return replace(self, recomputed=first)

    def depends_on_zone(self, schema: RowSchema, feeders: Sequence[RowSchema]) -> bool:
        """See `Kind.depends_on_zone`: by the text of the query."""
        del schema
        return depends_on_zone(QueryText.read(self.query).tree, types_of(feeders))

    def operators(self, feeders: Sequence[Stage]) -> tuple[Operator, ...]:
        """See `StageKind.operators`."""
        query = self.over({one.name: one.schema for one in feeders})
        relations, found = [*query.relation.walk()], self._reasons(query)
        numbers = {id(one): number for number, one in enumerate(relations)}
        return tuple(
            Operator(
                readable(one.told),
                "recompute" if id(one) in found else "incremental",
                found.get(id(one)),
                tuple(numbers[id(given)] for given in one.inputs),
            )
            for one in relations
        )

    def _reasons(self, query: Resolved) -> dict[int, str]:
        """Return the operators that compute all their rows at each change -> why."""
        if not self.is_followed:
            relations = query.relation.walk()
            return {id(one): NEVER for one in relations if not isinstance(one, Scan)}
        found, grouped = self._obstacles(query), self._groups(query)
        if grouped is not None:  # one row per key; its states tell all but a value that goes
            if not grouped.looks_up:
                found.pop(id(grouped.aggregate), None)
        elif not all(key.field.id in query.fields.values() for key in query.order):
            found.setdefault(id(query.relation), ORDER_OF_OTHER_COLUMNS)
        return found

    def _obstacles(self, query: Resolved) -> dict[int, str]:
        """Return the operators that do not follow changes by their rows alone -> why."""
        found = reasons(query.relation)
        for one in query.relation.walk():
            if one.only_in_spark is not None:
                found[id(one)] = UNSUPPORTED_FUNCTION
            elif self.with_session and _adds_floats(one):
                found[id(one)] = FLOATS_IN_SPARK
        return found

    def _groups(self, query: Resolved) -> Grouped | None:
        """Return the query as groups with states; None if it is another."""
        key = key_of_groups(query) if self.key is None else [name for name, _ in self.key]
        found = None if key is None or query.only_in_spark is not None else Grouped.of(query, key)
        is_by_spark = self.with_session and found is not None and _adds_floats(found.aggregate)
        return None if is_by_spark else found

    def over(self, feeders: Mapping[str, RowSchema]) -> Resolved:
        """See `StageKind.over`."""
        if self.known is not None and self.known[0] == feeders:
            return self.known[1]
        return resolved(self.query, feeders)

    def schema(self, stages: Mapping[str, RowSchema], *, stage: str) -> RowSchema:
        """Return the columns of such a stage, without types if only Spark knows some.

        Args:
            stages: the columns of the stages that it may read.

        Raises:
            DefinitionError: the query is refused, or a column cannot be stored; with `stage`.
        """
        with naming(stage):
            query = self.over(stages)
        types = [column.field.data_type for column in query.columns]
        for column, kind in zip(query.columns, types, strict=True):
            if isinstance(kind, NullType):
                message = (
                    f"stage {stage!r}: column {column.name!r} is always null, of type void; "
                    "write CAST(NULL AS type)"
                )
                raise DefinitionError(message, stage=stage, column=column.name)
        known = [kind for kind in types if kind is not None]
        if len(known) < len(types):
            key = self._key(query, stages)
            return unknown_schema(key, [name for name in query.names if name not in key])
        return self._typed(query, known, stages, stage=stage)

    def resolved(self, stage: Stage, tables: Tables) -> Stage:
        """See `StageKind.resolved`: Spark finds the types that are not certain without it."""
        stages = {one.name: one.schema for one in stage.feeders}
        query, session = self.over(stages), tables.engines.session
        kind = replace(self, with_session=session is not None, known=(stages, query))
        kind = kind.explained(query)
        if query.only_in_spark is None:
            return replace(stage, schema=kind.schema(stages, stage=stage.name), kind=kind)
        if session is None:
            message = (
                f"stage {stage.name!r}: {query.only_in_spark!r} is computed by Spark only, and the "
                f"store was opened without a session; {OPEN_IN_SESSION}"
            )
            raise SessionError(message, stage=stage.name)
        with of_stage(stage.name):
            check_ansi(session)
        types = in_spark.types_of(stage, query, tables.spark)
        typed = replace(
            query,
            columns=tuple(
                replace(column, field=replace(column.field, data_type=kind))
                for column, kind in zip(query.columns, types, strict=True)
            ),
        )
        return replace(stage, schema=self._typed(typed, types, stages, stage=stage.name), kind=kind)

    def produced(
        self, production: Production, inputs: Sequence[StageInput]
    ) -> tuple[Rows, int] | None:
        """See `DerivedKind.produced`."""
        stage, engines = production.stage, production.engines
        query = self.over({one.name: one.schema for one in stage.feeders})
        if query.only_in_spark is None:
            contents = {each.stage.name: each.all_rows() for each in inputs}
            tables = {
                each.stage.name: empty(each.content) if rows is None else rows
                for each, rows in zip(inputs, contents.values(), strict=True)
            }
            if all(isinstance(rows, pa.Table) for rows in tables.values()):
                layout, zone = Layout.of(stage), engines.time_zone
                grouped = self._grouped(query)
                made = computed(query, grouped, tables, layout, zone, stage=stage.name)
                return made, len(made)
        check_ansi(engines.spark)
        frames = production.frames(inputs, None)
        if frames is None:
            frames = {
                each.stage.name: engines.frame(empty(each.content), each.content) for each in inputs
            }
        with in_spark.queried(stage, query, frames, engines.spark) as rows:
            try:
                return production.computed(rows)
            except spark_errors("PySparkException") as error:
                said = escaped(str(error).partition("\n== ")[0])  # the rest is in the cause
                message = f"stage {stage.name!r}: its query failed: {said}"
                raise ProducerError(message, stage=stage.name) from error

    def changed(
        self,
        production: Production,
        inputs: Sequence[StageInput],
        content: Stored | None,
        mappings: Callable[[], Stored | None],
    ) -> Found | None:
        """See `DerivedKind.changed`.

        A change that is too large for the driver runs the query as a whole.
        """
        del mappings
        if not any(each.changed for each in inputs):
            return None
        why = self.recomputed
        if why is None:
            query = self.over({one.name: one.schema for one in production.stage.feeders})
            try:
                grouped = self._grouped(query)
                return followed_rows(query, grouped, production, inputs, content)
            except TooManyRowsError:
                why = LARGE_CHANGE
        made = self.produced(production, inputs)
        found = None if made is None else production.replaced(content, *made)
        return found and replace(found, recomputed=why)

    def sampled(
        self,
        production: Production,
        inputs: Sequence[StageInput],
        content: Stored | None,
        mappings: Callable[[], Stored | None],
        keys: Callable[[], Selection],
    ) -> Found | None:
        """See `DerivedKind.sampled`: all rows, and their states unless Spark has made some."""
        del mappings, keys
        made = self.produced(production, inputs)
        if made is None or content is None or not production.stage.schema.states:
            return made and production.replaced(content, *made)
        layout, sides = Layout.of(production.stage), (content.rows(), made[0])
        if not all(has_all_states(side, layout) for side in sides):
            sides = without_states(sides[0], layout), without_states(sides[1], layout)
        return Found(Comparison.of_all(*sides, layout, production.engines))

    def _grouped(self, query: Resolved) -> Grouped | None:
        """Return the query as groups whose states the view keeps; None if it keeps none."""
        return self._groups(query) if self.recomputed is None else None

    def _key(self, query: Resolved, stages: Mapping[str, RowSchema]) -> dict[str, bool]:
        if self.key is not None:
            return dict(self.key)
        return dict.fromkeys(key_of(query, stages), False)

    def _typed(
        self,
        query: Resolved,
        types: Sequence[DataType],
        stages: Mapping[str, RowSchema],
        *,
        stage: str,
    ) -> RowSchema:
        """Return the columns with their types, split into key and value."""
        key, known = self._key(query, stages), dict(zip(query.names, types, strict=True))
        value = StructType([StructField(n, kind) for n, kind in known.items() if n not in key])
        grouped = self._grouped(query)
        states = Columns(() if grouped is None else grouped.states)
        if not key:
            return replace(keyless_schema(value, stage=stage), states=states)
        fields = [
            StructField(name, known[name], metadata={DESCENDING: True} if descending else {})
            for name, descending in key.items()
        ]
        schema = row_schema(StructType(fields), value, stage=stage, may_lack_values=True)
        return replace(schema, states=states)


def _adds_floats(relation: Relation) -> bool:
    """Return whether an operator adds up floats, which Spark does in the order of rows."""
    if isinstance(relation, Window):
        calls = (one.aggregate for _, one in relation.calls)
        return any(call is not None and call.adds_floats for call in calls)
    return isinstance(relation, Aggregate) and any(call.adds_floats for _, call in relation.calls)
