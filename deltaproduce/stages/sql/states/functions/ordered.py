"""Ordered functions: the sorted multiset that answers each, and the part of it that is read.

The invariant: types and values are those of Spark's function of that name; if Spark may return any
of several values, this returns the least, nulls first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from deltaproduce.stages.sql.states.agg import AggregateCall
from deltaproduce.types.catalogue import atom
from deltaproduce.types.data_types import (
    ArrayType,
    DataType,
    DoubleType,
    LongType,
    NumericType,
    StringType,
)

DECIDER_PREFIX: Final = "_by_"
_TOP_OF_TOPS: Final = "top_k of arrays"
"""The function that merges arrays of `top_k`: its multiset has their items."""
_DECIDED: Final[Mapping[str, str]] = MappingProxyType({"min_by": "min", "max_by": "max"})

Reach: TypeAlias = Literal["first", "last", "all", "changes"]
"""The part of a group that is read: values at one end; all; or only the counts that changed."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """An ordered function, for typed arguments.

    Attributes:
        name: the function's name.
        arguments: the expressions that sort the multiset; a row whose first one is null does not
            count.
        types: the types of the arguments.
        data_type: the type of its value.
        reach: the part of a group that it reads.
        count: how many values it reads, if from one end.
        parameters: its other parameters.
    """

    name: str
    arguments: tuple[str, ...]
    types: tuple[DataType, ...]
    data_type: DataType
    reach: Reach
    count: int
    parameters: tuple[object, ...]


def multiset_of(call: AggregateCall) -> tuple[str, ...] | None:
    """Return the arguments that sort the multiset of a call; None for another kind of function."""
    if call.function not in _PLANS and call.function != _TOP_OF_TOPS:
        return None
    return call.arguments[::-1]  # max_by and min_by sort by their second argument


def role_of(arguments: tuple[str, ...]) -> str:
    """Return the role of the multiset that these arguments sort; see `StageInput.role`."""
    return f"values of {', '.join(arguments)}"


def of_ends(call: AggregateCall, value: str, by: str) -> AggregateCall | None:
    """Return the function that makes the value of several groups of the values of each.

    Args:
        call: the function that makes the value of each.
        value: the column with these values.
        by: the column with what decided on them; see `deciding`.

    Returns:
        None if their values do not say it: the function does not return an end of the group.
    """
    match call.function:
        case "min" | "max":
            return replace(call, arguments=(value,))
        case "min_by" | "max_by":
            return replace(call, arguments=(value, by))
        case "top_k":
            return replace(call, function=_TOP_OF_TOPS, arguments=(value,))
    return None


def decider(place: int) -> str:
    """Return the name of the column that holds what decided on a value.

    Args:
        place: the position of the value among those of its stage.
    """
    return f"{DECIDER_PREFIX}{place}"


def deciding(plan: Ordered) -> Ordered | None:
    """Return how ``o``, which decides on a value of ``min_by(e, o)``, is answered.

    It is the end of the same multiset. None for other functions.
    """
    if plan.name not in _DECIDED:
        return None
    return replace(plan, name=_DECIDED[plan.name], data_type=plan.types[0])


def ordered(call: AggregateCall, types: Sequence[DataType]) -> Ordered | None:
    """Return how an ordered function is answered; None if it does not accept such arguments.

    Args:
        types: the types of the call's arguments.
    """
    arguments, kinds = multiset_of(call), tuple(reversed(types))
    if call.function == _TOP_OF_TOPS and isinstance(kinds[0], ArrayType):
        call, kinds = replace(call, function="top_k"), (kinds[0].elementType,)
    if arguments is None or any(atom(each) is None for each in kinds):
        return None
    planned = _PLANS[call.function](call, kinds) if call.function in _PLANS else None
    if planned is None:
        return None
    data_type, reach, count = planned
    return Ordered(call.function, arguments, kinds, data_type, reach, count, call.parameters)


_Planned: TypeAlias = tuple[DataType, Reach, int] | None
_Plan: TypeAlias = Callable[[AggregateCall, tuple[DataType, ...]], _Planned]


def _of(reach: Reach, *, place: int = 0) -> _Plan:
    """Plan a function that returns a stored value; ``place`` is its column in the multiset."""
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
