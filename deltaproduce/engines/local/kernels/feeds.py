"""The feed of a stage (`engines.change_feed`) for rows that are on the driver as Arrow tables.

The invariant: it gives the rows that `spark.kernels.feeds` gives for the same rows; a law on random
rows holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

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


class _States(NamedTuple):
    """The rows of each key as of some versions, by key, version and place, in this order.

    Attributes:
        rows: of a key that is gone there is one, which is not alive.
        key: a number for each row's key.
        version: as of which version it is a row.
    """

    rows: pa.Table
    key: Numbers
    version: Numbers


class _Moves(NamedTuple):
    """Rows on one side of a difference.

    Attributes:
        rows: which of the states.
        commit: of which version the difference is.
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
    """The rows that came and went: see `Engine.feed`."""
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
    found, published = states.rows.take(pa.array(rows[left])), times.column(COMMIT_VERSION.name)
    moments = times.take(pa.array(published.to_numpy().searchsorted(commit[left])))
    return pa.Table.from_arrays(
        [
            *(found.column(c.name) for c in (*layout.key, *layout.value)),
            pa.array(words, pa.string()),
            pa.array(commit[left]),
            moments.column(COMMIT_TIMESTAMP.name),
        ],
        names=[c.name for c in feed_columns(layout)],
    )


def _states(before: pa.Table, updates: pa.Table, layout: Layout, since: int) -> _States:
    """The rows of each key as of ``since`` and as of each version that changed it."""
    parts = layout.key, layout.sources, layout.value
    key, sources, value = ([c.name for c in part] for part in parts)
    names = [VERSION, IS_ALIVE, *key, *sources, ORDINAL, *value]
    known = [pa.repeat(pa.scalar(since, pa.int64()), len(before)), pa.repeat(True, len(before))]
    old = [*known, *before.select(names[2:]).columns]
    told = [updates.column(VERSION), pc.not_equal(updates.column(CHANGE_TYPE), DELETE)]
    nowhere = [pa.nulls(len(updates), arrow_type(c.data_type)) for c in layout.sources]
    place = updates.select([POSITION, *value]).columns
    new = [*told, *updates.select(key).columns, *nowhere, *place]
    rows = pa.concat_tables([pa.Table.from_arrays(part, names=names) for part in (old, new)])
    keys, version = factorize(rows.select(key).columns), rows.column(VERSION).to_numpy()
    places = order_codes(rows, (*layout.sources, ORDINAL_COLUMN))
    order = sorting([keys, version, *places])
    return _States(taken(rows, order), keys[order], version[order])


def _net(states: _States, since: int) -> Iterator[_Moves]:
    """Each key's rows as of ``since`` and as of the last version that changed it, as two sides."""
    last = states.version[states.key.searchsorted(states.key, "right") - 1]
    changed = last > since
    yield _moves(states, changed & (states.version == since), BEFORE, last)
    yield _moves(states, changed & (states.version == last), AFTER, last)


def _complete(states: _States, since: int) -> Iterator[_Moves]:
    """Each row as what its version made, and as what the next version of its key found."""
    yield _moves(states, states.version > since, AFTER, states.version)
    state = grouped([states.key, states.version])
    # What follows the last rows are the first: those of another key, or of no later version.
    following = state.searchsorted(state, "right") % len(state)
    is_found = (states.key[following] == states.key) & (states.version[following] > states.version)
    yield _moves(states, is_found, BEFORE, states.version[following])


def _moves(states: _States, which: Marks, side: int, commit: Numbers) -> _Moves:
    rows = np.flatnonzero(which & np.asarray(states.rows.column(IS_ALIVE)))
    return _Moves(rows, side, commit[rows])


def _surplus(group: Numbers, side: Numbers) -> Marks:
    """Which rows of a group have none in their place on the other side, which has fewer."""
    mine = 2 * group + side
    counts = np.bincount(mine, minlength=2 * int(group.max(initial=-1)) + 2)
    order = np.argsort(mine, kind="stable")
    place = np.empty_like(mine)
    place[order] = np.arange(len(mine)) - mine[order].searchsorted(mine[order], "left")
    found: Marks = place >= counts[mine ^ 1]
    return found
