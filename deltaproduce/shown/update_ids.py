"""Update ids: what the id of a version says to people.

Pure. A run of a project names the files that it took in the id of its update, as JSON. The
invariant: any other id is shown as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

Digests = Mapping[str, Mapping[str, str]]
"""Source -> file, by its path relative to the input -> digest of its content."""

_RUN: Final = "run"
_FILES: Final = "files"
_HELD: Final = "held"
_ROLLBACK: Final = "rollback"
_SHOWN_FILES: Final = 3
_NONE: Final[Digests] = MappingProxyType({})


def run_id(number: int, files: Digests, held: Digests = _NONE, rollback: int | None = None) -> str:
    """Return the id of the update of a run that takes files, or of a rollback.

    Args:
        files: the files with their digests; a file without a digest is new again.
        held: snapshots that runs leave while their files are these; those without files no more.
        rollback: the version that a rollback goes back to.
    """
    said: dict[str, object] = {_RUN: number, _FILES: files}
    if held:
        said[_HELD] = held
    if rollback is not None:
        said[_ROLLBACK] = rollback
    return json.dumps(said, separators=(",", ":"), ensure_ascii=False)


def description(update_id: str | None) -> str:
    """Describe an update id in a few words: for a run, the files that it took."""
    run = None if update_id is None else run_of(update_id)
    if run is None:
        return update_id or ""
    names = [f"{source}/{name}" for source, files in run[1].items() for name in files]
    more = f" and {len(names) - _SHOWN_FILES} more" if len(names) > _SHOWN_FILES else ""
    files = f"{', '.join(names[:_SHOWN_FILES])}{more}"
    said = json.loads(update_id or "")
    if isinstance(said.get(_ROLLBACK), int):
        held = ", ".join(held_in(update_id or ""))
        parts = (f"holds {held}" if held else "", f"retakes {files}" if files else "")
        return f"rollback to {said[_ROLLBACK]}: {'; '.join(filter(None, parts))}"
    return f"run {run[0]}: {files}"


def held_in(text: str) -> Digests:
    """Read from an id which snapshots are held, and which no more; none if it is no run's."""
    if run_of(text) is None:
        return {}
    held = json.loads(text).get(_HELD, {})
    is_held = isinstance(held, dict) and all(map(_are_digests, held.values()))
    return held if is_held else {}


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
