"""The feed of a stage (`engines.change_feed`) for rows on the driver as Arrow tables.

The invariant: it returns the same rows as `spark.kernels.feeds`; a property test on random rows
compares the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.change_feed import (
    ALONE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    PAIRED,
    FeedMode,
    feed_columns,
)
from deltaproduce.engines.local.arrays import (
    Marks,
    Numbers,
    factorize,
    grouped,
    numbered,
    order_codes,
    sorting,
    taken,
)
from deltaproduce.engines.marks import AFTER, BEFORE, DELETE
from deltaproduce.model.layouts import Layout
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import (
    CHANGE_TYPE,
    IS_ALIVE,
    ORDINAL,
    ORDINAL_COLUMN,
    POSITION,
    VERSION,
)
from deltaproduce.types.pandas_on_demand import in_numpy

_ALIVE: Final = pa.scalar(True, pa.bool_())
_DELETED: Final = pa.scalar(DELETE, pa.string())


class _States(NamedTuple):
    """The rows of each key at some versions, sorted by key, version and position.

    Attributes:
        rows: a deleted key has one row, which is not alive.
        key: a number for each row's key.
        version: the version of each row.
    """

    rows: pa.Table
    key: Numbers
    version: Numbers


class _Moves(NamedTuple):
    """Rows on one side of a difference.

    Attributes:
        rows: the positions of the rows in the states.
        commit: the version of the difference.
    """

    rows: Numbers
    side: int
    commit: Numbers


def feed(
    before: pa.Table,
    updates: pa.Table,
    layout: Layout,
    times: pa.Table,
    *,
    since: int,
    mode: FeedMode,
) -> pa.Table:
    """Return the rows added and removed: see `Engine.feed`."""
    states = _states(before, updates, layout, since)
    moves = [*(_net if mode == "net" else _complete)(states, since)]
    rows = np.concatenate([move.rows for move in moves])
    side = np.repeat([move.side for move in moves], [len(move.rows) for move in moves])
    commit = np.concatenate([move.commit for move in moves])
    values = factorize(states.rows.select([c.name for c in layout.value]).columns)
    step = numbered([states.key[rows], commit])
    left = np.flatnonzero(_surplus(numbered([step, values[rows]]), side))
    alone = _surplus(step[left], side[left])
    words = (
        (ALONE if is_alone else PAIRED)[on]
        for on, is_alone in zip(side[left].tolist(), alone.tolist(), strict=True)
    )
    moved_rows, published = (
        states.rows.take(pa.array(rows[left])),
        times.column(COMMIT_VERSION.name),
    )
    moments = times.take(pa.array(in_numpy(published).searchsorted(commit[left])))
    return pa.Table.from_arrays(
        [
            *(moved_rows.column(c.name) for c in (*layout.key, *layout.value)),
            pa.array(words, pa.string()),
            pa.array(commit[left]),
            moments.column(COMMIT_TIMESTAMP.name),
        ],
        names=[c.name for c in feed_columns(layout)],
    )


def _states(before: pa.Table, updates: pa.Table, layout: Layout, since: int) -> _States:
    """Return the rows of each key at ``since`` and at each version that changed it."""
    parts = layout.key, layout.sources, layout.value
    key, sources, value = ([c.name for c in part] for part in parts)
    names = [VERSION, IS_ALIVE, *key, *sources, ORDINAL, *value]
    known = [pa.repeat(pa.scalar(since, pa.int64()), len(before)), pa.repeat(_ALIVE, len(before))]
    old = [*known, *before.select(names[2:]).columns]
    arrays = [updates.column(VERSION), pc.not_equal(updates.column(CHANGE_TYPE), _DELETED)]
    nowhere = [pa.nulls(len(updates), arrow_type(c.data_type)) for c in layout.sources]
    place = updates.select([POSITION, *value]).columns
    new = [*arrays, *updates.select(key).columns, *nowhere, *place]
    rows = pa.concat_tables([pa.Table.from_arrays(part, names=names) for part in (old, new)])
    keys, version = factorize(rows.select(key).columns), in_numpy(rows.column(VERSION))
    places = order_codes(rows, (*layout.sources, ORDINAL_COLUMN))
    order = sorting([keys, version, *places])
    return _States(taken(rows, order), keys[order], version[order])


def _net(states: _States, since: int) -> Iterator[_Moves]:
    """Yield each key's rows at ``since`` and at the last version that changed it, as two sides."""
    last = states.version[states.key.searchsorted(states.key, "right") - 1]
    changed = last > since
    yield _moves(states, changed & (states.version == since), BEFORE, last)
    yield _moves(states, changed & (states.version == last), AFTER, last)


def _complete(states: _States, since: int) -> Iterator[_Moves]:
    """Yield each row twice: as its version's result, and as input of its key's next version."""
    yield _moves(states, states.version > since, AFTER, states.version)
    state = grouped([states.key, states.version])
    # After the last rows come the first: those of another key, or of no later version.
    following = state.searchsorted(state, "right") % len(state)
    has_following = (states.key[following] == states.key) & (
        states.version[following] > states.version
    )
    yield _moves(states, has_following, BEFORE, states.version[following])


def _moves(states: _States, which: Marks, side: int, commit: Numbers) -> _Moves:
    rows = np.flatnonzero(which & in_numpy(states.rows.column(IS_ALIVE)))
    return _Moves(rows, side, commit[rows])


def _surplus(group: Numbers, side: Numbers) -> Marks:
    """Mark the rows of a group without a counterpart on the other side, which has fewer rows."""
    mine = 2 * group + side
    counts = np.bincount(mine, minlength=2 * int(group.max(initial=-1)) + 2)
    order = np.argsort(mine, kind="stable")
    place = np.empty_like(mine)
    place[order] = np.arange(len(mine)) - mine[order].searchsorted(mine[order], "left")
    is_surplus: Marks = place >= counts[mine ^ 1]
    return is_surplus
