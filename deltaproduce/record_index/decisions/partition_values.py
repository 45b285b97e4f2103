"""Partition values as text in the form of Delta's log.

Pure. The invariant: the text reads back as the value
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#partition-value-serialization).
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Final
from urllib.parse import quote

_NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"


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


def folder(texts: dict[str, str | None]) -> str:
    """Return a directory for a partition's files, in Hive's style; empty if unpartitioned."""
    return "/".join(
        f"{quote(name, safe='')}={_NO_VALUE if text is None else quote(text, safe='')}"
        for name, text in texts.items()
    )
