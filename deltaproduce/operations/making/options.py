"""Options: how a store is opened, as one value.

The invariant: `StoreOptions.checked` has refused what is of the wrong type or unknown, before
anything is read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Literal, Self, get_args

from deltaproduce.errors import DefinitionError, InvalidArgumentError
from deltaproduce.model import arguments
from deltaproduce.model.limits import Limits
from deltaproduce.operations.step.plan import Policy, TableType
from deltaproduce.shown.phases import Listener
from deltaproduce.times import zones
from deltaproduce.types.excerpts import shown

OnConflict = Literal["raise", "retry"]
"""What happens if another writer publishes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """How a store is opened; `Store` describes each of them."""

    table_type: TableType
    policy: Policy
    on_conflict: OnConflict
    limits: Limits
    progress: Listener | None
    clock: Callable[[], datetime]
    views: str | None
    time_zone: str | None

    def checked(self) -> Self:
        """Return the options, with a clock that is checked and the full name of the time zone.

        Raises:
            InvalidArgumentError: one has the wrong type.
            DefinitionError: one is a word that is not known.
        """
        if not isinstance(self.limits, Limits):
            raise InvalidArgumentError(
                f"limits are a {type(self.limits).__name__}; give Limits", argument="limits"
            )
        if self.progress is not None:
            arguments.function(self.progress, "progress")
        clock = arguments.clock(self.clock)
        zone = None if self.time_zone is None else zones.time_zone(self.time_zone)
        for name, value, known in (
            ("table_type", self.table_type, get_args(TableType)),
            ("policy", self.policy, get_args(Policy)),
            ("on_conflict", self.on_conflict, get_args(OnConflict)),
        ):
            if not isinstance(value, str) or value not in known:
                raise DefinitionError(f"{name} is {shown(value)}; use one of {', '.join(known)}")
        return replace(self, clock=clock, time_zone=zone)

    def by_name(self) -> dict[str, Any]:
        """Return the options as arguments of `Store`."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
