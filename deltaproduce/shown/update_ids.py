"""Update ids: what the id of a version says to people.

Pure. A run of a project names the files that it took in the id of its update, as JSON. The
invariant: any other id is shown as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

Digests = Mapping[str, Mapping[str, str]]
"""Source -> file, by its path relative to the input -> digest of its content."""

_RUN: Final = "run"
_FILES: Final = "files"
_SHOWN_FILES: Final = 3


def run_id(number: int, files: Digests) -> str:
    """Return the id of the update of a run that takes files."""
    return json.dumps({_RUN: number, _FILES: files}, separators=(",", ":"), ensure_ascii=False)


def told(update_id: str | None) -> str:
    """Describe an update id in a few words: for a run, the files that it took."""
    found = None if update_id is None else run_of(update_id)
    if found is None:
        return update_id or ""
    names = [f"{source}/{name}" for source, files in found[1].items() for name in files]
    more = f" and {len(names) - _SHOWN_FILES} more" if len(names) > _SHOWN_FILES else ""
    return f"run {found[0]}: {', '.join(names[:_SHOWN_FILES])}{more}"


def run_of(text: str) -> tuple[int, Digests] | None:
    """Read a run's number and files from its id; None if it is someone else's id."""
    if not text.startswith(f'{{"{_RUN}":'):
        return None
    try:
        match json.loads(text):
            case {"run": int(number), "files": dict(files)} if all(
                map(_are_digests, files.values())
            ):
                return number, files
    except (ValueError, RecursionError):
        pass
    return None


def _are_digests(files: object) -> bool:
    return isinstance(files, dict) and all(isinstance(digest, str) for digest in files.values())
