"""Sharing: the changes that a query has in common with others of the version.

The first query that needs the change of a subplan computes it, in the columns that any of them
needs; the others take theirs from it. The invariant: what a query gets is a change of its rows, as
if it were computed for this query alone.
"""

from __future__ import annotations

from typing import Final, Protocol

from deltaproduce.stages.sql.algebra.relations import Relation
from deltaproduce.stages.sql.operators.changes.shared import SharedChanges
from deltaproduce.stages.sql.operators.changes.signed import Signed
from deltaproduce.stages.sql.operators.changes.subplans import Columns, Subplan, subplans, widened

_MOST_MORE: Final = 2
"""In the columns of all queries, at most so many times as many rows may move as in a query's own.

A row that moves in the columns of others goes and comes in a query that does not read these.
"""


class QueryChanges(Protocol):
    """The changes of one query's relations."""

    def change(self, relation: Relation) -> Signed:
        """Return the change of a relation, which may be shared."""

    def own_change(self, relation: Relation) -> Signed:
        """Return the change of a relation, from those of its inputs."""


class Sharing:
    """What one query shares with others of the version.

    Args:
        shared: the changes of the version.
        relation: the query.
    """

    def __init__(self, shared: SharedChanges, relation: Relation) -> None:
        self._shared = shared
        self._subplans = dict(subplans(relation)) if shared.columns else {}

    def change(self, relation: Relation, changes: QueryChanges) -> Signed | None:
        """Return the change of a relation; None if the query computes it for itself."""
        subplan = self._subplans.get(id(relation))
        columns = None if subplan is None else self._shared.columns.get(subplan.key)
        if subplan is None or columns is None or not subplan.columns.keys() <= columns.keys():
            return None
        own = _moved(subplan, changes)
        most = self._shared.moved.get(subplan.key)
        if not own or (most is not None and most > _MOST_MORE * own):
            return None
        change = self._shared.kept.get(subplan.key)
        if change is None:
            change = self._computed(relation, columns, own, changes)
        if change is None:
            return None
        fields = [field.id for field in relation.fields]
        return change.selected([subplan.names[one] for one in fields]).named(fields)

    def _computed(
        self, relation: Relation, columns: Columns, own: int, changes: QueryChanges
    ) -> Signed | None:
        """Return the change in the columns of all queries; None if it would be much larger.

        Args:
            own: how many rows move in the columns of this query.
        """
        wide, more = widened(relation, columns, self._subplans)
        subplan = more[id(wide)]
        most = self._shared.moved[subplan.key] = _moved(subplan, changes)
        if most > _MOST_MORE * own:
            return None
        self._subplans.update(more)
        change = changes.own_change(wide)  # keeps the relation, so nothing else gets its identity
        fields = {subplan.names[field.id]: field.id for field in wide.fields}
        change = change.selected([*fields.values()]).named([*fields])
        self._shared.keep(subplan.key, change)
        return change


def _moved(subplan: Subplan, changes: QueryChanges) -> int:
    """Return how many rows move in the stages of a subplan, in the columns that it reads."""
    return sum(len(changes.change(scan)) for scan in subplan.scans)
