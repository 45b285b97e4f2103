"""Verifying: compares an index with all rows of its table.

The invariant: no finding is returned if and only if the index has, for each key of the table, the
file of its row, and no other key.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, islice
from typing import Final

import pyarrow as pa

from deltaproduce.engines.local.arrays import distinct, isin_rows
from deltaproduce.engines.local.large.threads import side_by_side
from deltaproduce.record_index.decisions.entries import (
    GROUP,
    NOWHERE,
    groups_in,
    known,
    together,
)
from deltaproduce.record_index.parting import of_table
from deltaproduce.record_index.results import WrongEntry
from deltaproduce.record_index.view import IndexView
from deltaproduce.types.python_values import python_tuples

_MOST: Final = 1_000


def wrong_entries(view: IndexView) -> tuple[WrongEntry, ...]:
    """Return the keys for which index and table differ; at most the first 1,000."""
    snapshot, keying, paths = view.snapshot, view.keying, _paths(view)
    buckets = view.state.descriptor.buckets
    there = {group: path for group, path in paths.items() if path in snapshot.files}
    indexed = view.every(buckets)
    wrong_keys = of_table(snapshot, there, keying, buckets, indexed.expected)

    def compare(number: int) -> list[WrongEntry]:
        of_index, of_files = (part.part(number) for part in (indexed, wrong_keys))
        columns = [*keying.names, GROUP]
        return _wrong(view.located(of_index).select(columns), of_files.select(columns), paths)

    wrong = chain.from_iterable(side_by_side(compare, range(indexed.count)))
    return tuple(islice(wrong, _MOST))


def _wrong(indexed: pa.Table, stored: pa.Table, paths: Mapping[int, str]) -> list[WrongEntry]:
    """Return the first keys whose entries in the index differ from the files."""
    keys = distinct(
        together(
            [
                indexed.filter(pa.array(~isin_rows(indexed, stored))),
                stored.filter(pa.array(~isin_rows(stored, indexed))),
            ]
        ).drop_columns([GROUP])
    ).slice(0, _MOST)
    of_index = known(keys, indexed).groups
    wrong = stored.filter(pa.array(isin_rows(stored.drop_columns([GROUP]), keys)))
    files = dict[tuple[object, ...], list[str]]()
    for row, group in zip(
        python_tuples(wrong.drop_columns([GROUP])), groups_in(wrong), strict=True
    ):
        files.setdefault(row, []).append(paths[int(group)])
    return [
        WrongEntry(row, None if group == NOWHERE else paths[int(group)], tuple(files.get(row, ())))
        for row, group in zip(python_tuples(keys), of_index, strict=True)
    ]


def _paths(view: IndexView) -> dict[int, str]:
    """Return the path of each group, with extra groups for files that the index does not know."""
    others = sorted(view.snapshot.files.keys() - set(view.groups.values()))
    first = view.state.next_group
    return {**view.groups, **dict(enumerate(others, first))}
