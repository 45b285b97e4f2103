"""The hidden tables of views: stages that keep the rows of an operator below the last one.

They follow changes as views do. Nobody reads their history, so they have no updates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from typing_extensions import override

from deltaproduce.engines.engine import Rows
from deltaproduce.engines.selections import Selection
from deltaproduce.model.graph import HiddenInput, Producer, Stage
from deltaproduce.model.hidden import Hidden
from deltaproduce.model.kind import Definition, KeyUse, Upkeep
from deltaproduce.model.layouts import CONTENT, RUNS
from deltaproduce.stages.inputs import StageInput
from deltaproduce.stages.productions import (
    DerivedKind,
    Produced,
    Production,
    ProductionResult,
)
from deltaproduce.stages.sql.algebra.binding import names_constant
from deltaproduce.stages.sql.algebra.relations import AggregateRelation, Relation, Values
from deltaproduce.stages.sql.operators.changes.subplans import Subplan, subplans
from deltaproduce.stages.sql.text import QueryText
from deltaproduce.stages.sql.zoned import depends_on_zone, types_of
from deltaproduce.stages.views import in_spark
from deltaproduce.stages.views.following import TooManyRowsError
from deltaproduce.stages.views.kept import MaterializedRelation, ViewTable
from deltaproduce.stages.views.on_driver import FULL_FROM, compared, compute, followed_rows
from deltaproduce.storage.stored import Stored
from deltaproduce.types.columns import RowSchema


class FollowingKind(DerivedKind):
    """The kind of a stage that follows changes by the operators of a view's query.

    Attributes:
        query: the view's query.
    """

    __slots__ = ()

    query: str

    @override
    def depends_on_zone(self, schema: RowSchema, feeders: Sequence[RowSchema]) -> bool:
        """By the text of the query; and a date may have a time."""
        del schema
        is_dated = self.upkeep.by_date
        return is_dated or depends_on_zone(QueryText.read(self.query).tree, types_of(feeders))

    @override
    def sampled(
        self,
        production: Production,
        inputs: Sequence[StageInput],
        content: Stored | None,
        mappings: Callable[[], Stored | None],
        keys: Callable[[], Selection],
    ) -> ProductionResult | None:
        """All rows, and their states unless Spark has made some."""
        del mappings, keys
        return compared(production, content, self.produced(production, inputs))


@dataclass(frozen=True, slots=True, repr=False)
class HiddenTable(FollowingKind):
    """A stage that keeps the rows of an operator of a view's query.

    Attributes:
        query: the view's query.
        operator_labels: its operators, which say with the query what the rows are.
        role: what it is for.
        kept: what it keeps.
        of_nothing: whether it may have rows though no stage that it reads has ever had any.
        is_dated: whether its rows depend on the date that a version is as of.
    """

    query: str
    operator_labels: tuple[str, ...]
    role: str
    kept: MaterializedRelation = field(compare=False)
    of_nothing: bool = field(compare=False)
    is_dated: bool = field(compare=False)

    @staticmethod
    def of(table: ViewTable, query: str) -> HiddenTable:
        """Return the kind of a table of a view."""
        relations = [*table.kept.relation.walk()]
        return HiddenTable(
            query,
            tuple(one.label for one in relations),
            table.role,
            table.kept,
            may_have_rows_of_nothing(table.kept.relation),
            any(names_constant(one.scalars) for one in relations),
        )

    @property
    @override
    def word(self) -> str:
        return "table of a view"

    @property
    @override
    def tables(self) -> tuple[str, ...]:
        return (CONTENT, RUNS)

    @property
    @override
    def definition(self) -> Definition:
        return Definition((self.query, self.operator_labels, self.role), sql=self.query)

    @property
    @override
    def key_use(self) -> KeyUse:
        """The first rows of an order are read."""
        return KeyUse(group_width=self.kept.group_width)

    @property
    @override
    def upkeep(self) -> Upkeep:
        """Its expressions are of the columns' types."""
        return Upkeep(
            by_key=False,
            has_lineage=False,
            of_nothing=self.of_nothing,
            subtracts=True,
            full_from=FULL_FROM,
            by_all_columns=True,
            by_date=self.is_dated,
        )

    @override
    def subplans(self, stage: Stage) -> Iterable[Subplan]:
        del stage
        return subplans(self.kept.relation).values()

    @override
    def produced(
        self, production: Production, inputs: Sequence[StageInput]
    ) -> tuple[Rows, int] | Produced | None:
        produced = compute(self.kept, production, inputs)
        return in_spark.computed(self.kept, production, inputs) if produced is None else produced

    @override
    def changed(
        self,
        production: Production,
        inputs: Sequence[StageInput],
        content: Stored | None,
        mappings: Callable[[], Stored | None],
    ) -> ProductionResult | None:
        del mappings
        if not is_reached(production, inputs):
            return None
        try:
            return followed_rows(self.kept, production, inputs, content)
        except TooManyRowsError:
            produced = self.produced(production, inputs)
            return produced and production.replaced(content, *produced)


def is_reached(production: Production, inputs: Sequence[StageInput]) -> bool:
    """Return whether a feeder changes, or the date that the stage depends on."""
    was, is_now = production.dates
    is_due = was != is_now and production.kind.upkeep.by_date
    return is_due or any(each.changed for each in inputs)


def may_have_rows_of_nothing(relation: Relation) -> bool:
    """Return whether a relation may have rows over stages without rows."""
    return any(
        isinstance(one, Values) or (isinstance(one, AggregateRelation) and not one.keys)
        for one in relation.walk()
    )


def hidden_inputs(
    tables: Iterable[ViewTable], query: str, stage: Producer
) -> tuple[HiddenInput, ...]:
    """Return the hidden stages of a view, each behind those that it reads.

    Args:
        stage: the view.
    """
    known: dict[str, Stage] = {one.name: one for one in stage.merged}
    inputs = list[HiddenInput]()
    for table in tables:
        producer = Producer(
            table.name,
            tuple((known[name],) for name in table.kept.relation.feeders),
            table.schema,
            HiddenTable.of(table, query),
            stage.revision,
            hidden=Hidden(table.role, (stage.owner,)),
        )
        known[table.name] = producer
        inputs.append(HiddenInput(table.name, producer))
    return tuple(inputs)


def identity(tables: Iterable[ViewTable]) -> tuple[object, ...]:
    """Return what tells the tables of one query from others."""
    return tuple(
        (one.name, one.schema.key.ddl, *(each.label for each in one.kept.relation.walk()))
        for one in tables
    )
