"""Changing: upserts and deletes given rows in the table, and updates the index.

The table's commit is the commit point: once it is there, the call has succeeded. The index is
written afterwards; if that does not happen, the next process that opens it catches up. Only what
the table does not tell, which is the ordering of a delete, is written to the index before. The
invariant: only files that have a given key are opened, and only files that have a row which changes
are removed. A key's entry changes only if its row is inserted, deleted or moved to another
partition: a rewritten file is still the same file group.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction

from deltaproduce.engines.delta.log import is_logged_alike, logged_path
from deltaproduce.engines.delta.tables import RefusedError
from deltaproduce.engines.local.arrays import Marks, Numbers, empty, factorize
from deltaproduce.engines.local.large.threads import side_by_side
from deltaproduce.errors import CorruptStoreError
from deltaproduce.record_index import table
from deltaproduce.record_index.decisions.comparing import (
    Outcome,
    are_older,
    deleting,
    places,
    upserting,
)
from deltaproduce.record_index.decisions.entries import (
    NOWHERE,
    KnownEntries,
    entries,
    remembering,
    together,
)
from deltaproduce.record_index.merging import merge
from deltaproduce.record_index.results import Changed
from deltaproduce.record_index.runs import overtaken
from deltaproduce.record_index.view import IndexView
from deltaproduce.types.columns import Column
from deltaproduce.types.excerpts import one_line
from deltaproduce.types.python_values import python_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGGER: Final = logging.getLogger("deltaproduce")


@dataclass(frozen=True, slots=True)
class GivenRows:
    """The given rows or keys, one row for each key.

    Attributes:
        rows: rows with all columns of the table or, for a delete, with the key columns, and the
            ordering if there is one.
        deletes: whether they delete.
        ordering: the column of the rows that says which is newer; None if all win.
        lost: the number of rows that a newer row of the same key replaces.
    """

    rows: pa.Table
    deletes: bool
    ordering: Column | None
    lost: int = 0

    def drop(self, losing: Marks) -> GivenRows:
        """Return the others of the rows; the given ones lose."""
        stay = self.rows.filter(pa.array(~losing))
        return replace(self, rows=stay, lost=self.lost + int(losing.sum()))

    @property
    def orders(self) -> pa.ChunkedArray | None:
        """The ordering of the rows; None if they have none."""
        return None if self.ordering is None else self.rows.column(self.ordering.name)


@dataclass(frozen=True, slots=True)
class _InFile:
    """The given rows that concern one file.

    Attributes:
        group: the file's group.
        given: the positions of the given rows.
        add: the file that replaces it; None if none does, or none was written.
    """

    group: int
    given: Numbers
    outcome: Outcome
    add: AddAction | None = None


def remembered(view: IndexView, given: GivenRows, at: datetime) -> IndexView:
    """Let an index remember deletes by their ordering, before the table is changed.

    They count once their keys are gone. A delete without an ordering lets it forget those that it
    remembers. If it has nothing to write, it writes nothing.

    Args:
        at: the time at which the deletes are given.

    Returns:
        The index as it is then.

    Raises:
        ConflictError: another process wrote the index meanwhile; nothing is changed.
    """
    keys = given.rows.select(view.keying.names)
    known, orders = view.known(keys), given.orders
    if known.orders is None:
        return view
    if orders is None:
        changes = known.remembers
        orders = pa.chunked_array([pa.nulls(len(keys), known.orders.type)])
    else:
        changes = are_older(known.orders, orders, view.keying.deletes[0])
    if not changes.any():
        return view
    which = pa.array(changes)
    remembered_entries = entries(keys.filter(which), known.groups[changes])
    remembered_entries = remembering(remembered_entries, orders.filter(which), at)
    try:
        view.changed(view.state, view.groups, remembered_entries).write()
    except RefusedError as error:
        raise overtaken(view.runs.place) from error
    return view.reopened()


def change(view: IndexView, given: GivenRows, spark: SparkSession | None) -> Changed:
    """Upsert or delete rows in the table of an index, and bring the index up to date.

    Raises:
        ConflictError: another process changed the table meanwhile.
        SessionError: the table needs Spark's ``MERGE``, and there is no session.
        CorruptStoreError: the index is wrong, or a file of the table cannot be read.
    """
    known = view.known(given.rows.select(view.keying.names))
    groups = known.groups
    if not given.deletes and given.orders is not None and known.remembers.any():
        late = known.gone & are_older(given.orders, known.orders, view.keying.deletes[0])
        given, known = given.drop(late), known.drop(late)
        groups = known.groups
    why = _obstacle(view, np.unique(groups[groups != NOWHERE]).tolist())
    files = _compared(view, given, groups, writes=why is None)
    counts = _counts(given, groups, files)
    version, then = view.snapshot.delta_version, view
    if counts.inserted or counts.updated or counts.deleted:
        operations = {
            "inserted": counts.inserted,
            "updated": counts.updated,
            "deleted": counts.deleted,
        }
        if why is None:
            then = _replaced(view, given, known, files, counts, {"record_index": operations})
            version = then.state.delta_version
        else:
            version = _merged(view, given, groups, files, why, spark, {"record_index": operations})
    if not then.is_written:
        _say(then, version)
    return replace(counts, delta_version=version, strategy="files" if why is None else "merge")


def _say(view: IndexView, version: int) -> None:
    """Write a view's state to the index if possible: the table is committed already.

    Args:
        version: the table's Delta version.
    """
    try:
        view.write()
    except RefusedError:  # another process has caught up, or will
        pass
    except (OSError, DeltaError) as error:
        _LOGGER.warning(
            "Table %r is changed as delta version %d says, but the record index at %r was not "
            "written (%s): the next call catches up",
            view.snapshot.directory.path,
            version,
            view.runs.place.path,
            one_line(error),
        )


def _compared(
    view: IndexView, given: GivenRows, groups: Numbers, *, writes: bool
) -> tuple[_InFile, ...]:
    """Compare the given rows with the table, file by file.

    Args:
        writes: whether to write the files that replace changed ones.
    """
    snapshot, names = view.snapshot, view.keying.names
    adds = list[AddAction]()

    def compare(group: int) -> _InFile:
        rows = np.flatnonzero(groups == group)
        rows_of_file = given.rows.take(pa.array(rows))
        old = snapshot.rows(view.groups[group], snapshot.columns)
        at = places(old, rows_of_file.select(names))
        if (at == NOWHERE).any():
            raise CorruptStoreError(
                f"the record index at {view.runs.place.path!r} says of keys that they are in "
                f"{view.groups[group]!r}, which does not have them: build it again",
                table=view.runs.place.path,
            )
        partitions = snapshot.partitioned_by
        outcome = (
            deleting(old, rows_of_file, at, given.ordering)
            if given.deletes
            else upserting(old, rows_of_file, at, partitions, given.ordering)
        )
        in_file = _InFile(group, rows, outcome)
        stay = outcome.rows(old, rows_of_file) if writes and outcome.changes.any() else None
        if stay is None or not len(stay):
            return in_file
        file = snapshot.files[view.groups[group]]
        new = table.NewFile(stay, file.partition, file.path, view.keying.unique)
        add = snapshot.written(new)
        adds.append(add)
        return replace(in_file, add=add)

    there = np.unique(groups[groups != NOWHERE]).tolist()
    with snapshot.discarding(adds):
        return tuple(side_by_side(compare, there))


def _marks(given: GivenRows, files: Iterable[_InFile], which: str) -> Marks:
    """Mark the given rows that have this effect."""
    marks = np.zeros(len(given.rows), bool)
    for one in files:
        marks[one.given[getattr(one.outcome, which)]] = True
    return marks


def _counts(given: GivenRows, groups: Numbers, files: Sequence[_InFile]) -> Changed:
    inserted = 0 if given.deletes else int((groups == NOWHERE).sum())
    moved = sum(int(one.outcome.moved.sum()) for one in files)
    updated = moved + sum(int(one.outcome.updated.sum()) for one in files)
    deleted = sum(int(one.outcome.deleted.sum()) for one in files)
    ignored = given.lost + len(given.rows) - inserted - updated - deleted
    return Changed(inserted, updated, deleted, ignored, 0, "files")


def _obstacle(view: IndexView, groups: Iterable[int]) -> str | None:
    """Return why our commit cannot replace these files; None if it can."""
    if view.snapshot.obstacle is not None:
        return view.snapshot.obstacle
    for group in groups:
        file = view.snapshot.files[view.groups[group]]
        if file.marked is not None:
            return f"rows of its file {file.path!r} are marked as deleted"
        if not is_logged_alike(file.path):
            return f"its log writes the path {file.path!r} in another way"
    return None


def _replaced(
    view: IndexView,
    given: GivenRows,
    known: KnownEntries,
    changed_files: Sequence[_InFile],
    counts: Changed,
    metadata: Mapping[str, object],
) -> IndexView:
    """Replace files in the table; return the view that the index should then store."""
    snapshot, state, groups = view.snapshot, view.state, known.groups
    changed = [one for one in changed_files if one.outcome.changes.any()]
    comes = _marks(given, changed_files, "moved")
    if not given.deletes:
        comes |= groups == NOWHERE
    arriving = given.rows.filter(pa.array(comes))
    files = [*_by_partition(arriving, view)] if comes.any() else []
    rewritten = [one.add for one in changed if one.add is not None]
    adds = list[AddAction]()
    with snapshot.discarding(rewritten), snapshot.discarding(adds):
        for file in files:
            adds.append(snapshot.written(file))
    removed = [view.groups[one.group] for one in changed]
    version = snapshot.commit(removed, [*rewritten, *adds], metadata)
    new = dict(enumerate((add.path for add in adds), state.next_group))
    ended = {one.group for one in changed if one.add is None}
    kept = {group: path for group, path in view.groups.items() if group not in ended}
    kept |= {one.group: logged_path(one.add.path) for one in changed if one.add is not None}
    kept |= {group: logged_path(path) for group, path in new.items()}
    arrived = [
        view.keying.entries(file.rows.select(view.keying.names), np.full(len(file.rows), group))
        for group, file in zip(new, files, strict=True)
    ]
    tombstones = _tombstones(view, given, known, _marks(given, changed_files, "deleted"))
    return view.changed(
        replace(
            state,
            delta_version=version,
            mark=table.mark(snapshot.directory, version),
            records=state.records + counts.inserted - counts.deleted,
            next_group=state.next_group + len(new),
        ),
        kept,
        together([view.keying.no_entries, *arrived, tombstones]),
    )


def _tombstones(view: IndexView, given: GivenRows, known: KnownEntries, gone: Marks) -> pa.Table:
    """Return the entries of deleted keys, with the deletes that the index remembers of them."""
    keys = given.rows.select(view.keying.names).filter(pa.array(gone))
    tombstones = entries(keys, np.full(len(keys), NOWHERE))
    for name, column in known.filtered(gone).items():
        tombstones = tombstones.append_column(name, column)
    return tombstones


def _merged(
    view: IndexView,
    given: GivenRows,
    groups: Numbers,
    files: Sequence[_InFile],
    why: str,
    spark: SparkSession | None,
    metadata: Mapping[str, object],
) -> int:
    """Change the table by ``MERGE``; return the resulting Delta version."""
    columns, keys = view.snapshot.columns, given.rows.select(view.keying.names)
    counts = _marks(given, files, "changes")
    if given.deletes:
        upserts, deletes = empty(columns), keys.filter(pa.array(counts))
    else:
        upserts = given.rows.filter(pa.array(counts | (groups == NOWHERE)))
        deletes = keys.slice(0, 0)
    return merge(spark, view.snapshot, why, upserts, deletes, metadata)


def _by_partition(rows: pa.Table, view: IndexView) -> Iterable[table.NewFile]:
    """Split rows into new files, one a partition, each next to a file of it if there is one."""
    snapshot, unique = view.snapshot, view.keying.unique
    names = list(snapshot.partitioned_by)
    if not names:
        yield table.NewFile(rows, {}, None, unique)
        return
    numbers = factorize(rows.select(names).columns)
    beside = {_partition(file.partition, names): path for path, file in snapshot.files.items()}
    for number in np.unique(numbers):
        rows_of_partition = rows.filter(pa.array(numbers == number))
        (partition,) = python_rows(rows_of_partition.select(names).slice(0, 1))
        yield table.NewFile(
            rows_of_partition, partition, beside.get(_partition(partition, names)), unique
        )


def _partition(values: Mapping[str, object], names: Sequence[str]) -> tuple[object, ...]:
    return tuple(values.get(name) for name in names)
