"""The comparison of `spark.kernels.comparing`, for rows on the driver as Arrow tables.

A step of a few thousand rows takes Spark a second to plan and Arrow milliseconds to run. The
invariant: `compare` and `updates` return exactly the columns and rows of their namesakes in
`spark.kernels.comparing`; a property test on random rows compares the two.

Each rule is written twice: for Spark, whose joins and windows have no size limit, and for NumPy,
which has no overhead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import (
    Marks,
    Numbers,
    codes,
    constant,
    grouped,
    numbered,
    order_codes,
    places,
    sorting,
    taken,
)
from deltaproduce.engines.marks import (
    ADD,
    AFTER,
    BEFORE,
    DELETE,
    DIFFERENCES,
    IS_KEY,
    IS_PAIR,
    KEY_AFTER,
    KEY_BEFORE,
    KEY_DIFFERS,
    PAIR_AFTER,
    PAIR_BEFORE,
    PAIR_DIFFERS,
    PAIR_MOVED,
    ROW_DIFFERS,
    SIDE,
    UPDATE,
)
from deltaproduce.model.layouts import Layout
from deltaproduce.types.columns import CHANGE_TYPE, ORDINAL, ORDINAL_COLUMN, POSITION
from deltaproduce.types.pandas_on_demand import in_numpy

_CHANGE_TYPES: Final = (ADD, UPDATE, DELETE)


def compare(before: pa.Table, stays: Marks, new: pa.Table, layout: Layout) -> pa.Table:
    """Number the rows of each key on both sides of a step, and mark the differences.

    Args:
        before: all rows of the affected keys: key columns, ``sources``, ``_ordinal``, value
            columns.
        stays: marks those of them that are also there after the step.
        new: the rows that the step adds, in the same columns.

    Returns:
        The result of `spark.kernels.comparing.compare`, in its order.
    """
    rows = pa.concat_tables([before, before.filter(pa.array(stays)), new])
    side = np.repeat([BEFORE, AFTER], [len(before), len(rows) - len(before)])
    keys, sources = order_codes(rows, layout.key), order_codes(rows, layout.sources)
    order = sorting([*keys, side, *sources, *order_codes(rows, [ORDINAL_COLUMN])])
    rows, side = taken(rows, order), side[order]
    key = grouped([part[order] for part in keys])
    pair = numbered([key, *(part[order] for part in sources)]) if sources else key
    values, states = (
        [codes(rows.column(c.name)) for c in columns] for columns in (layout.value, layout.states)
    )
    position = places([key, side])
    of_keys = _Twins.of(key, side, position)
    ordinal, of_pairs = position, of_keys
    if sources:
        ordinal = places([pair, side])
        of_pairs = _Twins.of(pair, side, ordinal)
    row_differs, pair_differs = of_pairs.differ([*values, *states])
    _, key_differs = of_keys.differ(values)
    columns = {
        **{c.name: rows.column(c.name) for c in (*layout.key, *layout.sources)},
        ORDINAL: ordinal,
        **{c.name: rows.column(c.name) for c in (*layout.value, *layout.states)},
        SIDE: side.astype(np.int32),
        POSITION: position,
        ROW_DIFFERS: row_differs,
        PAIR_DIFFERS: pair_differs,
        PAIR_BEFORE: of_pairs.is_before,
        PAIR_AFTER: of_pairs.is_after,
        KEY_DIFFERS: key_differs,
        KEY_BEFORE: of_keys.is_before,
        KEY_AFTER: of_keys.is_after,
        PAIR_MOVED: of_pairs.is_before != of_pairs.is_after,
        IS_PAIR: (ordinal == 0) & ((side == AFTER) | ~of_pairs.is_after),
        IS_KEY: (position == 0) & ((side == AFTER) | ~of_keys.is_after),
    }
    return pa.table(columns)


def with_positions(rows: pa.Table, layout: Layout) -> pa.Table:
    """Return the content's rows, with ``_position`` among other columns.

    See `Engine.with_positions`.
    """
    return compare(rows, np.zeros(len(rows), bool), rows.slice(0, 0), layout)


def all_new(rows: pa.Table, layout: Layout) -> pa.Table:
    """Return the result of `compare` with nothing before, for rows in key order, one a key.

    Each row is marked as a first one is, so nothing is computed for it, and nothing copied.

    Args:
        rows: at least one.
    """
    one = compare(rows.slice(0, 0), np.zeros(0, bool), rows.slice(0, 1), layout)
    own = {c.name for c in (*layout.key, *layout.value, *layout.states)}
    return pa.table(
        {
            name: rows.column(name) if name in own else constant(one.column(name)[0], len(rows))
            for name in one.column_names
        }
    )


def all_different(compared: pa.Table) -> pa.Table:
    """Return the result of `compare` where no row before can equal one after: all differ."""
    for name in DIFFERENCES:
        place = compared.schema.get_field_index(name)
        compared = compared.set_column(place, name, pa.array(np.ones(len(compared), bool)))
    return compared


def updates(compared: pa.Table, layout: Layout) -> pa.Table:
    """Return the updates of a step (S7), as `spark.kernels.comparing.updates` does."""
    alive = _marks(compared, SIDE) == AFTER
    is_first, is_new = _marks(compared, POSITION) == 0, ~_marks(compared, KEY_BEFORE)
    gone = ~_marks(compared, KEY_AFTER) & is_first
    wanted = np.flatnonzero(_marks(compared, KEY_DIFFERS) & (alive | gone))
    change_type = np.where(alive, np.where(is_new & is_first, 0, 1), 2)[wanted]
    rows, values = pa.array(wanted), pa.array(wanted, mask=~alive[wanted])
    return pa.table(
        {
            CHANGE_TYPE: pa.array(_CHANGE_TYPES, pa.string()).take(pa.array(change_type)),
            **{c.name: compared.column(c.name).take(rows) for c in layout.key},
            POSITION: compared.column(POSITION).take(rows),
            **{c.name: compared.column(c.name).take(values) for c in layout.value},
        }
    )


def updates_of_new(compared: pa.Table, layout: Layout) -> pa.Table:
    """Return the updates of a step whose rows are all `FIRST_OF_NEW_KEYS`; copies none."""
    return pa.table(
        {
            CHANGE_TYPE: constant(pa.scalar(ADD, pa.string()), len(compared)),
            **{c.name: compared.column(c.name) for c in layout.key},
            POSITION: compared.column(POSITION),
            **{c.name: compared.column(c.name) for c in layout.value},
        }
    )


def _marks(compared: pa.Table, name: str) -> Marks:
    return in_numpy(compared.column(name))


@dataclass(frozen=True, slots=True)
class _Twins:
    """Each row of some groups, and the row at the same position of its group on the other side.

    Attributes:
        group: the number of each row's group.
        is_new: marks the rows that have no such row.
        twin: the position of it.
        is_before: marks the rows whose group has rows before.
        is_after: marks the rows whose group has rows after.
    """

    group: Numbers
    is_new: Marks
    twin: Numbers
    is_before: Marks
    is_after: Marks

    @staticmethod
    def of(group: Numbers, side: Numbers, place: Numbers) -> _Twins:
        """Return the twins of rows, from the group, side and position of each."""
        if (side == side[:1]).all():  # as in a first load: nothing to compare with
            none = np.zeros(len(side), np.int64)
            return _Twins(group, np.ones(len(side), bool), none, side == BEFORE, side == AFTER)
        slot = 2 * group + side
        other = slot ^ 1
        slots = 2 * (int(group.max(initial=-1)) + 1)
        sizes, first = np.bincount(slot, minlength=slots), np.zeros(slots, np.int64)
        firsts = np.flatnonzero(place == 0)
        first[slot[firsts]] = firsts
        is_new = place >= sizes[other]
        twin = np.where(is_new, 0, first[other] + place)
        there = sizes > 0
        return _Twins(group, is_new, twin, there[2 * group + BEFORE], there[2 * group + AFTER])

    def differ(self, values: Sequence[Numbers]) -> tuple[Marks, Marks]:
        """Mark the rows that differ from their twin in a value, and the rows of their groups."""
        if self.is_new.all():
            return self.is_new, self.is_new
        differs = self.is_new.copy()
        for value in values:
            differs |= value != value[self.twin]
        of_groups = np.zeros(int(self.group.max(initial=-1)) + 1, bool)
        of_groups[self.group[differs]] = True
        return differs, of_groups[self.group]
