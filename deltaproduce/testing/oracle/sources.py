"""Changes, and how they apply to a source's rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from deltaproduce.errors import InvalidChangesError
from deltaproduce.model.graph import Source
from deltaproduce.testing.oracle.rows import Row, in_order, key_groups, values_of
from deltaproduce.testing.oracle.values import as_argument, as_stored, plain
from deltaproduce.types.columns import Columns


@dataclass(frozen=True, slots=True)
class Upsert:
    """One row of a key in a batch of changes.

    Attributes:
        key: the key, one item per key column.
        value: the value, one item per value column.
    """

    key: tuple[Any, ...]
    value: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """The removal of a key in a batch of changes.

    Attributes:
        key: the key, one item per key column.
    """

    key: tuple[Any, ...]


Change: TypeAlias = Upsert | Delete


def keys_given(
    sources: Iterable[Source], changes: Mapping[str, Sequence[Change]]
) -> dict[str, list[dict[str, Any]]]:
    """Return the keys that have given rows, by column name."""
    return {
        source.name: [
            dict(zip(source.schema.key.names, change.key, strict=True))
            for change in changes.get(source.name, ())
            if isinstance(change, Upsert)
        ]
        for source in sources
    }


def check_keys(source: Source, changes: Sequence[Change]) -> None:
    """Refuse a batch with deletes and upserts of the same keys (S2).

    Raises:
        InvalidChangesError: with the keys.
    """
    columns = source.schema.key
    deleted, upserted = (
        {
            plain(key): key
            for change in changes
            if isinstance(change, kind)
            for key in [stored_change(change.key, columns, source)]
        }
        for kind in (Delete, Upsert)
    )
    if both := [key for key in deleted if key in upserted]:
        keys = tuple(as_argument(deleted[key], columns) for key in both)
        raise InvalidChangesError(
            f"source {source.name!r} has deletes and upserts of the same keys: {keys!r}",
            source=source.name,
            keys=keys,
        )


def source_rows(source: Source, before: list[Row], changes: Sequence[Change]) -> list[Row]:
    """Return the rows of a source after a batch of changes, of which no key has both sorts."""
    schema = source.schema
    deleted: set[tuple[Any, ...]] = set()
    upserted: dict[tuple[Any, ...], list[Row]] = {}
    for change in changes:
        key = stored_change(change.key, schema.key, source)
        if isinstance(change, Delete):
            deleted.add(plain(key))
        else:
            rows = upserted.setdefault(plain(key), [])
            value = stored_change(change.value, schema.value, source)
            rows.append(Row(key, (), len(rows), value))
    content = {key: list(rows) for key, rows in key_groups(before)}
    for key in deleted:  # S3: of an unknown key too
        content.pop(key, None)
    for key, rows in upserted.items():  # S1; S9: the stored rows stay if the new ones are equal
        if values_of(rows) != values_of(content.get(key, [])):
            content[key] = rows
    all_rows = [row for rows in content.values() for row in rows]
    return in_order(all_rows, source)


def stored_change(values: Sequence[Any], columns: Columns, source: Source) -> tuple[Any, ...]:
    """Return a given key or value as the source's columns hold it.

    Raises:
        InvalidChangesError: it does not fit the columns.
    """
    try:
        return as_stored(values, columns)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise InvalidChangesError(
            f"{values!r} is not {columns.ddl!r}", source=source.name
        ) from error
