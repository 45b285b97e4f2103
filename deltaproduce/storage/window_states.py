"""The state of windows in a version, and its JSON: their places, and the present partitions.

Pure values, stored in the version log next to the figures of stages, and only if a pipeline has
windows. The invariant: they read back as they were written, and anything that no store has written
is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple

import numpy as np

from deltaproduce.model.partitions import Partition, Partitioning, Ranges, day_number, day_of
from deltaproduce.model.window_moves import WindowMove
from deltaproduce.types.json.fields import Kind, fields, is_integer, is_text, optional

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Tracked(NamedTuple):
    """A column of a stage whose present partitions a store tracks, by unit."""

    stage: str
    column: str
    unit: str


class Floor(NamedTuple):
    """The first value that a source keeps.

    Attributes:
        column: the column that decides which rows it keeps.
        first: the value: days since 1970, or a whole number.
        retention: the retention that defined it, as text.
        has_forgotten: whether rows before it were dropped without an update.
    """

    column: str
    first: int
    retention: str
    has_forgotten: bool


@dataclass(frozen=True, slots=True)
class WindowState:
    """The state that the windows of a store depend on, apart from its rows.

    Attributes:
        as_of: the day of the store, in days since 1970; None if it has no day.
        present: the units of partitions that have or ever had rows, or were named.
        floors: the first value that each source keeps, for sources that do not keep all.
        time: the time of the day, as an instant; None if it is a whole day.
    """

    as_of: int | None = None
    present: Mapping[Tracked, Ranges] = field(default_factory=dict)
    floors: Mapping[str, Floor] = field(default_factory=dict)
    time: datetime | None = None

    @property
    def date(self) -> date | None:
        """The date of the store; a datetime if it has a time."""
        return self.time or (None if self.as_of is None else day_of(self.as_of))

    def day_in(self, partitions: Partitioning) -> int | None:
        """Return the day of the store, in the days of some partitions; None if it has no day.

        A time is an instant, which a place has its own day of; a whole day is one of each place.
        """
        if self.time is None or not partitions.of_place:
            return self.as_of
        micros = (self.time - _EPOCH) // timedelta(microseconds=1)
        return int(partitions.units(np.array([micros], np.int64))[0])

    def with_present(self, units: Mapping[Tracked, Ranges]) -> WindowState:
        """Return the state with these units present, too; the same state if none is new."""
        present = {
            key: self.present.get(key, Ranges()).union(more)
            for key, more in units.items()
            if more.pairs
        }
        return replace(self, present={**self.present, **present}) if present else self


NO_WINDOWS: Final = WindowState()


def state_to_json(state: WindowState) -> dict[str, Any]:
    """Return the state as JSON values."""
    floors = [[source, *floor] for source, floor in sorted(state.floors.items())]
    return {
        "as_of": None if state.as_of is None else _json_value(day_of(state.as_of)),
        "present": [
            [*tracked, [list(pair) for pair in units.pairs]]
            for tracked, units in sorted(state.present.items())
        ],
        **({"floors": floors} if floors else {}),
        **({"time": state.time.isoformat()} if state.time else {}),
    }


def state_from_json(value: object) -> WindowState | None:
    """Parse the output of `state_to_json`; return None for anything else."""
    known = fields(value, _STATE, required=("present",))
    if known is None:
        return None
    as_of = known.get("as_of")
    return WindowState(
        None if as_of is None else day_number(date.fromisoformat(as_of)),
        {
            Tracked(*tracked): Ranges(tuple((first, last) for first, last in pairs))
            for *tracked, pairs in known["present"]
        },
        {source: Floor(*floor) for source, *floor in known.get("floors", ())},
        datetime.fromisoformat(known["time"]) if "time" in known else None,
    )


def move_to_json(move: WindowMove) -> dict[str, Any]:
    """Return a move as JSON values, with dates as ISO 8601."""
    return {
        "first": _json_value(move.first),
        "last": _json_value(move.last),
        "entered": list(map(_json_value, move.entered)),
        "left": list(map(_json_value, move.left)),
        "reused": move.reused,
        "why": move.why,
    }


def move_from_json(value: Mapping[str, Any]) -> WindowMove:
    """Parse the output of `move_to_json`, which `is_move` has checked."""
    return WindowMove(
        _partition(value["first"]),
        _partition(value["last"]),
        tuple(map(_partition, value["entered"])),
        tuple(map(_partition, value["left"])),
        value["reused"],
        value["why"],
    )


def is_move(value: object) -> bool:
    """Return whether a value has the form of `move_to_json`."""
    return fields(value, _MOVE, required=tuple(_MOVE)) is not None


def _json_value(named: Partition | None) -> str | int | None:
    return named.isoformat() if isinstance(named, date) else named


def _partition(value: Any) -> Any:  # noqa: ANN401 as it is
    return date.fromisoformat(value) if isinstance(value, str) else value


def _is_date(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        return date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


def _is_instant(value: object) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _is_partition(value: object) -> bool:
    return is_integer(value) or _is_date(value)


def _is_partitions(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_partition, value))


def _is_present(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, list)
        and len(one) == len(Tracked._fields) + 1
        and all(map(is_text, one[:-1]))
        and _is_pairs(one[-1])
        for one in value
    )


def _is_pairs(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(map(is_integer, pair)) for pair in value
    )


def _is_floors(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, list)
        and len(one) == 1 + len(Floor._fields)
        and all(map(is_text, (one[0], one[1], one[3])))
        and is_integer(one[2])
        and isinstance(one[4], bool)
        for one in value
    )


_STATE: Final[Mapping[str, Kind]] = {
    "as_of": optional(_is_date),
    "present": _is_present,
    "floors": _is_floors,
    "time": _is_instant,
}
_MOVE: Final[Mapping[str, Kind]] = {
    "first": optional(_is_partition),
    "last": optional(_is_partition),
    "entered": _is_partitions,
    "left": _is_partitions,
    "reused": lambda value: isinstance(value, bool),
    "why": is_text,
}
