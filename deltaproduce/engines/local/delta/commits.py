"""Commits by delta-rs: their properties, and what is raised if another writer was faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError

from deltaproduce.engines.delta.tables import RefusedError
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.types.excerpts import one_line

_Outcome = TypeVar("_Outcome")

CHECKPOINTS: Final = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
"""Checkpoints are made as the table's properties say; expired log entries are not removed.

No entry expires: a vacuum removes them by need. And a search takes as long as the commit.
"""


def properties_of(
    metadata: str,
    transactions: list[Transaction] | None = None,
    *,
    next_one: bool = False,
    is_blind: bool | None = None,
) -> CommitProperties:
    """Return the properties of a commit.

    Delta-rs retries a commit that lost to another one, on top of it, if that can make sense: a
    first commit becomes one that adds rows, an overwrite keeps the rows added meanwhile.

    Args:
        next_one: the commit has to directly follow the state that was read, and is not retried; nor
            is one with a token.
        is_blind: whether it depends on no state; as delta-rs thinks if None.
    """
    retries = 0 if next_one or transactions is not None else None
    options: dict[str, Any] = {"userMetadata": metadata}
    if is_blind is not None:
        options["isBlindAppend"] = is_blind
    return CommitProperties(options, retries, transactions)


def committed(commit: Callable[[], _Outcome], *, made_in: Directory | None = None) -> _Outcome:
    """Return the result of a commit.

    Args:
        made_in: the directory of a new table; None if the table exists.

    Raises:
        RefusedError: another writer was faster.
    """
    try:
        return commit()
    except DeltaError as error:
        is_refused = isinstance(error, CommitFailedError) or (
            made_in is not None and DeltaTable.is_deltatable(made_in.uri, made_in.storage_options)
        )
        if not is_refused:
            raise
        raise RefusedError(one_line(error)) from error
