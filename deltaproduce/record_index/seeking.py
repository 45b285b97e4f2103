"""Seeking: finds the entries of keys in the files of an index, by few row groups or by all.

If few entries of a file are sought, it is *seeked*: only row groups whose range may have one of the
keys are read. Otherwise it is *scanned*. The faster way depends on the share of the file's entries
that is sought, as with Hudi's HFiles. The invariant: both ways find the same entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Numbers, isin_rows
from deltaproduce.engines.local.large.threads import side_by_side
from deltaproduce.errors import CorruptStoreError
from deltaproduce.record_index.decisions.keying import Keying
from deltaproduce.record_index.runs import RunFile, Runs
from deltaproduce.storage.parquet.row_groups import FileFooter, bounds_of, reach_of
from deltaproduce.types.columns import Column
from deltaproduce.types.conversions import in_arrow_types
from deltaproduce.types.excerpts import one_line

_SEEK_SHARE: Final = 0.3
"""A file is seeked if less than this share of its entries is sought."""


def entries_of(runs: Runs, keys: pa.Table, buckets: Numbers, keying: Keying) -> Iterator[pa.Table]:
    """Yield the entries of keys, including tombstones, oldest first.

    Args:
        keys: distinct keys, in the key columns.
        buckets: the bucket of each key.

    Raises:
        CorruptStoreError: a file of the index is gone or broken.
    """
    of_bucket = {int(bucket): np.flatnonzero(buckets == bucket) for bucket in np.unique(buckets)}

    def entries_in(file: RunFile) -> pa.Table:
        rows = None if file.bucket is None else of_bucket.get(file.bucket, np.zeros(0, np.int64))
        wanted = keys if rows is None else keys.take(pa.array(rows))
        return _entries_in(runs, file, wanted, keying)

    yield from side_by_side(entries_in, runs.files)


def read(
    runs: Runs, file: RunFile, keying: Keying, groups: Sequence[int] | None = None
) -> pa.Table:
    """Return all entries of a file, or the entries of some row groups.

    Raises:
        CorruptStoreError: as `entries_of`.
    """
    with _readable(runs, file), runs.place.parquet(file.path) as parquet:
        there = set(parquet.schema_arrow.names)  # runs of before have no remembered deletes
        names = [column.name for column in keying.stored if column.name in there]
        every = range(parquet.num_row_groups) if groups is None else groups
        rows = parquet.read_row_groups(list(every), names, use_threads=False)
        return in_arrow_types(keying.complete(rows), keying.stored)


@contextmanager
def _readable(runs: Runs, file: RunFile) -> Iterator[None]:
    """Turn the error of a file that cannot be read into one that names it.

    Raises:
        CorruptStoreError: it cannot be read.
    """
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        raise CorruptStoreError(
            f"file {file.path!r} of the record index at {runs.place.path!r} cannot be read "
            f"({one_line(error)}): build it again",
            table=runs.place.path,
        ) from error


def _entries_in(runs: Runs, file: RunFile, keys: pa.Table, keying: Keying) -> pa.Table:
    """Return the entries of keys in one file."""
    if not len(keys):
        return keying.no_entries
    groups = None
    if len(keys) < _SEEK_SHARE * file.entries:
        with _readable(runs, file):
            footer = FileFooter(runs.place.footer(file.path))
        groups = _reached(footer, keying.columns, keys)
    every = read(runs, file, keying, groups)
    return every.filter(pa.array(isin_rows(every.select(keying.names), keys)))


def _reached(footer: FileFooter, key: Sequence[Column], keys: pa.Table) -> list[int] | None:
    """Return the row groups that may have one of the keys; None if the ranges are unknown."""
    bounds = bounds_of(key, keys, footer.ranges_in)
    if not bounds:
        return None
    reach = reach_of(bounds)
    numbers: list[int] = footer.numbers[reach.first < reach.last].tolist()
    return numbers
