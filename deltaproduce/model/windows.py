"""Windows: the partitions of its feeder that an aggregate stage covers.

Pure: from a definition, the present partitions and a day, computes the first and the last partition
of a window. The invariant: the place of a window depends only on its definition, the present
partitions and the day, so a refresh finds it where a step has moved it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from numbers import Integral
from typing import Final, Literal, TypeAlias, get_args

from deltaproduce.errors import DefinitionError
from deltaproduce.model.partitions import (
    GREATEST,
    LEAST,
    Partition,
    Partitioning,
    Ranges,
    Step,
    partitioning,
)
from deltaproduce.times.zones import OF_UTC, known
from deltaproduce.types.columns import Columns, RowSchema
from deltaproduce.types.ddl import name_from
from deltaproduce.types.excerpts import shown

OnMissing: TypeAlias = Literal["skip", "error"]

NOWHERE: Final = Ranges()
"""The place of an empty window."""
_STEPS: Final = ("day", "week", "month")


@dataclass(frozen=True, slots=True)
class Window:
    """A window over the partitions of a feeder's column; `window` makes one.

    Attributes:
        column: a key column of the feeder.
        last: the number of partitions; None if it has a fixed start.
        start: a value of its first partition; None if it has a fixed length.
        step: the size of a partition; a day, or 1, if None.
        end: a value of its last partition, if that is fixed.
        lag: the number of partitions between its last one and the newest.
        on_missing: whether missing partitions count as empty.
        max_partitions: the most partitions that enter in one version.
        zone: the time zone whose days divide timestamps; the store's if None.
    """

    column: str
    last: int | None = None
    start: Partition | None = None
    step: Step | None = None
    end: Partition | None = None
    lag: int = 0
    on_missing: OnMissing = "skip"
    max_partitions: int | None = None
    zone: str | None = None

    @property
    def is_limited(self) -> bool:
        """Whether its edge moves in versions of its own, so that its place depends on them."""
        return self.max_partitions is not None


@dataclass(frozen=True, slots=True)
class PlannedWindow:
    """A window over a column of a known type.

    Attributes:
        position: the position of its column in the feeders' key.
        start: the number of its first partition, if that is fixed.
        end: the number of its last partition, if that is fixed.
    """

    window: Window
    position: int
    partitions: Partitioning
    start: int | None
    end: int | None

    def place(self, present: Ranges, as_of: int | None) -> Ranges:
        """Return the partitions from its first to its last one; none if it is empty.

        Args:
            present: the numbers of the present partitions.
            as_of: the day that the store is as of.
        """
        if self.end is not None:
            edge = self.end
        elif as_of is not None and self.partitions.of_dates:
            edge = self.partitions.number(as_of)
        elif present:
            edge = present.greatest - self.window.lag
        else:
            return NOWHERE
        return self._between(self._first(edge), edge)

    def _between(self, first: int, edge: int) -> Ranges:
        """Return the named partitions between a first and a last one."""
        return self.partitions.named(Ranges(((first, edge),))) if first <= edge else NOWHERE

    def _first(self, edge: int) -> int:
        """Return its first partition, if it ends at ``edge``."""
        first = self.start if self.window.last is None else edge - self.window.last + 1
        assert first is not None  # it has one of the two
        return first

    def next_place(self, before: Ranges, goal: Ranges, present: Ranges) -> Ranges:
        """Return its place one version later, on the way to its goal.

        It is the farthest one that ends, or backwards begins, with a present partition, and in
        which no more present partitions are new than may enter at once; or the goal.

        Args:
            before: its place so far; none if it has not begun to move.
            goal: its final place.
            present: the numbers of the present partitions.
        """
        most = self.window.max_partitions
        if most is None or goal.within(present).difference(before).count <= most:
            return goal
        (first, edge), last = goal.pairs[0], self.window.last
        if before and edge < before.greatest and last is not None:
            behind = [*Ranges(((first, before.pairs[0][0] - 1),)).within(present)]
            first = -self._farthest([-number for number in reversed(behind)], most)
            return Ranges(((first, first + last - 1),))
        begun = before.greatest + 1 if before else present.pairs[0][0]
        ahead = Ranges(((begun if self.start is None else max(begun, first), edge),))
        edge = self._farthest([*ahead.within(present)], most)
        return self._between(self._first(edge), edge)

    def _farthest(self, numbers: Sequence[int], most: int) -> int:
        """Return the last of ascending numbers that the window may end with, coming from the left.

        Args:
            most: how many of the numbers may be in it; there are more.
        """
        last = self.window.last
        within = (
            number
            for place, number in enumerate(numbers)
            if place < most or (last is not None and numbers[place - most] <= number - last)
        )
        return max(within)

    def present(self, units: Ranges) -> Ranges:
        """Return the numbers of the named partitions that the units are in."""
        return self.partitions.named(units.mapped(self.partitions.number))


def making(window: Window) -> tuple[object, ...]:
    """Return what decides which rows are in a window."""
    places = () if window.zone is None else (window.zone,)
    return (
        *(window.column, window.last, window.start, window.step, window.end, window.lag),
        *places,
    )


def planned(given: Window, key: Columns, zone: str = OF_UTC, *, stage: str) -> PlannedWindow:
    """Return a window over a column of a key, whose type is known.

    Args:
        zone: the time zone whose days divide timestamps, unless the window names another.

    Raises:
        DefinitionError: it cannot be over that column; with `stage` and `column`.
    """
    position = key.names.index(given.column)
    column = key.columns[position]
    data_type = column.data_type.simpleString()
    planned_window = partitioning(data_type, given.step, zone, given.zone)
    if planned_window is None:
        over = f"{column.name!r}, which is {data_type}"
        fault = (
            f"a window is over {over}; give a key column of type date, timestamp or integer"
            if partitioning(data_type, None) is None
            else f"step is {given.step!r} for a window over {over}"
            if partitioning(data_type, given.step) is None
            else f"zone is {given.zone!r} for a window over {over}; only timestamps have days of a "
            "place, so leave it out"
        )
        message = f"stage {stage!r}: {fault}"
        raise DefinitionError(message, stage=stage, column=column.name)
    numbers = {}
    for name, value in (("start", given.start), ("end", given.end)):
        if value is not None and isinstance(value, date) != planned_window.of_dates:
            wanted = "a date" if planned_window.of_dates else "an int"
            message = f"stage {stage!r}: the window's {name} is {value!r}; give {wanted}"
            raise DefinitionError(message, stage=stage, column=column.name)
        numbers[name] = (
            None if value is None else planned_window.number(planned_window.unit_of(value))
        )
    return PlannedWindow(given, position, planned_window, numbers["start"], numbers["end"])


def over(window: object, feeder: RowSchema, *, stage: str) -> Window:
    """Return a window over a key column of a feeder, whose name is matched case-insensitively.

    Raises:
        DefinitionError: it is none, or cannot be over that column; with `stage`.
    """
    if not isinstance(window, Window):
        message = f"stage {stage!r}: its window is {shown(window)}; give deltaproduce.window(…)"
        raise DefinitionError(message, stage=stage)
    name = name_from(window.column) or window.column
    columns = [column for column in feeder.key if column.name.lower() == name.lower()]
    if len(columns) != 1:
        message = (
            f"stage {stage!r}: its window is over {name!r}, and the feeder's key has the columns "
            f"{', '.join(feeder.key.names)}"
        )
        raise DefinitionError(message, stage=stage)
    window = replace(window, column=columns[0].name)
    if columns[0].is_known:
        planned(window, feeder.key, stage=stage)
    return window


def window(
    column: str,
    *,
    last: int | None = None,
    start: date | int | str | None = None,
    step: Literal["day", "week", "month"] | int | None = None,
    end: date | int | str | None = None,
    lag: int = 0,
    on_missing: Literal["skip", "error"] = "skip",
    max_partitions: int | None = None,
    zone: str | None = None,
) -> Window:
    """Make a window over the partitions of a column, for `Pipeline.aggregate`.

    The aggregate then covers the rows of partitions from the window's first to its last one, its
    edge. The edge is `end`, if given; otherwise, over dates, the store's ``as_of`` day
    (`Store.update`), if it has one; otherwise the newest partition that is present, less `lag`.

    Args:
        column: a key column of the feeder, of type date, timestamp or whole number.
        last: a fixed length: the number of partitions.
        start: a fixed start: the first partition. Give one of the two.
        step: the size of a partition: ``"day"``, ``"week"`` (from Monday) or ``"month"``; or, for
            whole numbers, the size, from a multiple of it. A day, or 1, if None.
        end: the last partition, if that is fixed.
        lag: the number of partitions between the last one and the newest.
        on_missing: whether a missing partition between the first and the last counts as empty
            (``"skip"``) or raises a MissingPartitionsError (``"error"``).
        max_partitions: the most partitions that enter when the edge moves. The version with the
            given rows leaves the edge where it is; then further versions move it, one after the
            other.
        zone: the time zone of a place, such as ``"America/Chicago"``: the partitions of timestamps
            are its days, from midnight to midnight there. If None, those of the store's time zone.

    Raises:
        DefinitionError: an argument is not valid, or they do not go together.
    """
    if not isinstance(column, str) or not column.strip():
        raise DefinitionError(f"a window's column is {shown(column)}; give the name of one")
    if (last is None) == (start is None):
        raise DefinitionError(
            f"the window over {column!r} has last={shown(last)} and start={shown(start)}; give one "
            "of them"
        )
    for name, value, least in (
        ("last", last, 1), ("lag", lag, 0), ("max_partitions", max_partitions, 1)
    ):  # fmt: skip
        if not (value is None and name != "lag") and not _is_integer(value, least):
            raise _wrong(column, name, value, f"an int from {least} on")
    if step is not None and not _is_integer(step, 1) and step not in _STEPS:
        raise _wrong(column, "step", step, "'day', 'week', 'month', or an int from 1 on")
    if end is not None and lag:
        raise DefinitionError(f"the window over {column!r} has end= and lag=; give one of them")
    place = None if zone is None else _zone(column, zone)
    if on_missing not in get_args(OnMissing):
        raise _wrong(column, "on_missing", on_missing, "'skip' or 'error'")
    step = step if step is None or isinstance(step, str) else int(step)
    first = None if start is None else _partition(column, "start", start)
    final = None if end is None else _partition(column, "end", end)
    if first is not None and final is not None:
        _check_order(column, first, final, step)
    return Window(
        column,
        None if last is None else int(last),
        first,
        step,
        final,
        int(lag),
        on_missing,
        None if max_partitions is None else int(max_partitions),
        place,
    )


def _zone(column: str, zone: object) -> str:
    place = known(zone) if isinstance(zone, str) else None
    if place is None:
        wanted = "a region such as 'Europe/Paris', or an offset from UTC such as '+02:00'"
        raise _wrong(column, "zone", zone, wanted)
    return place


def partition(value: object) -> Partition | None:
    """Return the partition that a value names; None if it names none.

    Args:
        value: a date, its text, or an integer of 64 bits.
    """
    if isinstance(value, datetime):
        return None
    if isinstance(value, date):
        return date(value.year, value.month, value.day)
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, Integral) or isinstance(value, bool):
        return None
    number = int(value)
    return number if LEAST <= number <= GREATEST else None


def _partition(column: str, name: str, value: object) -> Partition:
    window_partition = partition(value)
    if window_partition is None:
        raise _wrong(column, name, value, "a date, its text, or an int of 64 bits")
    return window_partition


def _check_order(column: str, start: Partition, end: Partition, step: Step | None) -> None:
    """Refuse a start in a partition after that of the end; columns of other types, later."""
    order = partitioning("date" if isinstance(start, date) else "bigint", step)
    if order is None or isinstance(start, date) != isinstance(end, date):
        return
    if order.number(order.unit_of(start)) > order.number(order.unit_of(end)):
        texts = ", ".join(
            f"{name}={shown(value.isoformat() if isinstance(value, date) else value)}"
            for name, value in (("start", start), ("end", end))
        )
        raise DefinitionError(
            f"the window over {column!r} has {texts}: its start is after its end; swap the two"
        )


def _is_integer(value: object, least: int) -> bool:
    return (
        isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) < 2**31
    )


def _wrong(column: str, name: str, value: object, wanted: str) -> DefinitionError:
    return DefinitionError(f"the window over {column!r} has {name}={shown(value)}; give {wanted}")
