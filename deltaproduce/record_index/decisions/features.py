"""Features of Delta tables: which tables can be read file by file, and which changed so.

Pure. The invariant: where a feature asks more of a writer than to add and remove files, such as a
change data feed or a constraint, no commit of ours is made; and where it is not known, neither.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

_READ: Final = frozenset(
    {"deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "columnMapping"}
)
"""Features of readers that are known; columns are not mapped, see `unreadable`."""
_WRITTEN: Final = _READ | {
    "appendOnly",
    "invariants",
    "checkConstraints",
    "changeDataFeed",
    "generatedColumns",
    "identityColumns",
}
"""Features of writers that ask nothing unless a property or a column says so, see `obstacle`."""
_PROPERTIES: Final = ("delta.enableChangeDataFeed", "delta.appendOnly")
_OF_COLUMNS: Final = ("delta.generationExpression", "delta.invariants", "delta.identity.start")
_UNESCAPED: Final = "/!$&'()+,-.:;=@~"
"""What delta-rs writes of a path as it is, beside letters, digits and ``_``."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """What a table asks of who reads or writes it.

    Attributes:
        readers: features for readers.
        writers: features for writers.
        properties: of the table.
        columns: its columns as JSON has them.
    """

    readers: Collection[str]
    writers: Collection[str]
    properties: Mapping[str, str]
    columns: Collection[Mapping[str, Any]]


def unreadable(protocol: Protocol) -> str | None:
    """Why the files of a table cannot be read by the names of its columns; None if they can."""
    unknown = sorted(set(protocol.readers) - _READ)
    if unknown:
        return f"it has features that are not known here: {', '.join(unknown)}"
    if protocol.properties.get("delta.columnMapping.mode", "none") != "none":
        return "its files have other column names than the table (delta.columnMapping.mode)"
    return None


def obstacle(protocol: Protocol) -> str | None:
    """Why files of a table cannot be replaced by a commit of ours; None if they can."""
    unknown = sorted(set(protocol.writers) - _WRITTEN)
    if unknown:
        return f"it has features that are not known here: {', '.join(unknown)}"
    for name, value in protocol.properties.items():
        is_on = name in _PROPERTIES and value.lower() == "true"
        if is_on or name.startswith("delta.constraints."):
            return f"it has the property {name}"
    for column in protocol.columns:
        for name in _OF_COLUMNS:
            if name in column.get("metadata", {}):
                return f"its column {column['name']!r} has {name}"
    return None


def is_written_alike(path: str) -> bool:
    """Whether delta-rs names a file as the log does, so that a removal of it counts."""
    return logged(unquote(path)) == path


def logged(path: str) -> str:
    """The path of a file as delta-rs has it in the log."""
    return quote(path, safe=_UNESCAPED)
