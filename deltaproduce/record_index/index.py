"""`RecordIndex`: the user's handle on a record index.

The invariant: each method but `build` works on a `IndexView` that matches the newest Delta version
of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from deltalake.exceptions import DeltaError

from deltaproduce.engines.delta.tables import RefusedError
from deltaproduce.engines.spark.delta import unwritable
from deltaproduce.engines.spark.frames import frame
from deltaproduce.errors import CorruptStoreError, DefinitionError, NotFoundError, StorageError
from deltaproduce.record_index import runs, table
from deltaproduce.record_index.arguments import (
    check_buckets,
    column_of,
    duration,
    index_directory,
    key_list,
    key_of,
    table_directory,
)
from deltaproduce.record_index.building import build, refold
from deltaproduce.record_index.changing import GivenRows, change, remembered
from deltaproduce.record_index.decisions.buckets import HashFunction, hash_name, sized
from deltaproduce.record_index.decisions.descriptor import IndexDescriptor, check
from deltaproduce.record_index.decisions.entries import NOWHERE
from deltaproduce.record_index.decisions.keying import Keying
from deltaproduce.record_index.given import (
    keys_given,
    newest_of_each,
    rows_given,
    with_ordering,
)
from deltaproduce.record_index.results import Changed, RecordIndexStats, WrongEntry
from deltaproduce.record_index.verifying import wrong_entries
from deltaproduce.record_index.view import IndexView, caught_up
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.catalogue import atom
from deltaproduce.types.columns import Column
from deltaproduce.types.excerpts import described

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class RecordIndex:
    """An index of a Delta table's records by key, for upserts that open few files.

    The table is someone else's, in any order. The index stores for each key the partition and the
    file of its row, so an upsert or a delete opens only the files that have its keys. Others may
    write to the table at any time: each method first catches up with them.

    Args:
        spark: a session; required if a catalog names the table, or if the table has a feature that
            only Spark's ``MERGE`` maintains. None without Spark.
        table: the table's path, or its name in a catalog.
        key: the columns that identify a record: ``"id"``, ``"country, id"``, with types such as
            ``"id bigint"``, which are then checked, or a list of names. Null is a value.
        location: the directory of the index, existing or not.
        buckets: the number of buckets for the keys; if None, as it was built, and at first one for
            each 1,000,000 keys, with 30 % to spare.
        hash: ``"xxhash64"``, which is Spark's, or a function that returns a 64-bit whole number for
            each row of a pyarrow Table of the key columns.
        ordering: a column that decides which of two rows of a key is newer: a smaller value loses.

    Raises:
        NotFoundError: there is no such table.
        DefinitionError: the table has no such columns, or cannot have an index; or the location is
            inside it.
        DescriptorMismatchError: the index was built with other arguments.
        InvalidArgumentError: an argument is not valid.
        SessionError: a catalog names the table, and there is no session.
    """

    def __init__(
        self,
        spark: SparkSession | None,
        table: str,
        key: str | Sequence[str],
        location: str,
        *,
        buckets: int | None = None,
        hash: str | HashFunction = "xxhash64",
        ordering: str | None = None,
    ) -> None:
        if buckets is not None:
            check_buckets(buckets)
        self._spark = spark
        self._directory = table_directory(spark, table)
        self._place = index_directory(location, self._directory)
        self._keys, self._hash = key_list(key), hash
        self._ordering, self._buckets = ordering, buckets
        wanted = self._wanted(self._newest())
        try:
            stored = runs.opened(self._place)
        except CorruptStoreError:  # each method raises it, and build() mends it
            stored = None
        if stored is not None:
            check(stored.state.descriptor, wanted, location, buckets=buckets)

    def build(self) -> None:
        """Build the index from all rows of the table, in one commit; an existing one is replaced.

        Reads the key columns of all files, and holds those of some buckets at a time in memory.

        Raises:
            InvalidChangesError: the table has a key twice; with ``keys``.
            ConflictError: someone else wrote the index meanwhile.
            StorageError: the index cannot be written.
        """
        snapshot = self._newest()
        with self._writing():
            build(self._place, snapshot, self._keying(snapshot), self._wanted(snapshot))

    def lookup(self, keys: object) -> pa.Table | DataFrame:
        """Find where the records of some keys are.

        Args:
            keys: a DataFrame or pyarrow Table with the key columns, others are ignored; or a list
                of keys, each a bare value, or a tuple or dict for several columns. Equal keys count
                once.

        Returns:
            For each key that the table has, a row with the key columns, the table's partition
            columns, and ``_file``, the path of the file as in Delta's log. A DataFrame if there is
            a session, otherwise a pyarrow Table.

        Raises:
            InvalidArgumentError: the keys do not fit the key columns.
            NotFoundError: the index was not built.
            InvalidChangesError: someone else duplicated a key of the table.
            CorruptStoreError: the index belongs to another table, or cannot catch up: build it
                again.
        """
        view = self._view()
        columns = view.keying.columns
        wanted = keys_given(self._spark, keys, columns)
        groups = view.groups_of(wanted)
        there = groups != NOWHERE
        rows, every = wanted.filter(pa.array(there)), list(columns)
        of_files, at = np.unique(groups[there], return_inverse=True)
        paths = [view.groups[group] for group in of_files.tolist()]
        for column in view.snapshot.columns:
            if column.name in view.snapshot.partitioned_by and column not in columns:
                values = [view.snapshot.files[path].partition[column.name] for path in paths]
                array = pa.array(values, arrow_type(column.data_type)).take(pa.array(at))
                rows, every = rows.append_column(column.name, array), [*every, column]
        rows = rows.append_column(runs.FILE, pa.array(paths, pa.string()).take(pa.array(at)))
        return rows if self._spark is None else frame(rows, self._spark, [*every, runs.FILE_COLUMN])

    def upsert(self, rows: object) -> Changed:
        """Insert rows, or replace those with the same keys.

        One commit removes the files that have a replaced row, and adds files that take their place,
        and files with the new rows. A row whose partition changes moves. If no row changes
        anything, there is no commit.

        Args:
            rows: a DataFrame, pyarrow Table or list of dicts with all columns of the table; a
                missing value of a dict is null.

        Raises:
            InvalidChangesError: rows do not fit; or a key occurs twice, and there is no
                ``ordering``; nothing is written.
            ConflictError: someone else committed to the table meanwhile; nothing is changed.
            SessionError: this needs Spark's ``MERGE``, and there is no session.
            StorageError: the table cannot be written; it is unchanged.
            CommitUnknownError: a commit failed, and so did reading back whether it took effect.
            NotFoundError, CorruptStoreError: as for `lookup`.
        """
        view = self._view(writes=True)
        columns, key = view.snapshot.columns, view.keying
        partitions, path = view.snapshot.partitioned_by, self._directory.path
        given = rows_given(self._spark, rows, columns, key.columns, partitions, path)
        ordering = self._ordering_in(view.snapshot)
        counting = newest_of_each(given, key.names, ordering)
        lost = len(given) - len(counting)
        with self._writing():
            return change(view, GivenRows(counting, False, ordering, lost), self._spark)

    def delete(self, keys: object) -> Changed:
        """Delete the rows of some keys.

        If keys are given with the index's ordering column, a row with a greater value stays, and
        the index remembers the delete: a later upsert with a smaller value changes nothing, until
        `compact` forgets the delete. Of equal values the later call wins. Otherwise the delete
        always wins, and the index forgets the key's earlier deletes.

        Args:
            keys: as for `lookup`; keys that do not exist change nothing in the table.

        Raises:
            InvalidArgumentError: the keys do not fit the key columns, or only some have the
                ordering.
            ConflictError, SessionError, StorageError: as for `upsert`.
            CommitUnknownError, NotFoundError, CorruptStoreError: as for `upsert`.
        """
        view = self._view(writes=True)
        key = view.keying
        ordering = with_ordering(keys, key.names, self._ordering_in(view.snapshot))
        columns = key.columns if ordering is None else (*key.columns, ordering)
        given = keys_given(self._spark, keys, columns)
        counting = given if ordering is None else newest_of_each(given, key.names, ordering)
        deletes = GivenRows(counting, True, ordering, len(given) - len(counting))
        with self._writing():
            view = remembered(view, deletes, datetime.now(UTC))
            return change(view, deletes, self._spark)

    def compact(self, *, tombstones: str | timedelta | None = None) -> None:
        """Compact the index: only entries that count, and at most one sorted file for each bucket.

        Does nothing if it is compact already. Holds some buckets at a time in memory.

        Args:
            tombstones: forget the deletes that were given with their ordering longer ago than this:
                ``"7 days"``, or any number of weeks, days, hours or minutes, or a timedelta. None
                keeps them all. A row that is older than a forgotten delete comes back if it is
                upserted.

        Raises:
            InvalidArgumentError: ``tombstones`` is not a duration.
            ConflictError: someone else wrote the index meanwhile.
            StorageError: the index cannot be written.
            NotFoundError, InvalidChangesError, CorruptStoreError: as for `lookup`.
        """
        since = None if tombstones is None else datetime.now(UTC) - duration(tombstones)
        view = self._view(writes=True)
        files, buckets = view.runs.files, view.state.descriptor.buckets
        mixed = len(files) > 1 and any(file.bucket is None for file in files)
        with self._writing():
            if mixed or len(files) > buckets or view.has_dead or view.has_deletes_before(since):
                refold(view, buckets, since)
            elif not view.is_written:
                with suppress(RefusedError):  # another process has caught up
                    view.write()

    def rebuild(self, buckets: int | None = None) -> None:
        """Rewrite the index with another number of buckets, without reading the table.

        Args:
            buckets: the new number; if None, as for `build`.

        Raises:
            InvalidArgumentError: it is not a number from 1 on.
            ConflictError, StorageError: as for `compact`.
            NotFoundError, InvalidChangesError, CorruptStoreError: as for `lookup`.
        """
        if buckets is not None:
            check_buckets(buckets)
        view = self._view(writes=True)
        wanted = buckets or sized(view.state.records)
        with self._writing():
            refold(view, wanted)
        self._buckets = wanted

    def verify(self) -> tuple[WrongEntry, ...]:
        """Compare the index with the whole table; nothing is written.

        Returns:
            The keys whose entries are wrong, up to the first 1,000; empty if the index is right.

        Raises:
            NotFoundError, InvalidChangesError, CorruptStoreError: as for `lookup`.
        """
        return wrong_entries(self._view())

    def stats(self) -> RecordIndexStats:
        """Return figures of the index, after it has caught up.

        Raises:
            NotFoundError, InvalidChangesError, CorruptStoreError: as for `lookup`.
        """
        view = self._view()
        descriptor, files = view.state.descriptor, view.runs.files
        return RecordIndexStats(
            buckets=descriptor.buckets,
            hash=descriptor.hash,
            records=view.state.records,
            runs=len(files) + bool(len(view.arrived)),
            tombstones=sum(file.tombstones for file in files),
            remembered=sum(file.remembered for file in files),
            delta_version=view.state.delta_version,
        )

    def __repr__(self) -> str:
        key = ", ".join(column.name for column in self._keys)
        return f"RecordIndex({self._directory.path!r}, {key!r}, {self._place.path!r})"

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Turn the error of a write into one of the library's.

        Raises:
            StorageError: the table or the index cannot be written.
        """
        try:
            yield
        except (DeltaError, OSError) as error:
            raise StorageError(
                f"table {self._directory.path!r}, or its record index at {self._place.path!r}, "
                f"cannot be written ({unwritable(error) or described(error)}); the table is "
                "unchanged",
                table=self._directory.path,
            ) from error

    def _newest(self) -> table.TableSnapshot:
        return table.newest(self._directory)

    def _view(self, *, writes: bool = False) -> IndexView:
        """Return the index, caught up with the table.

        Args:
            writes: whether the caller writes the index, so that it may be written before, too: if
                there are many new files, with a part of them at a time.
        """
        while True:
            stored = runs.opened(self._place)
            if stored is None:
                raise NotFoundError(
                    f"there is no record index at {self._place.path!r}: build() makes it"
                )
            snapshot = self._newest()
            keying = self._keying(snapshot)
            view = caught_up(stored, keying, snapshot, in_runs=writes)
            if not view.waiting:
                return view
            try:
                view.write()
            except RefusedError:  # another process has caught up so far
                continue
            except (OSError, DeltaError):  # whoever needs the index to be written says so
                return caught_up(stored, keying, snapshot)

    def _keying(self, snapshot: table.TableSnapshot) -> Keying:
        ordering = self._ordering_in(snapshot)
        own = runs.OWN_COLUMNS if ordering is None else runs.OWN_COLUMNS | runs.DELETE_COLUMNS
        columns = key_of(snapshot, self._keys, own)
        return Keying(columns, self._hash, runs.delete_columns(ordering))

    def _ordering_in(self, snapshot: table.TableSnapshot) -> Column | None:
        """Return the column that decides which row is newer; None if none was named.

        Raises:
            DefinitionError: the table has no such column, or one without an order.
        """
        if self._ordering is None:
            return None
        column = column_of(snapshot, self._ordering)
        if atom(column.data_type) is None:
            type_text = column.data_type.simpleString()
            raise DefinitionError(
                f"ordering {column.name!r} is {type_text!r}: use numbers, text or times",
                column=column.name,
            )
        return column

    def _wanted(self, snapshot: table.TableSnapshot) -> IndexDescriptor:
        """Return the descriptor to build with; 0 buckets if any number will do.

        Raises:
            DefinitionError: the table has no such columns.
        """
        keying, ordering = self._keying(snapshot), self._ordering_in(snapshot)
        return IndexDescriptor(
            table=self._directory.real.path,
            key=tuple(keying.names),
            types=keying.types,
            hash=hash_name(self._hash),
            buckets=self._buckets or 0,
            ordering=None if ordering is None else ordering.name,
        )
