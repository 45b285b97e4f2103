"""Results of a record index's methods."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from deltaproduce.shown.tabular import one_line
from deltaproduce.types.json.plain import plain

ChangeStrategy = Literal["files", "merge"]
"""How a table was changed: by a commit that replaces files, or by ``MERGE``."""


@dataclass(frozen=True, slots=True)
class Changed:
    """What an upsert or a delete did; each given key counts once.

    Attributes:
        inserted: the number of keys that the table did not have.
        updated: the number of keys whose row was replaced by another one.
        deleted: the number of keys whose row was deleted.
        ignored: the number of rows that changed nothing: they lost by the ordering, equal the
            stored row, or delete a key that does not exist.
        delta_version: the table's Delta version afterwards.
        strategy: ``files`` if files were replaced, ``merge`` if the table has a feature that only
            Spark's ``MERGE`` maintains.
    """

    inserted: int
    updated: int
    deleted: int
    ignored: int
    delta_version: int
    strategy: ChangeStrategy

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RecordIndexStats:
    """Figures of a record index.

    Attributes:
        buckets: the number of buckets that its keys are hashed into.
        hash: the hash function.
        records: the number of keys.
        runs: the number of sorted files.
        tombstones: the number of entries that say of a key that the index has deleted it; a
            compaction removes them, but for remembered deletes.
        delta_version: the Delta version of the table that the index matches.
        remembered: the number of entries that remember a delete that was given with its ordering.
    """

    buckets: int
    hash: str
    records: int
    runs: int
    tombstones: int
    delta_version: int
    remembered: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class WrongEntry:
    """A key whose entry in a record index does not match the table.

    Attributes:
        key: the key's values, in the order of its columns.
        indexed: the key's file according to the index; None if the index does not have the key.
        found: the files that have the key, one for each row.
    """

    key: tuple[object, ...]
    indexed: str | None
    found: tuple[str, ...]

    def __repr__(self) -> str:
        return one_line(self, self.key, indexed=self.indexed, found=self.found)

    def as_dict(self) -> dict[str, Any]:
        """The entry as JSON values: times as ISO 8601 text, decimals as text."""
        return {"key": plain(self.key), "indexed": self.indexed, "found": list(self.found)}
