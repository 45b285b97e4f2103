"""Batches that are given as anything but DataFrames, and are few: checked in Arrow, without Spark.

The invariant: rows are taken, numbered and refused as `in_spark` does it; laws hold the two against
each other. No session is asked for anything but its clock.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.local.arrays import (
    Marks,
    Numbers,
    factorize,
    order_codes,
    places,
    sorting,
)
from deltaproduce.model.graph import Source
from deltaproduce.stages.batches import IS_DELETE, Batch, some_keys
from deltaproduce.stages.given.contents import (
    DELETES,
    IGNORED,
    SHOWN,
    UPSERTS,
    not_null,
    refuse_nulls,
    refuse_types,
)
from deltaproduce.types.columns import CHANGE_TYPE, ORDINAL, ORDINAL_COLUMN


def batch_of_table(
    given: pa.Table, source: Source, engines: Engines, *, is_snapshot: bool = False
) -> Batch:
    """Check the contents of changes, or of all rows.

    Args:
        given: the source's columns in the declared types, as `formats.table_of` makes them, and
            perhaps control columns.

    Raises:
        InvalidChangesError: see `batches`.
    """
    if CHANGE_TYPE in given.column_names:
        given = given.filter(pa.array(~_is_in(given.column(CHANGE_TYPE), IGNORED)))
    else:
        given = given.append_column(CHANGE_TYPE, pa.repeat("upsert", len(given)))
    change_type = given.column(CHANGE_TYPE)
    upserts, deletes = _is_in(change_type, UPSERTS), _is_in(change_type, DELETES)
    _check_change_types(given, ~(upserts | deletes), source, engines)
    for column, types in not_null(source):
        nulls = np.asarray(given.column(column.name).is_null())
        wrong = nulls & _is_in(change_type, types) if nulls.any() else nulls
        if wrong.any():
            keys = some_keys(given.filter(pa.array(wrong)), source, engines)
            refuse_nulls(column, int(wrong.sum()), source, keys)
    rows = pa.table(
        {
            **{name: given.column(name) for name in source.schema.key.names},
            ORDINAL: pa.array(_ordinals(given, source)),
            **{name: given.column(name) for name in source.schema.value.names},
            IS_DELETE.name: pa.array(deletes),
        }
    )
    batch = Batch(source, rows, len(rows), engines, is_snapshot)
    if upserts.any() and deletes.any():
        batch.check_not_mixed()
    return batch


def _is_in(change_type: pa.ChunkedArray, known: tuple[str, ...]) -> Marks:
    """Which rows have one of these change types; null is none of them."""
    found = pc.is_in(change_type, value_set=pa.array(known))
    return np.asarray(found, bool)


def _check_change_types(given: pa.Table, unknown: Marks, source: Source, engines: Engines) -> None:
    if not unknown.any():
        return
    wrong = given.filter(pa.array(unknown))
    found = wrong.column(CHANGE_TYPE).unique()[:SHOWN].to_pylist()
    refuse_types(found, len(wrong), source, some_keys(wrong, source, engines))


def _ordinals(given: pa.Table, source: Source) -> Numbers:
    """The rows' places or, in each key, those in the order that the user gives, from 1."""
    if ORDINAL not in given.column_names:
        return np.arange(len(given))
    keys = factorize(given.select(source.schema.key.names).columns)
    order = sorting([keys, *order_codes(given, [ORDINAL_COLUMN])])  # rows stay in their order
    found = np.empty(len(given), np.int64)
    found[order] = places([keys[order]]) + 1
    return found
