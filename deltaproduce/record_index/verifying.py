"""Verifying: an index against all of its table.

The invariant: nothing is found if and only if each key of the table has the file of its row in the
index, and no other key has any.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from deltaproduce.engines.local.arrays import distinct, isin_rows
from deltaproduce.record_index.building import entries_of_index, entries_of_table
from deltaproduce.record_index.decisions.entries import (
    GROUP,
    NOWHERE,
    groups_in,
    groups_of,
    together,
)
from deltaproduce.record_index.results import WrongEntry
from deltaproduce.record_index.view import View

_MOST: Final = 1_000


def wrong_entries(view: View) -> tuple[WrongEntry, ...]:
    """The keys of which index and table do not say the same; the first 1,000 of them."""
    snapshot, key = view.snapshot, view.keying.columns
    paths = _paths(view)
    there = {group: path for group, path in paths.items() if path in snapshot.files}
    indexed, found = entries_of_index(view), entries_of_table(snapshot, there, key)
    keys = distinct(
        together(
            [
                indexed.filter(pa.array(~isin_rows(indexed, found))),
                found.filter(pa.array(~isin_rows(found, indexed))),
            ]
        ).drop_columns([GROUP])
    ).slice(0, _MOST)
    of_index = groups_of(keys, indexed)
    wrong = found.filter(pa.array(isin_rows(found.drop_columns([GROUP]), keys)))
    files = dict[tuple[object, ...], list[str]]()
    for row, group in zip(_rows(wrong.drop_columns([GROUP])), groups_in(wrong), strict=True):
        files.setdefault(row, []).append(paths[int(group)])
    return tuple(
        WrongEntry(row, None if group == NOWHERE else paths[int(group)], tuple(files.get(row, ())))
        for row, group in zip(_rows(keys), of_index, strict=True)
    )


def _paths(view: View) -> dict[int, str]:
    """The path of each group of an index, and of more groups for files that it does not know."""
    others = sorted(view.snapshot.files.keys() - set(view.groups.values()))
    first = view.state.next_group
    return {**view.groups, **dict(enumerate(others, first))}


def _rows(keys: pa.Table) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in keys.to_pylist()]
