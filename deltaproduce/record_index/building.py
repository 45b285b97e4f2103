"""Building: all of an index, from all of its table, or from the index itself.

The invariant: what is written is written in one commit, so that an index is never half of it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa

from deltaproduce.engines.delta_tables import RefusedError
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local.arrays import empty, key_ends
from deltaproduce.errors import ConflictError
from deltaproduce.record_index import runs as stored
from deltaproduce.record_index import table
from deltaproduce.record_index.decisions.buckets import sized
from deltaproduce.record_index.decisions.descriptor import Descriptor
from deltaproduce.record_index.decisions.entries import (
    GROUP,
    doubled,
    newest,
    no_entries,
    together,
    without_tombstones,
)
from deltaproduce.record_index.seeking import read
from deltaproduce.record_index.view import Keying, View, keys_of, refuse_doubled
from deltaproduce.types.columns import Column


def build(place: Directory, snapshot: table.Snapshot, keying: Keying, wanted: Descriptor) -> None:
    """Make an index of all rows of a table, whether there is one or not.

    Args:
        wanted: what it is built with; 0 buckets if that depends on how many records there are.

    Raises:
        InvalidChangesError: a key is there twice.
        ConflictError: someone else has built it meanwhile.
    """
    groups = dict(enumerate(sorted(snapshot.files)))
    every = entries_of_table(snapshot, groups, keying.columns)
    buckets = wanted.buckets or sized(len(every))
    parts = keying.parts(every, buckets)
    if any(_has_a_key_twice(part) for part in parts.values()):
        keys = every.drop_columns([GROUP])
        refuse_doubled(keys, doubled(keys), snapshot)
    version = snapshot.delta_version
    state = stored.State(
        descriptor=replace(wanted, buckets=buckets),
        table_id=snapshot.table_id,
        delta_version=version,
        mark=table.mark(snapshot.directory, version),
        records=len(every),
        next_group=len(groups),
        next_run=1,
    )
    try:
        found = stored.opened(place)
        if found is None:
            stored.create(place, state, keying.columns, groups, parts)
        else:
            found.replace(state, keying.columns, groups, parts)
    except RefusedError as error:
        raise _overtaken(place) from error


def refold(view: View, buckets: int) -> None:
    """Write an index anew from its own entries, with so many buckets.

    Raises:
        ConflictError: someone else has written it meanwhile.
    """
    state = replace(view.state, descriptor=replace(view.state.descriptor, buckets=buckets))
    parts = view.keying.parts(entries_of_index(view), buckets)
    try:
        view.runs.replace(state, view.keying.columns, view.groups, parts)
    except RefusedError as error:
        raise _overtaken(view.runs.place) from error
    view.runs.clean()


def entries_of_table(
    snapshot: table.Snapshot, groups: dict[int, str], key: Sequence[Column]
) -> pa.Table:
    """The entries of all rows of a table, in the order of its files."""

    def of_file(group: int) -> pa.Table:
        return keys_of(snapshot, {group: groups[group]}, key)

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return together([no_entries(key, empty(key)), *threads.map(of_file, groups)])


def entries_of_index(view: View) -> pa.Table:
    """The entries of all keys that an index has."""
    key = view.keying.columns

    def of_file(file: stored.RunFile) -> pa.Table:
        return read(view.runs, file, key)

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        every = [*threads.map(of_file, view.runs.files)]
    whole = len(view.runs.files) <= 1 and not len(view.newer)
    found = together([no_entries(key, empty(key)), *every, view.newer])
    return without_tombstones(found if whole else newest(found))


def _has_a_key_twice(in_order: pa.Table) -> bool:
    return bool(len(in_order)) and len(key_ends(in_order.drop_columns([GROUP]))) < len(in_order)


def _overtaken(place: Directory) -> ConflictError:
    return ConflictError(
        f"the record index at {place.path!r} was written by someone else meanwhile: try it again"
    )
