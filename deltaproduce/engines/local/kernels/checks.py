"""The checks of `spark.kernels.checks`, for rows on the driver as Arrow tables.

The invariant: each function counts and returns the same as its namesake in `spark.kernels.checks`,
whatever wrote the rows; a property test on random rows compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.local.arrays import (
    Marks,
    Numbers,
    empty,
    factorize,
    grouped,
    isin_rows,
    order_codes,
    places,
    sorting,
)
from deltaproduce.engines.local.kernels.comparing import with_positions
from deltaproduce.engines.marks import (
    ADD,
    DELETE,
    FAULTS,
    FILE,
    FILE_COLUMN,
    MISPLACED,
    MISPLACED_COLUMN,
    PAIR_FAULTS,
    UPDATE,
)
from deltaproduce.model.layouts import Layout
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import (
    CHANGE_TYPE,
    ORDINAL,
    POSITION,
    POSITION_COLUMN,
    VERSION,
    Column,
)
from deltaproduce.types.pandas_on_demand import in_numpy

_NULL: Final = np.iinfo(np.int64).min
"""Represents a null among numbers: nulls sort first."""


def latest(updates: pa.Table, layout: Layout) -> pa.Table:
    """See `Engine.latest`."""
    if not len(updates):
        return updates
    version = _integers(updates.column(VERSION))
    key = factorize(updates.select([c.name for c in layout.key]).columns)
    last = np.full(key.max() + 1, _NULL)
    np.maximum.at(last, key, version)
    return updates.filter(pa.array((version == last[key]) & (version != _NULL)))


def folded(updates: pa.Table, layout: Layout) -> pa.Table:
    """See `Engine.folded`."""
    rows = _newest(updates, layout)
    beside = (*layout.sources, *layout.states)
    nothing = {c.name: pa.nulls(len(rows), arrow_type(c.data_type)) for c in beside}
    given = {c.name: rows.column(c.name) for c in (*layout.key, *layout.value)}
    arrays = {**given, **nothing, ORDINAL: rows.column(POSITION)}
    return pa.table({c.name: arrays[c.name] for c in layout.content})


def unfolded(
    updates: pa.Table | None, content: pa.Table | None, layout: Layout, *, complete: bool
) -> int:
    """See `Engine.unfolded`."""
    columns = [c.name for c in (*layout.key, POSITION_COLUMN, *layout.value)]
    key = [c.name for c in layout.key]
    if updates is None:
        return len(content) if content is not None and complete else 0
    fold = _newest(updates, layout).select(columns)
    stored = fold.slice(0, 0)
    if content is not None:
        stored = with_positions(content, layout).select(columns)
        if not complete:
            stored = stored.filter(pa.array(isin_rows(stored.select(key), updates.select(key))))
    together = pa.concat_tables([fold, stored])
    if not len(together):
        return 0
    rows = factorize(together.columns)
    surplus = np.bincount(rows[: len(fold)], minlength=rows.max() + 1)
    surplus -= np.bincount(rows[len(fold) :], minlength=rows.max() + 1)
    keys = factorize(together.select(key).columns)
    return len(np.unique(keys[surplus[rows] != 0]))


def faults(updates: pa.Table, layout: Layout, head: int) -> Mapping[str, int]:
    """See `Engine.faults`."""
    if not len(updates):
        return dict.fromkeys(FAULTS, 0)
    key = factorize(updates.select([c.name for c in layout.key]).columns)
    version, position = _integers(updates.column(VERSION)), _integers(updates.column(POSITION))
    order = sorting([key, version, position])
    key, version, position = key[order], version[order], position[order]
    step = grouped([key, version])
    place = places([key, version])
    starts = np.flatnonzero(place == 0)
    says = {word: _says(updates, word)[order] for word in (ADD, UPDATE, DELETE)}
    is_first, is_null = position == 0, _is_null(updates, layout.value)[order]
    fits = np.where(says[DELETE], is_first & is_null, np.where(says[ADD], is_first, says[UPDATE]))
    first = starts.copy()  # the first row of a step gives its change type
    first[step[is_first]] = np.flatnonzero(is_first)
    of_step, versions = key[starts], version[starts]
    is_known = ~in_numpy(updates.column(CHANGE_TYPE).is_null())[order][first]
    was_alive, is_new = ~says[DELETE][first][:-1], says[ADD][first][1:]
    follows = (of_step[1:] == of_step[:-1]) & is_known[1:] & is_known[:-1]
    sizes, deletes = np.bincount(step), np.bincount(step, says[DELETE])
    counts = (
        (versions != _NULL) & ((versions < 1) | (versions > head)),
        np.bincount(step, (place != position) & (position != _NULL)) > 0,
        (np.bincount(step, ~fits) > 0) | ((deletes > 0) & (sizes > 1)),
        follows & (was_alive == is_new),
    )
    return {name: int(count.sum()) for name, count in zip(FAULTS, counts, strict=True)}


def pair_faults(content: pa.Table, mappings: pa.Table | None, layout: Layout) -> Mapping[str, int]:
    """See `Engine.pair_faults`."""
    names = [c.name for c in layout.pair]
    parts = [content.select(names), *([] if mappings is None else [mappings.select(names)])]
    pair = factorize(pa.concat_tables(parts).columns)
    pairs, of_content = int(pair.max(initial=-1)) + 1, pair[: len(content)]
    rows = np.bincount(of_content, minlength=pairs)
    mapped = np.bincount(pair[len(content) :], minlength=pairs)
    ordinal = _integers(content.column(ORDINAL))
    order = sorting([of_content, ordinal])
    place = places([of_content[order]])
    wrong = (place != ordinal[order]) & (ordinal[order] != _NULL)
    misnumbered = np.bincount(of_content[order], wrong, pairs) > 0
    counts = (
        len(content),
        int(misnumbered.sum()),
        int(((rows > 0) & (mapped == 0)).sum()),
        int(((rows == 0) | (mapped > 1)).sum()),
    )
    return dict(zip(PAIR_FAULTS, counts, strict=True))


def file_ends(files: Iterable[pa.Table], by: Sequence[Column]) -> pa.Table:
    """Return each file's first and last row, one after the other, in its namesake's columns.

    Args:
        files: the columns ``by`` of one file after the other.
    """
    parts = [empty((FILE_COLUMN, MISPLACED_COLUMN, *by))]
    for number, rows in enumerate(files):
        if not len(rows):
            continue
        order = sorting(order_codes(rows, by))
        misplaced = int((order != np.arange(len(rows))).sum())
        ends = rows.take(pa.array([0, len(rows) - 1]))
        said = {FILE: pa.array([str(number)] * 2), MISPLACED: pa.array([misplaced] * 2)}
        columns = {**said, **{c.name: ends.column(c.name) for c in by}}
        parts.append(pa.table(columns))
    return pa.concat_tables(parts)


def _newest(updates: pa.Table, layout: Layout) -> pa.Table:
    """Return the rows of each key after all its updates: those of its last updated version."""
    rows = latest(updates, layout)
    return rows.filter(pc.fill_null(pc.not_equal(rows.column(CHANGE_TYPE), DELETE), False))


def _integers(column: pa.ChunkedArray) -> Numbers:
    return in_numpy(pc.fill_null(column.cast(pa.int64()), _NULL), np.int64)


def _says(updates: pa.Table, word: str) -> Marks:
    is_equal = pc.fill_null(pc.equal(updates.column(CHANGE_TYPE), word), False)
    return in_numpy(is_equal, bool)


def _is_null(rows: pa.Table, columns: Sequence[Column]) -> Marks:
    """Mark the rows with a null in each of the columns."""
    nulls = (in_numpy(rows.column(c.name).is_null(), bool) for c in columns)
    return reduce(np.logical_and, nulls, np.ones(len(rows), bool))
