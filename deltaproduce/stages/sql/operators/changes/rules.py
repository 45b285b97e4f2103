"""What rules of several operators share: what they ask of their inputs, and how changes combine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from deltaproduce.stages.sql.algebra.relations import Limit, Relation
from deltaproduce.stages.sql.operators.changes.keys import LookupKeys
from deltaproduce.stages.sql.operators.changes.signed import Signed, bag_difference, changed
from deltaproduce.stages.sql.operators.computing import Computing
from deltaproduce.types.pandas_on_demand import in_numpy

_COUNT: Final = "#count"
"""The column with how often a row is added, while an operator joins rows."""


class RelationChanges(Protocol):
    """The change of each relation of a query, and its rows before."""

    @property
    def computing(self) -> Computing: ...  # noqa: D102 see the class

    @property
    def after(self) -> Computing: ...  # noqa: D102 `computing` has the constants of before

    def change(self, relation: Relation) -> Signed:
        """Return what goes of the rows before, and what comes of those after; a row may do both."""

    def before(self, relation: Relation, keys: LookupKeys | None = None) -> pa.Table:
        """Return the rows before that have one of the keys; all if None."""

    def first(self, limit: Limit, count: int, keys: LookupKeys | None = None) -> pa.Table:
        """Return at least so many first rows before of a limit's input, in the limit's order.

        Args:
            keys: the partitions whose rows are wanted; all if None.
        """


def nothing(relation: Relation, changes: RelationChanges) -> Signed:
    """Return that a relation does not change."""
    return Signed.added(empty(relation, changes))


def empty(relation: Relation, changes: RelationChanges) -> pa.Table:
    """Return no rows, in the columns of a relation."""
    return changes.before(relation, NO_KEYS)


NO_KEYS: Final = LookupKeys(pa.table({}))
"""Stands for no rows at all."""


def both(
    relation: Relation, keys: LookupKeys | None, change: Signed, changes: RelationChanges
) -> tuple[pa.Table, pa.Table]:
    """Return the rows of some keys before and after a change.

    Args:
        change: that of the relation.
    """
    before = changes.before(relation, keys)
    own = change if keys is None else keys.of_change(change)
    return before, changed(before, own)


@dataclass(frozen=True, slots=True)
class EachRow:
    """An operator that makes its rows of each row of one input by itself, beside another input.

    Attributes:
        main: the input whose rows it looks at one by one.
        other: the other one.
        compute: its rows, from rows of both. Columns of the main rows that it does not know stay.
        of_other: the keys of all rows of the other input that count for some of the main ones;
            None for all.
        of_main: the keys of all main rows for which some rows of the other input count.
        is_linear: whether its rows are those of each row of the other input, too.
    """

    main: Relation
    other: Relation
    compute: Callable[[pa.Table, pa.Table], pa.Table]
    of_other: Callable[[pa.Table], LookupKeys | None]
    of_main: Callable[[pa.Table], LookupKeys | None]
    is_linear: bool = False

    def change(self, relation: Relation, changes: RelationChanges) -> Signed:
        """Return the change of the operator's rows.

        Main rows that come are looked at beside the other input as it is after, those that go
        beside what it was, and those that stay beside both where it changes.
        """
        mains, others = changes.change(self.main), changes.change(self.other)
        parts = [nothing(relation, changes)]
        if len(mains):
            keys = self.of_other(mains.rows)
            before, after = both(self.other, keys, others, changes)
            parts.append(self._counted(mains.inserted, after))
            parts.append(-self._counted(mains.deleted, before))
        if len(others):
            stayed = self._stayed(mains, others, changes)
            if not len(stayed):
                pass
            elif self.is_linear:
                parts.append(self._beside(stayed, others))
            else:
                rows = Signed.added(stayed)
                before, after = both(self.other, self.of_other(stayed), others, changes)
                parts += [self._counted(rows, after), -self._counted(rows, before)]
        change = Signed.concat(parts)
        return change if self.is_linear else change.net()

    def _stayed(self, mains: Signed, others: Signed, changes: RelationChanges) -> pa.Table:
        """Return the main rows that stay, of those for which the change of the other counts."""
        keys = self.of_main(others.rows)
        gone = mains.deleted
        return bag_difference(
            changes.before(self.main, keys), gone if keys is None else keys.of_change(gone)
        )

    def _counted(self, mains: Signed, others: pa.Table) -> Signed:
        """Return what rows that count several times become."""
        return _taken_apart(self.compute(_with_counts(mains), others))

    def _beside(self, mains: pa.Table, others: Signed) -> Signed:
        return _taken_apart(self.compute(mains, _with_counts(others)))


def _with_counts(change: Signed) -> pa.Table:
    return change.rows.append_column(_COUNT, pa.array(change.counts))


def _taken_apart(rows: pa.Table) -> Signed:
    counts = in_numpy(rows.column(_COUNT), np.int64)
    return Signed(rows.drop_columns([_COUNT]), counts)
