"""Positions: the store and version that a copy has, as a value stored with the copy.

Pure. The invariant: a position refers to a version only if the store has that very version, by the
attempt that published it. The number alone may refer to another version, in a store that was
restored from a backup or created again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from deltaproduce.errors import InvalidArgumentError
from deltaproduce.model.fingerprints import Fingerprint
from deltaproduce.storage.versions import Version, unbroken
from deltaproduce.types.json.fields import fields, is_integer, is_text, objects_of, parsed


@dataclass(frozen=True, slots=True)
class Position:
    """What a copy has: some stages at one version of a store.

    Attributes:
        store_id: the store's id; empty for one without versions.
        version: the number of the version; 0 for none, that is, tables without rows.
        attempt: the id of the attempt that published it, which no other version has.
        definitions: stage -> fingerprint of the definition that its rows were made with.
    """

    store_id: str
    version: int
    attempt: str
    definitions: Mapping[str, Fingerprint] = field(default_factory=dict)

    @staticmethod
    def of(store_id: str | None, version: Version, stages: Sequence[str]) -> Position:
        """The position of a copy that has these stages at a version."""
        known_definitions = version.definitions
        attempt = "" if version.attempt is None else version.attempt.id
        unknown = Fingerprint("", "")
        definitions = {stage: known_definitions.get(stage, unknown) for stage in stages}
        return Position(store_id or "", version.number, attempt, definitions)

    def to_json(self) -> str:
        """The position as JSON text."""
        definitions = {
            stage: {"layout": one.layout, "function": one.function}
            for stage, one in self.definitions.items()
        }
        values = {"store_id": self.store_id, "version": self.version, "attempt": self.attempt}
        return json.dumps({**values, "definitions": definitions})

    @staticmethod
    def from_json(text: str) -> Position:
        """The inverse of `to_json`.

        Raises:
            InvalidArgumentError: the text is not a position.
        """
        values = fields(parsed(text), _POSITION, required=_POSITION)
        if values is None:
            raise InvalidArgumentError(f"{text[:100]!r} is not a position", argument="text")
        definitions = {
            stage: Fingerprint(one.get("layout", ""), one.get("function", ""))
            for stage, one in values["definitions"].items()
        }
        return Position(values["store_id"], values["version"], values["attempt"], definitions)


_POSITION = {
    "store_id": is_text,
    "version": is_integer,
    "attempt": is_text,
    "definitions": objects_of(objects_of(is_text)),
}


def fault(
    position: Position, store_id: str | None, versions: Sequence[Version], stage: str
) -> str | None:
    """Return why it is unknown what a copy of a stage lacks; None if it is known.

    Args:
        versions: all versions of the store, oldest first.
    """
    if position.store_id != (store_id or ""):
        return f"it is of another store, {position.store_id!r}; this one is {store_id!r}"
    head, number = versions[-1].number if versions else 0, position.version
    if number > head:
        return f"it has version {number}, and the store's newest is {head}: the store was set back"
    known = {version.number: version for version in versions}.get(number)
    if known is None:
        return f"version {number}, which it has, was dropped by a vacuum"
    if known.attempt is None or known.attempt.id != position.attempt:
        return f"version {number}, which it has, was replaced by another: the store was set back"
    if not unbroken([v for v in versions if v.number >= number], stage):
        return (
            f"stage {stage!r} has had other columns since version {number}, or no updates that go "
            "on from there"
        )
    return None
