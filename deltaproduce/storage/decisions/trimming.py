"""Trimming: decides which files a table's log can do without.

Pure, from the names and times of the files. The invariant: each delta version that is needed, and
each later one, can be read from what stays, as Delta's protocol says of the clean-up of metadata
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#metadata-cleanup): a checkpoint that is
not later, its commit, and all commits after it. A log with files that this module does not know
stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from deltaproduce.engines.delta.log import LogFiles, beginning, checkpoint_of, is_known, number_of
from deltaproduce.engines.file_systems.directory import Entry


@dataclass(frozen=True, slots=True)
class Trim:
    """The files that a log can do without.

    Attributes:
        checkpoint: the delta version of the checkpoint that the log then begins with.
        files: the files before it, in the order of removal: a removal that stops halfway leaves
            the same delta versions readable.
    """

    checkpoint: int
    files: tuple[Entry, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the files."""
        return tuple(entry.name for entry in self.files)

    @property
    def bytes(self) -> int:
        """Their size in bytes."""
        return sum(entry.size for entry in self.files)


def trim(log: LogFiles, needed: int, since: datetime) -> Trim | None:
    """Return the files that a log can do without; None if it needs all.

    Args:
        needed: the oldest delta version that is needed.
        since: files that are not older than this stay, and what they follow.
    """
    numbered = [(number_of(e.name), e) for e in log.entries if not e.name.startswith(".")]
    if any(_is_strange(entry, number) for number, entry in numbered):
        return None
    first = beginning(entry.name for _, entry in numbered)
    young = (n for n, e in numbered if n is not None and e.modified_ns >= since.timestamp() * 1e9)
    oldest = needed if log.last_checkpoint is None else log.last_checkpoint
    most = min([needed, oldest, *young])
    checkpoints = (checkpoint_of(entry.name) for _, entry in numbered)
    last = max((c for c in checkpoints if c is not None and c <= most), default=None)
    if first is None or last is None:
        return None
    gone = sorted((n, e.name, e) for n, e in numbered if n is not None and n < last)
    return Trim(last, tuple(entry for _, _, entry in gone)) if gone else None


def _is_strange(entry: Entry, number: int | None) -> bool:
    """Return whether a file of a log may have a meaning that is not known here.

    Such as the parts of a checkpoint that are in a directory of their own, commits that a catalog
    has not published yet, and links.
    """
    unknown = number is not None and not is_known(entry.name)
    return unknown or entry.is_directory or entry.is_link
