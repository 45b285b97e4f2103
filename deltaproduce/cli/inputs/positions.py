"""Positions: which files of changes a store has taken, by the ids of its updates.

Pure. A run that takes files names them in its update id, with a digest of what is in each. So they
are taken in the same commit that makes the version: once, whatever stops the run, and also where
two run at once, since both ask for the same id. Ids stay known when versions are vacuumed.

The invariant: a file is new if it, or what is in it, is not what was last taken by that name. Runs
are numbered, so that content that comes back is a new batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

Digests = Mapping[str, Mapping[str, str]]
"""Source -> file, by its path from the input's -> digest of what is in it."""

_RUN: Final = "run"
_FILES: Final = "files"
_SHOWN_FILES: Final = 3


@dataclass(frozen=True, slots=True)
class Position:
    """How far a store has come with files of changes.

    Attributes:
        runs: how many runs took some.
        taken: what each had when it was last taken.
    """

    runs: int = 0
    taken: Digests = field(default_factory=dict)

    @staticmethod
    def of(update_ids: Iterable[str]) -> Position:
        """The position that the ids of a store's updates, oldest first, come to."""
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
        """Those of the files that are there that were not taken, in their order."""
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
        """The id of the update that takes files; None if there are none."""
        if not files:
            return None
        told = {_RUN: self.runs + 1, _FILES: files}
        return json.dumps(told, separators=(",", ":"), ensure_ascii=False)


def told(update_id: str | None) -> str:
    """An update id in a few words: of a run, which files it took."""
    found = None if update_id is None else _read(update_id)
    if found is None:
        return update_id or ""
    names = [f"{source}/{name}" for source, files in found[1].items() for name in files]
    more = f" and {len(names) - _SHOWN_FILES} more" if len(names) > _SHOWN_FILES else ""
    return f"run {found[0]}: {', '.join(names[:_SHOWN_FILES])}{more}"


def _read(text: str) -> tuple[int, Digests] | None:
    """Number and files of a run, from its id; None if it is someone else's id."""
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
