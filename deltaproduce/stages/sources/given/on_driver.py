"""Batches given as anything but DataFrames, if small: checked in Arrow, without Spark.

The invariant: rows are accepted, numbered and refused as in `in_spark`; laws compare the two. The
session is needed only for its clock.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.local.arrays import (
    Marks,
    factorize,
    order_codes,
    places,
    sorting,
)
from deltaproduce.model.graph import Source
from deltaproduce.stages.batches import IS_DELETE, Batch, sample_keys
from deltaproduce.stages.sources.given.contents import (
    DELETES,
    IGNORED,
    SHOWN,
    UPSERTS,
    refuse_types,
)
from deltaproduce.stages.sources.given.required import checked, required
from deltaproduce.stages.sources.given.unique import check_in_table
from deltaproduce.types.columns import CHANGE_TYPE, CHANGE_TYPE_COLUMN, ORDINAL, ORDINAL_COLUMN
from deltaproduce.types.pandas_on_demand import in_numpy


def batch_of_table(
    given: pa.Table, source: Source, engines: Engines, *, is_snapshot: bool = False
) -> Batch:
    """Check the contents of changes, or of all rows.

    Args:
        given: the source's columns in the types of `unchecked`, as `formats.table_of` returns them,
            and perhaps control columns.

    Raises:
        InvalidChangesError: see `batches`.
    """
    places = np.arange(len(given))
    if CHANGE_TYPE in given.column_names:
        if source.kind.intake.unique:
            places = np.flatnonzero(~_is_in(given.column(CHANGE_TYPE), IGNORED))
        given = engines.by_slices(given, _counting)
    else:
        given = engines.of(given).with_all(given, CHANGE_TYPE_COLUMN, "upsert")
    change_type = given.column(CHANGE_TYPE)
    upserts, deletes = _is_in(change_type, UPSERTS), _is_in(change_type, DELETES)
    _check_change_types(given, ~(upserts | deletes), source, engines)
    for one in required(source):
        nulls = one.nulls(given.column(one.column.name))
        wrong = nulls & _is_in(change_type, one.types) if nulls.any() else nulls
        if wrong.any():
            keys = sample_keys(given.filter(pa.array(wrong)), source, engines)
            one.refuse(int(wrong.sum()), source, keys)
    if source.kind.intake.unique:
        check_in_table(given, source, engines, upserts, places)
    given = checked(given, source.schema.value.columns, upserts)
    given = given.append_column(IS_DELETE.name, pa.array(deletes))
    rows = _numbered(given, source, engines)
    batch = Batch(source, rows, len(rows), engines, is_snapshot)
    if upserts.any() and deletes.any():
        batch.check_not_mixed()
    return batch


def _counting(given: pa.Table) -> pa.Table:
    """Return the rows that are not ignored."""
    ignored = _is_in(given.column(CHANGE_TYPE), IGNORED)
    return given.filter(pa.array(~ignored)) if ignored.any() else given


def _is_in(change_type: pa.ChunkedArray, known: tuple[str, ...]) -> Marks:
    """Return which rows have one of these change types; null is none of them."""
    is_known = pc.is_in(change_type, value_set=pa.array(known, pa.string()))
    return in_numpy(is_known, bool)


def _check_change_types(given: pa.Table, unknown: Marks, source: Source, engines: Engines) -> None:
    if not unknown.any():
        return
    wrong = given.filter(pa.array(unknown))
    values = wrong.column(CHANGE_TYPE).unique()[:SHOWN].to_pylist()
    refuse_types(values, len(wrong), source, sample_keys(wrong, source, engines))


def _numbered(given: pa.Table, source: Source, engines: Engines) -> pa.Table:
    """Return the rows in the form of a batch.

    They are numbered by position or, in each key, in the user's order, from 1.
    """
    if ORDINAL in given.column_names:
        return engines.by_ranges(
            [given],
            source.schema.key.columns,
            lambda rows: _with_ordinals(rows, _ordinals(rows, source), source),
        )
    place = 0

    def by_place(rows: pa.Table) -> pa.Table:
        nonlocal place
        place += len(rows)
        return pa.table({ORDINAL: np.arange(place - len(rows), place)})

    numbers = engines.by_slices(given.select([IS_DELETE.name]), by_place)  # others are not copied
    return _with_ordinals(given, numbers.column(ORDINAL), source)


def _with_ordinals(given: pa.Table, ordinals: pa.ChunkedArray, source: Source) -> pa.Table:
    columns = {name: given.column(name) for name in given.column_names}
    columns[ORDINAL] = ordinals
    return pa.table({column.name: columns[column.name] for column in Batch.columns(source)})


def _ordinals(given: pa.Table, source: Source) -> pa.ChunkedArray:
    """Return the positions of rows in their key, in the user's order, from 1."""
    keys = factorize(given.select(source.schema.key.names).columns)
    order = sorting([keys, *order_codes(given, [ORDINAL_COLUMN])])  # stable: ties keep their order
    ordinals = np.empty(len(given), np.int64)
    ordinals[order] = places([keys[order]]) + 1
    return pa.chunked_array([ordinals])
