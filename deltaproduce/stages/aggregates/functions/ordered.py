"""Ordered functions: which sorted multiset one is answered from, and how much of it is read.

The invariant: types and values are those of Spark's function of that name; where Spark leaves open
which of several values it gives, it is the least, nulls first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from pyspark.sql.types import ArrayType, DataType, DoubleType, LongType, NumericType, StringType

from deltaproduce.stages.aggregates.agg import AggregateCall
from deltaproduce.types.catalogue import atom

Reach: TypeAlias = Literal["first", "last", "all", "changes"]
"""What is read of a group: so many values from one end; all; or only how many came and went."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """An ordered function, for arguments of some types.

    Attributes:
        name: the function's.
        arguments: the expressions that the multiset is sorted by; where the first is null the row
            does not count.
        types: of the arguments.
        data_type: of its value.
        reach: what it reads of a group.
        count: how many values, if it reads them from one end.
        parameters: what else it was called with.
    """

    name: str
    arguments: tuple[str, ...]
    types: tuple[DataType, ...]
    data_type: DataType
    reach: Reach
    count: int
    parameters: tuple[object, ...]


def multiset_of(call: AggregateCall) -> tuple[str, ...] | None:
    """The arguments that the multiset of a call is sorted by; None if it is of another kind."""
    if call.function not in _PLANS:
        return None
    return call.arguments[::-1]  # a value by another is sorted by that


def ordered(call: AggregateCall, types: Sequence[DataType]) -> Ordered | None:
    """How an ordered function is answered; None if it takes no such arguments.

    Args:
        types: those of the call's arguments.
    """
    arguments, kinds = multiset_of(call), tuple(reversed(types))
    if arguments is None or any(atom(each) is None for each in kinds):
        return None
    planned = _PLANS[call.function](call, kinds)
    if planned is None:
        return None
    data_type, reach, count = planned
    return Ordered(call.function, arguments, kinds, data_type, reach, count, call.parameters)


_Planned: TypeAlias = tuple[DataType, Reach, int] | None
_Plan: TypeAlias = Callable[[AggregateCall, tuple[DataType, ...]], _Planned]


def _of(reach: Reach, *, place: int = 0) -> _Plan:
    """One of the values, as it is: which of the multiset's columns it is in."""
    return lambda _, types: (types[place], reach, 1)


def _distinct(call: AggregateCall, types: tuple[DataType, ...]) -> _Planned:
    del call, types
    return LongType(), "changes", 1


def _top(call: AggregateCall, types: tuple[DataType, ...]) -> _Planned:
    (k,) = call.parameters
    assert isinstance(k, int)
    return ArrayType(types[0]), "last", k


def _array(call: AggregateCall, types: tuple[DataType, ...]) -> _Planned:
    del call
    return ArrayType(types[0]), "all", 1


def _text(call: AggregateCall, types: tuple[DataType, ...]) -> _Planned:
    del call
    return (StringType(), "all", 1) if isinstance(types[0], StringType) else None


def _percentile(call: AggregateCall, types: tuple[DataType, ...]) -> _Planned:
    if not isinstance(types[0], NumericType):
        return None
    several = any(isinstance(parameter, tuple) for parameter in call.parameters)
    return (ArrayType(DoubleType()) if several else DoubleType()), "all", 1


_PLANS: Final[Mapping[str, _Plan]] = MappingProxyType(
    {
        "min": _of("first"),
        "max": _of("last"),
        "min_by": _of("first", place=1),
        "max_by": _of("last", place=1),
        "count_distinct": _distinct,
        "top_k": _top,
        "mode": _of("all"),
        "median": _percentile,
        "percentile": _percentile,
        "array_sorted": _array,
        "listagg": _text,
    }
)
