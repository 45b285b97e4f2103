"""Samples: some of the rows that break a check.

The invariant: only a few rows come to the driver, however many there are; the rows that a version
adds come before others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice

import pyarrow as pa

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.comparisons import Comparison
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import in_order
from deltaproduce.engines.marks import AFTER, ROW_DIFFERS, SIDE, Which
from deltaproduce.engines.spark.sessions.on_demand import is_frame
from deltaproduce.model.checks.recorded import storable
from deltaproduce.model.checks.results import SAMPLED
from deltaproduce.model.checks.verdicts import Sample
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import CONTENT, Layout
from deltaproduce.storage.stored import Stored
from deltaproduce.types.columns import Column
from deltaproduce.types.python_values import python_rows

_PART = 10_000
"""How many rows are read at a time to find a few."""


def of_step(comparison: Comparison, before: Callable[[], Stored | None]) -> Sample:
    """Return some of the rows that a stage has after a step.

    Args:
        before: finds its rows before the step, if those of the step are too few.
    """
    columns, engines = _shown(comparison.layout), comparison.engines

    def parts() -> Iterator[pa.Table]:
        for differs in (True, False):
            rows = comparison.select(columns, {SIDE: AFTER, ROW_DIFFERS: differs})
            yield _first(rows, columns, engines)
        stored = None if comparison.complete else before()
        if stored is None:
            return
        staying = comparison.staying(columns)
        read = tuple(dict.fromkeys((*columns, *comparison.layout.pair)))
        for part in stored.batches(read, _PART):
            yield _first(staying(part), columns, engines)

    return _sample(parts())


def of_keys(comparison: Comparison, which: Which) -> Sample:
    """Return some of the keys of a comparison."""
    columns = [column for column in comparison.layout.key if not column.is_hidden]
    rows = comparison.select(columns, which)
    return _sample(iter([_first(rows, columns, comparison.engines)]))


def of_stored(stage: Stage, stored: Stored | None) -> Sample:
    """Return some of the rows that are stored of a stage."""
    if stored is None:
        return ()
    if stored.small:
        return of_rows(stage, stored.rows(), stored.engines)
    return _sample(stored.batches(_shown(Layout.of(stage)), _PART))


def of_rows(stage: Stage, rows: Rows, engines: Engines) -> Sample:
    """Return some of all rows of a stage, in the order of its content on the driver."""
    layout = Layout.of(stage)
    ordered = in_order(rows, layout.order(CONTENT)) if isinstance(rows, pa.Table) else rows
    return _sample(iter([_first(ordered, _shown(layout), engines)]))


def _first(rows: Rows, columns: Sequence[Column], engines: Engines) -> pa.Table:
    """Return the first rows, on the driver; in Spark any."""
    few = rows.limit(SAMPLED) if is_frame(rows) else rows.slice(0, SAMPLED)
    return engines.table(few, columns)


def _sample(parts: Iterator[pa.Table]) -> Sample:
    """Return the first rows of parts, which are read as long as there are too few."""
    rows = chain.from_iterable(python_rows(part.slice(0, SAMPLED)) for part in parts)
    return tuple(map(storable, islice(rows, SAMPLED)))


def _shown(layout: Layout) -> list[Column]:
    """Return the columns that users see."""
    return [column for column in layout.own if not column.is_hidden]
