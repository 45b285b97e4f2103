"""Conditions: which partitions of a feeder a query can read rows of, found from its text.

Of every place where a query names a feeder in a FROM, the conditions are taken that a row must
meet: the WHERE of that SELECT, the ON of inner joins, and the ON of the other side of outer ones.
The invariant: a row of a partition that is not `Read.held` makes no difference to the query's rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BooleanType, DataType
from sqlglot import exp

from deltaproduce.engines.local.arrays import Marks
from deltaproduce.errors import DefinitionError
from deltaproduce.stages.partitioned.frames import ONE_SIDED, Frame, Item, Side
from deltaproduce.stages.partitioned.scope.clauses import Scope
from deltaproduce.stages.partitioned.scope.scalars import ZONE
from deltaproduce.stages.sql.expressions.analysis import analysed
from deltaproduce.stages.sql.expressions.evaluation import evaluated
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError
from deltaproduce.types.atoms import arrow_type


@dataclass(frozen=True, slots=True)
class Part:
    """A condition as it is said of partitions: a tree of AND, OR and NOT over its leaves.

    Attributes:
        operator: ``and``, ``or``, ``not``; of a leaf ``is``.
        parts: what it joins.
        leaf: what is computed of the partition columns and the scope; None if it is about
            something else.
    """

    operator: str
    parts: tuple[Part, ...] = ()
    leaf: Expression | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """What a row of a feeder must meet.

    Attributes:
        unless_null: it only counts if a row of nulls, which an outer join puts in the place of
            rows that are not there, does not meet it.
    """

    part: Part
    unless_null: bool


@dataclass(frozen=True, slots=True)
class Read:
    """One place where a query reads a feeder.

    Attributes:
        feeder: its name.
        columns: its partition columns, with their types.
    """

    feeder: str
    columns: tuple[tuple[str, DataType], ...]
    conditions: tuple[Condition, ...]

    def held(self, partitions: pa.Table, scope: Scope) -> Marks:
        """Which of some partitions the query may read rows of.

        Args:
            partitions: a row each, in `columns`.
            scope: what names stand for.
        """
        found = np.ones(len(partitions), bool)
        types, nothing = dict(self.columns), _nulls(self.columns)
        for condition in self.conditions:
            if condition.unless_null and _met(condition.part, nothing, types, scope)[0]:
                continue
            found &= _met(condition.part, partitions, types, scope)
        return found


def conditions_of(
    item: Item, select: exp.Select, frame: Frame, names: Mapping[str, str]
) -> tuple[Condition, ...]:
    """What rows of one item of a SELECT's FROM must meet.

    Args:
        frame: what the SELECT's expressions can name.
        names: those of the scope, by lower-case name.
    """
    return tuple(
        Condition(_part(tree, item, frame, names), unless_null)
        for tree, unless_null in _above(item, select)
    )


_BOTH: Final[tuple[Side, ...]] = ("left", "right")
_LIMITED: Final[Mapping[str, tuple[Side, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(("", "SEMI"), _BOTH),
        **dict.fromkeys(("LEFT", "ANTI"), ("right",)),
        "RIGHT": ("left",),
        "FULL": (),
    }
)
"""Sides of a join whose rows make no difference if they do not meet its ON."""

_NULLABLE: Final[Mapping[str, tuple[Side, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(("", "SEMI", "ANTI"), ()),
        "LEFT": ("right",),
        "RIGHT": ("left",),
        "FULL": _BOTH,
    }
)
"""Sides of a join in the place of whose rows it puts nulls."""


def _above(item: Item, select: exp.Select) -> Iterator[tuple[exp.Expr, bool]]:
    """The conditions above an item, and whether rows of nulls may have taken its rows' place."""
    nullable = False
    for join, side in item.joins:
        kind, on = join.kind if join.kind in ONE_SIDED else join.side, join.args.get("on")
        if on is not None and side in _LIMITED[kind]:
            yield on, nullable
        nullable = nullable or side in _NULLABLE[kind]
    where = select.args.get("where")
    if where is not None:
        yield where.this, nullable


def _part(node: exp.Expr, item: Item, frame: Frame, names: Mapping[str, str]) -> Part:
    match node:
        case exp.Paren():
            return _part(node.this, item, frame, names)
        case exp.And() | exp.Or():
            sides = (_part(side, item, frame, names) for side in (node.this, node.expression))
            return Part("and" if isinstance(node, exp.And) else "or", tuple(sides))
        case exp.Not():
            return Part("not", (_part(node.this, item, frame, names),))
        case exp.Between() if not node.args.get("symmetric"):
            low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
            high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
            sides = (_part(side, item, frame, names) for side in (low, high))
            return Part("and", tuple(sides))
    return Part("is", leaf=_leaf(node, item, frame, names))


def _leaf(node: exp.Expr, item: Item, frame: Frame, names: Mapping[str, str]) -> Expression | None:
    """A condition over the item's partition columns and the scope; None if it is about others."""
    if node.find(exp.Query, exp.Window, exp.Lambda):
        return None
    tree, read = node.copy(), list[str]()
    for column in [*tree.find_all(exp.Column)]:
        name = column.name.lower()
        of = _partition_column(column, item, frame)
        if of is not None:
            read.append(f"{_COLUMN}{of}")
        elif frame.found(column) is None and len(column.parts) == 1 and name in names:
            read.append(names[name])
        else:
            return None
        named = exp.column(exp.to_identifier(read[-1], quoted=True))
        tree = named if column is tree else tree
        column.replace(named)
    return Expression(tree.sql("spark"), tuple(dict.fromkeys(read)), tree)


def _partition_column(column: exp.Column, item: Item, frame: Frame) -> str | None:
    """The partition column of an item that a column stands for; None if it is something else."""
    found = frame.found(column)
    if found is None or item.feeder is None:
        return None
    first, *others = (part.name.lower() for part in column.parts)
    if others:
        is_own = found[0] is item and item.alias == first and len(others) == 1
    else:
        is_own = found[0] in frame.items and frame.among(item, first)
    own = item.column(found[1]) if is_own else None
    return own if own in item.feeder.partition else None


_COLUMN = "_partition_"
"""Before the names of partition columns, which a name of the scope may have, too."""


def _nulls(columns: tuple[tuple[str, DataType], ...]) -> pa.Table:
    """One partition whose columns are null."""
    return pa.table({"_": [0], **{n: pa.nulls(1, arrow_type(kind)) for n, kind in columns}})


def _met(part: Part, rows: pa.Table, types: Mapping[str, DataType], scope: Scope) -> Marks:
    """Which rows may meet a condition."""
    named = pa.table({"_": pa.nulls(len(rows)), **{f"{_COLUMN}{n}": rows.column(n) for n in types}})
    kinds = {f"{_COLUMN}{name}": kind for name, kind in types.items()}
    return _sides(part, named, kinds, scope)[0]


def _sides(
    part: Part, rows: pa.Table, types: Mapping[str, DataType], scope: Scope
) -> tuple[Marks, Marks]:
    """In which rows a condition may be true, and in which it may be false.

    What is not about the partition may be both: it counts as true, and under NOT as false.
    """
    match part.operator:
        case "not":
            true, false = _sides(part.parts[0], rows, types, scope)
            return false, true
        case "and" | "or":
            (one, not_one), (other, not_other) = (
                _sides(side, rows, types, scope) for side in part.parts
            )
            if part.operator == "and":
                return one & other, not_one | not_other
            return one | other, not_one & not_other
    return _values(part.leaf, rows, types, scope)


def _values(
    leaf: Expression | None, rows: pa.Table, types: Mapping[str, DataType], scope: Scope
) -> tuple[Marks, Marks]:
    """In which rows a leaf is true, and in which false; null is neither."""
    anything = np.ones(len(rows), bool), np.ones(len(rows), bool)
    if leaf is None or not len(rows):
        return anything
    try:
        term = analysed(leaf, types, ZONE, scope)
    except DefinitionError:  # Spark will say so
        return anything
    if term is None or not isinstance(term.data_type, BooleanType):
        return anything
    try:
        found = evaluated(term, rows)
    except EvaluationError:
        if len(rows) == 1:
            return anything
        each = [_values(leaf, rows.slice(n, 1), types, scope) for n in range(len(rows))]
        return np.concatenate([one for one, _ in each]), np.concatenate([one for _, one in each])
    true = np.asarray(found.fill_null(False), bool)
    return true, ~np.asarray(found.fill_null(True), bool)
