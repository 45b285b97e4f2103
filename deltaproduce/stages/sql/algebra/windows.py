"""Window functions: each row with values that are computed from its partition.

The invariant: a window that is total orders rows by their whole content, so that its values depend
on the bag of rows alone, and not on their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final, Literal

from typing_extensions import override

from deltaproduce.stages.sql.algebra.calls import AggregateExpression
from deltaproduce.stages.sql.algebra.relations import Relation
from deltaproduce.stages.sql.algebra.scalars import Field, Scalar
from deltaproduce.types.data_types import ArrayType, DataType, MapType, StructType, VariantType

RANKS: Final = frozenset({"rank", "dense_rank", "percent_rank", "cume_dist"})
"""Functions of the place of a row among those that differ from it in the order."""
OFFSETS: Final = frozenset({"lag", "lead"})
ENDS: Final = frozenset({"first_value", "last_value", "nth_value"})
"""Functions that take the value of one row of a frame."""

BoundKind = Literal["unbounded", "current", "rows", "value"]


@dataclass(frozen=True, slots=True)
class FrameBound:
    """Where a frame begins or ends.

    Attributes:
        kind: at the end of the partition, at the current row (and those equal to it, in a frame of
            values), some rows away, or where the order reaches a value.
        rows: how many rows after the current one; before it if negative.
        value: the value, as an expression over the current row.
    """

    kind: BoundKind
    rows: int = 0
    value: Scalar | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows of a partition that a function is computed from, for each row.

    Attributes:
        by_rows: whether it counts rows; otherwise it is a range of values of the order.
    """

    by_rows: bool
    start: FrameBound
    end: FrameBound

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole partition."""
        return self.start.kind == self.end.kind == "unbounded"


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A call of a window function.

    Attributes:
        function: its name, in lower case; None if it is no function.
        arguments: its arguments that differ from row to row: the value, and of ``lag`` and
            ``lead`` perhaps the default, in the type of the value.
        number: of ``lag`` and ``lead`` how many rows after the current one their value is (before
            it if negative), of ``nth_value`` which row, of ``ntile`` how many buckets.
        ignores_nulls: whether rows whose value is null do not count.
        aggregate: the aggregate function over the frame; None if it is another function.
        text: what the user wrote.
        data_type: as for a `Field`.
        is_plain: whether the driver computes it, apart from its expressions.
    """

    function: str | None
    arguments: tuple[Scalar, ...]
    frame: Frame
    number: int
    ignores_nulls: bool
    aggregate: AggregateExpression | None
    text: str
    data_type: DataType | None
    is_plain: bool

    @property
    def scalars(self) -> Iterator[Scalar]:
        """The expressions that it reads."""
        yield from self.arguments if self.aggregate is None else self.aggregate.scalars
        for bound in (self.frame.start, self.frame.end):
            if bound.value is not None:
                yield bound.value


@dataclass(frozen=True, slots=True)
class OrderKey:
    """An expression that rows of a partition are sorted by, and the direction."""

    scalar: Scalar
    descending: bool
    nulls_first: bool

    @property
    def text(self) -> str:
        """What it is, to compare it with others."""
        return f"{self.scalar.expression.text} {self.descending} {self.nulls_first}"


@dataclass(frozen=True, slots=True, eq=False)
class WindowRelation(Relation):
    """Each row, with the values of window functions over the same partitions in the same order.

    Attributes:
        calls: the functions, and the fields that their values become.
        partition: the expressions by which rows belong to one partition.
        order: those that order the rows of a partition.
        ties: the fields that order the rows that are equal in it, nulls first. Of rows that are
            equal in these too, none is before another one; but functions that take one of them
            take the least by all fields of the input.
    """

    input: Relation
    calls: tuple[tuple[Field, WindowCall], ...]
    partition: tuple[Scalar, ...]
    order: tuple[OrderKey, ...]
    ties: tuple[Field, ...]

    @property
    @override
    def fields(self) -> tuple[Field, ...]:
        return (*self.input.fields, *(field for field, _ in self.calls))

    @property
    @override
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)

    @property
    @override
    def scalars(self) -> tuple[Scalar, ...]:
        of_calls = chain.from_iterable(call.scalars for _, call in self.calls)
        return (*of_calls, *self.partition, *(key.scalar for key in self.order))

    @property
    @override
    def only_in_spark(self) -> str | None:
        """Also an order of values that the driver does not order."""
        for _, call in self.calls:
            if not call.is_plain or not all(one.is_plain for one in call.scalars):
                return call.text
        if not all(one.is_plain for one in self.scalars):
            return self.text
        nested = (ArrayType, StructType, MapType, VariantType)
        if any(isinstance(key.scalar.data_type, nested) for key in self.order):
            return self.text
        return self.text if self.ties and any(map(_lacks_order, self.input.fields)) else None

    @property
    def text(self) -> str:
        """What the user wrote, of the first function."""
        return self.calls[0][1].text

    @property
    @override
    def label(self) -> str:
        return f"Window {', '.join(call.text for _, call in self.calls)}"

    def takes(self, other: WindowRelation) -> bool:
        """Return whether it can compute the functions of another one, which is over it."""
        own = {field.id for field in self.input.fields}
        return (
            other.input is self
            and [one.expression.text for one in self.partition]
            == [one.expression.text for one in other.partition]
            and [key.text for key in self.order] == [key.text for key in other.order]
            and self.ties == other.ties
            and all(own >= {*scalar.fields} for scalar in other.scalars)
        )


def _lacks_order(field: Field) -> bool:
    return field.data_type is None or not is_ordered(field.data_type)


def is_ordered(kind: DataType) -> bool:
    """Return whether the values of a type have an order in Spark."""
    match kind:
        case MapType() | VariantType():
            return False
        case ArrayType():
            return is_ordered(kind.elementType)
        case StructType():
            return all(is_ordered(field.dataType) for field in kind)
    return True
