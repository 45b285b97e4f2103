"""Writing a report: checks the arguments, gathers the report, and writes it to one file."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

from deltaproduce.errors import InvalidArgumentError
from deltaproduce.model import arguments
from deltaproduce.reading.opened import Opened
from deltaproduce.report import gathering, page


def written(
    store: Opened,
    pipeline: str,
    path: str | os.PathLike[str],
    version: int | None,
    samples: int,
    now: datetime,
) -> Path:
    """See `Store.report`."""
    target = Path(arguments.place(path, "path"))
    most = arguments.integer(samples, "samples", least=0)
    number = None if version is None else arguments.integer(version, "version")
    if not target.parent.is_dir():
        raise InvalidArgumentError(
            f"path is {str(target)!r}, and there is no directory {str(target.parent)!r}: make it",
            argument="path",
        )
    content = gathering.report(store, pipeline, number, most, now)
    _put(target, page.html(content))
    return target


def _put(target: Path, text: str) -> None:
    """Replace a file atomically, so that nobody sees half of it."""
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        unfinished.write_text(text, encoding="utf-8", errors="backslashreplace")
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
