"""Windows in plain Python, as the oracle computes them: dates and sets, partition by partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from types import EllipsisType, MappingProxyType
from typing import Any, TypeAlias

from deltaproduce.errors import MissingPartitionsError
from deltaproduce.model.graph import Graph, Source, Stage
from deltaproduce.model.windows import Window
from deltaproduce.times.zones import zone_of
from deltaproduce.types.columns import Columns

Key: TypeAlias = tuple[str, str, int | None, str | None]
"""A stage, one of its columns, the integers in a partition, and the time zone that days are in.

There are no integers for dates, and no time zone for days of the store, which is in UTC.
"""

Place: TypeAlias = tuple[Any, Any] | None
"""The first and the last partition of a window; None if it is empty."""

Named: TypeAlias = Mapping[str, Iterable[Any] | Mapping[str, Iterable[Any]]]
AsOf: TypeAlias = date | str | EllipsisType | None


@dataclass(frozen=True, slots=True)
class WindowStates:
    """The state that the windows of one version depend on, besides rows.

    Attributes:
        as_of: the day that they end at, if there is one.
        time: the time of that day, if it has one.
        present: the partitions that exist: days, or the first integer of each.
        limited: the positions of windows with ``max_partitions``, by stage.
        floors: the first value that each source keeps, if it does not keep all rows.
    """

    as_of: date | None = None
    time: datetime | None = None
    present: Mapping[Key, frozenset[Any]] = field(default_factory=dict)
    limited: Mapping[str, Place] = field(default_factory=dict)
    floors: Mapping[str, Any] = field(default_factory=dict)

    def after_arguments(self, graph: Graph, named: Named, as_of: AsOf) -> WindowStates:
        """Return the state after an update's partitions and day."""
        day, time = self.as_of, self.time
        if not isinstance(as_of, EllipsisType):
            day, time = _day(as_of), as_of if isinstance(as_of, datetime) else None
        units_by_key: dict[Key, set[Any]] = {key: set(units) for key, units in self.present.items()}
        for key in tracked(graph):
            stage, column, step, zone = key
            given = named.get(stage, ())
            if isinstance(given, Mapping):
                given = given.get(column, ())
            units = {_unit(_day(v) if isinstance(v, str) else v, step, zone) for v in given}
            units_by_key.setdefault(key, set()).update(units)
        present = {k: frozenset(v) for k, v in units_by_key.items() if v}
        return replace(self, as_of=day, time=time, present=present)

    @property
    def date(self) -> date | None:
        """The date of the version; a datetime if it has a time."""
        return self.time or self.as_of

    def seen(self, graph: Graph, rows: Mapping[str, Iterable[Mapping[str, Any]]]) -> WindowStates:
        """Return the state after stages have these rows."""
        units_by_key = dict(self.present)
        for key in tracked(graph):
            stage, column, step, zone = key
            values = {row[column] for row in rows.get(stage, ()) if row[column] is not None}
            seen = {_unit(value, step, zone) for value in values}
            units = units_by_key.get(key, frozenset()) | seen
            units_by_key |= {key: units} if units else {}
        return replace(self, present=units_by_key)

    def floored(
        self, graph: Graph, given: Mapping[str, Iterable[Mapping[str, Any]]] = MappingProxyType({})
    ) -> WindowStates:
        """Return the state with the first values that sources keep after these rows are given."""
        floors: dict[str, Any] = {}
        for source in graph.sources:
            kept = source.kind.intake.retention
            if kept is None:
                continue
            key = _key_kept_by(source, kept.window)
            values = {row[key[1]] for row in given.get(source.name, ())} - {None}
            new = {_unit(value, *key[2:]) for value in values}
            units = self.present.get(key, frozenset()) | new
            if kept.window.start is not None:
                first = _partition(kept.window.start, kept.window.step)
            else:
                place = self._between(source.schema.key, kept.window, [units])
                first = None if place is None else place[0]
            known = [one for one in (first, self.floors.get(source.name)) if one is not None]
            floors |= {source.name: max(known)} if known else {}
        return replace(self, floors=floors)

    def keeps(self, source: Source, key: Sequence[Any]) -> bool:
        """Return whether a source keeps a row with this key; it keeps rows with a null column."""
        kept, floor = source.kind.intake.retention, self.floors.get(source.name)
        if kept is None or floor is None:
            return True
        value = key[source.schema.key.names.index(kept.window.column)]
        return value is None or bool(_unit(value, None, kept.window.zone) >= floor)

    def place(self, stage: Stage) -> Place:
        """Return the position of a stage's window.

        Raises:
            MissingPartitionsError: a partition of the target is missing, and this is an error.
        """
        goal = self._goal(stage)
        return self.limited.get(stage.name) if _is_limited(stage) else goal

    def behind(self, graph: Graph) -> bool:
        """Return whether a window has not reached its target yet."""
        limited = (s for s in graph.producers if _is_limited(s) and s.hidden is None)
        return any(self.place(stage) != self._goal(stage) for stage in limited)

    def advanced(self, stage: Stage) -> WindowStates:
        """Return the state after a stage's limited window has moved on."""
        window = stage.kind.upkeep.window
        if window is None or not _is_limited(stage):
            return self
        goal, at = self._goal(stage), self.limited.get(stage.name)
        keys = tracked_of(stage, window)
        units = {unit for key in keys for unit in self.present.get(key, ())}
        there = sorted({_partition(unit, window.step) for unit in units})
        place = goal if goal is None else _on_the_way(window, at, goal, there)
        return replace(self, limited={**self.limited, stage.name: place})

    def _goal(self, stage: Stage) -> Place:
        """Return the target position of a stage's window."""
        window = stage.kind.upkeep.window
        assert window is not None
        mine = [self.present.get(key, frozenset()) for key in set(tracked_of(stage, window))]
        goal = self._between(stage.feeders[0].schema.key, window, mine)
        if goal is not None and window.on_missing == "error":
            first, edge = goal
            for units in mine:
                there, at = {_partition(unit, window.step) for unit in units}, first
                while at is not None and at <= edge:
                    if at not in there:
                        message = f"stage {stage.name!r}: partition {at} is missing"
                        raise MissingPartitionsError(message, stage=stage.name, partitions=(at,))
                    at = _moved(at, window.step, 1)
        is_begun = any(mine) or not _is_limited(stage)
        return goal if is_begun else None

    def _between(
        self, key: Columns, window: Window, mine: Sequence[Iterable[Any]]
    ) -> tuple[Any, Any] | None:
        """Return the first and the last partition of a window over a column of a key."""
        if window.end is not None:
            edge = _partition(window.end, window.step)
        elif self.as_of is not None and _is_of_dates(key, window):
            is_instant = self.time is not None and window.zone is not None
            day = self.time if is_instant else self.as_of
            edge = _partition(day, window.step, window.zone)
        elif any(mine):
            edge = max(_partition(unit, window.step) for units in mine for unit in units)
            edge = _moved(edge, window.step, -window.lag)
        else:
            return None
        if edge is None:
            return None
        if window.start is not None:
            first = _partition(window.start, window.step)
        else:
            first = _first(window, edge)
        return None if first > edge else (first, edge)

    def has(self, stage: Stage, value: Any) -> bool:  # noqa: ANN401 as it may be
        """Return whether a row with this value in the window's column is in the window."""
        place, window = self.place(stage), stage.kind.upkeep.window
        if place is None or window is None or value is None:
            return False
        return bool(place[0] <= _partition(value, window.step, window.zone) <= place[1])


def window_place(stage: Stage) -> int:
    """Return the position of the feeder's column that a stage's window is over."""
    assert stage.kind.upkeep.window is not None
    return stage.feeders[0].schema.names.index(stage.kind.upkeep.window.column)


def tracked(graph: Graph) -> set[Key]:
    """Return everything that the windows of a graph depend on."""
    kept = ((source, source.kind.intake.retention) for source in graph.sources)
    return {_key_kept_by(source, one.window) for source, one in kept if one is not None} | {
        key
        for stage in graph.producers
        if stage.kind.upkeep.window is not None
        for key in tracked_of(stage, stage.kind.upkeep.window)
    }


def _is_limited(stage: Stage) -> bool:
    window = stage.kind.upkeep.window
    return window is not None and window.max_partitions is not None


def _on_the_way(window: Window, at: Place, goal: tuple[Any, Any], there: Sequence[Any]) -> Place:
    """Return the position of a limited window one version after `at`.

    Args:
        at: its position before.
        goal: its target.
        there: the partitions that exist, in order.
    """
    most = window.max_partitions
    assert most is not None

    def enters(place: tuple[Any, Any]) -> int:
        had = [p for p in there if at is not None and at[0] <= p <= at[1]]
        return len([p for p in there if place[0] <= p <= place[1] and p not in had])

    places: list[tuple[Any, Any]] = []
    if at is None or at[1] <= goal[1]:
        ends = [p for p in there if p <= goal[1] and (at is None or p > at[1])]
        starts = [goal[0] if window.last is None else _first(window, p) for p in ends]
        places = [place for place in zip(starts, ends, strict=True) if place[0] <= place[1]]
    elif window.last is not None:
        starts = [p for p in reversed(there) if goal[0] <= p < at[0]]
        places = [(p, _moved(p, window.step, window.last - 1)) for p in starts]
    reached = [place for place in places if enters(place) <= most]
    return goal if enters(goal) <= most else reached[-1]


def tracked_of(stage: Stage, window: Window) -> Iterator[Key]:
    """Yield what the window of a stage depends on."""
    step = _unit_step(stage.feeders[0].schema.key, window)
    place = stage.feeders[0].schema.names.index(window.column)
    for feeder in stage.merged:
        for root, column in _roots(feeder, place):
            yield root, column, step, window.zone


def _key_kept_by(source: Source, window: Window) -> Key:
    """Return what decides which rows a source keeps."""
    return source.name, window.column, _unit_step(source.schema.key, window), window.zone


def _unit_step(key: Columns, window: Window) -> int | None:
    """Return the number of integers in a partition; None for dates."""
    if isinstance(window.step, int):
        return window.step
    return None if _is_of_dates(key, window) else 1


def _roots(stage: Stage, place: int) -> Iterator[tuple[str, str]]:
    name = stage.schema.names[place]
    passed = stage.kind.key_use.copied.get(name)
    if passed is None:
        yield stage.name, name
        return
    for feeder in stage.merged:
        yield from _roots(feeder, stage.feeders[0].schema.names.index(passed))


def _is_of_dates(key: Columns, window: Window) -> bool:
    (column,) = (column for column in key if column.name == window.column)
    return str(column.data_type.simpleString()) in {"date", "timestamp", "timestamp_ntz"}


def _unit(value: Any, step: int | None, zone: str | None) -> Any:  # noqa: ANN401 as it may be
    if step is not None:
        return value - value % step
    return _date(value, zone) if isinstance(value, datetime) else value


def _date(moment: datetime, zone: str | None) -> date:
    """Return the day of a moment, which is in UTC, in a time zone."""
    if zone is None:
        return moment.date()
    clock = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return clock.astimezone(zone_of(zone)).date()


def _partition(value: Any, step: Any, zone: str | None = None) -> Any:  # noqa: ANN401 as it may be
    """Return the first value of the partition that contains a value."""
    if isinstance(value, datetime):
        value = _date(value, zone)
    if not isinstance(value, date):
        return value - value % (step or 1)
    if step == "week":
        return value - timedelta(days=value.weekday())
    return value.replace(day=1) if step == "month" else value


def _first(window: Window, edge: Any) -> Any:  # noqa: ANN401 as it may be
    """Return the first partition of a fixed-length window; `date.min` if Python lacks the date."""
    assert window.last is not None
    first = _moved(edge, window.step, 1 - window.last)
    return date.min if first is None else first


def _moved(first: Any, step: Any, by: int) -> Any:  # noqa: ANN401 as it may be
    """Return the partition this many after another; None if Python has no such date."""
    if not isinstance(first, date):
        return first + by * (step or 1)
    try:
        if step != "month":
            return first + timedelta(days=by * (7 if step == "week" else 1))
        months = first.year * 12 + first.month - 1 + by
        return date(months // 12, months % 12 + 1, 1)
    except (OverflowError, ValueError):
        return None


def _day(named: date | str | None) -> date | None:
    if isinstance(named, datetime):
        return named.date()
    return date.fromisoformat(named) if isinstance(named, str) else named
