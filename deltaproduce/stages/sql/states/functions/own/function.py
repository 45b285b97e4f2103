"""A user-defined aggregate as a function."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, tzinfo
from functools import partial

import pyarrow as pa

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.states.functions.own.states import OwnStates, values_of
from deltaproduce.stages.sql.states.functions.plans import Finish, Planned
from deltaproduce.stages.sql.states.own_aggregates import OwnAggregate
from deltaproduce.types.data_types import DataType


def own(aggregate: OwnAggregate, arguments: Sequence[int], types: Sequence[DataType]) -> Planned:
    """Return how it is computed.

    Args:
        arguments: the positions of its arguments among the stage's.
        types: the types of its arguments.

    Raises:
        DefinitionError: it declares its argument types, and one differs.
    """
    for column, kind in zip(aggregate.inputs or (), types, strict=False):
        if column.data_type != kind:
            wanted = column.data_type.simpleString()
            raise DefinitionError(
                f"{aggregate.name} takes {wanted} as its {column.name}, and is given "
                f"{kind.simpleString()}; CAST it in the call, or change input_types"
            )

    def clocked(zone: tzinfo) -> Finish:
        return partial(_finish, aggregate=aggregate, zone=zone)

    which = id(aggregate.methods)
    kept = OwnStates(None, aggregate, tuple(arguments), tuple(types), which)
    return Planned(aggregate.value.data_type, (kept,), clocked(UTC), clocked=clocked)


def _finish(states: Sequence[pa.Array], aggregate: OwnAggregate, zone: tzinfo) -> pa.Array:
    (of_groups,) = states
    return values_of(aggregate, of_groups, zone)
