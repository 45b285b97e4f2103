"""States of rows that are on the driver."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Numbers
from deltaproduce.model.layouts import Layout
from deltaproduce.stages.aggregates.folding import grouped_by, state_columns
from deltaproduce.stages.aggregates.grouping import Grouping


def states_of(
    parts: Sequence[tuple[pa.Table, int]], key: Sequence[str], grouping: Grouping, layout: Layout
) -> pa.Table:
    """The states of some rows, one row a key.

    Args:
        parts: rows of the feeder, and whether they have come (1) or are gone (-1).
        key: the columns of the feeder that are the key.
    """
    rows = pa.concat_tables([part for part, _ in parts])
    signs = np.repeat([sign for _, sign in parts], [len(part) for part, _ in parts])
    return signed_states(rows, signs, key, grouping, layout)


def signed_states(
    rows: pa.Table, signs: Numbers, key: Sequence[str], grouping: Grouping, layout: Layout
) -> pa.Table:
    """As `states_of`, of rows that each have a sign."""
    keys = rows.select(list(key)).rename_columns([c.name for c in layout.key])
    groups, firsts = grouped_by(keys)
    found = keys.take(pa.array(firsts))
    for measure, column in zip(grouping.measures, layout.states, strict=True):
        place = measure.argument
        values = None if place is None else rows.column(grouping.arguments[place]).combine_chunks()
        state = measure.here(values, signs, groups, len(firsts))
        found = found.append_column(column.name, state)
    return found.select([c.name for c in state_columns(layout)])
