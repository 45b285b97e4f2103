"""Rollbacks in a project: what the next run does to what was rolled back, and how to choose.

Pure. A snapshot has all rows of its source, so the next run brings them back, unless the snapshot
is *held*: then runs leave it until its files change. Files of changes stay taken, so their rows do
not come back, unless the rollback *retakes* them: then they are new again. The choice is in the id
of the version that the rollback publishes, with the positions of files. The invariant: without a
choice a rollback changes no position.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from deltaproduce.cli.inputs.positions import TakenFiles
from deltaproduce.shown.update_ids import Digests, held_in, run_id


@dataclass(frozen=True, slots=True)
class Undone:
    """What a rollback undoes of a project's inputs.

    Attributes:
        version: the version to go back to.
        runs: the number of runs so far.
        snapshots: the sources whose files have all rows, with digests of these.
        files: the files of changes that were taken since, with the digest that each had before;
            without one if it was not taken then.
        tables: the sources that are existing tables.
        hold: whether snapshots are held.
        retake: whether files of changes are new again.
    """

    version: int
    runs: int
    snapshots: Digests
    files: Digests
    tables: tuple[str, ...]
    hold: bool = False
    retake: bool = False

    @property
    def update_id(self) -> str | None:
        """The id of the version that the rollback publishes; None without a choice."""
        held: Digests = self.snapshots if self.hold else {}
        files: Digests = self.files if self.retake else {}
        if not held and not files:
            return None
        return run_id(self.runs + 1, files, held, self.version)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the next run does, and how to choose otherwise."""
        texts = list[str]()
        names, files = ", ".join(self.snapshots), _named(self.files)
        if names and self.hold:
            texts.append(f"held until their files change: {names}")
        elif names:
            texts.append(
                f"the next run takes the snapshots again, with their rows: {names}; "
                f"deltaproduce rollback {self.version} --hold leaves them until their files change"
            )
        if files and self.retake:
            texts.append(f"new again, for the next run: {files}")
        elif files:
            texts.append(
                f"these files stay taken, and their rows are gone: {files}; "
                f"deltaproduce rollback {self.version} --retake lets the next run take them"
            )
        if self.tables:
            names = ", ".join(self.tables)
            texts.append(f"the next run takes what existing tables have since then: {names}")
        return tuple(texts)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "snapshots": list(self.snapshots),
            "files": {source: list(files) for source, files in self.files.items()},
            "tables": list(self.tables),
            "held": self.hold,
            "retaken": self.retake,
        }


def retaken(before: TakenFiles, now: TakenFiles) -> Digests:
    """Return the files that were taken since a position, with the digests that they had then."""
    repeated = {
        source: {
            name: before.taken.get(source, {}).get(name, "")
            for name, digest in files.items()
            if before.taken.get(source, {}).get(name, "") != digest
        }
        for source, files in now.taken.items()
    }
    return {source: files for source, files in repeated.items() if files}


def held(update_ids: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
    """Return the held snapshots, with the digests of the files that they are held at."""
    positions = dict[str, Mapping[str, str]]()
    for text in update_ids:
        positions |= held_in(text)
    return {source: files for source, files in positions.items() if files}


def _named(files: Digests) -> str:
    names = [f"{source}/{name}" for source, by_name in files.items() for name in by_name]
    more = f" and {len(names) - 10:,} more" if len(names) > 10 else ""
    return ", ".join(names[:10]) + more
