"""The catalogue of aggregate functions, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import pyarrow.compute as pc
from pyspark.sql.types import DataType

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.aggregates.agg import AggregateCall
from deltaproduce.stages.aggregates.functions.counts import (
    count,
    count_if,
    count_rows,
    of_booleans,
)
from deltaproduce.stages.aggregates.functions.plans import Plan, Planned
from deltaproduce.stages.aggregates.functions.sums import average, total
from deltaproduce.stages.aggregates.functions.variances import deviation, variance

_PLANS: Final[Mapping[str, Plan]] = MappingProxyType(
    {
        "count": count,
        "count_if": count_if,
        "bool_and": of_booleans(lambda values, trues: pc.equal(values, trues)),
        "bool_or": of_booleans(lambda _, trues: pc.greater(trues, 0)),
        "sum": total,
        "avg": average,
        "var_pop": variance(less=0),
        "var_samp": variance(less=1),
        "stddev_pop": deviation(less=0),
        "stddev_samp": deviation(less=1),
    }
)


def planned(call: AggregateCall, arguments: Sequence[int], types: Sequence[DataType]) -> Planned:
    """How a function is computed.

    Args:
        arguments: where its arguments are among those of the stage.
        types: those of its arguments.

    Raises:
        DefinitionError: it takes no such arguments.
    """
    if not arguments:
        return count_rows()
    (argument,), (data_type,) = arguments, types
    found = _PLANS[call.function](argument, data_type)
    if found is None:
        raise DefinitionError(
            f"{call.sql} is of type {data_type.simpleString()}, which {call.function} does not take"
        )
    return found
