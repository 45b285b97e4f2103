"""Retention: which partitions a source keeps, and what happens to the rows of others.

Pure: from a definition, computes the first value that is kept, and which windows of other stages
may need removed rows. The invariant: the first kept value depends on the definition, the present
partitions, the day, and the first kept value before, and for one definition it never goes back.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from typing import Final, Literal, TypeAlias, get_args

from deltaproduce.errors import DefinitionError
from deltaproduce.model.partitions import (
    LEAST,
    Partition,
    Partitioning,
    Ranges,
    Step,
    day_of,
)
from deltaproduce.model.windows import PlannedWindow, Window, making, over, planned
from deltaproduce.types.columns import Columns, RowSchema
from deltaproduce.types.excerpts import shown

Expire: TypeAlias = Literal["delete", "forget"]
"""Whether rows that leave are deleted, downstream too, or dropped silently."""

_SIZES: Final = {"day": (1, 1), "week": (7, 7), "month": (28, 31)}
"""The least and the most days of each step."""


@dataclass(frozen=True, slots=True)
class Retention:
    """The partitions that a source keeps: those from the start of a window.

    Attributes:
        window: over a key column of the source.
        expire: what happens to the rows of earlier partitions.
    """

    window: Window
    expire: Expire

    @property
    def forgets(self) -> bool:
        """Whether rows are dropped silently, so that results computed from them stay."""
        return self.expire == "forget"

    @property
    def text(self) -> str:
        """What decides which partitions are kept, as text; equal windows have equal texts."""
        return json.dumps(making(self.window), default=date.isoformat)


def retention(
    retain: object, expire: object, schema: RowSchema, *, source: str
) -> Retention | None:
    """Return what a source keeps; None if it keeps all rows.

    Raises:
        DefinitionError: it is no retention, or not valid for that source; with `stage` and, if it
            is about a column, `column`.
    """
    if expire not in get_args(Expire):
        message = f"source {source!r}: expire is {shown(expire)}; give 'delete' or 'forget'"
        raise DefinitionError(message, stage=source)
    if retain is None:
        if expire != "delete":
            message = f"source {source!r} has expire={expire!r} and no retain=; give both"
            raise DefinitionError(message, stage=source)
        return None
    window = over(retain, schema, stage=source)
    for name, given in (
        ("max_partitions", window.max_partitions is not None),
        ("on_missing", window.on_missing != "skip"),
    ):
        if given:
            message = (
                f"source {source!r}: its retain= has {name}, which is for windows of aggregates; "
                "leave it out"
            )
            raise DefinitionError(message, stage=source, column=window.column)
    return Retention(window, "forget" if expire == "forget" else "delete")


def first_kept(window: PlannedWindow, present: Ranges, as_of: int | None) -> int | None:
    """Return the first value that a retention keeps, a day or a whole number; None if it keeps all.

    Args:
        present: the numbers of the present partitions.
        as_of: the day that the store is as of.
    """
    if window.start is not None:
        first = window.start
    elif place := window.place(present, as_of):
        first = place.pairs[0][0]
    else:
        return None
    return max(_first_value(window.partitions, first), LEAST)


def value_of(partitions: Partitioning, first: int) -> Partition:
    """Return the first kept value, as users see it."""
    return day_of(first) if partitions.of_dates else first


def outreaches(window: Window, kept: Window, key: Columns, *, stage: str) -> bool:
    """Return whether a window may need partitions that a retention no longer keeps.

    Args:
        key: the source's key; both are over columns of it.
        stage: the stage with the window, for messages.
    """
    if window.column != kept.column or window.max_partitions is not None:
        return True
    ours, theirs = planned(kept, key, stage=stage), planned(window, key, stage=stage)
    more = int(window.zone != kept.zone)  # a day there may begin the day before
    fixed = _fixed_first(ours)
    first = _fixed_first(theirs)
    if fixed is not None:  # the retention never moves
        return first is not None and first < fixed + more
    if first is not None:  # the window does not move, and the retention does
        return True
    assert window.last is not None  # neither has a fixed first partition
    assert kept.last is not None
    reach = window.last + more
    ends = [(reach + window.lag, kept.last + kept.lag)]
    if ours.partitions.of_dates:  # the edge is a day, whatever the lag is
        ends.append((reach, kept.last))
    return any(_is_longer(*end, theirs.partitions.step, ours.partitions.step) for end in ends)


def _fixed_first(window: PlannedWindow) -> int | None:
    """Return the first value of a window that does not move; None if it moves."""
    first = window.start
    if first is None and window.end is not None and window.window.last is not None:
        first = window.end - window.window.last + 1
    return None if first is None else _first_value(window.partitions, first)


def _first_value(partitions: Partitioning, number: int) -> int:
    unit = partitions.first_unit(number)
    return unit if partitions.of_dates else unit * partitions.unit_size


def _is_longer(count: int, kept: int, step: Step, kept_step: Step) -> bool:
    """Return whether ``count`` steps may begin before ``kept`` steps that end in the same place."""
    if step == kept_step:
        return count > kept
    return _size(step)[1] * count - 1 > _size(kept_step)[0] * (kept - 1)


def _size(step: Step) -> tuple[int, int]:
    """Return the least and the most values of a step."""
    return (step, step) if isinstance(step, int) else _SIZES[step]
