"""The descriptor: what an index was built with, which whoever opens it must ask for.

Pure. The invariant: an index is only used as it was built, so that each key is sought where it was
put.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from deltaproduce.errors import DescriptorMismatchError


@dataclass(frozen=True, slots=True)
class Descriptor:
    """What an index was built with.

    Attributes:
        table: the path of the table.
        key: its key columns, in order.
        types: their types, in DDL.
        hash: the name of the hash function.
        buckets: into how many keys are hashed.
        ordering: the column that says which of two rows of a key is newer, if there is one.
    """

    table: str
    key: tuple[str, ...]
    types: tuple[str, ...]
    hash: str
    buckets: int
    ordering: str | None

    @property
    def json(self) -> dict[str, object]:
        """The descriptor as JSON has it."""
        return asdict(self)

    @staticmethod
    def read(found: dict[str, object]) -> Descriptor:
        """The descriptor that `json` has written.

        Raises:
            KeyError, TypeError: it has not.
        """
        text = json.dumps(found)
        names = json.loads(text)
        return Descriptor(**{**names, "key": tuple(names["key"]), "types": tuple(names["types"])})


def check(built: Descriptor, asked: Descriptor, location: str, *, buckets: int | None) -> None:
    """Refuse an index that was built with something else.

    Args:
        asked: what is asked for; how many buckets does not count there.
        buckets: how many are asked for; None if any will do.

    Raises:
        DescriptorMismatchError: it tells all that differs.
    """
    pairs: dict[str, tuple[object, object]] = {
        name: (getattr(asked, name), getattr(built, name))
        for name in ("table", "key", "hash", "ordering")
    }
    pairs["buckets"] = (built.buckets if buckets is None else buckets, built.buckets)
    differences = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    if differences:
        told = "; ".join(f"{name} {was!r}, not {now!r}" for name, (now, was) in differences.items())
        raise DescriptorMismatchError(
            f"the record index at {location!r} was built with {told}: open it as it was built, or "
            "build another one elsewhere",
            location=location,
            differences=differences,
        )
