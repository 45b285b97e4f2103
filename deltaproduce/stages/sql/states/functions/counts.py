"""Functions that count rows or values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from deltaproduce.stages.sql.states.functions.plans import Plan, Planned, where_more
from deltaproduce.stages.sql.states.measures import Rows, Trues, ValueCount
from deltaproduce.types.data_types import BooleanType, DataType, LongType


def count_rows() -> Planned:
    """Return a count of rows."""
    return Planned(LongType(), (Rows(),), _first)


def count(argument: int, data_type: DataType) -> Planned:
    """Return a count of the values that are not null."""
    del data_type
    return Planned(LongType(), (ValueCount(argument),), _first)


def count_if(argument: int, data_type: DataType) -> Planned | None:
    """Return a count of the values that are true."""
    if not isinstance(data_type, BooleanType):
        return None
    return Planned(LongType(), (Trues(argument),), _first)


def of_booleans(holds: Callable[[pa.Array, pa.Array], pa.Array]) -> Plan:
    """Return a function of the number of values, and the number of true ones."""

    def plan(argument: int, data_type: DataType) -> Planned | None:
        if not isinstance(data_type, BooleanType):
            return None

        def finish(states: Sequence[pa.Array]) -> pa.Array:
            values, trues = states
            return where_more(values, 0, holds(values, trues))

        return Planned(BooleanType(), (ValueCount(argument), Trues(argument)), finish)

    return plan


def _first(states: Sequence[pa.Array]) -> pa.Array:
    return states[0]
