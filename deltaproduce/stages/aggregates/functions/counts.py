"""Functions of how many values there are of some sort."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from pyspark.sql.types import BooleanType, DataType, LongType

from deltaproduce.stages.aggregates.functions.plans import Plan, Planned, where_more
from deltaproduce.stages.aggregates.measures import Rows, Trues, Values


def count_rows() -> Planned:
    """How many rows there are."""
    return Planned(LongType(), (Rows(),), _first)


def count(argument: int, data_type: DataType) -> Planned:
    """How many values are not null."""
    del data_type
    return Planned(LongType(), (Values(argument),), _first)


def count_if(argument: int, data_type: DataType) -> Planned | None:
    """How many values are true."""
    if not isinstance(data_type, BooleanType):
        return None
    return Planned(LongType(), (Trues(argument),), _first)


def of_booleans(holds: Callable[[pa.Array, pa.Array], pa.Array]) -> Plan:
    """A function of how many values there are, and how many of them are true."""

    def plan(argument: int, data_type: DataType) -> Planned | None:
        if not isinstance(data_type, BooleanType):
            return None

        def finish(states: Sequence[pa.Array]) -> pa.Array:
            values, trues = states
            return where_more(values, 0, holds(values, trues))

        return Planned(BooleanType(), (Values(argument), Trues(argument)), finish)

    return plan


def _first(states: Sequence[pa.Array]) -> pa.Array:
    return states[0]
