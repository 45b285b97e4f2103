"""Recovery: decides what to do with a table whose newest delta version is not the head's.

Pure: it decides, `tables` acts. A table runs ahead if an attempt committed to it and was never
published, because it died, failed, or lost to another writer; if the table was compacted; or if
someone else has written to it, which is damage and never undone in passing. The invariant: a table
is only ever written from the rows that the head pins.

`resumption` decides about the rest of an attempt that stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from deltaproduce.errors import ConflictError, CorruptStoreError
from deltaproduce.storage.attempts import Attempt, Commit

Action = Literal["build", "restore", "write"]

_MAINTENANCE: Final = frozenset(
    {
        "ADD CONSTRAINT",
        "CLUSTER BY",
        "COMPUTE STATS",
        "DOMAIN METADATA CLEANUP",
        "DROP CONSTRAINT",
        "DROP FEATURE",
        "OPTIMIZE",
        "OPTIMIZE CHECKPOINT",
        "REORG",
        "REORG TABLE UPGRADE UNIFORM",
        "ROW TRACKING BACKFILL",
        "ROW TRACKING UNBACKFILL",
        "SET TBLPROPERTIES",
        "UNSET TBLPROPERTIES",
        "UPGRADE PROTOCOL",
        "VACUUM END",
        "VACUUM START",
    }
)
"""Delta's operations that change no row and no column, whoever runs them."""


def action(table: str, pinned: int | None, commits: Sequence[Commit]) -> Action:
    """Return what a table needs before it can be written.

    Args:
        pinned: the delta version in the head; None if the table is in no version.
        commits: the table's last commits, newest first; none if there is no table.

    Returns:
        ``build``: it is to be overwritten whole; ``restore``: it ran ahead and goes back to
        ``pinned``; ``write``: it matches the head, or was compacted since.

    Raises:
        CorruptStoreError: see `foreign_change`.
    """
    if pinned is None:
        return "build"
    damage = foreign_change(table, pinned, commits)
    if damage is not None:
        raise damage
    return "restore" if current(pinned, commits) is None else "write"


def is_maintenance(commit: Commit) -> bool:
    """Return whether a commit changed no row, and is not one of ours that moved a table."""
    is_ours = commit.attempt is not None and commit.operation != "OPTIMIZE"
    return commit.operation in _MAINTENANCE and not is_ours


def foreign_commits(commits: Sequence[Commit], since: int) -> tuple[Commit, ...]:
    """Return the commits after a delta version that no attempt made, and that may change rows.

    Args:
        commits: in any order, which is kept.
    """
    return tuple(
        c
        for c in commits
        if c.delta_version > since and c.attempt is None and not is_maintenance(c)
    )


def foreign_change(table: str, pinned: int, commits: Sequence[Commit]) -> CorruptStoreError | None:
    """Return what someone else has done to a table that a version pins; None if nothing.

    Args:
        commits: the table's last commits, newest first; none if there is no table.

    Returns:
        The error: the table is gone, or was recreated, or has rows that no attempt of ours has
        written.
    """
    if gone(pinned, commits):
        fault = "no table"
        if commits:
            newest = commits[0]
            fault = f"delta version {newest.delta_version}, a {newest.operation}"
        return CorruptStoreError(
            f"table {table!r} should be at delta version {pinned} and has {fault}: it was removed "
            "or made anew by someone else; store.repair() makes it again",
            table=table,
        )
    foreign = foreign_commits(commits, pinned)
    if not foreign:
        return None
    first = foreign[-1]
    return CorruptStoreError(
        f"table {table!r} should be at delta version {pinned}, and someone else has committed to "
        f"it: delta version {first.delta_version} is a {first.operation} by no store; "
        "store.repair() sets it back",
        table=table,
    )


def gone(pinned: int, commits: Sequence[Commit]) -> bool:
    """Return whether the table that a version pins no longer exists, or is another one.

    Args:
        commits: as in `foreign_change`.
    """
    if not commits or commits[0].delta_version < pinned:
        return True
    return any(c.delta_version == pinned for c in foreign_commits(commits, pinned - 1))


def is_ahead(version: int, commits: Iterable[Commit]) -> bool:
    """Return whether a table was written for a later version than the one to write now.

    Then the version in between was published: either by another writer just now, or the version log
    has lost its row.
    """
    attempts = (c.attempt for c in commits if c.attempt is not None)
    return any(attempt.version > version for attempt in attempts if attempt.folds is None)


def overtaken(
    table: str, attempt: Attempt | None, base: int | None, commits: Sequence[Commit]
) -> ConflictError | CorruptStoreError:
    """Return the error of an attempt whose commit is not on top of ``base``: who came between.

    Args:
        base: the delta version that it builds on; None if no version has the table.
        commits: the table's last commits, newest first.
    """
    # Skip its own commits, except those that restored the table before: if the table had been
    # removed, this commit is all that there is.
    others = [c for c in commits if c.attempt != attempt or c.operation == "RESTORE"]
    damage = None if base is None else foreign_change(table, base, others)
    return conflict(table, attempt, commits) if damage is None else damage


def current(pinned: int, commits: Sequence[Commit]) -> int | None:
    """Return a table's newest delta version; None if its rows may differ from the pinned one's.

    Args:
        commits: the table's last commits, newest first.
    """
    if not commits or (commits[0].delta_version != pinned and not compacted(pinned, commits)):
        return None
    return commits[0].delta_version


def landed(attempt: Attempt, pinned: int | None, commits: Sequence[Commit]) -> Commit | None:
    """Return an attempt's commit to a table; None if none is on top of the pinned delta version.

    Only the commits show that: each carries its attempt. A session's last commit may be anybody's,
    to any table.

    Args:
        pinned: None if no version has the table.
        commits: the table's last commits, newest first.
    """
    later = [c for c in commits if pinned is None or c.delta_version > pinned]
    # Delta may repeat the metadata in a compaction right after it.
    mine = (n for n, c in enumerate(later) if c.attempt == attempt and not is_maintenance(c))
    place = next(mine, None)
    if place is None:
        return None
    commit, between = later[place], later[place + 1 :]
    if pinned is not None and commit.delta_version - 1 - len(compacted(pinned, between)) != pinned:
        return None
    return commit


def conflict(table: str, attempt: Attempt | None, commits: Sequence[Commit]) -> ConflictError:
    """Return the error of an attempt that another writer overtook, with what is known of it.

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
    """Return the commits since the pinned delta version, if none of them changed a row.

    Oldest first: compactions, and other maintenance; empty if there was anything else. A fold must
    build on the newest commit of rows before it: one that another writer overtook has old rows.
    """
    later = sorted((c for c in commits if c.delta_version > pinned), key=lambda c: c.delta_version)
    base = pinned
    for number, commit in enumerate(later, pinned + 1):
        built_on = None if commit.attempt is None else commit.attempt.folds
        folds = built_on is not None and base <= built_on < number
        if commit.delta_version != number or not (is_maintenance(commit) or folds):
            return ()
        base = number if folds else base
    return tuple(later)
