"""Asked: what an update says of windows: the day, and partitions that there are.

Pure. The invariant: what is said and what is no day or partition of a window's is told apart before
anything is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from types import EllipsisType
from typing import Final

from deltaproduce.errors import InvalidArgumentError
from deltaproduce.model.partitions import Ranges
from deltaproduce.model.windows import partition
from deltaproduce.operations.step.windowing import Root, Units, Windows
from deltaproduce.storage.window_states import Tracked, WindowState
from deltaproduce.types.excerpts import shown


@dataclass(frozen=True, slots=True)
class Asked:
    """What an update says of windows.

    Attributes:
        as_of: the day that the store is as of from then on; None if of none, ``...`` as before.
        present: partitions that there are, with or without rows.
    """

    as_of: int | EllipsisType | None = ...
    present: Units = field(default_factory=dict)

    def state(self, before: WindowState) -> WindowState:
        """What windows depend on then, but for partitions that come with rows."""
        as_of = before.as_of if isinstance(self.as_of, EllipsisType) else self.as_of
        return replace(before, as_of=as_of).with_present(self.present)

    @property
    def told(self) -> list[object]:
        """It as JSON has it; nothing if nothing is said."""
        if self == NOTHING_ASKED:
            return []
        as_of = "as before" if isinstance(self.as_of, EllipsisType) else self.as_of
        return [as_of, [[*tracked, units.pairs] for tracked, units in self.present.items()]]


NOTHING_ASKED: Final = Asked()


def named(partitions: Mapping[str, object], windows: Windows) -> Units:
    """The units of partitions that are named.

    Args:
        partitions: source -> partitions of its column that windows are over; or column ->
            partitions, where they are over several.

    Raises:
        InvalidArgumentError: no window is over that, or these are no partitions of it.
    """
    found: dict[Tracked, Ranges] = {}
    for source, given in partitions.items():
        roots = windows.roots(source)
        columns = list(dict.fromkeys(root.column.name for root in roots))
        if not isinstance(given, Mapping) and len(columns) == 1:
            given = {columns[0]: given}
        if not isinstance(given, Mapping):
            over = f"columns {', '.join(columns)}: say which" if columns else "no column of it"
            raise _unnamed(f"{source!r} are {shown(given)}, and windows are over {over}")
        for column, named in given.items():
            mine = [root for root in roots if root.column.name == column]
            if not mine:
                raise _unnamed(f"{source!r} are of {column!r}, which no window is over")
            found |= {root.tracked: _units(root, named) for root in mine}
    return found


def _units(root: Root, named: object) -> Ranges:
    if isinstance(named, str | bytes) or not isinstance(named, Iterable):
        raise _unnamed(f"{root.stage.name!r} are {shown(named)}; give a list of them")
    found = []
    for one in named:
        value = partition(one)
        if value is None or isinstance(value, date) != root.partitions.of_dates:
            wanted = "dates, as text, too" if root.partitions.of_dates else "ints"
            raise _unnamed(f"{root.stage.name!r}, {root.column.name!r} have {shown(one)}; {wanted}")
        unit = root.partitions.unit_of(value)
        found.append((unit, unit))
    return Ranges.of(found)


def _unnamed(fault: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"partitions of {fault}", argument="partitions")
