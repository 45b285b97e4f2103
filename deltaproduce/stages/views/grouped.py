"""Views whose rows are groups: their states are stored beside them, and follow changed rows.

The states are columns that readers do not see. They are null where Spark has made the rows; such a
group is made again from its rows when it changes. The invariant: a row with states is what these
states say.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Marks, Numbers, isin_rows
from deltaproduce.model.layouts import Layout
from deltaproduce.stages.sql.algebra.relations import (
    AggregateRelation,
    Distinct,
    ProjectRelation,
    Relation,
)
from deltaproduce.stages.sql.operators import plain
from deltaproduce.stages.sql.operators.changes.keys import LookupKeys
from deltaproduce.stages.sql.operators.changes.rules import NO_KEYS, both
from deltaproduce.stages.sql.operators.changes.signed import Signed
from deltaproduce.stages.sql.operators.computing import Computing
from deltaproduce.stages.sql.operators.following import Following, no_rows
from deltaproduce.stages.sql.operators.groups import by_rows
from deltaproduce.stages.sql.operators.groups.by_states import STATE, States
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import NO_KEY, ORDINAL, Column
from deltaproduce.types.pandas_on_demand import in_numpy

_COUNT: Final = f"{STATE}0"


@dataclass(frozen=True, slots=True)
class GroupedQuery:
    """A query whose rows are the groups of an operator, one row per key of the view.

    Attributes:
        projects: what is computed of the groups' values, in order.
        columns: the operator's key fields -> the view's key columns.
        fields: the columns of the query -> their fields.
    """

    aggregate: AggregateRelation
    projects: tuple[ProjectRelation, ...]
    columns: Mapping[str, str]
    fields: Mapping[str, str]

    @staticmethod
    def of(
        relation: Relation, fields: Mapping[str, str], key: Collection[str]
    ) -> GroupedQuery | None:
        """Return a query as such a one; None if it is another, or its functions have no states.

        Args:
            relation: its rows.
            fields: its columns -> their fields.
            key: the names of the view's key columns.
        """
        columns = GroupedQuery.key_columns(relation, fields, key)
        projects, groups = below_projects(relation)
        if columns is None or not isinstance(groups, AggregateRelation):
            return None
        if not States.are_kept(groups):
            return None
        return GroupedQuery(groups, projects, columns, fields)

    @staticmethod
    def key_columns(
        relation: Relation, fields: Mapping[str, str], key: Collection[str]
    ) -> Mapping[str, str] | None:
        """Return the key fields of a query's groups -> the view's key columns.

        None if its last operator is another, or the key is not that of its groups.
        """
        projects, groups = below_projects(relation)
        if not isinstance(groups, AggregateRelation | Distinct):
            return None
        if isinstance(groups, AggregateRelation):
            keys = tuple(one.field for one in groups.keys)
        else:
            keys = groups.fields
        field_ids = {one.id: one.id for one in keys}
        for project in projects:
            copied = {old: new for new, old in reversed(plain.copies(project).items())}
            field_ids = {first: copied[now] for first, now in field_ids.items() if now in copied}
        named = {field: name for name, field in reversed([*fields.items()])}
        columns = {first: named[now] for first, now in field_ids.items() if now in named}
        is_whole = len(columns) == len(keys) and set(columns.values()) == set(key)
        return columns if is_whole else None

    @property
    def states(self) -> tuple[Column, ...]:
        """The columns of states."""
        return States.columns(self.aggregate)

    @property
    def looks_up(self) -> bool:
        """Whether a change may ask for all rows of its groups: the least value of one goes."""
        return any(call.is_end for _, call in self.aggregate.calls)

    def compute(self, rows: pa.Table, layout: Layout, computing: Computing) -> pa.Table:
        """Return the view's rows, from all rows of the operator's input."""
        return self.completed(self.part(rows, computing), layout, computing)

    def part(self, rows: pa.Table, computing: Computing) -> pa.Table:
        """Return the states of some of all rows of the operator's input."""
        return States(self.aggregate, computing).of(rows, np.ones(len(rows), np.int64))

    def completed(self, parts: pa.Table, layout: Layout, computing: Computing) -> pa.Table:
        """Return the view's rows, from what `part` has made of all rows, each one once."""
        states = States(self.aggregate, computing)
        stored = states.alive(states.added(parts.slice(0, 0), parts))
        return self._rows(stored, no_rows(self.aggregate.input), layout, computing)

    def changed(self, known: pa.Table, following: Following, layout: Layout) -> pa.Table:
        """Return the view's rows of the groups that change.

        Args:
            known: its rows before of these groups, with states; perhaps with other groups.

        Raises:
            NegativeCountError: a group has fewer than no rows.
        """
        change = following.change(self.aggregate.input)
        states = States(self.aggregate, following.computing)
        more = states.of(*_signed(change))
        old = self._of_stored(known, more)
        unsure = in_numpy(old.column(_COUNT).is_null(), bool)
        if not states.keys and not len(old):  # it always has a row, so its states are unknown
            old, unsure = more.slice(0, 1), np.ones(1, bool)
        if self.looks_up:
            unsure[~unsure] = states.ends_lost(
                old.filter(pa.array(~unsure)), change.deleted.repeated
            )
        sure = old.filter(pa.array(~unsure))
        again = old.select(states.keys).filter(pa.array(unsure))
        added = more.filter(pa.array(~_among(more, again, states.keys, bool(unsure.any()))))
        changed = states.alive(states.added(sure, added))
        nothing = following.before(self.aggregate.input, NO_KEYS)
        if unsure.any():
            rows = self._rows_of(again, states, change, following)
            ones = np.ones(len(rows), np.int64)
            changed = pa.concat_tables([changed, states.alive(states.of(rows, ones))])
        return self._rows(changed, nothing, layout, following.computing)

    def keys(self, following: Following, layout: Layout) -> pa.Table:
        """Return the view's keys of the groups that change."""
        change = following.change(self.aggregate.input)
        keys = States(self.aggregate, following.computing).keys_of(change.rows)
        return self._in_columns(keys, layout.key)

    def _of_stored(self, known: pa.Table, more: pa.Table) -> pa.Table:
        """Return stored rows as states: in the columns of ``more``."""
        names = {field: self.columns.get(field, field) for field in more.column_names}
        groups = known.select(list(names.values())).rename_columns(list(names))
        groups = groups.cast(more.schema)
        keys = list(self.columns)
        if not keys:
            return groups
        return groups.filter(pa.array(isin_rows(groups.select(keys), more.select(keys))))

    def _rows_of(
        self, groups: pa.Table, states: States, change: Signed, following: Following
    ) -> pa.Table:
        """Return all rows of some groups after the change."""
        copied = by_rows.copies(self.aggregate)
        arrays = {input_: groups.column(key) for key, input_ in copied.items()}
        keys = LookupKeys.of(pa.table(arrays), arrays) if arrays else None
        _, rows = both(self.aggregate.input, keys, change, following)
        if not states.keys:
            return rows
        marks = isin_rows(states.keys_of(rows), groups)
        return rows.filter(pa.array(marks))

    def _rows(
        self, states: pa.Table, nothing: pa.Table, layout: Layout, computing: Computing
    ) -> pa.Table:
        """Return the view's rows of groups, in the columns of its content."""
        kept = States(self.aggregate, computing)
        if len(states) or self.columns:
            rows = kept.rows(states)
        else:
            rows = kept.row_of_nothing(nothing)
            states = rows
        for project in self.projects:
            rows = plain.projected(project, rows, computing)
        named = {name: rows.column(field) for name, field in self.fields.items()}
        named |= {column.name: states.column(column.name) for column in self.states}
        return self._stored(named, len(rows), layout)

    def _stored(self, named: Mapping[str, pa.ChunkedArray], size: int, layout: Layout) -> pa.Table:
        zero, yes = pa.scalar(0, pa.int64()), pa.scalar(True, pa.bool_())
        arrays = {ORDINAL: pa.repeat(zero, size), NO_KEY.names[0]: pa.repeat(yes, size), **named}
        return pa.table(
            {c.name: arrays[c.name].cast(arrow_type(c.data_type)) for c in layout.content}
        )

    def _in_columns(self, keys: pa.Table, key: tuple[Column, ...]) -> pa.Table:
        if not self.columns:
            return pa.table({key[0].name: pa.repeat(pa.scalar(True, pa.bool_()), len(keys))})
        fields = {name: field for field, name in self.columns.items()}
        return pa.table(
            {c.name: keys.column(fields[c.name]).cast(arrow_type(c.data_type)) for c in key}
        )


def below_projects(relation: Relation) -> tuple[tuple[ProjectRelation, ...], Relation]:
    """Return the last projections of a query, the first one first, and what they are of."""
    projects = list[ProjectRelation]()
    while isinstance(relation, ProjectRelation):
        projects.insert(0, relation)
        relation = relation.input
    return tuple(projects), relation


def _signed(change: Signed) -> tuple[pa.Table, Numbers]:
    """Return rows as often as a change adds or removes them, with their signs."""
    size = np.abs(change.counts)
    rows = Signed(change.rows, size).repeated
    return rows, np.repeat(np.sign(change.counts), size)


def _among(rows: pa.Table, groups: pa.Table, keys: list[str], is_any: bool) -> Marks:
    """Mark the rows of some groups; without keys there is one group."""
    if not keys:
        return np.full(len(rows), is_any)
    return isin_rows(rows.select(keys), groups)
