"""Rows of stages at one version, and the differences between two versions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

from deltaproduce.model.graph import Producer, Source, Stage
from deltaproduce.testing.oracle.values import Value, plain, plain_rows, sort_key


@dataclass(frozen=True, slots=True)
class Row:
    """One row of content; a source's rows have the empty source key."""

    key: tuple[Any, ...]
    source_key: tuple[Any, ...]
    ordinal: int
    value: tuple[Any, ...]


Rows: TypeAlias = dict[str, list[Row]]
"""The rows of stages at one version, sorted."""


KeyValues: TypeAlias = dict[tuple[Any, ...], list[tuple[Any, ...]]]  # by key, in order


def key_groups(rows: list[Row]) -> Iterator[tuple[tuple[Any, ...], list[Row]]]:
    """Yield the rows of each key, from rows sorted by key."""
    for key, group in groupby(rows, key=lambda row: plain(row.key)):
        yield key, list(group)


def values_of(rows: Iterable[Row]) -> list[tuple[Any, ...]]:
    """Return the values of rows, in normal form and in their order."""
    return plain_rows(row.value for row in rows)


def values_by_key(rows: list[Row]) -> KeyValues:
    """Return each key's ordered values: what S8 compares, and what the next stage reads."""
    return {key: values_of(group) for key, group in key_groups(rows)}


def named_rows(stages: Iterable[Source | Producer], state: Rows) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of some stages, by column name."""
    return {
        stage.name: [
            dict(zip(stage.schema.names, (*row.key, *row.value), strict=True))
            for row in state[stage.name]
        ]
        for stage in stages
    }


def in_order(rows: Iterable[Row], source: Stage) -> list[Row]:
    """Return a source's rows in order: by key, and within a key as they were given (S13)."""
    return sorted(rows, key=lambda row: (sort_key(row.key, source.schema.key), row.ordinal))


def differences(before: list[Value], after: list[Value]) -> Iterator[tuple[Value, str]]:
    """Yield differing rows: equal rows cancel, first ones first; the others pair in order."""
    gone, new = list(before), list(after)
    for value in before:
        if value in new:
            gone.remove(value)
            new.remove(value)
    pairs = min(len(gone), len(new))
    yield from zip(gone, ["update_preimage"] * pairs + ["delete"] * len(gone), strict=False)
    yield from zip(new, ["update_postimage"] * pairs + ["insert"] * len(new), strict=False)
