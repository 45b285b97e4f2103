"""Rewrites: the files that have rows of an earlier Delta version, whoever has stored them anew.

A commit that changes no rows, such as ``OPTIMIZE``, says so of each file
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#add-file-and-remove-file, `dataChange`).
The invariant: a file is told to have such rows only if it has no others.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from urllib.parse import unquote

import pyarrow as pa

from deltaproduce.datasets.tables import DatasetSnapshot, DataTable
from deltaproduce.engines.delta.tables import BrokenLogError
from deltaproduce.engines.local.marked.log_actions import Action, between
from deltaproduce.errors import CorruptStoreError


def having_rows_of(table: DataTable, delta_version: int, snapshot: DatasetSnapshot) -> pa.Array:
    """Return which files of a snapshot have rows that the table had at an earlier Delta version.

    These are the files that it had, and files that only store rows of such files anew.

    Raises:
        CorruptStoreError: a file has such rows and others, or the log no longer tells.
    """
    unchanged_paths = set(table.at(delta_version).files.column("path").to_pylist())
    mixed = dict[str, int]()
    for number, gone, added in _rewrites(table, delta_version, snapshot.delta_version):
        if gone and gone <= unchanged_paths:
            unchanged_paths |= added
        elif gone & unchanged_paths:
            mixed |= dict.fromkeys(added, number)
    paths = snapshot.files.column("path").to_pylist()
    if of := [mixed[path] for path in paths if path in mixed]:
        raise CorruptStoreError(
            f"someone else has rewritten files of {table.address} that were to move, in one file "
            f"with rows that were not: restore it to its delta version {min(of) - 1}",
            table=table.address,
        )
    return pa.array([path in unchanged_paths for path in paths], pa.bool_())


def _rewrites(table: DataTable, since: int, until: int) -> Iterator[tuple[int, set[str], set[str]]]:
    """Yield the commits that only store rows anew: their number, and the files gone and come."""

    def number_of(action: Action) -> int:
        return action.commit

    try:
        for number, commit in groupby(between(table.directory, since, until), number_of):
            files = list(commit)
            if not any(file.changes_rows for file in files):
                gone = {unquote(file.path) for file in files if not file.adds}
                yield number, gone, {unquote(file.path) for file in files if file.adds}
    except BrokenLogError as error:
        raise CorruptStoreError(
            f"the log of {table.address} does not tell what became of its files after delta "
            f"version {since}: {error}",
            table=table.address,
        ) from error
