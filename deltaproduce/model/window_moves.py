"""Moves of windows: from where to where, and what enters and leaves.

Pure. The invariant: a partition enters or leaves only if it is there, and one that has come late
enters where the window is already.
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
    """From where to where a step moves a window.

    Attributes:
        before: where it was, of which the stage has its rows; None if it has none.
        had: the partitions that there were.
        after: where it is.
        has: the partitions that there are.
    """

    window: PlannedWindow
    before: Ranges | None
    had: Ranges
    after: Ranges
    has: Ranges

    @property
    def moves(self) -> bool:
        """Whether it is elsewhere."""
        return self.before != self.after

    @property
    def gains(self) -> Ranges:
        """The partitions that it has now and had not, whether they are there or not."""
        return self.after.without(self.before or NOWHERE)

    @property
    def loses(self) -> Ranges:
        """Those that it had and has no more."""
        return (self.before or NOWHERE).without(self.after)

    @property
    def entered(self) -> Ranges:
        """The partitions that are there and that it has now and had not."""
        return self.after.within(self.has).without((self.before or NOWHERE).within(self.had))

    @property
    def left(self) -> Ranges:
        """Those that it had and has no more."""
        return (self.before or NOWHERE).within(self.had).without(self.after)

    def move(self, *, reused: bool, why: str) -> WindowMove:
        """What a version says of it."""
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
    """Where a window was after a move."""
    if move is None or move.first is None or move.last is None:
        return NOWHERE
    partitions = window.partitions
    first, last = (partitions.number(partitions.unit_of(end)) for end in (move.first, move.last))
    return Ranges(((first, last),))
