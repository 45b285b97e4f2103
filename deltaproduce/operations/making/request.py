"""Requests: what one version is asked to bring, as one value.

A verb makes a request, and it goes whole to the plan and to the work that makes the version. The
invariant: its rows are checked, and computed once, before there is a request.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from deltaproduce.operations.step.plan import Causes
from deltaproduce.operations.step.window_arguments import NO_ARGUMENTS, WindowArguments
from deltaproduce.stages.batches import Batch
from deltaproduce.stages.kind import Arrival
from deltaproduce.stages.scheduled.schedules import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What one version is asked to bring.

    Attributes:
        operation: the name of what asks; see `Version.operation`.
        batches: the rows given for sources, by source.
        arrivals: the rows that have come into sources without being given, by source.
        refreshed: the stages that the caller asks to produce in full.
        window_arguments: what the caller says of windows and tasks.
        advances: whether limited windows move, too.
        schedule: the tasks to make; None for no tasks.
        update_id: a name that the version is found by.
    """

    operation: str
    batches: Mapping[str, Batch] = field(default_factory=dict)
    arrivals: Mapping[str, Arrival] = field(default_factory=dict)
    refreshed: Collection[str] = ()
    window_arguments: WindowArguments = NO_ARGUMENTS
    advances: bool = False
    schedule: Schedule | None = None
    update_id: str | None = None

    @property
    def causes(self) -> Causes:
        """The stages that it says are processed, and why."""
        return Causes(
            given=self.batches,
            snapshots=[name for name, batch in self.batches.items() if batch.is_snapshot],
            arrived=reasons(self.arrivals),
            refreshed=self.refreshed,
            tasks=None if self.schedule is None else self.schedule.reason,
        )


def reasons(arrivals: Mapping[str, Arrival]) -> dict[str, str]:
    """Return sources with arrivals -> why their steps are taken."""
    return {name: arrival.reason for name, arrival in arrivals.items()}
