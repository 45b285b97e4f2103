"""Plans of views: which operators of a query need tables of their own, and what is computed then.

An operator that has a table is replaced by a scan of it, so the rest of the query reads the table
as it reads stages. The invariant: the rows are those of the query; and only what cannot be found in
the files of stages by their keys has a table. A query of which one operator does not follow changes
has none, and runs as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final, TypeAlias

from sqlglot import exp

from deltaproduce.model.hidden import hidden_name
from deltaproduce.stages.sql.algebra.calls import AggregateExpression
from deltaproduce.stages.sql.algebra.emptiness import is_none
from deltaproduce.stages.sql.algebra.relations import (
    AggregateRelation,
    Distinct,
    Filter,
    Join,
    Limit,
    Matched,
    ProjectRelation,
    Relation,
    Scan,
    SetOperation,
    Single,
)
from deltaproduce.stages.sql.algebra.scalars import Equality, Field, Output, Scalar
from deltaproduce.stages.sql.algebra.windows import WindowRelation
from deltaproduce.stages.sql.operators.groups import by_rows
from deltaproduce.stages.sql.operators.groups.by_states import States
from deltaproduce.stages.sql.operators.joins import join, matched, single
from deltaproduce.stages.sql.operators.windows.window import partition_fields
from deltaproduce.stages.sql.resolve import Resolved
from deltaproduce.stages.views.grouped import GroupedQuery, below_projects
from deltaproduce.stages.views.kept import (
    GROUPS,
    ORDERED,
    MaterializedRelation,
    ViewTable,
    are_stored,
    may_hold,
)
from deltaproduce.stages.views.plan.costs import Cost, Fields, Places, lefts, rights
from deltaproduce.stages.views.plan.distinct_values import DistinctValues
from deltaproduce.stages.views.plan.first_rows import FirstRows
from deltaproduce.stages.views.plan.groups_below_joins import GroupsBelowJoin
from deltaproduce.stages.views.plan.modes import JOIN_WITHOUT_EQUALITY, Modes
from deltaproduce.stages.views.plan.narrowing import is_narrowed
from deltaproduce.stages.views.plan.set_counts import SetCounts
from deltaproduce.storage.parquet.shared_lookups import Wanted
from deltaproduce.types.columns import RowSchema
from deltaproduce.types.data_types import BooleanType

Sides: TypeAlias = tuple[str, ...]
"""Stages, each of which has at least as many rows as one side of a join."""
_FIRST_NUMBER: Final = 1_000_000
"""The fields that a plan adds are numbered from here, so that no field of the query has the id."""


@dataclass(frozen=True, slots=True)
class ViewPlan:
    """How a query follows the changes of its stages.

    Attributes:
        kept: what the view keeps.
        tables: its hidden tables, each behind those that it reads.
        reasons: the operators of the query that do not follow changes, by identity -> why. If there
            is one, there are no tables, unless it follows them `while_small`.
        kept_for: the operators that have tables, by identity -> these.
        while_small: joins without an equality, if nothing else keeps the query from following
            changes: one of the stages of each must be small then.
        look_ups: those in stages and tables that its operators may ask for.
    """

    kept: MaterializedRelation
    tables: tuple[ViewTable, ...] = ()
    reasons: Mapping[int, str] = field(default_factory=dict)
    kept_for: Mapping[int, Sequence[ViewTable]] = field(default_factory=dict)
    while_small: tuple[Sides, ...] = ()
    look_ups: tuple[Wanted, ...] = ()


def planned(
    query: Resolved,
    key: Collection[str] | None,
    stages: Mapping[str, RowSchema],
    *,
    stage: str,
) -> ViewPlan:
    """Return the plan of a query that the driver computes.

    Args:
        key: the names of the view's key columns, if its rows may be groups.
        stages: the columns of the stages that it reads.
        stage: the name of the view.
    """
    making = _Planning(stage, {name: one.key.names for name, one in stages.items()})
    grouped, relation = making.top(query, key)
    kept = MaterializedRelation(relation, query.fields, query.order, grouped)
    reasons = making.reasons(kept)
    sides = making.sides(kept) if {*reasons.values()} == {JOIN_WITHOUT_EQUALITY} else ()
    if reasons and not (sides and all(sides)):
        return ViewPlan(
            MaterializedRelation(query.relation, query.fields, query.order), reasons=reasons
        )
    tables, look_ups = tuple(making.tables), making.look_ups(kept)
    return ViewPlan(kept, tables, reasons, making.kept_for, sides, look_ups)


@dataclass(slots=True)
class _Planning:
    """A plan as it is made, inputs before what reads them.

    Attributes:
        stage: the name of the view.
        keys: the key columns of stages and tables.
        done: an operator, by identity -> itself, and what it became.
        origins: what an operator became, by identity -> itself, and the operator.
    """

    stage: str
    keys: dict[str, tuple[str, ...]]
    tables: list[ViewTable] = field(default_factory=list)
    done: dict[int, tuple[Relation, Relation]] = field(default_factory=dict)
    origins: dict[int, tuple[Relation, Relation]] = field(default_factory=dict)
    kept_for: dict[int, list[ViewTable]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: count(_FIRST_NUMBER))

    @property
    def places(self) -> Places:
        """What is known of stages and tables."""
        return Places(
            self.keys,
            {one.name for one in self.tables if one.is_single},
            {one.name for one in self.tables if one.role == ORDERED},
        )

    def top(
        self, query: Resolved, key: Collection[str] | None
    ) -> tuple[GroupedQuery | None, Relation]:
        """Return what the last operators of a query become: groups with states, if they are.

        Their states are beside the view's rows, so they need no table.
        """
        projects, last = below_projects(query.relation)
        if (
            key is None
            or not isinstance(last, AggregateRelation | Distinct)
            or GroupedQuery.key_columns(query.relation, query.fields, key) is None
        ):
            return None, self.planned(query.relation)
        groups, below = self._over_planned(last)
        known = len(self.tables)
        assert isinstance(groups, AggregateRelation | Distinct)
        base = self._without_distinct(_as_groups(groups, groups.input))
        if not States.are_kept(base):
            return None, self.planned(query.relation)
        relation = base if below is None else below.rows(base)
        self._remember(last, relation, known)
        for one in projects:
            relation = one.over([relation])
            self.origins[id(relation)] = relation, one
        return GroupedQuery.of(relation, query.fields, key), relation

    def planned(self, relation: Relation) -> Relation:
        """Return what an operator becomes."""
        if id(relation) not in self.done:
            one, below = self._over_planned(relation)
            known = len(self.tables)
            plan = self._prepared(one)
            plan = plan if below is None else below.rows(plan)
            self._remember(relation, plan, known)
            self.done[id(relation)] = relation, plan
        return self.done[id(relation)][1]

    def _over_planned(self, relation: Relation) -> tuple[Relation, GroupsBelowJoin | None]:
        """Return an operator over what its inputs become, and groups below it if there are."""
        if isinstance(relation, AggregateRelation):
            below = GroupsBelowJoin.of(relation, self.numbers)
            joined = None if below is None else self._joined_groups(below)
            if below is not None and joined is not None:
                return below.aggregate(joined), below
        if isinstance(relation, Filter):
            numbered = self._numbered(relation)
            if numbered is not None:
                return numbered, None
        inputs = [self.planned(one) for one in relation.inputs]
        return _over(relation, inputs), None

    def _numbered(self, relation: Filter) -> Relation | None:
        """Return a filter of row numbers over first rows; None if it is another filter."""
        first = FirstRows.of(relation)
        limit = (
            None if first is None else first.limit(self.planned(first.window.input), self.numbers)
        )
        if first is None or limit is None:
            return None
        by = frozenset(field.id for field in limit.partition)
        known = len(self.tables)
        rows = self._limited(limit) if self.places.cost(limit.input, by) > Cost.SEEK else limit
        if rows is limit:
            return None
        window, numbered = first.over(rows)
        self._remember(first.window, window, known)
        return numbered

    def _joined_groups(self, below: GroupsBelowJoin) -> Relation | None:
        """Return a join with groups of one side; None if the rows of this side are found."""
        kept, padded = self.planned(below.kept), self.planned(below.padded)
        known = len(self.tables)
        groups = self._grouped(below.groups(padded))
        if not isinstance(groups, Scan):
            return None
        join = self._joined(below.joined(kept, groups))
        self._remember(below.join, join, known)
        return join

    def _remember(self, relation: Relation, became: Relation, known: int) -> None:
        """Remember of which operator of the query others are, and which tables it has.

        Args:
            known: how many tables there were before it.
        """
        more = self.tables[known:]
        for root in (became, *(table.kept.relation for table in more)):
            for one in root.walk():
                self.origins.setdefault(id(one), (one, relation))
        if more:
            self.kept_for.setdefault(id(relation), []).extend(more)

    def sides(self, kept: MaterializedRelation) -> tuple[Sides, ...]:
        """Return for each join without an equality the stages that bound one of its sides."""
        modes = Modes(self.places)
        relations = (*(table.kept.relation for table in self.tables), kept.relation)
        every = {id(one): one for relation in relations for one in relation.walk()}
        return tuple(
            tuple(name for side in one.inputs if (name := _bound(side)) is not None)
            for one in every.values()
            if isinstance(one, Join) and modes.reason(one) == JOIN_WITHOUT_EQUALITY
        )

    def reasons(self, kept: MaterializedRelation) -> dict[int, str]:
        """Return the operators of the query that do not follow changes, by identity -> why."""
        modes, reasons = Modes(self.places), dict[int, str]()
        for relation in self._without_states(kept):
            why = modes.reason(relation)
            if why is not None:
                reasons.setdefault(id(self.origins[id(relation)][1]), why)
        return reasons

    def look_ups(self, kept: MaterializedRelation) -> tuple[Wanted, ...]:
        """Return the look-ups in stages and tables that operators may ask for."""
        wanted = list[Wanted]()
        modes = Modes(replace(self.places, requests=wanted))
        for relation in self._without_states(kept):
            modes.reason(relation)
        return tuple(dict.fromkeys(wanted))

    def _without_states(self, kept: MaterializedRelation) -> Iterator[Relation]:
        """Yield the operators of the view and of its tables, but groups that have states."""
        for one in (*(table.kept for table in self.tables), kept):
            grouped = None if one.grouped is None else one.grouped.aggregate
            yield from (relation for relation in one.relation.walk() if relation is not grouped)

    def _prepared(self, one: Relation) -> Relation:
        match one:
            case AggregateRelation() | Distinct():
                return self._grouped(one)
            case SetOperation():
                return self._set_operation(one)
            case Join():
                return self._joined(one)
            case Matched():
                return self._matched(one)
            case Single():
                return self._single(one)
            case Limit():
                return self._limited(one)
            case WindowRelation():
                by = partition_fields(one)
                return _over(one, (self._sought(one.input, by),)) if by else one
        return one

    def _grouped(self, one: AggregateRelation | Distinct) -> Relation:
        """Return groups; from a table with states if their rows are not found by keys."""
        aggregate = _as_groups(one, one.input)
        if is_none(one.input) or not _may_be_stored(aggregate) or not self._is_dear(aggregate):
            return one
        aggregate = self._without_distinct(aggregate)
        if not States.are_kept(aggregate):
            return one
        return self._read(ViewTable.of_groups(self._name(GROUPS), aggregate))

    def _is_dear(self, aggregate: AggregateRelation) -> bool:
        """Return whether more is read to make a group again than the rows that it has."""
        columns = frozenset(by_rows.copies(aggregate).values())
        return self.places.cost(aggregate.input, columns) > Cost.SEEK

    def _without_distinct(self, one: AggregateRelation) -> AggregateRelation:
        """Return groups of distinct rows for functions of distinct values; else the same groups."""
        values = DistinctValues.of(one, next(self.numbers)) if self._is_dear(one) else None
        if values is None or not States.are_kept(values.over(values.groups)):
            return one
        rows = self._grouped(values.groups)
        return values.over(rows) if isinstance(rows, Scan) else one

    def _set_operation(self, one: SetOperation) -> Relation:
        """Return a set operation; from a table of its rows if they are not found by keys."""
        if one.kind != "union":
            return self._compared(one)
        if one.is_all:
            return one
        every = SetOperation(one.left, one.right, "union", is_all=True, own=one.own)
        grouped = self._grouped(Distinct(every))
        return grouped if isinstance(grouped, Scan) else one

    def _compared(self, one: SetOperation) -> Relation:
        """Return INTERSECT or EXCEPT, from a table that counts equal rows on both sides."""
        added = [next(self.numbers) for _ in range(len(one.fields) + 4)]
        counts = SetCounts.of(one, added[0])
        if not self._is_dear(counts.groups) or not _may_be_stored(counts.groups):
            return one
        return counts.rows(self._read(ViewTable.of_groups(self._name(GROUPS), counts.groups)))

    def _joined(self, one: Join) -> Relation:
        linked, right = join.linked_fields(one), one.right
        if one.kind in {"semi", "anti"} and not one.rest:
            right = self._distinct(right, one.equal)
        if not linked:
            return one.over([one.left, right])
        sides = (
            self._sought(one.left, lefts(linked), right),
            self._sought(right, rights(linked), one.left),
        )
        return _over(one, sides)

    def _matched(self, one: Matched) -> Relation:
        linked, compared = matched.linked_fields(one)
        subquery = one.subquery
        if not (one.equal or one.among or one.rest):
            return self._counted(one)
        if not one.rest:
            subquery = self._distinct(subquery, (*one.equal, *one.among))
        every = (*linked, *compared)
        if not every:
            return _over(one, (one.input, subquery))
        rows = self._sought(one.input, lefts(every), subquery)
        return _over(one, (rows, self._sought(subquery, rights(every))))

    def _counted(self, one: Matched) -> Relation:
        """Return EXISTS of a subquery that does not depend on the row, by its number of rows."""
        call = AggregateExpression.of("count", (), is_distinct=False, where=None, text="count(*)")
        rows = self._field("rows", call)
        value = self._grouped(AggregateRelation(one.subquery, (), ((rows, call),)))
        taken = Single(one.input, value, rows)
        tree = exp.GT(this=rows.tree, expression=exp.Literal.number(0))
        output = Output(one.flag, Scalar.of(tree, [rows]))
        assert isinstance(output.scalar.data_type, BooleanType)
        return ProjectRelation(taken, (*map(Output.copy, one.input.fields), output))

    def _single(self, one: Single) -> Relation:
        linked = single.linked_fields(one)
        others = one.inputs[2:]
        if not linked:
            subquery = one.subquery
            if not self.places.is_small(subquery):
                subquery = self._rows(subquery, None)
            return _over(one, (one.input, subquery, *others))
        rows = self._sought(one.input, lefts(linked), one.subquery)
        return _over(one, (rows, self._sought(one.subquery, rights(linked)), *others))

    def _limited(self, one: Limit) -> Relation:
        if is_none(one):
            return one
        table = ViewTable.of_limit(self._name(ORDERED), one)
        return one if table is None else one.over([self._read(table)])

    def _distinct(self, subquery: Relation, equal: Sequence[Equality]) -> Relation:
        """Return what counts of a subquery of which only the compared values count."""
        read = {name for each in equal for name in each.right}
        own = [one for one in subquery.fields if one.id in read]
        distinct = (
            self._grouped(AggregateRelation(subquery, tuple(map(Output.copy, own)), ()))
            if own
            else subquery
        )
        return distinct if isinstance(distinct, Scan) else subquery

    def _sought(
        self, relation: Relation, by: frozenset[str], other: Relation | None = None
    ) -> Relation:
        """Return rows that are found by some fields without reading all of a stage.

        Args:
            other: what they are looked up for, whenever it changes.
        """
        if self.places.cost(relation, by) == Cost.ALL:
            return self._rows(relation, by)
        if other is None or not is_narrowed(relation):
            return relation
        scanned = self._scanned(relation, by)
        return self._rows(relation, by) if scanned & self._feeders(other) else relation

    def _scanned(self, relation: Relation, by: frozenset[str]) -> set[str]:
        """Return the stages of which a look-up reads columns of all rows."""
        wanted = list[Wanted]()
        replace(self.places, requests=wanted).cost(relation, by)
        return {one.feeder for one in wanted if not one.by & {*self.keys[one.feeder][:1]}}

    def _feeders(self, relation: Relation) -> set[str]:
        """Return the stages by which a relation changes; of tables, those that they read."""
        known = {table.name: table.kept.relation for table in self.tables}
        names = set[str]()
        for name in relation.feeders:
            names |= self._feeders(known[name]) if name in known else {name}
        return names

    def _rows(self, relation: Relation, by: Fields) -> Relation:
        table = ViewTable.of_rows(self._name("rows"), relation, by or frozenset())
        return relation if table is None else self._read(table)

    def _read(self, table: ViewTable) -> Scan:
        self.tables.append(table)
        self.keys[table.name] = table.schema.key.names
        return table.scan

    def _name(self, role: str) -> str:
        return hidden_name(role, len(self.tables) + 1, self.stage)

    def _field(self, name: str, call: AggregateExpression) -> Field:
        return Field(f"{name}#{next(self.numbers)}", call.data_type)


def _bound(relation: Relation) -> str | None:
    """Return a stage that has at least as many rows as a relation, whatever they are."""
    match relation:
        case Scan():
            return relation.feeder
        case (
            ProjectRelation()
            | Filter()
            | Distinct()
            | AggregateRelation()
            | WindowRelation()
            | Matched()
            | Single()
        ):
            return _bound(relation.inputs[0])
        case Join(kind="semi" | "anti"):
            return _bound(relation.left)
    return None


def _as_groups(one: AggregateRelation | Distinct, rows: Relation) -> AggregateRelation:
    """Return an operator over rows as groups; DISTINCT groups by all columns."""
    if isinstance(one, AggregateRelation):
        return one if rows is one.input else AggregateRelation(rows, one.keys, one.calls)
    return AggregateRelation(rows, tuple(map(Output.copy, one.fields)), ())


def _may_be_stored(aggregate: AggregateRelation) -> bool:
    """Return whether a table may have groups, if their functions have states."""
    return all(may_hold(key.field) for key in aggregate.keys) and are_stored(aggregate)


def _over(one: Relation, inputs: Iterable[Relation]) -> Relation:
    """Return an operator over other inputs; itself over its own."""
    relation = tuple(inputs)
    is_same = all(a is b for a, b in zip(relation, one.inputs, strict=True))
    return one if is_same else one.over(relation)
