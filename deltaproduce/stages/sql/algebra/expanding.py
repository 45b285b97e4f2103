"""Operators that make several rows of one: for grouping sets, and generators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deltaproduce.stages.sql.algebra.relations import Relation
from deltaproduce.stages.sql.algebra.scalars import Field, Scalar
from deltaproduce.types.data_types import ArrayType, DataType, IntegerType, MapType, StructType


@dataclass(frozen=True, slots=True, eq=False)
class Expand(Relation):
    """Each row once for each of some lists of expressions, whose values are further fields.

    Attributes:
        own: the fields of the values.
        lists: the lists, each with an expression per field, of its type or NULL.
    """

    input: Relation
    own: tuple[Field, ...]
    lists: tuple[tuple[Scalar, ...], ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        """See `Relation.fields`."""
        return (*self.input.fields, *self.own)

    @property
    def inputs(self) -> tuple[Relation, ...]:
        """See `Relation.inputs`."""
        return (self.input,)

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        """See `Relation.scalars`."""
        return tuple(scalar for one in self.lists for scalar in one)

    @property
    def told(self) -> str:
        """See `Relation.told`."""
        told = (f"({', '.join(scalar.text for scalar in one)})" for one in self.lists)
        return f"Expand {', '.join(told)}"


@dataclass(frozen=True, slots=True, eq=False)
class Generate(Relation):
    """Each row once for each row that a generator makes of it.

    Attributes:
        own: the fields of the generator's columns.
        text: what the user wrote.
        function: the generator, in lower case, without ``_outer``.
        arguments: its arguments.
        is_outer: whether a row of which it makes none stays once, with nulls.
    """

    input: Relation
    own: tuple[Field, ...]
    text: str
    function: str
    arguments: tuple[Scalar, ...]
    is_outer: bool

    @property
    def fields(self) -> tuple[Field, ...]:
        """See `Relation.fields`."""
        return (*self.input.fields, *self.own)

    @property
    def inputs(self) -> tuple[Relation, ...]:
        """See `Relation.inputs`."""
        return (self.input,)

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        """See `Relation.scalars`."""
        return self.arguments

    @property
    def only_in_spark(self) -> str | None:
        """See `Relation.only_in_spark`."""
        is_plain = all(field.data_type is not None for field in self.own)
        is_plain = is_plain and all(one.is_plain for one in self.arguments)
        return None if is_plain else self.text

    @property
    def told(self) -> str:
        """See `Relation.told`."""
        return f"Generate {self.text}"


def generated(function: str, types: list[DataType | None]) -> list[tuple[str, DataType]] | None:
    """Return the columns of a generator with Spark's names; None if only Spark knows them.

    Args:
        function: without ``_outer``.
        types: the types of its arguments.
    """
    found = [*_generated(function, types[0])] if len(types) == 1 else []
    return found or None


def _generated(function: str, kind: DataType | None) -> Iterator[tuple[str, DataType]]:
    if function == "posexplode" and isinstance(kind, ArrayType | MapType):
        yield "pos", IntegerType()
    match function, kind:
        case (("explode" | "posexplode"), ArrayType()):
            yield "col", kind.elementType
        case (("explode" | "posexplode"), MapType()):
            yield from (("key", kind.keyType), ("value", kind.valueType))
        case "inline", ArrayType(elementType=StructType() as element):
            yield from ((field.name, field.dataType) for field in element)
