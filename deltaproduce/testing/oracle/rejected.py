"""Rows that a source sets aside, in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from deltaproduce.model.graph import Source, Stage
from deltaproduce.testing.oracle.models import broken_rules
from deltaproduce.testing.oracle.rows import Row, in_order, key_groups
from deltaproduce.testing.oracle.sources import Change, Delete, Upsert, stored_change
from deltaproduce.testing.oracle.values import plain, plain_rows
from deltaproduce.types.columns import VERSION_COLUMN


def sources_beside(sources: Iterable[Source]) -> Mapping[str, Source]:
    """Return each source that sets rows aside -> the stage that has them."""
    every = [*sources]
    return {one.kind.intake.rows_of: one for one in every if one.kind.intake.rows_of}


def has_version(stage: Stage) -> bool:
    """Return whether the version of a row is one of its values, and so no column beside them."""
    return VERSION_COLUMN in stage.schema.value.columns


def divided(
    source: Source, beside: Source, before: list[Row], changes: Sequence[Change], version: int
) -> tuple[list[Change], list[Row]]:
    """Return the changes that a source takes, and the rows that are set aside afterwards.

    Args:
        beside: the stage that has the rejected rows.
        before: the rows that are set aside so far.
        changes: those that are given, with no key of both deletes and upserts.
        version: the number of the version that is made.
    """
    given, taken = dict[tuple[object, ...], list[Row]](), list[Change]()
    for change in changes:
        key = stored_change(change.key, source.schema.key, source)
        of_key = given.setdefault(plain(key), [])
        if isinstance(change, Delete):
            taken.append(change)
            continue
        value = stored_change(change.value, source.schema.value, source)
        broken = broken_rules(
            beside.kind, dict(zip(source.schema.names, (*key, *value), strict=True))
        )
        of_key += [Row(key, (), 0, (*value, name, version)) for name in broken]
        if not broken:
            taken.append(change)
    fine = {_key(source, change) for change in taken}
    gone = [Delete(c.key) for c in changes if isinstance(c, Upsert) and _key(source, c) not in fine]
    content = dict(key_groups(before))
    for key, rows in given.items():
        if _without_versions(rows) != _without_versions(content.get(key, [])):
            content[key] = [Row(row.key, (), n, row.value) for n, row in enumerate(rows)]
    return [*taken, *gone], in_order((row for rows in content.values() for row in rows), beside)


def _key(source: Source, change: Change) -> tuple[object, ...]:
    key: tuple[object, ...] = plain(stored_change(change.key, source.schema.key, source))
    return key


def _without_versions(rows: Iterable[Row]) -> list[tuple[object, ...]]:
    return plain_rows(row.value[:-1] for row in rows)
