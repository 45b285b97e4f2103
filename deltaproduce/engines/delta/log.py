"""Delta's log: the names of its files, and a table's newest commits, read without Spark.

Delta keeps each commit as a JSON file named by its delta version; the commit counts once the file
exists. Its action ``commitInfo`` says what the commit did, and carries the ``userMetadata`` of its
writer (https://github.com/delta-io/delta/blob/master/PROTOCOL.md). A log begins with the first
commit, or, if a vacuum has removed the oldest files, with a checkpoint, which contains what the
commits up to it have left. The invariant: this module reads what Delta's own history says. Where
the files do not tell all of it, it reads nothing, and the caller asks Spark, or delta-rs if there
is no Spark. Other modules read what commits did to files (`spark.log_actions`,
`local.marked.log_actions`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

from deltaproduce.engines.delta.tables import UNTOLD, LoggedCommit
from deltaproduce.engines.file_systems.directory import Directory, Entry
from deltaproduce.errors import CommitUnknownError
from deltaproduce.types.data_types import DataType, DecimalType
from deltaproduce.types.excerpts import one_line

LOG: Final = "_delta_log"
"""The directory of a table's log, below the table's own."""

COMMIT_NAME: Final = r"(\d{20})\.json"
"""The name of a commit's file, as a pattern: the number is the delta version."""

Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
"""The digits that the names of files with deletion vectors are written in (ZeroMQ's RFC 32)."""

LAST_CHECKPOINT: Final = "_last_checkpoint"
"""The name of the file that says which checkpoint readers may begin with."""

_IS_COMMIT: Final = re.compile(COMMIT_NAME).fullmatch
"""Compiled once: a log is listed twice per version, and has one file per commit."""

_IS_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\.parquet").fullmatch
_IS_KNOWN: Final = re.compile(
    rf"{COMMIT_NAME}|\d{{20}}\.(?:crc|checkpoint(?:\.\d{{10}}\.\d{{10}})?\.parquet"
    r"|\d{20}\.compacted\.json)"
).fullmatch
_NUMBER: Final = re.compile(r"\.?(\d{20})\.").match

LEAST_COMMITS: Final = 3
"""The fewest commits to ask for: ours, and any that a table service adds after it."""


_NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
_SAFE: Final = " +,@"
_UNESCAPED: Final = "/!$&'()+,-.:;=@~"
"""The characters that delta-rs leaves unescaped in a path, besides letters, digits and ``_``."""
_LONGEST_NAME: Final = 120


@dataclass(frozen=True, slots=True)
class LogFiles:
    """The files of a table's log.

    Attributes:
        entries: what is in its directory.
        last_checkpoint: the delta version of the checkpoint that it tells readers to begin with;
            None if it names none.
    """

    entries: tuple[Entry, ...]
    last_checkpoint: int | None


def commit_file(delta_version: int) -> str:
    """Return the path of a delta version's commit, below the table's directory."""
    return f"{LOG}/{delta_version:020d}.json"


def checkpoint_file(delta_version: int) -> str:
    """Return the path of a delta version's checkpoint in one file, below the table's directory."""
    return f"{LOG}/{delta_version:020d}.checkpoint.parquet"


def checkpoint_of(name: str) -> int | None:
    """Return the delta version of a checkpoint in one file, by its name; None for other files."""
    match = _IS_CHECKPOINT(name)
    return None if match is None else int(match[1])


def number_of(name: str) -> int | None:
    """Return the delta version that a file's name begins with; None if it begins with none."""
    match = _NUMBER(name)
    return None if match is None else int(match[1])


def is_known(name: str) -> bool:
    """Return whether a file is a commit, or is derived from commits and needs no other file."""
    return _IS_KNOWN(name) is not None


def is_begun(names: Iterable[str]) -> bool:
    """Return whether a log has a commit."""
    return any(map(_IS_COMMIT, names))


def beginning(names: Iterable[str]) -> int | None:
    """Return the delta version that a log begins with: every later one can be read from there.

    That is 0 if the log has all commits, otherwise that of its oldest checkpoint.

    Args:
        names: the names of the log's files.

    Returns:
        None if a commit is missing, or if there is no such checkpoint.
    """
    listed = tuple(names)
    return _beginning(commits_in(listed), listed)


def removed_in_turn(names: Iterable[str]) -> list[str]:
    """Return a log's files in an order of removal that leaves a readable log at any time.

    What the log does not begin with goes first, then the newest delta versions. The files of the
    delta version that it begins with are left out: they go last, with the directory.
    """
    listed = tuple(names)
    numbers = {name: number_of(name) for name in listed}
    first = beginning(listed)
    if first is None:
        first = min((one for one in numbers.values() if one is not None), default=0)

    def place(name: str) -> tuple[int, int, bool]:
        number = numbers[name]
        if number is None:
            return 0, 0, False
        if number < first:
            return 1, number, False
        return 2, -number, name.lstrip(".").partition(".")[2] == "json"  # a commit goes last

    return sorted((name for name in listed if numbers[name] != first), key=place)


def log_files(table: Directory) -> LogFiles:
    """Return the files of a table's log; none if there is no log.

    Raises:
        OSError: they cannot be listed or read.
    """
    log = table.at(LOG)
    entries = tuple(log.entries())
    if all(entry.name != LAST_CHECKPOINT for entry in entries):
        return LogFiles(entries, None)
    try:
        pointer = json.loads(log.read(LAST_CHECKPOINT).text)
        return LogFiles(entries, int(pointer["version"]))
    except (ValueError, KeyError, TypeError):
        return LogFiles(entries, None)  # readers ignore it, too


def logged(value: object, data_type: DataType) -> str | None:
    """Return a partition value as the log stores it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, str):
        return value
    return f"{value:f}" if isinstance(data_type, DecimalType) else str(value)


def logged_path(path: str) -> str:
    """Return the path of a file as delta-rs writes it to the log."""
    return quote(path, safe=_UNESCAPED)


def is_logged_alike(path: str) -> bool:
    """Return whether delta-rs spells a path as the log does; else it cannot remove the file.

    Spark leaves letters such as ``ä`` unescaped.
    """
    return logged_path(unquote(path)) == path


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
        No commits if there is no table; None if the log lacks a commit, counted from its
        `beginning`, or one of them is no commit. Commits before the beginning are returned as far
        as the log has them.
    """
    try:
        names = table.names(LOG)
    except FileNotFoundError:
        return ()
    except OSError:
        return None
    numbers = commits_in(names)
    if _beginning(numbers, names) is None:
        return None
    newest = max(numbers)
    least = newest + 1 - LEAST_COMMITS
    first = max(min(numbers), least if since is None else min(since, least))
    try:
        return tuple(_commit(table, number) for number in range(newest, first - 1, -1))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def next_commit(table: Directory, delta_version: int) -> str:
    """Return the text of the commit after a delta version; empty if there is none.

    Raises:
        OSError: it is unknown.
    """
    try:
        return table.read(commit_file(delta_version + 1)).text
    except FileNotFoundError:
        return ""


def is_committed(table: Directory, delta_version: int, attempt: str) -> bool:
    """Return whether the commit after a delta version is an attempt's, whose id its text has.

    A commit may seem to have failed and be there: it seems refused by itself, or what follows it
    failed, as a checkpoint on a full disk.

    Raises:
        CommitUnknownError: the commit cannot be read.
    """
    try:
        return attempt in next_commit(table, delta_version)
    except OSError as error:
        raise CommitUnknownError(
            f"whether the commit to the table at {table.path!r} took effect is unknown: its log "
            f"cannot be read ({one_line(error)}); read the table before you repeat it"
        ) from error


def commits_in(names: Iterable[str]) -> set[int]:
    """Return the delta versions of the commits in a log."""
    return {int(match[1]) for match in map(_IS_COMMIT, names) if match}


def _beginning(commits: set[int], names: Iterable[str]) -> int | None:
    if not commits or len(commits) != max(commits) - min(commits) + 1:
        return None
    if 0 in commits:
        return 0
    readable = range(min(commits) - 1, max(commits) + 1)
    checkpoints = (checkpoint for checkpoint in map(checkpoint_of, names) if checkpoint is not None)
    return min((checkpoint for checkpoint in checkpoints if checkpoint in readable), default=None)


def _commit(table: Directory, delta_version: int) -> LoggedCommit:
    entry = table.read(commit_file(delta_version))
    info = _info(entry.text.split("\n"))
    millis = info.get("inCommitTimestamp") or entry.modified_ns // 1_000_000
    user_metadata, operation = info.get("userMetadata"), info.get("operation")
    metadata = None if user_metadata is None else str(user_metadata)
    return LoggedCommit(delta_version, metadata, str(operation or UNTOLD), int(millis) * 1_000)


def _info(lines: Sequence[str]) -> Mapping[str, Any]:
    """Return the ``commitInfo`` of a commit; an empty one if it has none.

    Raises:
        ValueError, AttributeError: the lines are no actions.
    """
    for line in lines:
        if '"commitInfo"' in line:
            info: Mapping[str, Any] | None = json.loads(line).get("commitInfo")
            if info is not None:
                return info
    actions = [json.loads(line) for line in lines if line.strip()]
    if not actions or not all(isinstance(action, dict) for action in actions):
        raise ValueError("a commit has actions")
    return {}
