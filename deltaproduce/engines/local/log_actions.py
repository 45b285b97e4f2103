"""Log actions, read on the driver: like `spark.log_actions`, in plain Python."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from deltaproduce.engines.delta_log import COMMIT_NAME, LOG, Z85, commit_file
from deltaproduce.engines.delta_tables import BrokenLogError
from deltaproduce.engines.file_systems.directory import Directory

_ACTIONS: Final = ("add", "remove")


@dataclass(frozen=True, slots=True)
class Action:
    """What a commit did to a file.

    Attributes:
        commit: the delta version.
        adds: it adds the file; if not, it removes it.
        path: as in the log.
        vector: the path of the file with its deletion vector; None if there is none.
        changes_rows: False if the commit only stores the same rows in other files.
    """

    commit: int
    adds: bool
    path: str
    vector: str | None
    changes_rows: bool = True


def actions(directory: Directory) -> Iterator[Action]:
    """Yield the actions on files in a table's log; files other than commits are skipped.

    Raises:
        BrokenLogError: there is no log, or a commit is invalid.
    """
    try:
        for name in directory.names(LOG):
            if found := re.fullmatch(COMMIT_NAME, name):
                number = int(found[1])
                yield from _of_commit(directory.read(commit_file(number)).text, number)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BrokenLogError(str(error)) from error


def between(directory: Directory, since: int, until: int) -> Iterator[Action]:
    """Yield the actions on files after one delta version, up to and including another.

    Raises:
        BrokenLogError: one of these commits is gone, or invalid.
    """
    try:
        for number in range(since + 1, until + 1):
            yield from _of_commit(directory.read(commit_file(number)).text, number)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BrokenLogError(str(error)) from error


def _of_commit(text: str, number: int) -> Iterator[Action]:
    for line in text.split("\n"):
        if not any(f'"{kind}"' in line for kind in _ACTIONS):
            continue
        action = json.loads(line)
        for kind in _ACTIONS:
            if (about := action.get(kind)) is not None:
                vector = _vector(about.get("deletionVector"))
                changes = about.get("dataChange", True)
                yield Action(number, kind == "add", about["path"], vector, bool(changes))


def _vector(found: Mapping[str, Any] | None) -> str | None:
    """Return the path of the file with an action's deletion vector; None if it is in none."""
    kind = None if found is None else found["storageType"]
    if found is None or kind not in ("u", "p"):
        return None
    place = str(found["pathOrInlineDv"])
    if kind == "p":
        return place
    folder, digits = place[:-20], place[-20:]
    number = 0
    for block in range(0, 20, 5):
        value = 0
        for digit in digits[block : block + 5]:
            value = value * len(Z85) + Z85.index(digit)
        number = (number << 32) + value
    name = f"deletion_vector_{UUID(int=number)}.bin"
    return f"{folder}/{name}" if folder else name
