"""Recovery: what to do with a table whose newest delta version is not the one that the head pins.

Pure: it decides, `tables` acts. A table runs ahead when an attempt committed to it and was never
published: it died, failed, or lost to another writer; or when it was compacted. The invariant: a
table is only ever written from the rows that the head pins.

It stands apart so that each case has its test without a crash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from deltaproduce.errors import CorruptStoreError
from deltaproduce.versions import Commit

Action = Literal["build", "restore", "write"]


def action(table: str, pinned: int | None, commits: Sequence[Commit]) -> Action:
    """What a table needs before it can be written.

    Args:
        pinned: the delta version in the head; None if the table is in no version.
        commits: the table's last commits, newest first; none if there is no table.

    Returns:
        ``build``: it is to be overwritten whole; ``restore``: it ran ahead and goes back to
        ``pinned``; ``write``: it is as the head says, or compacted since.

    Raises:
        CorruptStoreError: the table is gone, or older than what the head pins.
    """
    if pinned is None:
        return "build"
    if not commits or commits[0].delta_version < pinned:
        found = f"delta version {commits[0].delta_version}" if commits else "no table"
        raise CorruptStoreError(
            f"table {table!r} should be at delta version {pinned} and has {found}: it was removed "
            "or made anew by someone else; restore it from a backup, or load a new location",
            table=table,
        )
    return "restore" if current(pinned, commits) is None else "write"


def current(pinned: int, commits: Sequence[Commit]) -> int | None:
    """A table's newest delta version; None if it may have other rows than the pinned one.

    Args:
        commits: the table's last commits, newest first.
    """
    if not commits or (commits[0].delta_version != pinned and not compacted(pinned, commits)):
        return None
    return commits[0].delta_version


def compacted(pinned: int, commits: Sequence[Commit]) -> tuple[Commit, ...]:
    """The compactions that a table had since the pinned delta version, oldest first.

    Empty if there was anything else. A fold must go on from the commit before it, because one that
    another writer overtook has old rows.
    """
    later = sorted((c for c in commits if c.delta_version > pinned), key=lambda c: c.delta_version)
    for number, commit in enumerate(later, pinned + 1):
        folds = commit.attempt is not None and commit.attempt.folds == number - 1
        if commit.delta_version != number or not (commit.arranges or folds):
            return ()
    return tuple(later)
