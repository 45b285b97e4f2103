"""Calls of users' functions: in worker processes on the driver, or left to Spark's.

A function runs where its rows are. The invariant: this module and `choice` alone decide it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from deltaproduce.engines.choice import Engines, is_local, needs_spark
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.failures import BatchFunction, in_worker
from deltaproduce.engines.local.arrays import empty, key_ends, whole_keys
from deltaproduce.engines.local.calls import BatchCall, pickled
from deltaproduce.engines.local.large import parting
from deltaproduce.engines.local.workers import process_workers
from deltaproduce.engines.spark.executors.python_workers import (
    are_as_beside,
    as_in_spark,
    has_other_machines,
    held_by_spark,
)
from deltaproduce.engines.spark.sessions.remote import parallelism
from deltaproduce.model.limits.machine import cores
from deltaproduce.types.columns import Column
from deltaproduce.types.conversions import in_arrow_types

_PICKLED: Final = WeakKeyDictionary[BatchFunction, bytes | None]()
"""Functions that have been called here -> what workers get; to pickle takes longer than a call."""


def calls_beside(engines: Engines, *rows: Rows) -> bool:
    """Return whether a function may run in workers on the driver, for these rows together."""
    if engines.session is None:
        return all(map(is_local, rows))
    few = (
        isinstance(one, pa.Table) and engines.is_local(len(one), one.nbytes, on_driver=True)
        for one in rows
    )
    return all(few) and are_as_beside(engines.session)


def expect_calls(engines: Engines, module: str) -> None:
    """Have a worker start on the driver, as a function will soon be called; not for a session.

    Args:
        module: the module of this library that `called_beside` will get its function from.
    """
    if engines.session is None:
        process_workers().expect(module)


def called_beside(
    engines: Engines,
    rows: pa.Table,
    key: Sequence[Column],
    run: BatchFunction,
    columns: Sequence[Column],
    *,
    stage: str,
) -> tuple[Rows, int] | None:
    """Run a function over rows in workers on the driver; return its rows and their number.

    Args:
        rows: rows for which `calls_beside` holds, at least one; equal keys are adjacent.
        key: workers may get different keys; without a key, one worker gets all rows.
        run: is sent as it is at its first call.
        columns: the columns of the function's rows.
        stage: the function's stage.

    Returns:
        None if Spark has to call the function: it cannot be sent to a worker, returns more than
        the driver holds, or is so slow that a cluster finishes sooner. No rows computed here
        are kept then.

    Raises:
        ProducerError: the function failed.
    """
    if run not in _PICKLED:
        _PICKLED[run] = pickled(in_worker(run), held_by_spark())
    function = _PICKLED[run]
    if function is None:
        return None
    names = [c.name for c in key]
    parts = parting.slices(rows, engines.limits)
    parts = whole_keys(parts, names) if key and not engines.holds(rows) else iter([rows])
    spill = engines.spill()
    for part in parts:
        results = _called(engines, part, names, function, columns, stage)
        if results is None:
            if engines.session is None:
                raise needs_spark()
            return None
        spill.add(results)
    table = spill.table()
    stays = engines.session is None or engines.limits.is_local(len(table), table.nbytes)
    return table if stays else engines.frame(table, columns), len(table)


def _called(
    engines: Engines,
    rows: pa.Table,
    key: Sequence[str],
    function: bytes,
    columns: Sequence[Column],
    stage: str,
) -> pa.Table | None:
    """Return the rows that a function returns for its input; None if Spark has to call it."""
    call = BatchCall(
        stage,
        function,
        as_in_spark(rows, engines.time_zone),
        key_ends(rows.select(list(key))) if key else np.array([len(rows)]),
        _most_workers(engines),
        engines.limits.held_bytes if engines.session is not None else None,
        _cores_elsewhere(engines) if key else 0,
    )
    results = call.run(process_workers())
    if results is None:
        return None
    return pa.concat_tables(in_arrow_types(part, columns) for part in results or [empty(columns)])


def _cores_elsewhere(engines: Engines) -> int:
    """The number of the session's cores on other machines."""
    if engines.session is None or not has_other_machines(engines.session):
        return 0
    return parallelism(engines.session)


def _most_workers(engines: Engines) -> int:
    """The most processes that call a function: those of the session's cores that are here."""
    if engines.session is None or has_other_machines(engines.session):
        return cores()
    return parallelism(engines.session)
