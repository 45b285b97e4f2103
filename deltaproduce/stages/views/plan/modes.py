"""Modes: which operators of a query follow changes, and why others compute all their rows again.

An operator follows changes if the rows that its rule asks for are looked up by columns of stages,
or of tables that the view keeps. The invariant: this depends on the query and the types of its
columns alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

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
from deltaproduce.stages.sql.algebra.windows import WindowRelation
from deltaproduce.stages.sql.operators.groups import by_rows
from deltaproduce.stages.sql.operators.joins import join, matched, single
from deltaproduce.stages.sql.operators.windows.window import partition_fields
from deltaproduce.stages.views.plan.costs import Cost, Fields, Places, lefts, rights
from deltaproduce.types.data_types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StructType,
)

NO_DELTA_RULE: Final = "NO_DELTA_RULE"
"""This version of the library has no rule for the operator's changes."""
JOIN_WITHOUT_EQUALITY: Final = "JOIN_WITHOUT_EQUALITY"
"""No two columns of the sides must be equal, so each row of one side may join each of the other."""
GROUPS_WITHOUT_COLUMNS: Final = "GROUPS_WITHOUT_COLUMNS"
"""No column of a stage tells which rows a group has, and their functions have no states."""
WINDOW_WITHOUT_PARTITION: Final = "WINDOW_WITHOUT_PARTITION"
"""A window function without PARTITION BY is computed from all rows."""
SUBQUERY_WITHOUT_LINK: Final = "SUBQUERY_WITHOUT_LINK"
"""A subquery that does not depend on the row by equality makes its value of all rows."""
ROWS_WITHOUT_COLUMNS: Final = "ROWS_WITHOUT_COLUMNS"
"""The rows that an operator asks for are not told apart by columns that may be a key."""
NESTED_VALUES: Final = "NESTED_VALUES"
"""A column has maps, or floats in arrays or structs, whose equal values may differ."""
NESTED_KEY: Final = "NESTED_KEY"
"""The same of a column by which rows are grouped, or compared as a whole."""
ORDER_OF_OTHER_COLUMNS: Final = "ORDER_OF_OTHER_COLUMNS"
"""The final ORDER BY names what is no column of the result, so it is not stored."""

_BY_VALUE: Final = AggregateRelation, Distinct, SetOperation


@dataclass(frozen=True, slots=True)
class Modes:
    """The modes of operators over stages.

    Attributes:
        places: what is known of the stages.
    """

    places: Places

    def reason(self, relation: Relation) -> str | None:
        """Return why an operator does not follow changes; None if it does."""
        if any(_is_vague(field.data_type) for field in relation.fields):
            return NESTED_KEY if isinstance(relation, _BY_VALUE) else NESTED_VALUES
        rule = _REASONS.get(type(relation))
        return NO_DELTA_RULE if rule is None else rule(self, relation)

    def is_dear(self, relation: Relation, fields: Fields) -> bool:
        """Return whether a look-up reads all rows of a stage."""
        return self.places.cost(relation, fields) == Cost.ALL

    def _reason_if_dear(
        self, reason: str, left: Relation, by_left: Fields, right: Relation, by_right: Fields
    ) -> str | None:
        dear = self.is_dear(left, by_left) or self.is_dear(right, by_right)
        return reason if dear else None

    def of_join(self, one: Join) -> str | None:
        """Return why a join does not follow changes."""
        linked = join.linked_fields(one)
        if not linked:
            is_small = any(self.places.is_small(side) for side in one.inputs)
            return None if is_small else JOIN_WITHOUT_EQUALITY
        return self._reason_if_dear(
            ROWS_WITHOUT_COLUMNS, one.left, lefts(linked), one.right, rights(linked)
        )

    def of_matched(self, one: Matched) -> str | None:
        """Return why EXISTS or IN does not follow changes."""
        linked, compared = matched.linked_fields(one)
        every = (*linked, *compared)
        if not every:
            is_small = self.places.is_small(one.subquery)
            return None if is_small else SUBQUERY_WITHOUT_LINK
        return self._reason_if_dear(
            ROWS_WITHOUT_COLUMNS, one.input, lefts(every), one.subquery, rights(every)
        )

    def of_single(self, one: Single) -> str | None:
        """Return why a scalar subquery does not follow changes."""
        linked = single.linked_fields(one)
        if not linked:
            is_small = self.places.is_small(one.subquery)
            return None if is_small else SUBQUERY_WITHOUT_LINK
        return self._reason_if_dear(
            ROWS_WITHOUT_COLUMNS, one.input, lefts(linked), one.subquery, rights(linked)
        )

    def of_aggregate(self, one: AggregateRelation) -> str | None:
        """Return why groups without states do not follow changes."""
        columns = frozenset(by_rows.copies(one).values())
        return GROUPS_WITHOUT_COLUMNS if self.is_dear(one.input, columns) else None

    def of_window(self, one: WindowRelation) -> str | None:
        """Return why a window function does not follow changes."""
        by = partition_fields(one)
        return WINDOW_WITHOUT_PARTITION if self.is_dear(one.input, by) else None

    def of_distinct(self, one: Distinct) -> str | None:
        """Return why DISTINCT does not follow changes."""
        every = frozenset(field.id for field in one.fields)
        return ROWS_WITHOUT_COLUMNS if self.is_dear(one.input, every) else None

    def of_set_operation(self, one: SetOperation) -> str | None:
        """Return why a set operation does not follow changes."""
        if one.kind == "union" and one.is_all:
            return None
        sides = ((side, frozenset(field.id for field in side.fields)) for side in one.inputs)
        return ROWS_WITHOUT_COLUMNS if any(self.is_dear(*side) for side in sides) else None

    def of_limit(self, one: Limit) -> str | None:
        """Return why a limit does not follow changes."""
        return None if self.places.is_ordered(one) else ROWS_WITHOUT_COLUMNS


def _is_vague(kind: DataType | None, *, inside: bool = False) -> bool:
    """Return whether values of a type may be equal and not the same, inside of others."""
    match kind:
        case ArrayType():
            return _is_vague(kind.elementType, inside=True)
        case StructType():
            return any(_is_vague(field.dataType, inside=True) for field in kind)
        case FloatType() | DoubleType():
            return inside
    return isinstance(kind, MapType)


_REASONS: Final[Mapping[type[Relation], Callable[..., str | None]]] = MappingProxyType(
    {
        Scan: lambda *_: None,
        Values: lambda *_: None,
        ProjectRelation: lambda *_: None,
        Filter: lambda *_: None,
        Join: Modes.of_join,
        Matched: Modes.of_matched,
        Single: Modes.of_single,
        AggregateRelation: Modes.of_aggregate,
        Distinct: Modes.of_distinct,
        SetOperation: Modes.of_set_operation,
        Limit: Modes.of_limit,
        WindowRelation: Modes.of_window,
        Expand: lambda *_: None,
        Generate: lambda *_: None,
    }
)
