"""Operators that make several rows of one: for grouping sets, and generators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from typing_extensions import override

from deltaproduce.stages.sql.algebra.relations import Widened
from deltaproduce.stages.sql.algebra.scalars import Scalar
from deltaproduce.types.data_types import ArrayType, DataType, IntegerType, MapType, StructType

TIMES: Final = "times"
"""A generator that adds no field: each row as often as a number says."""


@dataclass(frozen=True, slots=True, eq=False)
class Expand(Widened):
    """Each row once for each of some lists of expressions, whose values are further fields.

    Attributes:
        lists: the lists, each with an expression per added field, of its type or NULL.
    """

    lists: tuple[tuple[Scalar, ...], ...]

    @property
    @override
    def scalars(self) -> tuple[Scalar, ...]:
        return tuple(scalar for one in self.lists for scalar in one)

    @property
    @override
    def label(self) -> str:
        texts = (f"({', '.join(scalar.text for scalar in one)})" for one in self.lists)
        return f"Expand {', '.join(texts)}"


@dataclass(frozen=True, slots=True, eq=False)
class Generate(Widened):
    """Each row once for each row that a generator makes of it.

    Attributes:
        text: what the user wrote.
        function: the generator, in lower case, without ``_outer``; or `TIMES`.
        arguments: its arguments.
        is_outer: whether a row of which it makes none stays once, with nulls.
    """

    text: str
    function: str
    arguments: tuple[Scalar, ...]
    is_outer: bool

    @property
    @override
    def scalars(self) -> tuple[Scalar, ...]:
        return self.arguments

    @property
    @override
    def only_in_spark(self) -> str | None:
        is_plain = all(field.data_type is not None for field in self.own)
        is_plain = is_plain and all(one.is_plain for one in self.arguments)
        return None if is_plain else self.text

    @property
    @override
    def label(self) -> str:
        return f"Generate {self.text}"


def generated(function: str, types: list[DataType | None]) -> list[tuple[str, DataType]] | None:
    """Return the columns of a generator with Spark's names; None if only Spark knows them.

    Args:
        function: without ``_outer``.
        types: the types of its arguments.
    """
    fields = [*_generated(function, types[0])] if len(types) == 1 else []
    return fields or None


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
