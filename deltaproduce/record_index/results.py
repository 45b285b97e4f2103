"""What a record index says of what it has done, and of itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from deltaproduce.shown.tabular import one_line
from deltaproduce.types.plain_json import plain

ChangeStrategy = Literal["files", "merge"]
"""How a table was changed: by a commit that puts files in the place of others, or by ``MERGE``."""


@dataclass(frozen=True, slots=True)
class Changed:
    """What an upsert or a delete has done; each key that was given counts once.

    Attributes:
        inserted: keys that the table did not have.
        updated: keys whose row was replaced by another one.
        deleted: keys whose row was deleted.
        ignored: rows that changed nothing: they lost by the ordering, equal what is stored, or
            delete what is not there.
        delta_version: the table's, afterwards.
        strategy: ``files`` if files were put in the place of those that hold the rows, ``merge`` if
            the table has a feature that only Spark's ``MERGE`` keeps.
    """

    inserted: int
    updated: int
    deleted: int
    ignored: int
    delta_version: int
    strategy: ChangeStrategy

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON has it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RecordIndexStats:
    """What a record index is made of.

    Attributes:
        buckets: into how many its keys are hashed.
        hash: by which function.
        records: how many keys it has.
        runs: how many sorted files it consists of.
        tombstones: entries which say that a key is gone; a compaction removes them.
        delta_version: the table's that it is right for.
    """

    buckets: int
    hash: str
    records: int
    runs: int
    tombstones: int
    delta_version: int

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON has it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class WrongEntry:
    """A key for which a record index does not say what the table has.

    Attributes:
        key: the key's values, in the order of its columns.
        indexed: the file that the index has for it; None if it does not have it.
        found: the files that have it, one for each row.
    """

    key: tuple[object, ...]
    indexed: str | None
    found: tuple[str, ...]

    def __repr__(self) -> str:
        return one_line(self, self.key, indexed=self.indexed, found=self.found)

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON has it: times as ISO 8601 text, decimals as text."""
        return {"key": plain(self.key), "indexed": self.indexed, "found": list(self.found)}
