"""Delta's log: the names of its files, and a table's newest commits, read without Spark.

Delta keeps each commit as a JSON file named by its delta version; the commit counts once the file
exists. Its action ``commitInfo`` says what the commit did, and carries the ``userMetadata`` of its
writer (https://github.com/delta-io/delta/blob/master/PROTOCOL.md). The invariant: this module reads
what Delta's own history says. Where the files do not tell all of it, it reads nothing, and the
caller asks Spark, or delta-rs if there is no Spark. Other modules read what commits did to files
(`spark.log_actions`, `local.log_actions`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from pyspark.sql.types import DataType, DecimalType

from deltaproduce.engines.delta_tables import UNTOLD, LoggedCommit
from deltaproduce.engines.file_systems.directory import Directory

LOG: Final = "_delta_log"
"""The directory of a table's log, below the table's own."""

COMMIT_NAME: Final = r"(\d{20})\.json"
"""The name of a commit's file, as a pattern: the number is the delta version."""

Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
"""The digits that the names of files with deletion vectors are written in (ZeroMQ's RFC 32)."""

_IS_COMMIT: Final = re.compile(COMMIT_NAME).fullmatch
"""Compiled once: a log is listed twice per version, and has one file per commit."""

LEAST_COMMITS: Final = 3
"""The fewest commits to ask for: ours, and any that a table service adds after it."""


_NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
_SAFE: Final = " +,@"
_LONGEST_NAME: Final = 120


def commit_file(delta_version: int) -> str:
    """Return the path of a delta version's commit, below the table's directory."""
    return f"{LOG}/{delta_version:020d}.json"


def logged(value: object, data_type: DataType) -> str | None:
    """Return a partition value as the log stores it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, str):
        return value
    return f"{value:f}" if isinstance(data_type, DecimalType) else str(value)


def folder_of(values: Iterable[tuple[str, str | None]]) -> str:
    """Return a partition's directory below the table's, as Hive names it; empty without partitions.

    Readers take the values from the log; the name is for people, and long names are cut.

    Args:
        values: the columns, and their values as the log stores them.
    """
    return "/".join(
        f"{_name(column)}={_NO_VALUE if value is None else _name(value)}"
        for column, value in values
    )


def _name(text: str) -> str:
    name = quote(text, safe=_SAFE)
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME // 2]}~{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def newest_commits(table: Directory, since: int | None = None) -> tuple[LoggedCommit, ...] | None:
    """Return a table's newest commits, newest first.

    Args:
        table: the table's directory.
        since: a delta version; it and all later ones are read.

    Returns:
        No commits if there is no table; None if the log lacks a commit, counted from the first, or
        one of them is no commit.
    """
    try:
        names = table.names(LOG)
    except FileNotFoundError:
        return ()
    except OSError:
        return None
    numbers = {int(found[1]) for found in map(_IS_COMMIT, names) if found}
    newest = len(numbers) - 1
    if not numbers or max(numbers) != newest:
        return None
    least = newest + 1 - LEAST_COMMITS
    first = max(0, least if since is None else min(since, least))
    try:
        return tuple(_commit(table, number) for number in range(newest, first - 1, -1))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _commit(table: Directory, delta_version: int) -> LoggedCommit:
    found = table.read(commit_file(delta_version))
    info = _info(found.text.split("\n"))
    millis = info.get("inCommitTimestamp") or found.modified_ns // 1_000_000
    told, operation = info.get("userMetadata"), info.get("operation")
    metadata = None if told is None else str(told)
    return LoggedCommit(delta_version, metadata, str(operation or UNTOLD), int(millis) * 1_000)


def _info(lines: Sequence[str]) -> Mapping[str, Any]:
    """Return the ``commitInfo`` of a commit; an empty one if it has none.

    Raises:
        ValueError, AttributeError: the lines are no actions.
    """
    for line in lines:
        if '"commitInfo"' in line:
            found: Mapping[str, Any] | None = json.loads(line).get("commitInfo")
            if found is not None:
                return found
    actions = [json.loads(line) for line in lines if line.strip()]
    if not actions or not all(isinstance(action, dict) for action in actions):
        raise ValueError("a commit has actions")
    return {}
