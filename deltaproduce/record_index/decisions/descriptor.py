"""The descriptor: the arguments that an index was built with; to open it, ask for the same.

Pure. The invariant: an index is only used with the arguments that it was built with, so each key is
looked up where it was stored.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from deltaproduce.errors import DescriptorMismatchError


@dataclass(frozen=True, slots=True)
class IndexDescriptor:
    """The arguments that an index was built with.

    Attributes:
        table: the path of the table, without symbolic links.
        key: its key columns, in order.
        types: the types of the key columns, as DDL.
        hash: the name of the hash function.
        buckets: the number of buckets that keys are hashed into.
        ordering: the column that decides which of two rows of a key is newer, if there is one.
    """

    table: str
    key: tuple[str, ...]
    types: tuple[str, ...]
    hash: str
    buckets: int
    ordering: str | None

    @property
    def json(self) -> dict[str, object]:
        """Return the descriptor as JSON values."""
        return asdict(self)

    @staticmethod
    def read(value: dict[str, object]) -> IndexDescriptor:
        """Read a descriptor that `json` returned.

        Raises:
            KeyError, TypeError: `json` did not return this.
        """
        text = json.dumps(value)
        names = json.loads(text)
        return IndexDescriptor(
            **{**names, "key": tuple(names["key"]), "types": tuple(names["types"])}
        )


def check(
    built: IndexDescriptor, wanted: IndexDescriptor, location: str, *, buckets: int | None
) -> None:
    """Refuse an index that was built with other arguments.

    Args:
        wanted: the arguments to open it with; its number of buckets is ignored.
        buckets: the number of buckets asked for; None if any will do.

    Raises:
        DescriptorMismatchError: the arguments differ; the error lists all differences.
    """
    pairs: dict[str, tuple[object, object]] = {
        name: (getattr(wanted, name), getattr(built, name))
        for name in ("table", "key", "hash", "ordering")
    }
    pairs["buckets"] = (built.buckets if buckets is None else buckets, built.buckets)
    differences = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    if differences:
        texts = "; ".join(
            f"{name} {was!r}, not {now!r}" for name, (now, was) in differences.items()
        )
        raise DescriptorMismatchError(
            f"the record index at {location!r} was built with {texts}: open it as it was built, or "
            "build another one elsewhere",
            location=location,
            differences=differences,
        )
