"""Log records: one line for each stage that a version touches, each broken check, and the version.

They go to the logger ``deltaproduce`` at level INFO, and broken checks at level WARNING, as
``key=value`` in the text and as fields of the record. No handler is installed: the application
decides where they go.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from deltaproduce.storage.versions import Version

_LOGGER: Final = logging.getLogger("deltaproduce")


def record(version: Version, operation: str, seconds: float, *, published: bool) -> None:
    """Log the outcome of an operation.

    Args:
        version: the version that it has published, or the head if nothing differed.
        seconds: the duration of the operation.
    """
    for check in version.checks if published else ():
        if check.broken:
            said = {"version": version.number, "check": check.name, "rows": check.rows}
            _LOGGER.warning("version %d breaks %s", version.number, check.sentence, extra=said)
    if not _LOGGER.isEnabledFor(logging.INFO):
        return
    values: dict[str, Any] = {"operation": operation, "version": version.number}
    if published:
        for name, figures in version.stages.items():
            if figures.mode != "skipped" and not figures.role:
                _info({**values, "stage": name, **figures.in_short()})
    _info({**values, "update_id": version.update_id, "published": published, "seconds": seconds})


def _info(fields: dict[str, Any]) -> None:
    text = " ".join(f"{key}={_value(value)}" for key, value in fields.items() if value is not None)
    _LOGGER.info("%s", text, extra=fields)


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    text = str(value)
    return text if text.isprintable() and " " not in text and text else repr(text)
