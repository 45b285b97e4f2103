"""Calls of aggregate functions: their types, and which the driver computes.

The invariant: a call has the type of Spark's function; its value is that of `agg`, so a sum of
doubles is the double nearest to the exact sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.algebra.scalars import NESTED, Scalar
from deltaproduce.stages.sql.states.agg import AggregateCall
from deltaproduce.stages.sql.states.functions.catalogue import planned
from deltaproduce.stages.sql.states.functions.plans import Planned
from deltaproduce.types.data_types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DatetimeType,
    DoubleType,
    FloatType,
    LongType,
    NullType,
)

_LIST: Final = "array_sorted"
_ORDERED: Final = ("min_by", "max_by", "mode", "median", "percentile", _LIST)
"""Functions that a sorted multiset of their arguments answers, by their names in `agg`."""
_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{name: name for name in ("count", "count_if", "sum", "avg", "min", "max")},
        **{name: name for name in ("bool_and", "bool_or", "var_pop", "var_samp")},
        **{name: name for name in ("stddev_pop", "stddev_samp")},
        "mean": "avg",
        "every": "bool_and",
        "any": "bool_or",
        "some": "bool_or",
        "variance": "var_samp",
        "std": "stddev_samp",
        "stddev": "stddev_samp",
        **{name: name for name in _ORDERED if name != _LIST},
        **dict.fromkeys(("collect_list", "array_agg"), _LIST),
    }
)
"""Spark's names of the functions that the driver computes -> the names in `agg`.

Lists are sorted: a query that the library takes sorts them itself, or does not ask for their order.
"""

_OF_SPARK: Final[Mapping[str, Callable[[DataType], DataType]]] = MappingProxyType(
    {
        **dict.fromkeys(("first", "last", "any_value", "mode", "min", "max"), lambda kind: kind),
        "approx_count_distinct": lambda _: LongType(),
        _LIST: lambda kind: ArrayType(kind, containsNull=False),
    }
)
"""The types of functions of one argument that only Spark computes."""

_SUMS: Final = frozenset({"sum", "avg"})
_NO_SUMMANDS: Final = (DatetimeType, BooleanType)
_ENDS: Final = frozenset({"min", "max"})
_PAIRED: Final = frozenset({"min_by", "max_by"})
COUNTS: Final = frozenset({"count", "count_if"})
"""Functions that are 0 over no rows; others are null."""


@dataclass(frozen=True, slots=True)
class AggregateExpression:
    """A call of an aggregate function.

    Attributes:
        function: its name in `agg`; in Spark's for one that only Spark computes.
        arguments: none for ``count(*)``.
        is_distinct: whether equal arguments of a group count once.
        where: the condition of the rows that count; all if None.
        text: what the user wrote.
        data_type: as for a `Field`.
        is_plain: whether the driver computes it, apart from its arguments.
        parameters: what is written after its arguments.
    """

    function: str
    arguments: tuple[Scalar, ...]
    is_distinct: bool
    where: Scalar | None
    text: str
    data_type: DataType | None
    is_plain: bool
    parameters: tuple[object, ...] = ()

    @staticmethod
    def of(
        name: str,
        arguments: Sequence[Scalar],
        *,
        is_distinct: bool,
        where: Scalar | None,
        text: str,
    ) -> AggregateExpression:
        """Find the type of a call.

        Args:
            name: Spark's name of the function, in lower case.
        """
        function = _NAMES.get(name, name)
        given, parameters = tuple(arguments), tuple[object, ...]()
        if function == "percentile":
            given, parameters = given[:1], tuple(map(_fraction, given[1:]))
        types = [one.data_type for one in given]
        data_type = _type(function, types, parameters) if name in _NAMES else None
        plain = data_type is not None
        data_type = data_type or _type_in_spark(function, types)
        return AggregateExpression(
            function, given, is_distinct, where, text, data_type, plain, parameters
        )

    @property
    def fault(self) -> str | None:
        """Why Spark refuses it, whatever its settings; None if it may take it."""
        kinds = [one.data_type for one in self.arguments]
        if self.function in _SUMS and any(isinstance(kind, _NO_SUMMANDS) for kind in kinds):
            return f"adds up values of type {_type_names(kinds)}; cast them"
        return None

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        """The expressions that it reads."""
        return self.arguments if self.where is None else (*self.arguments, self.where)

    @property
    def is_end(self) -> bool:
        """Whether it is the least or the greatest value."""
        return self.function in _ENDS

    @property
    def is_ordered(self) -> bool:
        """Whether the driver computes it from the sorted values of a group."""
        return self.is_plain and self.function in _ORDERED

    @property
    def planned(self) -> Planned:
        """How it is computed from values; not for an end."""
        return _planned(self.function, [one.data_type for one in self.arguments], self.parameters)

    @property
    def adds_floats(self) -> bool:
        """Whether it adds up floats, whose last digits depend on who adds them."""
        is_float = isinstance(self.data_type, FloatType | DoubleType)
        return is_float and not self.is_end and not self.is_ordered


def _planned(
    function: str, types: Sequence[DataType | None], parameters: tuple[object, ...]
) -> Planned:
    known = [kind for kind in types if kind is not None]
    arguments = tuple(f"_{place}" for place in range(len(known)))
    return planned(AggregateCall(function, arguments, parameters), range(len(known)), known)


def _type(
    function: str, types: Sequence[DataType | None], parameters: tuple[object, ...]
) -> DataType | None:
    """Return the type of a function's value; None if only Spark computes it."""
    if function == "count":
        return LongType()
    if len(types) != (2 if function in _PAIRED else 1) or None in parameters:
        return None
    if any(kind is None or isinstance(kind, (NullType, *NESTED)) for kind in types):
        return None
    if function in _ENDS:
        return types[0]
    if function == "mode" and isinstance(types[0], BinaryType):
        return None  # Spark takes equal binary values for different ones
    if function == "percentile" and len(parameters) != 1:
        return None
    try:
        data_type = _planned(function, types, parameters).data_type
    except DefinitionError:  # text, which Spark casts, or what it refuses
        return None
    if function == _LIST and isinstance(data_type, ArrayType):
        return ArrayType(data_type.elementType, containsNull=False)
    return data_type


def _type_in_spark(function: str, types: Sequence[DataType | None]) -> DataType | None:
    """Return the type of a function that only Spark computes; None if it is not certain."""
    if function == "count":
        return LongType()
    rule = _OF_SPARK.get(function)
    known = [kind for kind in types if kind is not None and not isinstance(kind, NullType)]
    return rule(known[0]) if rule is not None and len(known) == len(types) == 1 else None


def _type_names(kinds: Sequence[DataType | None]) -> str:
    return ", ".join(kind.simpleString() for kind in kinds if kind is not None)


def _fraction(scalar: Scalar) -> float | None:
    """Return a written number from 0 to 1; None for anything else."""
    tree = scalar.expression.tree.unnest()
    if not isinstance(tree, exp.Literal) or tree.is_string:
        return None
    fraction = float(tree.name)
    return fraction if 0 <= fraction <= 1 else None
