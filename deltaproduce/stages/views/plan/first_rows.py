"""First rows: a filter of row numbers reads no more of a partition than the rows that it takes.

``SELECT … QUALIFY row_number() OVER (PARTITION BY id ORDER BY at DESC) = 1`` takes one row of each
partition. A table that has the rows in this order finds it, and the row behind it when it goes, so
a change reads a few rows of its partition, however large that is. The invariant: the filter gets
all rows that it takes, with the numbers that they have among all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, cast

from sqlglot import exp

from deltaproduce.stages.sql.algebra.provenance import bare
from deltaproduce.stages.sql.algebra.relations import Filter, Limit, ProjectRelation, Relation
from deltaproduce.stages.sql.algebra.scalars import Field, Output, SortKey
from deltaproduce.stages.sql.algebra.windows import OrderKey, WindowRelation
from deltaproduce.stages.sql.operators.windows.window import partition_fields
from deltaproduce.stages.sql.resolve.reading import conjuncts

_NUMBER: Final = "row_number"
_OF_EARLIER: Final = frozenset({_NUMBER, "rank", "dense_rank"})
"""Functions whose value does not depend on the rows behind."""
_MIRRORED: Final[Mapping[type[exp.Expr], type[exp.Expr]]] = MappingProxyType(
    {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE}
)


@dataclass(frozen=True, slots=True)
class FirstRows:
    """A filter that takes some first rows of each partition.

    Attributes:
        layers: the filter and what it is over, down to the last window.
        partition: the fields of the partitions.
        order: the order of their rows, by fields and expressions.
        count: the greatest number that the filter takes.
    """

    layers: tuple[Relation, ...]
    partition: tuple[Field, ...]
    order: tuple[OrderKey, ...]
    count: int

    @staticmethod
    def of(relation: Filter) -> FirstRows | None:
        """Return a filter as such a one; None if it is another."""
        greatest, numbers = dict(_greatest(relation)), list[int]()
        layers, below = [cast(Relation, relation)], relation.input
        while isinstance(below, Filter | ProjectRelation | WindowRelation) and greatest:
            layers.append(below)
            if isinstance(below, ProjectRelation):
                names = {one.field.id: bare(one) for one in below.outputs}
                named = ((names.get(field), most) for field, most in greatest.items())
                greatest = {name: most for name, most in named if name is not None}
            elif isinstance(below, WindowRelation):
                functions = {field.id: call.function for field, call in below.calls}
                if not {*functions.values()} <= _OF_EARLIER:
                    return None
                numbers += (greatest[field] for field in _numbers(below) if field in greatest)
            below = below.input
        windows = [one for one in layers if isinstance(one, WindowRelation)]
        if not numbers or min(numbers) < 1 or len({map(_text, windows)}) != 1:
            return None
        last = windows[-1]
        by = partition_fields(last)
        if len(by) < len({one.text for one in last.partition}):
            return None
        partition = tuple(field for field in last.input.fields if field.id in by)
        down_to = tuple(layers[: layers.index(last) + 1])
        return FirstRows(down_to, partition, last.order, min(numbers))

    @property
    def window(self) -> WindowRelation:
        """The last window."""
        last = self.layers[-1]
        assert isinstance(last, WindowRelation)
        return last

    def limit(self, rows: Relation, numbers: Iterator[int]) -> Limit | None:
        """Return the first rows of each partition; None if ties are decided otherwise.

        Args:
            rows: what the input of the window becomes.
            numbers: those of the fields that are added.
        """
        order, added = list[SortKey](), list[Output]()
        fields = {field.id: field for field in rows.fields}
        for key in self.order:
            field = fields.get(key.scalar.expression.column or "")
            if field is None:
                field = Field(f"order#{next(numbers)}", key.scalar.data_type)
                added.append(Output(field, key.scalar))
            order.append(SortKey(field, key.descending, key.nulls_first))
        named = {key.field.id for key in order} | {field.id for field in self.partition}
        rest = [field.id for field in rows.fields if field.id not in named]
        for one in self.layers:
            if isinstance(one, WindowRelation) and _numbers(one):
                ties = [field.id for field in one.ties if field.id not in named]
                if ties != rest:
                    return None
        if added:
            rows = ProjectRelation(rows, (*map(Output.copy, rows.fields), *added))
        return Limit(rows, tuple(order), self.count, partition=self.partition)

    def over(self, rows: Relation) -> tuple[Relation, Relation]:
        """Return the last window and the filter, over other rows."""
        window = relation = self.window.over([rows])
        for layer in reversed(self.layers[:-1]):
            relation = layer.over([relation])
        return window, relation


def _numbers(window: WindowRelation) -> list[str]:
    """Return the fields that have row numbers."""
    return [field.id for field, call in window.calls if call.function == _NUMBER]


def _text(window: WindowRelation) -> tuple[object, ...]:
    """Return the partitions and the order of a window, to compare them with others."""
    partition = (one.text for one in window.partition)
    return (frozenset(partition), *(key.text for key in window.order))


def _greatest(relation: Filter) -> Iterator[tuple[str, int]]:
    """Yield fields, and the greatest number that a condition lets each have."""
    for condition in conjuncts(relation.condition.expression.tree):
        tree = condition.unnest()
        if isinstance(tree, exp.Between):
            tree = exp.LTE(this=tree.this, expression=tree.args["high"])
        kind, field, number = type(tree), tree.this, tree.args.get("expression")
        if isinstance(field, exp.Literal):
            kind, field, number = _MIRRORED.get(kind, kind), number, field
        if isinstance(field, exp.Column) and isinstance(number, exp.Literal) and number.is_int:
            if kind in {exp.EQ, exp.LTE}:
                yield field.name, int(number.this)
            elif kind is exp.LT:
                yield field.name, int(number.this) - 1
