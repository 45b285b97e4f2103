"""Building: writes a whole index, part by part, from its table or from the index itself.

The invariant: one commit writes everything, so an index is never half written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial

import pyarrow as pa
from deltalake.transaction import AddAction

from deltaproduce.engines.delta.tables import RefusedError
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local.arrays import key_ends
from deltaproduce.errors import CorruptStoreError
from deltaproduce.record_index import runs as stored
from deltaproduce.record_index import table
from deltaproduce.record_index.decisions.buckets import sized
from deltaproduce.record_index.decisions.descriptor import IndexDescriptor
from deltaproduce.record_index.decisions.entries import NOWHERE, doubled, groups_in, together
from deltaproduce.record_index.decisions.keying import Keying
from deltaproduce.record_index.parting import Parts, of_table
from deltaproduce.record_index.view import SHOWN, IndexView, refuse_doubled


def build(
    place: Directory, snapshot: table.TableSnapshot, keying: Keying, wanted: IndexDescriptor
) -> None:
    """Build an index of all rows of a table, and replace an existing one.

    Args:
        wanted: the descriptor to build with; 0 buckets if the number of records decides.

    Raises:
        InvalidChangesError: a key occurs twice.
        ConflictError: another process built it meanwhile.
        DefinitionError: there is a damaged table, and nothing shows that it is a record index.
    """
    try:
        stored.opened(place)
    except CorruptStoreError:
        stored.check_damaged(place)
    groups, expected = dict(enumerate(sorted(snapshot.files))), snapshot.count(snapshot.files)
    buckets = wanted.buckets or sized(expected)
    parts = of_table(snapshot, groups, keying, buckets, expected)
    records, twice, rows = [0], [keying.no_keys], [0]

    def files_of_part(number: int) -> Mapping[int | None, pa.Table]:
        files = keying.files(parts.part(number))
        for part in files.values():
            records.append(len(part))
            keys = part.select(keying.names)
            if _has_a_key_twice(keys):
                places = doubled(keys)
                rows.append(len(places))
                twice.append(keys.take(pa.array(places[:SHOWN])))
        return files if not any(rows) else {}

    adds = stored.written(place, groups, _each(files_of_part, parts), 0)
    with stored.discarding(place, adds):
        if any(rows):
            refuse_doubled(together(twice), sum(rows), snapshot)
        version = snapshot.delta_version
        state = stored.State(
            descriptor=replace(wanted, buckets=buckets),
            table_id=snapshot.table_id,
            delta_version=version,
            mark=table.mark(snapshot.directory, version),
            records=sum(records),
            next_group=len(groups),
            next_run=1,
        )
        try:
            _put(place, state, keying, adds)
        except RefusedError as error:
            raise stored.overtaken(place) from error


def _put(place: Directory, state: stored.State, keying: Keying, adds: list[AddAction]) -> None:
    """Commit an index, in place of what is there."""
    try:
        runs = stored.opened(place)
    except CorruptStoreError:
        stored.replace_damaged(place, state, keying, adds)
        return
    if runs is None:
        stored.create(place, state, keying, adds)
    else:
        runs.replace(state, keying, adds)


def refold(view: IndexView, buckets: int, since: datetime | None = None) -> None:
    """Rewrite an index from its own entries, with this many buckets.

    Args:
        since: remembered deletes that were given before are forgotten; None if none is.

    Raises:
        ConflictError: another process wrote it meanwhile.
    """
    parts, records = view.every(buckets), [0]

    def files_of_part(number: int) -> Mapping[int | None, pa.Table]:
        entries = view.counting(parts.part(number), since)
        records.append(int((groups_in(entries) != NOWHERE).sum()))
        return view.keying.files(entries)

    adds = stored.written(view.runs.place, view.groups, _each(files_of_part, parts), 0)
    descriptor = replace(view.state.descriptor, buckets=buckets)
    state = replace(view.state, descriptor=descriptor, records=sum(records))
    with stored.discarding(view.runs.place, adds):
        try:
            view.runs.replace(state, view.keying, adds)
        except RefusedError as error:
            raise stored.overtaken(view.runs.place) from error
    view.runs.clean()


def _each(
    entries_of: Callable[[int], Mapping[int | None, pa.Table]], parts: Parts
) -> list[stored.Part]:
    return [partial(entries_of, number) for number in range(parts.count)]


def _has_a_key_twice(in_order: pa.Table) -> bool:
    return bool(len(in_order)) and len(key_ends(in_order)) < len(in_order)
