"""Asked: what an update says of windows and tasks: the date, and which partitions are present.

Pure. The invariant: arguments that are no day or partition of a window are refused before anything
is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from types import EllipsisType
from typing import Final

from deltaproduce.errors import InvalidArgumentError
from deltaproduce.model.partitions import Ranges, day_number
from deltaproduce.model.windows import partition
from deltaproduce.operations.step.windowing import Root, Units, Windows
from deltaproduce.storage.window_states import Tracked, WindowState
from deltaproduce.types.excerpts import shown


@dataclass(frozen=True, slots=True)
class WindowArguments:
    """The arguments of an update that concern windows and tasks.

    Attributes:
        as_of: the new date of the store, on its clock: windows end on its day, and tasks are those
            of the moment; None for no date, ``...`` to keep it.
        has_time: whether it is a time, and not a whole day.
        present: partitions that are present, with or without rows.
    """

    as_of: datetime | EllipsisType | None = ...
    has_time: bool = False
    present: Units = field(default_factory=dict)

    def state(self, before: WindowState) -> WindowState:
        """Return the new state of windows, without partitions that come with rows."""
        if not isinstance(self.as_of, EllipsisType):
            day = None if self.as_of is None else day_number(self.as_of.date())
            time = self.as_of.astimezone(UTC) if self.as_of and self.has_time else None
            before = replace(before, as_of=day, time=time)
        return before.with_present(self.present)

    @property
    def json_values(self) -> list[object]:
        """The arguments as JSON values; empty if none were given."""
        if self == NO_ARGUMENTS:
            return []
        as_of: object = "as before"
        if not isinstance(self.as_of, EllipsisType):
            as_of = None if self.as_of is None else [self.as_of.isoformat(), self.has_time]
        return [as_of, [[*tracked, units.pairs] for tracked, units in self.present.items()]]


NO_ARGUMENTS: Final = WindowArguments()


def named(partitions: Mapping[str, object], windows: Windows) -> Units:
    """Return the units of the named partitions.

    Args:
        partitions: source -> partitions of the column that windows are over; or column ->
            partitions, where windows are over several columns.

    Raises:
        InvalidArgumentError: no window is over the column, or these are not its partitions.
    """
    ranges: dict[Tracked, Ranges] = {}
    for source, given in partitions.items():
        roots = windows.roots(source)
        columns = list(dict.fromkeys(root.column.name for root in roots))
        if not isinstance(given, Mapping) and len(columns) == 1:
            given = {columns[0]: given}
        if not isinstance(given, Mapping):
            over = "no column of it"
            if columns:
                names = ", ".join(f"{column!r}: […]" for column in columns)
                over = f"columns {', '.join(columns)}: say which, as {{{names}}}"
            raise _unnamed(f"{source!r} are {shown(given)}, and windows are over {over}")
        for column, named in given.items():
            mine = [root for root in roots if root.column.name == column]
            if not mine:
                raise _unnamed(f"{source!r} are of {column!r}, which no window is over")
            ranges |= {root.tracked: _units(root, named) for root in mine}
    return ranges


def _units(root: Root, named: object) -> Ranges:
    if isinstance(named, str | bytes) or not isinstance(named, Iterable):
        raise _unnamed(f"{root.stage.name!r} are {shown(named)}; give a list of them")
    ranges = []
    for one in named:
        value = partition(one)
        if value is None or isinstance(value, date) != root.partitions.of_dates:
            wanted = (
                "give dates, or their text" if root.partitions.of_dates else "give ints of 64 bits"
            )
            raise _unnamed(f"{root.stage.name!r}, {root.column.name!r} have {shown(one)}; {wanted}")
        unit = root.partitions.unit_of(value)
        ranges.append((unit, unit))
    return Ranges.of(ranges)


def _unnamed(fault: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"partitions of {fault}", argument="partitions")
