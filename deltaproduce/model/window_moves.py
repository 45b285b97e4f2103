"""Moves of windows: from where to where, and which partitions enter and leave.

Pure. The invariant: a partition enters or leaves only if it is present, and a late partition enters
a window that already covers it.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltaproduce.model.partitions import Partition, Ranges
from deltaproduce.model.windows import NOWHERE, PlannedWindow
from deltaproduce.shown.tabular import one_line


@dataclass(frozen=True, slots=True)
class WindowMove:
    """Where a version has left the window of a stage, and how it got there.

    Attributes:
        first: its first partition; None if it is empty.
        last: its last partition.
        entered: the present partitions that are new in the window.
        left: the partitions that are no longer in the window.
        reused: true if the update changed what the stage had, false if it recomputed the stage from
            the window's partitions.
        why: the reason, in words.
    """

    first: Partition | None = None
    last: Partition | None = None
    entered: tuple[Partition, ...] = ()
    left: tuple[Partition, ...] = ()
    reused: bool = False
    why: str = ""

    def __repr__(self) -> str:
        counts = {"entered": len(self.entered), "left": len(self.left)}
        return one_line(self, self.first, self.last, **counts, reused=self.reused)


@dataclass(frozen=True, slots=True)
class Shift:
    """The step of a window from one place to another.

    Attributes:
        before: the place that the stage has its rows of; None if it has none.
        had: the partitions present before.
        after: the new place.
        has: the partitions present now.
    """

    window: PlannedWindow
    before: Ranges | None
    had: Ranges
    after: Ranges
    has: Ranges

    @property
    def moves(self) -> bool:
        """Whether the place changes."""
        return self.before != self.after

    @property
    def gains(self) -> Ranges:
        """The partitions that are new in its place, present or not."""
        return self.after.difference(self.before or NOWHERE)

    @property
    def loses(self) -> Ranges:
        """The partitions that are no longer in its place, present before or not."""
        return (self.before or NOWHERE).difference(self.after)

    @property
    def entered(self) -> Ranges:
        """The present partitions that are new in it."""
        return self.after.within(self.has).difference((self.before or NOWHERE).within(self.had))

    @property
    def left(self) -> Ranges:
        """The partitions that were in it and present, and are no longer in its place."""
        return (self.before or NOWHERE).within(self.had).difference(self.after)

    def move(self, *, reused: bool, why: str) -> WindowMove:
        """Return the move as a version records it."""
        name = self.window.partitions.name
        first, last = self.after.pairs[0] if self.after else (None, None)
        return WindowMove(
            None if first is None else name(first),
            None if last is None else name(last),
            tuple(map(name, self.entered)),
            tuple(map(name, self.left)),
            reused,
            why,
        )


def place_of(window: PlannedWindow, move: WindowMove | None) -> Ranges:
    """Return the place of a window after a move."""
    if move is None or move.first is None or move.last is None:
        return NOWHERE
    partitions = window.partitions
    first, last = (partitions.number(partitions.unit_of(end)) for end in (move.first, move.last))
    return Ranges(((first, last),))
