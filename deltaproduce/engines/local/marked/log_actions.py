"""Log actions, read on the driver: like `spark.log_actions`, in plain Python.

A log whose oldest files were removed begins with a checkpoint: it lists the files that the commits
up to it have left, and those that they have removed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from deltaproduce.engines.delta.log import (
    COMMIT_NAME,
    LOG,
    beginning,
    checkpoint_file,
    commit_file,
)
from deltaproduce.engines.delta.tables import BrokenLogError
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local.marked import vectors
from deltaproduce.types.excerpts import one_line

_ACTIONS: Final = ("add", "remove")
_VECTOR: Final = "deletionVector"
_PARTS: Final = (
    "path",
    *(f"{_VECTOR}.{part}" for part in ("storageType", "pathOrInlineDv", "offset")),
)


@dataclass(frozen=True, slots=True)
class Action:
    """What a commit did to a file.

    Attributes:
        commit: the delta version.
        adds: it adds the file; if not, it removes it.
        path: as in the log.
        mark: what distinguishes its deletion vector from others of the file; empty if it has none.
        vector: the path of the file with its deletion vector; None if none has it.
        changes_rows: False if the commit only stores the same rows in other files.
    """

    commit: int
    adds: bool
    path: str
    mark: str
    vector: str | None
    changes_rows: bool = True


def actions(directory: Directory) -> list[Action]:
    """Return the actions on files in a table's log, from its `beginning` on.

    Files that a checkpoint lists count as added by commit 0. Of a log without a beginning, the
    actions of its commits are returned. Other files are skipped.

    Raises:
        BrokenLogError: there is no log, or a file of it is invalid.
    """
    try:
        names = directory.names(LOG)
        while True:
            first = beginning(names)
            try:
                return list(_since(directory, names, first))
            except FileNotFoundError:
                names = directory.names(LOG)
                if beginning(names) in (None, first):  # it was not a vacuum that removed it
                    raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BrokenLogError(one_line(error)) from error


def agrees(directory: Directory, checkpoint: int) -> bool:
    """Return whether a checkpoint lists the files that the commits up to it have left.

    Raises:
        BrokenLogError: as for `actions`.
    """
    try:
        listed = {_file(action) for action in _of_checkpoint(directory, checkpoint) if action.adds}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False  # it is broken
    last: dict[tuple[str, str], bool] = {}
    for action in sorted(actions(directory), key=lambda action: action.commit):
        if action.commit <= checkpoint:
            last[_file(action)] = action.adds
    return listed == {file for file, adds in last.items() if adds}


def between(directory: Directory, since: int, until: int) -> Iterator[Action]:
    """Yield the actions on files after one delta version, up to and including another.

    Raises:
        BrokenLogError: one of these commits is gone, or invalid.
    """
    try:
        for number in range(since + 1, until + 1):
            yield from _of_commit(directory.read(commit_file(number)).text, number)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BrokenLogError(one_line(error)) from error


def _since(directory: Directory, names: Iterable[str], first: int | None) -> Iterator[Action]:
    if first:
        yield from _of_checkpoint(directory, first)
    for name in names:
        match = re.fullmatch(COMMIT_NAME, name)
        if match is not None and not (first and int(match[1]) <= first):
            number = int(match[1])
            yield from _of_commit(directory.read(commit_file(number)).text, number)


def _of_checkpoint(directory: Directory, number: int) -> Iterator[Action]:
    columns = [f"{kind}.{part}" for kind in _ACTIONS for part in _PARTS]
    listed = directory.parquet(checkpoint_file(number)).read(columns)
    for kind in listed.column_names:
        array = listed.column(kind)
        for about in array.filter(array.is_valid()).to_pylist():
            yield _action(0 if kind == "add" else number, kind, about)


def _file(action: Action) -> tuple[str, str]:
    """Return an action's file, however the log spells it."""
    return unquote(action.path), action.mark


def _of_commit(text: str, number: int) -> Iterator[Action]:
    for line in text.split("\n"):
        if not any(f'"{kind}"' in line for kind in _ACTIONS):
            continue
        action = json.loads(line)
        for kind in _ACTIONS:
            if (about := action.get(kind)) is not None:
                yield _action(number, kind, about)


def _action(commit: int, kind: str, about: Mapping[str, Any]) -> Action:
    vector = about.get(_VECTOR)
    return Action(
        commit,
        kind == "add",
        about["path"],
        vectors.identity(vector),
        vectors.file_of(vector),
        bool(about.get("dataChange", True)),
    )
