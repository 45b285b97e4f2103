"""Plans: an aggregate function, for typed arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deltaproduce.stages.sql.states.functions.ordered import Ordered
from deltaproduce.stages.sql.states.measures import GroupError, Measure
from deltaproduce.types.data_types import DataType

Doubles: TypeAlias = NDArray[np.float64]
Finish: TypeAlias = Callable[[Sequence[pa.Array]], pa.Array]
"""Computes a value for each group from the states of a function's measures."""


class ValueTooLargeError(GroupError):
    """A value that does not fit its type."""

    def __init__(self, message: str, group: int) -> None:
        super().__init__(f"is too large: {message}", group)


@dataclass(frozen=True, slots=True)
class Planned:
    """An aggregate function, for typed arguments.

    Attributes:
        data_type: the type of its value.
        measures: the states that it keeps.
        finish: computes its values from them.
        ordered: how a sorted multiset answers it, if one does; `finish` then returns null.
        name: the function's name.
        parameters: the parameters after its arguments.
        clocked: returns `finish` for timestamps on a clock; None if it calls no user function.
    """

    data_type: DataType
    measures: tuple[Measure, ...]
    finish: Finish
    ordered: Ordered | None = None
    name: str = ""
    parameters: tuple[object, ...] = ()
    clocked: Callable[[tzinfo], Finish] | None = None

    @property
    def calls(self) -> bool:
        """Whether it calls user functions, so that the driver does not compute it."""
        return self.clocked is not None

    def on_clock(self, zone: tzinfo) -> Planned:
        """Return the same function for timestamps on this clock, if it calls user functions."""
        return self if self.clocked is None else replace(self, finish=self.clocked(zone))


Plan: TypeAlias = Callable[[int, DataType], Planned | None]
"""Plans a function from the position and type of its argument; None if it is not accepted."""


def where_more(values: pa.Array, than: int, answers: pa.Array) -> pa.Array:
    """Return what was found for groups with more values than ``than``, else null."""
    return pc.if_else(
        pc.greater(values, pa.scalar(than, values.type)), answers, pa.scalar(None, answers.type)
    )
