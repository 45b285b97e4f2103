"""Positions: which change files a store has taken, by the ids of its updates.

Pure. A run that takes files names them in its update id, with a digest of each one's content. So
the commit that publishes the version also records them: once, even if the run is interrupted, or if
two run at once, since both ask for the same id. Ids stay known when versions are vacuumed.

The invariant: a file is new if its name is new, or if its content differs from what was last taken
under that name. Runs are numbered, so content that comes back is a new batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

Digests = Mapping[str, Mapping[str, str]]
"""Source -> file, by its path relative to the input -> digest of its content."""

_RUN: Final = "run"
_FILES: Final = "files"
_SHOWN_FILES: Final = 3


@dataclass(frozen=True, slots=True)
class Position:
    """The change files that a store has taken.

    Attributes:
        runs: the number of runs that took files.
        taken: the digest of each file when it was last taken.
    """

    runs: int = 0
    taken: Digests = field(default_factory=dict)

    @staticmethod
    def of(update_ids: Iterable[str]) -> Position:
        """Return the position after a store's updates, given by their ids, oldest first."""
        runs, taken = 0, dict[str, dict[str, str]]()
        for text in update_ids:
            found = _read(text)
            if found is None:
                continue
            runs = max(runs, found[0])
            for source, files in found[1].items():
                taken.setdefault(source, {}).update(files)
        return Position(runs, taken)

    def new(self, there: Digests) -> Digests:
        """Return the files that were not taken yet, in their order."""
        found = {
            source: {
                name: digest
                for name, digest in files.items()
                if self.taken.get(source, {}).get(name) != digest
            }
            for source, files in there.items()
        }
        return {source: files for source, files in found.items() if files}

    def update_id(self, files: Digests) -> str | None:
        """Return the id of the update that takes files; None if there are none."""
        if not files:
            return None
        told = {_RUN: self.runs + 1, _FILES: files}
        return json.dumps(told, separators=(",", ":"), ensure_ascii=False)


def told(update_id: str | None) -> str:
    """Describe an update id in a few words: for a run, the files that it took."""
    found = None if update_id is None else _read(update_id)
    if found is None:
        return update_id or ""
    names = [f"{source}/{name}" for source, files in found[1].items() for name in files]
    more = f" and {len(names) - _SHOWN_FILES} more" if len(names) > _SHOWN_FILES else ""
    return f"run {found[0]}: {', '.join(names[:_SHOWN_FILES])}{more}"


def _read(text: str) -> tuple[int, Digests] | None:
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
