"""Following: the change of a query's rows from the changes of the stages that it reads.

Each operator has a rule `change`: it asks for the changes of its inputs, and for those rows of them
before that have the keys of what changes. The invariant: a query's rows before and its change make
the rows that the operators return for the stages after (`evaluation.rows_of`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Protocol

import pyarrow as pa

from deltaproduce.engines.local.arrays import without_rows
from deltaproduce.stages.sql.algebra.binding import names_constant
from deltaproduce.stages.sql.algebra.emptiness import is_none
from deltaproduce.stages.sql.algebra.expanding import Expand, Generate
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
    Values,
)
from deltaproduce.stages.sql.algebra.scalars import Field
from deltaproduce.stages.sql.algebra.windows import WindowRelation
from deltaproduce.stages.sql.operators import (
    distinct,
    expand,
    generate,
    limit,
    plain,
    set_operation,
)
from deltaproduce.stages.sql.operators.changes.keys import LookupKeys
from deltaproduce.stages.sql.operators.changes.rules import NO_KEYS
from deltaproduce.stages.sql.operators.changes.sharing import Sharing
from deltaproduce.stages.sql.operators.changes.signed import Signed, changed
from deltaproduce.stages.sql.operators.computing import Computing
from deltaproduce.stages.sql.operators.evaluation import rows_of_operator
from deltaproduce.stages.sql.operators.groups import by_rows
from deltaproduce.stages.sql.operators.joins import join, matched, single
from deltaproduce.stages.sql.operators.windows import window
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.data_types import DataType, NullType


class Feeder(Protocol):
    """A stage that changes."""

    def first(
        self, columns: Sequence[str], count: int, keys: pa.Table | None = None
    ) -> pa.Table | None:
        """Return at least the first rows before in the stage's order; None if it has no order.

        Args:
            keys: distinct partitions, each of which has first rows; None if all rows are one.
        """

    def change(self, columns: Sequence[str]) -> Signed:
        """Return the removed and the added rows, in some columns.

        Rows of one key do not cancel each other.
        """

    def before(self, columns: Sequence[str], keys: pa.Table | None) -> pa.Table:
        """Return exactly the rows before that have one of the keys, in some columns.

        Args:
            keys: distinct rows of some of the columns; all rows are wanted if None.
        """


class Following:
    """The changes of the relations of one query, each computed once.

    An operator that names a constant whose value changes is computed anew, before and after.

    Args:
        feeders: the stages that it reads, by name.
        computing: with the values of constants after the change.
        was: with those before; None if they are the same.
        sharing: what it shares with other queries; None if it is alone.
    """

    def __init__(
        self,
        feeders: Mapping[str, Feeder],
        computing: Computing,
        was: Computing | None = None,
        sharing: Sharing | None = None,
    ) -> None:
        self._feeders = feeders
        self._sharing = sharing
        self._is_same = was is None
        self._computing = computing if was is None else was
        self._after = computing
        self._changes = dict[int, tuple[Relation, Signed]]()
        self._wholes = dict[int, tuple[Relation, pa.Table]]()

    @property
    def computing(self) -> Computing:
        """See `RelationChanges.computing`."""
        return self._computing

    @property
    def after(self) -> Computing:
        """The computation of expressions with the values of constants after the change."""
        return self._after

    def is_anew(self, *relation: Relation) -> bool:
        """Return whether one of some operators names a constant whose value changes."""
        return not self._is_same and any(names_constant(one.scalars) for one in relation)

    def change(self, relation: Relation) -> Signed:
        """See `RelationChanges.change`.

        Raises:
            QueryError: an expression fails for a row.
            InconsistentError: a stage lost rows that it did not have.
        """
        if id(relation) not in self._changes and self._sharing is not None:
            shared = self._sharing.change(relation, self)
            if shared is not None:
                self._changes[id(relation)] = relation, shared
        return self.own_change(relation)

    def own_change(self, relation: Relation) -> Signed:
        """Return the change of a relation, which is computed here if it is not known."""
        known = self._changes.get(id(relation))
        if known is None:
            known = relation, self._changed(relation)
            self._changes[id(relation)] = known
        return known[1]

    def before(self, relation: Relation, keys: LookupKeys | None = None) -> pa.Table:
        """See `RelationChanges.before`."""
        if is_none(relation) or keys is NO_KEYS or (keys is not None and not len(keys.rows)):
            return no_rows(relation)
        if isinstance(relation, Scan):
            return self._scanned(relation, keys)
        if keys is not None:
            return LOOKED_UP[type(relation)](relation, keys, self)
        if isinstance(relation, Limit):
            return limit.before(relation, self)
        known = self._wholes.get(id(relation))
        if known is None:
            known = relation, rows_of_operator(relation, self.before, self.computing)
            self._wholes[id(relation)] = known
        return known[1]

    def first(self, limit: Limit, count: int, keys: LookupKeys | None = None) -> pa.Table:
        """See `RelationChanges.first`."""
        scan = limit.input
        if isinstance(scan, Scan) and (keys is not None or not limit.partition):
            sought = None if keys is None else _in_columns(scan, keys)
            rows = self._feeders[scan.feeder].first(scan.columns, count, sought)
            if rows is not None:
                return rows.rename_columns([field.id for field in scan.fields])
        return self.before(scan, keys)

    def _changed(self, relation: Relation) -> Signed:
        if is_none(relation):
            return Signed.added(no_rows(relation))
        if self.is_anew(relation):
            return self._recomputed_now(relation)
        if not isinstance(relation, Scan):
            return RULES[type(relation)](relation, self)
        names = [field.id for field in relation.fields]
        return self._feeders[relation.feeder].change(relation.columns).named(names)

    def _recomputed_now(self, relation: Relation) -> Signed:
        """Return the change of an operator that names a constant whose value changes."""
        if isinstance(relation, Filter):
            before = self.before(relation.input)
            return plain.filtered_anew(relation, before, self.change(relation.input), self)
        after = rows_of_operator(relation, self.rows_after, self.after)
        return Signed.between(self.before(relation), after)

    def rows_after(self, relation: Relation) -> pa.Table:
        """Return all rows of a relation after the change."""
        return changed(self.before(relation), self.change(relation))

    def _scanned(self, scan: Scan, keys: LookupKeys | None) -> pa.Table:
        sought = None if keys is None else _in_columns(scan, keys)
        rows = self._feeders[scan.feeder].before(scan.columns, sought)
        return rows.rename_columns([field.id for field in scan.fields])


def _in_columns(scan: Scan, keys: LookupKeys) -> pa.Table:
    """Return keys in the columns of the stage."""
    columns = dict(zip((field.id for field in scan.fields), scan.columns, strict=True))
    return keys.rows.rename_columns([columns[name] for name in keys.fields])


def no_rows(relation: Relation) -> pa.Table:
    """Return no rows, in the columns of a relation that the driver computes."""
    return _no_rows(relation.fields)


@lru_cache(maxsize=1024)
def _no_rows(fields: tuple[Field, ...]) -> pa.Table:
    return without_rows(pa.schema([(one.id, _arrow(one.data_type)) for one in fields]))


def _arrow(kind: DataType | None) -> pa.DataType:
    if kind is None or isinstance(kind, NullType):
        return pa.bool_()
    return arrow_type(kind)


RULES: Final[Mapping[type[Relation], Callable[..., Signed]]] = MappingProxyType(
    {
        Values: plain.unchanged,
        ProjectRelation: plain.projected_change,
        Filter: plain.filtered_change,
        Join: join.change,
        Matched: matched.change,
        Single: single.change,
        AggregateRelation: by_rows.change,
        Distinct: distinct.change,
        SetOperation: set_operation.change,
        Limit: limit.change,
        WindowRelation: window.change,
        Expand: expand.change,
        Generate: generate.change,
    }
)
"""What returns the change of an operator's rows, from it and the changes of its inputs."""

LOOKED_UP: Final[Mapping[type[Relation], Callable[..., pa.Table]]] = MappingProxyType(
    {
        Values: plain.looked_up_values,
        ProjectRelation: plain.looked_up_project,
        Filter: plain.looked_up_filter,
        Join: join.looked_up,
        Matched: matched.looked_up,
        Single: single.looked_up,
        AggregateRelation: by_rows.looked_up,
        Distinct: distinct.looked_up,
        SetOperation: set_operation.looked_up,
        Limit: limit.looked_up,
        WindowRelation: window.looked_up,
        Expand: expand.looked_up,
        Generate: generate.looked_up,
    }
)
"""What returns the rows of an operator before that have some keys."""
