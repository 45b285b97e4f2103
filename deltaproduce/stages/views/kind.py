"""The kind of a view: any SELECT over stages, which follows their changes if it can."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from typing_extensions import override

from deltaproduce.engines.choice import OPEN_IN_SESSION
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.spark.sessions.on_demand import spark_errors
from deltaproduce.errors import DefinitionError, SessionError
from deltaproduce.model.graph import Producer, Stage
from deltaproduce.model.kind import Definition, Upkeep
from deltaproduce.model.layouts import CONTENT, RUNS, UPDATES
from deltaproduce.shown.explanations import Operator
from deltaproduce.stages.inputs import StageInput, fed_by
from deltaproduce.stages.productions import Produced, Production, ProductionResult
from deltaproduce.stages.sql.algebra.relations import AggregateRelation, Relation, Scan
from deltaproduce.stages.sql.algebra.scalars import readable
from deltaproduce.stages.sql.algebra.spark_only import InSpark
from deltaproduce.stages.sql.algebra.windows import WindowRelation
from deltaproduce.stages.sql.keys import key_columns
from deltaproduce.stages.sql.operators.changes.subplans import Subplan, subplans
from deltaproduce.stages.sql.operators_in_spark import has_frame
from deltaproduce.stages.sql.projection import check_ansi
from deltaproduce.stages.sql.projection import naming as of_stage
from deltaproduce.stages.sql.resolve import Resolved, check_told, resolved
from deltaproduce.stages.views import in_spark
from deltaproduce.stages.views.dates import NO_DATE, check_date, dated, is_dated, with_time
from deltaproduce.stages.views.following import TooManyRowsError
from deltaproduce.stages.views.hidden import (
    FollowingKind,
    hidden_inputs,
    identity,
    is_reached,
    may_have_rows_of_nothing,
)
from deltaproduce.stages.views.kept import MaterializedRelation
from deltaproduce.stages.views.keys import key_of, naming
from deltaproduce.stages.views.on_driver import FULL_FROM, compute, followed_rows
from deltaproduce.stages.views.plan.costs import SMALL
from deltaproduce.stages.views.plan.modes import NO_DELTA_RULE, ORDER_OF_OTHER_COLUMNS
from deltaproduce.stages.views.plan.planning import Sides, ViewPlan, planned
from deltaproduce.storage.parquet.shared_lookups import Wanted
from deltaproduce.storage.stored import Stored
from deltaproduce.storage.tables.tables import Tables
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

LARGE_CHANGE: Final = "LARGE_CHANGE"
"""A change, or what has to be read for it, is more than the driver takes from Spark."""
NEVER: Final = "NEVER"
"""The view is defined with incremental="never"."""
FLOATS_IN_SPARK: Final = "FLOATS_IN_SPARK"
"""Sums of floats: with a session Spark may have computed some, with other last digits."""
UNSUPPORTED_FUNCTION: Final = "UNSUPPORTED_FUNCTION"
"""Only Spark computes a part of the operator."""


Known: TypeAlias = tuple[Mapping[str, RowSchema], Resolved, ViewPlan]
"""The columns of the stages that a query reads, what its text says over them, and its plan."""


@dataclass(frozen=True, slots=True, repr=False)
class View(FollowingKind):
    """A stage that is a query over whole stages.

    Attributes:
        query: the user's text.
        of_nothing: whether it may have rows over stages without rows.
        recomputed: why it runs as a whole at each change; None if it follows changes.
        while_small: see `ViewPlan.while_small`; it then follows changes, although `recomputed`.
        beside: what its hidden tables have; empty if there are none.
        is_followed: whether it follows changes if it can.
        is_dated: whether its rows depend on the date of the version.
        has_updates: whether a store keeps its updates.
        key: the key columns that its user names -> whether they sort descending; None for those
            that follow from the query.
        with_session: whether the store has a session, in which some rows may be computed.
        known: what its text says over some feeders; to find it takes longer than a small step.
    """

    query: str
    of_nothing: bool
    key: tuple[tuple[str, bool], ...] | None = None
    recomputed: str | None = None
    is_followed: bool = True
    is_dated: bool = False
    has_updates: bool = True
    with_session: bool = False
    while_small: tuple[Sides, ...] = ()
    beside: tuple[object, ...] = ()
    known: Known | None = field(default=None, compare=False)

    @property
    @override
    def word(self) -> str:
        return "view"

    @property
    @override
    def tables(self) -> tuple[str, ...]:
        return (CONTENT, UPDATES, RUNS) if self.has_updates else (CONTENT, RUNS)

    @property
    @override
    def definition(self) -> Definition:
        """What Spark and the driver make otherwise is made again by whoever opens the store."""
        is_by_spark = self.recomputed == FLOATS_IN_SPARK
        identity: object = (self.query, self.recomputed) if is_by_spark else self.query
        identity = (identity, self.beside) if self.beside else identity
        return Definition(identity, sql=self.query, constants=NO_DATE)

    @property
    @override
    def upkeep(self) -> Upkeep:
        """Its expressions are of the columns' types."""
        why = self.recomputed and f"its query runs as a whole ({self.recomputed})"
        return Upkeep(
            by_key=False,
            has_lineage=False,
            recomputes=None if self.while_small else why,
            may_recompute=why if self.while_small else None,
            of_nothing=self.of_nothing,
            subtracts=True,
            full_from=FULL_FROM,
            by_all_columns=True,
            by_date=self.is_dated,
        )

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
            resolved_query = resolved(query, stages, NO_DATE)
        relations = [*resolved_query.relation.walk()]
        in_spark = any(isinstance(one, InSpark) for one in relations)
        of_nothing = in_spark or may_have_rows_of_nothing(resolved_query.relation)
        named = (
            {}
            if not key
            else key_columns(key, resolved_query.names, stage=stage, needs_values=False)
        )
        given = None if key is None else tuple(named.items())
        view = View(
            query, of_nothing, given, is_followed=is_followed, is_dated=is_dated(resolved_query)
        )
        plan = view.planned(resolved_query, stages, stage=stage)
        feeders = {name: stages[name] for name in resolved_query.feeders}
        return replace(view, known=(feeders, resolved_query, plan)).explained(resolved_query, plan)

    def explained(self, query: Resolved, plan: ViewPlan) -> View:
        """Return the same view, with the reason why it runs as a whole, if it does."""
        places = map(id, query.relation.walk())
        first = next((plan.reasons[one] for one in places if one in plan.reasons), None)
        sides, beside = plan.while_small, identity(plan.tables)
        return replace(self, recomputed=first, while_small=sides, beside=beside)

    @override
    def operators(self, stage: Stage) -> tuple[Operator, ...]:
        query, plan = self._known(stage)
        relations = [*query.relation.walk()]
        numbers = {id(one): number for number, one in enumerate(relations)}
        return tuple(
            Operator(
                readable(one.label),
                "recompute" if id(one) in plan.reasons else "incremental",
                plan.reasons.get(id(one)),
                tuple(numbers[id(given)] for given in one.inputs),
                tuple(
                    {"name": table.name, "kind": table.role}
                    for table in plan.kept_for.get(id(one), ())
                ),
            )
            for one in relations
        )

    def planned(self, query: Resolved, stages: Mapping[str, RowSchema], *, stage: str) -> ViewPlan:
        """Return how the view follows the changes of its stages, or why it does not.

        Args:
            stages: the columns of the stages that it reads.
            stage: its name.
        """
        whole, relations = (
            MaterializedRelation(query.relation, query.fields, query.order),
            query.relation.walk(),
        )
        if not self.is_followed:
            never = {id(one): NEVER for one in relations if not isinstance(one, Scan)}
            return ViewPlan(whole, reasons=never)
        obstacles = {id(one): why for one in relations if (why := self._obstacle(one)) is not None}
        if obstacles:
            return ViewPlan(whole, reasons=obstacles)
        plan = planned(query, self._key(query, stages), stages, stage=stage)
        if self.with_session and not all(has_frame(one.kept.relation) for one in plan.tables):
            return ViewPlan(whole, reasons={id(query.relation): NO_DELTA_RULE})
        is_ordered = all(key.field.id in query.fields.values() for key in query.order)
        is_whole = bool(plan.reasons) and not plan.while_small
        if is_whole or plan.kept.grouped is not None or is_ordered:
            return plan
        reasons = plan.reasons or {id(query.relation): ORDER_OF_OTHER_COLUMNS}
        return ViewPlan(whole, reasons=reasons)

    def _obstacle(self, one: Relation) -> str | None:
        """Return why an operator is not computed on the driver alone; None if it is."""
        if one.only_in_spark is not None:
            return UNSUPPORTED_FUNCTION
        return FLOATS_IN_SPARK if self.with_session and _adds_floats(one) else None

    @override
    def look_ups(self, stage: Stage) -> Sequence[Wanted]:
        return self._known(stage)[1].look_ups

    @override
    def subplans(self, stage: Stage) -> Iterable[Subplan]:
        is_whole = self.recomputed is not None and not self.while_small
        return () if is_whole else subplans(self._known(stage)[1].kept.relation).values()

    def _known(self, stage: Stage) -> tuple[Resolved, ViewPlan]:
        """Return what the query says over the feeders of a stage of this kind, and its plan."""
        feeders = {one.name: one.schema for one in stage.feeders if one.hidden is None}
        query = self.over(feeders)
        return query, self._plan_of(query, feeders, stage.owner)

    @override
    def over(self, feeders: Mapping[str, RowSchema]) -> Resolved:
        if self.known is not None:
            then, query, _ = self.known
            if all(feeders.get(name) == schema for name, schema in then.items()):
                return query
        return resolved(self.query, feeders, NO_DATE)

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
        return self.typed(query, known, stages, self._plan_of(query, stages, stage), stage=stage)

    def _plan_of(self, query: Resolved, stages: Mapping[str, RowSchema], stage: str) -> ViewPlan:
        known = self.known
        if known is not None and known[1] is query:
            return known[2]
        return self.planned(query, stages, stage=stage)

    @override
    def resolved(self, stage: Stage, tables: Tables) -> Stage:
        """Spark finds the types that are not certain without it."""
        assert isinstance(stage, Producer)
        stages = {one.name: one.schema for one in stage.merged}
        query, session = self.over(stages), tables.engines.session
        kind = replace(self, with_session=session is not None)
        plan = kind.planned(query, stages, stage=stage.owner)
        kind = replace(kind, known=(stages, query, plan)).explained(query, plan)
        if query.only_in_spark is None:
            schema = kind.schema(stages, stage=stage.owner)
            if session is not None and not in_spark.runs_by_operators(query):
                with naming(stage.owner):
                    check_told(query)
                in_spark.types_of(stage, query, session, NO_DATE)  # Spark must take its text
            beside = hidden_inputs(plan.tables, self.query, stage)
            return replace(stage, schema=schema, kind=kind, hidden_inputs=beside)
        if session is None:
            message = (
                f"stage {stage.owner!r}: {query.only_in_spark!r} is computed by Spark only, and "
                f"the store was opened without a session; {OPEN_IN_SESSION}"
            )
            raise SessionError(message, stage=stage.owner)
        with of_stage(stage.owner):
            check_ansi(session)
        types = in_spark.types_of(stage, query, tables.spark, NO_DATE)
        typed = replace(
            query,
            columns=tuple(
                replace(column, field=replace(column.field, data_type=kind))
                for column, kind in zip(query.columns, types, strict=True)
            ),
        )
        schema = kind.typed(typed, types, stages, plan, stage=stage.owner)
        return replace(stage, schema=schema, kind=kind)

    @override
    def alone(self, stage: Stage, tables: Tables) -> Stage:
        """Its query runs as a whole."""
        assert isinstance(stage, Producer)
        kind = replace(self, is_followed=False, known=None)
        return kind.resolved(replace(stage, kind=kind, hidden_inputs=()), tables)

    @override
    def produced(
        self, production: Production, inputs: Sequence[StageInput]
    ) -> tuple[Rows, int] | Produced | None:
        stage, engines = production.stage, production.engines
        query, plan = self._known(stage)
        constants = dated(production.dates[1])
        check_date(query, constants, stage=stage.owner)
        if query.only_in_spark is None:
            produced = compute(plan.kept, production, inputs)
            if produced is not None:
                return produced
        if plan.tables and has_frame(plan.kept.relation):
            return in_spark.computed(plan.kept, production, inputs)
        check_ansi(engines.spark)
        fed = fed_by(inputs)
        frames = production.frames(fed, None)
        if frames is None:
            frames = {
                each.stage.name: engines.frame(empty(each.content), each.content) for each in fed
            }
        if self.is_dated and query.only_in_spark is not None:
            types = in_spark.types_of(stage, query, engines.spark, constants)
            known = {c.name: c.data_type for c in (*stage.schema.key, *stage.schema.value)}
            if types != [known[name] for name in query.names]:
                raise with_time(stage.owner)
        try:
            with in_spark.queried(stage, query, frames, engines.spark, constants) as rows:
                return production.computed_numbered(rows)
        except spark_errors("PySparkException") as error:
            raise in_spark.failed(stage.owner, error) from error

    @override
    def changed(
        self,
        production: Production,
        inputs: Sequence[StageInput],
        content: Stored | None,
        mappings: Callable[[], Stored | None],
    ) -> ProductionResult | None:
        """A change that is too large for the driver runs the query as a whole."""
        del mappings
        if not is_reached(production, inputs):
            return None
        query, plan = self._known(production.stage)
        check_date(query, dated(production.dates[1]), stage=production.stage.owner)
        why = None if self._is_joined_by_small(inputs) else self.recomputed
        if why is None:
            try:
                return followed_rows(plan.kept, production, inputs, content)
            except TooManyRowsError:
                why = LARGE_CHANGE
        produced = self.produced(production, inputs)
        replaced = None if produced is None else production.replaced(content, *produced)
        return replaced and replace(replaced, recomputed=why)

    def _is_joined_by_small(self, inputs: Sequence[StageInput]) -> bool:
        """Return whether a side of each join without an equality has few rows, by its stages."""
        if not self.while_small:
            return False
        stored = ((each.stage.name, each.before()) for each in inputs)
        counts = {name: 0 if one is None else one.count for name, one in stored}
        return all(min(counts[name] for name in one) <= SMALL for one in self.while_small)

    def _key(self, query: Resolved, stages: Mapping[str, RowSchema]) -> dict[str, bool]:
        if self.key is not None:
            return dict(self.key)
        return dict.fromkeys(key_of(query, stages), False)

    def typed(
        self,
        query: Resolved,
        types: Sequence[DataType],
        stages: Mapping[str, RowSchema],
        plan: ViewPlan,
        *,
        stage: str,
    ) -> RowSchema:
        """Return the columns with their types, split into key and value."""
        key, known = self._key(query, stages), dict(zip(query.names, types, strict=True))
        value = StructType([StructField(n, kind) for n, kind in known.items() if n not in key])
        grouped = plan.kept.grouped
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
    if isinstance(relation, WindowRelation):
        calls = (one.aggregate for _, one in relation.calls)
        return any(call is not None and call.adds_floats for call in calls)
    return isinstance(relation, AggregateRelation) and any(
        call.adds_floats for _, call in relation.calls
    )
