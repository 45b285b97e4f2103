"""Recovery: what to do with a table whose newest delta version is not the one that the head pins.

Pure: it decides, `tables` acts. A table runs ahead when an attempt committed to it and was never
published: it died, failed, or lost to another writer. The invariant: a table is only ever written
from the rows that the head pins.

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
        ``pinned``; ``write``: it is as the head says.

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
    return "write" if commits[0].delta_version == pinned else "restore"
