"""Copying: the rows of a data set as a new one, with a descriptor of its own.

The invariant: one commit makes the copy, with its descriptor and all of its rows; so the copy
exists as a whole, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import pyarrow as pa
from deltalake.transaction import AddAction

from deltaproduce.datasets.tables import DataTable, already_there
from deltaproduce.datasets.writing.files import discard, written
from deltaproduce.datasets.writing.grouping import PartitionGrouping
from deltaproduce.datasets.writing.pending import Pending
from deltaproduce.described.descriptor import Description
from deltaproduce.errors import AlreadyExistsError, StorageError
from deltaproduce.model.limits import Limits

_OPEN_PARTITIONS = 100


def copied(
    rows: Iterable[pa.Table], table: DataTable, descriptor: Description, limits: Limits
) -> None:
    """Create a data set with these rows: one file for each of its partitions.

    Args:
        rows: tables in the columns of rows.

    Raises:
        AlreadyExistsError: there is a Delta table already; it is unchanged.
        InvalidChangesError: a row fits no partition.
    """
    if table.opened() is not None:
        raise already_there(table.address)
    if not table.directory.file_system.keeps_first:
        raise StorageError(
            f"a copy in an object store cannot be made by one commit: create a data set at "
            f"{table.address}, and write the rows",
            table=table.address,
        )
    grouping = PartitionGrouping(descriptor, table.address, {})
    pending = Pending(_OPEN_PARTITIONS, limits.local_bytes)
    files, first = list[AddAction](), 0
    try:
        for part in rows:
            for group in grouping.groups(part, first):
                pending.add(group.partition, group.rows, first)
            first += len(part)
        for partition in pending.partitions:
            taken = pending.take(partition)
            files.append(written(table, descriptor, partition, taken, limits))
    except (Exception, KeyboardInterrupt):
        _discarded(table, files)
        raise
    finally:
        pending.close()
    try:
        table.create(descriptor, files)
    except (AlreadyExistsError, StorageError):
        _discarded(table, files)
        raise


def _discarded(table: DataTable, files: Iterable[AddAction]) -> None:
    with suppress(StorageError):  # no commit names them
        discard(table, files)
