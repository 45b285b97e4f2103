"""The rows that a step of a windowed stage reads: the whole window, or what its move changes.

A move subtracts the rows of partitions that left the window, adds the rows of partitions that
entered, and applies the changes of the rest. The invariant: both ways give the rows that the
feeders have after the step in the partitions of the window after the step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from deltaproduce.engines.engine import Rows
from deltaproduce.engines.spark.kernels.ranges import rows_within
from deltaproduce.model.graph import Stage
from deltaproduce.model.partitions import Ranges
from deltaproduce.model.window_moves import Shift
from deltaproduce.model.windows import NOWHERE
from deltaproduce.stages.inputs import StageInput
from deltaproduce.storage.stored import Stored
from deltaproduce.types.columns import Column

Part: TypeAlias = tuple[Rows, Stage, int]
"""Rows of a feeder, and whether they were added (1) or removed (-1)."""


class Way(NamedTuple):
    """How a step finds a window's rows.

    Attributes:
        reused: whether it updates the stage's states.
        why: the reason, in words.
    """

    reused: bool
    why: str


KEPT: Final = Way(True, "estimates of keys that it does not reach are kept")
"""For a stage with estimates that depend on the order in which rows came."""


def rows_in_window(shift: Shift, inputs: Sequence[StageInput]) -> list[Part]:
    """Return all rows in the window after the step, of each input that has some."""
    values = shift.window.partitions.values(shift.after)
    narrowed = ((each, each.within(_column(shift, each.stage), values)) for each in inputs)
    return [(rows, each.stage, 1) for each, rows in narrowed if rows is not None]


def within_window(shift: Shift, parts: Sequence[Part]) -> list[Part]:
    """Filter rows after the step to those in the window."""
    values = shift.window.partitions.values(shift.after)
    return [
        (rows_within(rows, _column(shift, stage), values), stage, sign)
        for rows, stage, sign in parts
    ]


def rows_moved(
    shift: Shift, inputs: Sequence[StageInput], columns_of: Callable[[Stage], tuple[Column, ...]]
) -> list[Part]:
    """Return the rows that entered the window, and those that left it.

    Args:
        columns_of: returns the columns that are wanted of a feeder; rows may have others, too.
    """
    return [part for each in inputs for part in _moved(shift, each, columns_of(each.stage))]


def way(shift: Shift, inputs: Sequence[StageInput], content: Stored | None) -> Way:
    """Choose whether to move the window or to rebuild it, by the bytes that each reads.

    Args:
        content: the stage's rows; None if there are none.
    """
    if not shift.moves:
        return Way(True, "the window stays where it is")
    moved = whole = changed = 0
    for each in inputs:
        before, column = each.before(), _column(shift, each.stage)
        if each.changed is not None:
            changed += each.changed.counts.rows_added + each.changed.counts.rows_removed
        if before is None:
            continue
        rows = [_count(shift, before, column, r) for r in (shift.gains, shift.loses, shift.after)]
        moved += (rows[0] + rows[1]) * before.row_bytes
        whole += rows[2] * before.row_bytes
        changed += rows[0] + rows[1]
    if content is not None:
        moved += min(changed, content.count) * content.row_bytes
        whole += content.count * content.row_bytes
    reason = f"moving it reads about {moved:,} bytes, making it again {whole:,}"
    return Way(moved < whole, reason)


def _moved(shift: Shift, each: StageInput, columns: tuple[Column, ...]) -> Iterator[Part]:
    column, values = _column(shift, each.stage), shift.window.partitions.values
    if each.changed is not None:
        place = (shift.before or NOWHERE) if each.is_after else shift.after
        for rows, sign in zip(each.moved((column, *columns)), (-1, 1), strict=True):
            yield rows_within(rows, column, values(place)), each.stage, sign
    before = each.before() if shift.moves else None
    if before is not None:
        narrow = before.narrowed((column, *columns))
        for partitions, sign in ((shift.loses, -1), (shift.gains, 1)):
            if partitions:
                yield narrow.within(column, values(partitions)), each.stage, sign


def _count(shift: Shift, stored: Stored, column: Column, partitions: Ranges) -> int:
    """Estimate how many rows the partitions have."""
    if not partitions:
        return 0
    count = stored.count_within(column, shift.window.partitions.values(partitions))
    if count is not None:
        return count
    return stored.count * len(partitions.within(shift.has)) // max(len(shift.has), 1)


def _column(shift: Shift, feeder: Stage) -> Column:
    """Return the window's column, by the feeder's name for it."""
    return feeder.schema.key.columns[shift.window.position]
