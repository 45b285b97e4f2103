"""States of rows that are on the driver, and the rows that they become.

The driver computes them, unless user functions are called: then local workers do, which get all
rows of a key each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from deltaproduce.engines.engine import Rows
from deltaproduce.model.limits.machine import cores
from deltaproduce.stages.aggregates.folding import Folding
from deltaproduce.stages.productions import Production
from deltaproduce.types.columns import Column
from deltaproduce.types.pandas_on_demand import in_numpy

SIGN = "_sign"
_Run: TypeAlias = Callable[[pa.Table], pa.Table]
_Batches: TypeAlias = Iterator[pa.RecordBatch]


def states_of(
    parts: Sequence[tuple[pa.Table, int]],
    key: Sequence[Column],
    folding: Folding,
    production: Production,
) -> Rows | None:
    """Return the states of rows, one row per key.

    Args:
        parts: rows of the feeder, and whether they were added (1) or removed (-1).
        key: the columns of the feeder that form the key.

    Returns:
        None if Spark must compute them; see `Production.beside`.
    """
    signs = [np.full(len(part), sign) for part, sign in parts]
    rows = pa.concat_tables([part for part, _ in parts])
    rows = rows.append_column(SIGN, pa.array(np.concatenate(signs)))
    run = partial(signed_states, key=[c.name for c in key], folding=folding)
    states = _applied(run, rows, key, folding, production, folding.states)
    return None if states is None else states[0]


def signed_states(rows: pa.Table, key: Sequence[str], folding: Folding) -> pa.Table:
    """Return the same as `states_of`, for rows with a column of signs."""
    return folding.of_rows(rows, in_numpy(rows.column(SIGN)), key)


def rows_of(states: pa.Table, folding: Folding, production: Production) -> tuple[Rows, int] | None:
    """Return the stage's rows, and their number; see `Folding.rows`. None as for `states_of`."""
    layout = folding.layout
    return _applied(folding.rows, states, layout.key, folding, production, layout.content, cores())


def _applied(
    run: _Run,
    rows: pa.Table,
    key: Sequence[Column],
    folding: Folding,
    production: Production,
    columns: Sequence[Column],
    threads: int = 1,
) -> tuple[Rows, int] | None:
    """Apply a function to rows by key; return its output columns, and the number of rows.

    Args:
        threads: how many threads share the rows if there are many.
    """
    if not folding.grouping.calls or not len(rows):
        results = production.engines.by_ranges([rows], key, run, threads=threads)
        return results, len(results)

    def on_batches(batches: _Batches) -> _Batches:
        yield from run(pa.Table.from_batches(batches)).to_batches()

    ordered = production.engines.of(rows).write_layout(rows, len(rows), key, key)
    return production.beside(ordered, key, on_batches, columns)
