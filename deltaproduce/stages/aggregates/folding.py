"""Folding: states of groups, added up, become the rows of a stage.

The states that a stage has stored and those of what came and went are rows alike: a key, and its
measures. Whoever has added up all of a key's has its row. The invariant: the rows that `folded`
makes depend on the sums alone.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Numbers, factorize
from deltaproduce.errors import CorruptStoreError, ProducerError
from deltaproduce.model.layouts import Layout
from deltaproduce.stages.aggregates.functions.plans import TooLargeError
from deltaproduce.stages.aggregates.grouping import Grouping
from deltaproduce.types.columns import ORDINAL, Column
from deltaproduce.types.excerpts import shown
from deltaproduce.types.row_readers import UnreadableError, row_reader, zone_of


def folded(rows: pa.Table, grouping: Grouping, layout: Layout, stage: str, zone: str) -> pa.Table:
    """The rows of a stage.

    Args:
        rows: states: key columns and those of the measures; all that a key has.
        layout: the stage's.
        zone: the session's time zone, on whose clock an error shows a key.

    Returns:
        Rows in the columns of the content; none of a key that has no rows any more.

    Raises:
        ProducerError: the type of a value does not hold it; with `stage` and `key`.
        CorruptStoreError: a key has fewer rows than none, so what was stored of it is wrong.
    """
    keys, states = added_up(rows, grouping, layout)
    counts = states[0].to_numpy()
    for group in np.flatnonzero(counts < 0)[:1]:
        found = shown(_key(keys.slice(group, 1), layout, zone))
        raise CorruptStoreError(
            f"stage {stage!r}, key {found}: after this change it has {counts[group]} rows, so "
            f"someone else has changed its content; store.refresh({stage!r}) makes it again"
        )
    alive = counts > 0
    if not alive.all():
        keys, states = keys.filter(pa.array(alive)), [s.filter(pa.array(alive)) for s in states]
    columns = {name: keys.column(name) for name in keys.column_names}
    columns[ORDINAL] = pa.array(np.zeros(len(keys), np.int64))
    for result in grouping.results:
        try:
            columns[result.name] = result.function.finish([states[n] for n in result.states])
        except TooLargeError as error:
            key = _key(keys.slice(error.group, 1), layout, zone)
            message = f"stage {stage!r}, key {shown(key)}: value {result.name!r} is too large: "
            raise ProducerError(f"{message}{error}", stage=stage, key=key) from None
    columns |= {c.name: state for c, state in zip(layout.states, states, strict=True)}
    return pa.table({c.name: columns[c.name] for c in layout.content})


def added_up(rows: pa.Table, grouping: Grouping, layout: Layout) -> tuple[pa.Table, list[pa.Array]]:
    """The keys of some states, each once, and the sums of each measure."""
    keys = rows.select([c.name for c in layout.key])
    groups, firsts = grouped_by(keys)
    states = [
        measure.added(rows.column(column.name).combine_chunks(), groups, len(firsts))
        for measure, column in zip(grouping.measures, layout.states, strict=True)
    ]
    return keys.take(pa.array(firsts)), states


def states_added_up(rows: pa.Table, grouping: Grouping, layout: Layout) -> pa.Table:
    """The same as rows."""
    keys, states = added_up(rows, grouping, layout)
    return pa.table([*keys.columns, *states], [c.name for c in state_columns(layout)])


def grouped_by(keys: pa.Table) -> tuple[Numbers, Numbers]:
    """For each row the number of its key, and for each key its first row."""
    groups = factorize(keys.columns)
    firsts = np.empty(int(groups.max(initial=-1)) + 1, np.int64)
    firsts[groups[::-1]] = np.arange(len(groups))[::-1]
    return groups, firsts


def state_columns(layout: Layout) -> tuple[Column, ...]:
    """The columns of states, as rows."""
    return (*layout.key, *layout.states)


def _key(keys: pa.Table, layout: Layout, zone: str) -> object:
    """A key as functions get it; None if Python has no such value."""
    arrays = [column.combine_chunks() for column in keys.columns]
    try:
        return next(row_reader(layout.schema.key, zone_of(zone))(arrays))
    except UnreadableError:
        return None
