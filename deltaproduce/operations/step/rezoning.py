"""Rezoning: what a store has computed in another time zone than it computes in now.

Pure. The invariant: a stage whose rows may depend on the time zone is produced again when the store
gets another one, and no other stage is.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltaproduce.model.graph import Graph, Stage
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import TimestampType


@dataclass(frozen=True, slots=True)
class Rezoned:
    """The time zones of a store in its head, and from now on.

    Attributes:
        before: the zone in which the head was computed.
        days: the zone whose days were the partitions of timestamps then.
        now: the zone of the next version.
    """

    before: str
    days: str
    now: str

    def reasons(self, graph: Graph) -> dict[str, str]:
        """Return the stages to produce again -> why."""
        return {
            name: f"the time zone is {self.now!r} now, and was {before!r}"
            for name, before in self.zones(graph).items()
        }

    def zones(self, graph: Graph) -> dict[str, str]:
        """Return the stages to produce again -> the zone in which they were computed.

        What a stage's definition adds begins again with it. Those whose rows tasks make are left
        out: the definitions of their tasks have the zone.
        """
        stages = [stage for stage in graph.producers if not stage.kind.tasks.make_rows]
        every = ((stage.name, self._zone_of(stage)) for stage in stages)
        zones = {name: before for name, before in every if before != self.now}
        owners = ((one.name, name) for one in stages if one.hidden for name in one.hidden.owners)
        return {**{name: zones[owner] for name, owner in owners if owner in zones}, **zones}

    def moves(self, column: Column) -> bool:
        """Return whether partitions of a column, by days of the store, begin at other times."""
        return self.days != self.now and isinstance(column.data_type, TimestampType)

    def _zone_of(self, stage: Stage) -> str:
        """Return the zone that a stage's rows depend on in the head; today's if on none."""
        window, feeders = stage.kind.upkeep.window, [one.schema for one in stage.feeders]
        if window is not None and window.zone is None:
            over = next(column for column in feeders[0].key if column.name == window.column)
            if self.moves(over):
                return self.days
        if self.before != self.now and stage.kind.depends_on_zone(stage.schema, feeders):
            return self.before
        return self.now
