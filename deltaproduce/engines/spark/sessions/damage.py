"""Damage: the errors of Spark and Delta when files of a table are missing or changed.

Pure, from the text of an error: whether it reports damage, and to which of a store's tables. The
invariant: an error is only taken for damage to a table if it is about that table; errors about the
user's own data, and about other tables, stay unchanged.

Files are read wherever Spark runs a job, and the error comes from there: `noticed` wraps whole
operations.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from urllib.parse import unquote

from deltaproduce.errors import CorruptStoreError, StorageError
from deltaproduce.types.excerpts import escaped

SIGNS: Final = (
    "CANNOT_READ_FILE_FOOTER",
    "ChecksumException",
    "DELTA_LOG_FILE_NOT_FOUND",
    "DELTA_NO_COMMITS_FOUND",
    "DELTA_NO_RECREATABLE_HISTORY_FOUND",
    "DELTA_PATH_DOES_NOT_EXIST",
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_TRUNCATED_TRANSACTION_LOG",
    "DELTA_VERSIONS_NOT_CONTIGUOUS",
    "DELTA_VERSION_NOT_FOUND",
    "FAILED_READ_FILE",
    "FILE_NOT_EXIST",
    "FileNotFoundException",
    "PATH_NOT_FOUND",
    "TABLE_OR_VIEW_NOT_FOUND",
    "is not a Parquet file",
)
"""The words of errors about missing or broken data files or log files."""

_SCHEME: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:/*")
_SHOWN: Final = 300


@contextmanager
def noticed(places: Callable[[], Mapping[str, str]]) -> Iterator[None]:
    """Raise errors of the block about missing or broken files of a store's table as damage.

    Args:
        places: returns the tables' names -> their directories; called only after an error.

    Raises:
        CorruptStoreError: for such an error, which is its cause.
    """
    try:
        yield
    except (CorruptStoreError, StorageError):  # Java reports both as a file not found
        raise
    except Exception as error:
        table = table_of(error, places) if tells_of_damage(error) else None
        if table is None:
            raise
        raise unreadable(table, error) from error


def tells_of_damage(error: BaseException) -> bool:
    """Return whether an error or its causes report missing or broken files of some table."""
    text = _text(error)
    return any(sign in text for sign in SIGNS)


def table_of(error: BaseException, places: Callable[[], Mapping[str, str]]) -> str | None:
    """Return the table with a file that the error or its causes name; None if there is none."""
    text = _text(error)
    for name, place in places().items():
        directory = posixpath.normpath(_SCHEME.sub("/", place)).lstrip("./")
        if f"/{directory}/" in text or f"/{directory}/" in unquote(text):
            return name
    return None


def unreadable(table: str, error: BaseException) -> CorruptStoreError:
    """Return the error for a table that has lost files, from the error of reading it."""
    return CorruptStoreError(
        f"table {table!r} cannot be read as a version has it, because files of it were removed or "
        "changed by someone else; store.verify() says what else is wrong, store.repair() mends it. "
        f"Found: {escaped(' '.join(str(error).split()), limit=_SHOWN)}",
        table=table,
    )


def _text(error: BaseException | None) -> str:
    """Return the text of an error and its causes."""
    said: list[str] = []
    while error is not None and len(said) < 10:
        said.append(str(error))
        error = error.__cause__
    return "\n".join(said)
