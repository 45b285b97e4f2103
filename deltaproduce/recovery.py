"""Recovery: what to do with a table whose newest delta version is not the one that the head pins.

Pure: it decides, `tables` acts. A table runs ahead when an attempt committed to it and was never
published: it died, failed, or lost to another writer; or when it was compacted. The invariant: a
table is only ever written from the rows that the head pins.

It stands apart so that each case has its test without a crash. `resumption` has what becomes of the
rest of such an attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from deltaproduce.errors import ConflictError, CorruptStoreError
from deltaproduce.versions import Attempt, Commit

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


def landed(attempt: Attempt, pinned: int | None, commits: Sequence[Commit]) -> Commit | None:
    """An attempt's commit to a table; None if it made none on top of the pinned delta version.

    Args:
        pinned: None if no version has the table.
        commits: the table's last commits, newest first.
    """
    for number, commit in enumerate(commits):
        if commit.attempt == attempt:
            on_top = pinned is None or current(pinned, commits[number + 1 :]) is not None
            return commit if on_top else None
    return None


def conflict(table: str, attempt: Attempt | None, commits: Sequence[Commit]) -> ConflictError:
    """The error of an attempt that another writer overtook, with what is known of the other.

    Args:
        commits: the last commits of the table where they met, newest first.
    """
    others = (c.attempt for c in commits if c.attempt != attempt and c.attempt is not None)
    other = next(others, None)
    who = "another writer" if other is None else f"attempt {other.id} of another writer"
    since = other.started_at if other is not None else None
    return ConflictError(
        f"{who}{f', started {since.isoformat()},' if since else ''} committed to table {table!r} "
        "first: nothing of this attempt is visible; run it again, or open the store with "
        "on_conflict='retry'",
        attempt=None if other is None else other.id,
        started_at=since,
    )


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
