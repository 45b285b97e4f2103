"""Partition values as the text that Delta's log has of them.

Pure. The invariant: the text reads back as the value
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#partition-value-serialization).
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Final
from urllib.parse import quote

_NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"


def as_text(value: object) -> str | None:
    """A value as text; of null, and of an empty text, which is the same to Delta, None."""
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
    """A directory for the files of a partition, as Hive names them; empty if there is none."""
    return "/".join(
        f"{quote(name, safe='')}={_NO_VALUE if text is None else quote(text, safe='')}"
        for name, text in texts.items()
    )
