"""Partition values as text in the form of Delta's log.

Pure. The invariant: the text reads back as the value
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#partition-value-serialization).
"""

from __future__ import annotations

from datetime import date, datetime


def as_text(value: object) -> str | None:
    """Return a value as text; None for null and for empty text, which Delta stores as null."""
    match value:
        case None | "":
            return None
        case bool():
            return str(value).lower()
        case datetime():
            zone, plain = "Z" if value.tzinfo else "", value.replace(tzinfo=None)
            return plain.isoformat("T" if zone else " ", timespec="microseconds") + zone
        case date():
            return value.isoformat()
        case bytes():
            return value.decode("latin-1")
    return format(value, "f") if hasattr(value, "as_tuple") else str(value)
