"""Features of Delta tables: which tables can be read file by file, and which can be changed so.

Pure. The invariant: we make no commit where a feature asks more of a writer than to add and remove
files, such as a change data feed or a constraint, nor where the feature is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from deltaproduce.engines.delta.tables import CONSTRAINT

_READ: Final = frozenset(
    {"deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "columnMapping"}
)
"""The known features of readers; mapped columns are refused, see `unreadable`."""
_WRITTEN: Final = _READ | {
    "appendOnly",
    "invariants",
    "checkConstraints",
    "changeDataFeed",
    "generatedColumns",
    "identityColumns",
}
"""Features that ask nothing of a writer unless a property or a column says so, see `obstacle`."""
_PROPERTIES: Final = ("delta.enableChangeDataFeed", "delta.appendOnly")
_LENGTH: Final = "__CHAR_VARCHAR_TYPE_STRING"
"""Spark's name of a column's type with a length, of which the table has ``string``."""
_OF_COLUMNS: Final = ("delta.generationExpression", "delta.invariants", "delta.identity.start")


@dataclass(frozen=True, slots=True)
class Protocol:
    """What a table requires of its readers and writers.

    Attributes:
        readers: features for readers.
        writers: features for writers.
        properties: the table's properties.
        columns: its columns as JSON values.
    """

    readers: Collection[str]
    writers: Collection[str]
    properties: Mapping[str, str]
    columns: Collection[Mapping[str, Any]]


def unreadable(protocol: Protocol) -> str | None:
    """Return why a table's files cannot be read by its column names; None if they can."""
    unknown = sorted(set(protocol.readers) - _READ)
    if unknown:
        return f"it has features that are not known here: {', '.join(unknown)}"
    if protocol.properties.get("delta.columnMapping.mode", "none") != "none":
        return "its files have other column names than the table (delta.columnMapping.mode)"
    return None


def obstacle(protocol: Protocol) -> str | None:
    """Return why our commit cannot replace files of a table; None if it can."""
    unknown = sorted(set(protocol.writers) - _WRITTEN)
    if unknown:
        return f"it has features that are not known here: {', '.join(unknown)}"
    for name, value in protocol.properties.items():
        is_on = name in _PROPERTIES and value.lower() == "true"
        if is_on or name.startswith(CONSTRAINT):
            return f"it has the property {name}"
    for column in protocol.columns:
        metadata = column.get("metadata", {})
        if _LENGTH in metadata:
            return f"its column {column['name']!r} is {metadata[_LENGTH]}"
        for name in _OF_COLUMNS:
            if name in metadata:
                return f"its column {column['name']!r} has {name}"
    return None
