"""Plans: an aggregate function, for arguments of some types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql.types import DataType

from deltaproduce.stages.aggregates.functions.ordered import Ordered
from deltaproduce.stages.aggregates.measures import GroupError, Measure

Doubles: TypeAlias = NDArray[np.float64]
Finish: TypeAlias = Callable[[Sequence[pa.Array]], pa.Array]
"""From the states of a function's measures, a value for each group."""


class TooLargeError(GroupError):
    """A value that its type does not hold."""

    def __init__(self, message: str, group: int) -> None:
        super().__init__(f"is too large: {message}", group)


@dataclass(frozen=True, slots=True)
class Planned:
    """An aggregate function, for arguments of some types.

    Attributes:
        data_type: that of its value.
        measures: what it keeps.
        finish: makes its values of them.
        ordered: how it is answered, if that is from a sorted multiset; `finish` leaves it null.
        name: the function's.
        parameters: what it was called with behind its arguments.
        clocked: makes `finish` for a clock that moments are on; None if it calls no function of the
            user's.
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
        """Whether it calls functions of the user's, so that it is not computed in the driver."""
        return self.clocked is not None

    def on_clock(self, zone: tzinfo) -> Planned:
        """The same where moments are on this clock, if it calls functions of the user's."""
        return self if self.clocked is None else replace(self, finish=self.clocked(zone))


Plan: TypeAlias = Callable[[int, DataType], Planned | None]
"""From the place of an argument among the stage's, and its type; None if it is not taken."""


def where_more(values: pa.Array, than: int, found: pa.Array) -> pa.Array:
    """What was found where there are more values than so many, else null."""
    return pc.if_else(pc.greater(values, than), found, pa.scalar(None, found.type))
