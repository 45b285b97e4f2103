"""The catalogue of aggregate functions, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.states.agg import AggregateCall
from deltaproduce.stages.sql.states.functions.counts import (
    count,
    count_if,
    count_rows,
    of_booleans,
)
from deltaproduce.stages.sql.states.functions.ordered import Ordered, multiset_of, ordered
from deltaproduce.stages.sql.states.functions.own.function import own
from deltaproduce.stages.sql.states.functions.plans import Plan, Planned
from deltaproduce.stages.sql.states.functions.sketches.distinct import approx_count_distinct
from deltaproduce.stages.sql.states.functions.sketches.frequent import approx_top_k
from deltaproduce.stages.sql.states.functions.sketches.quantiles import approx_percentile
from deltaproduce.stages.sql.states.functions.sums import average, total
from deltaproduce.stages.sql.states.functions.variances import deviation, variance
from deltaproduce.stages.sql.states.measures import Rows
from deltaproduce.stages.sql.states.own_aggregates import OwnAggregate
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.data_types import DataType

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
_SKETCHES: Final[Mapping[str, Callable[[Any], Plan]]] = MappingProxyType(
    {
        "approx_count_distinct": approx_count_distinct,
        "approx_percentile": approx_percentile,
        "approx_top_k": approx_top_k,
    }
)
"""Plans that depend on the call's parameters, too."""


def planned(call: AggregateCall, arguments: Sequence[int], types: Sequence[DataType]) -> Planned:
    """Return how a function is computed.

    Args:
        arguments: the positions of its arguments among the stage's.
        types: the types of its arguments.

    Raises:
        DefinitionError: it does not accept such arguments.
    """
    aggregate = OwnAggregate.among(call.parameters)
    if not arguments:
        plan: Planned | None = count_rows()
    elif aggregate is not None:
        plan = own(aggregate, arguments, types)
    else:
        plan = _ordered(call, types) if multiset_of(call) else _measured(call, arguments, types)
    if plan is None:
        given = ", ".join(data_type.simpleString() for data_type in types)
        raise DefinitionError(f"{call.sql} is of type {given}, which {call.function} does not take")
    return replace(plan, name=call.function, parameters=call.parameters)


def _measured(
    call: AggregateCall, arguments: Sequence[int], types: Sequence[DataType]
) -> Planned | None:
    (argument,), (data_type,) = arguments, types
    if call.function in _SKETCHES:
        return _SKETCHES[call.function](*call.parameters)(argument, data_type)
    return _PLANS[call.function](argument, data_type)


def _ordered(call: AggregateCall, types: Sequence[DataType]) -> Planned | None:
    plan = ordered(call, types)
    return None if plan is None else answered(plan)


def answered(plan: Ordered) -> Planned:
    """Return how an ordered function is computed: not by states."""
    nothing = arrow_type(plan.data_type)

    def finish(states: Sequence[pa.Array]) -> pa.Array:
        return pa.nulls(len(states[0]), nothing)

    return Planned(plan.data_type, (Rows(),), finish, plan)
