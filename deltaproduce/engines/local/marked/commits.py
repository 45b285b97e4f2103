"""Commits of our own: what changes in a table's files, as one Delta commit.

Delta-rs reads deletion vectors and writes none, and its overwrites and restores do not say which
vector a removed file had, so that a reader would keep the file. And an append of a few rows takes
it three times as long. So these commits are made here: the actions as JSON, in a file that is put
where there is none. The invariant: a commit directly follows the state that it was made from, or it
is refused and nothing of it is seen; and it repeats of each file what the log said of it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import uuid4

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction

from deltaproduce.engines.delta.log import commit_file, logged_path
from deltaproduce.engines.delta.tables import APP_ID, MARKS_ROWS, BrokenLogError, RefusedError
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local.arrays import Numbers
from deltaproduce.engines.local.marked import vectors
from deltaproduce.engines.local.marked.state import (
    FEATURE,
    NAMED,
    TIMES_FEATURE,
    TIMESTAMP_NTZ,
    TableState,
    TableStates,
)
from deltaproduce.engines.local.marked.table_files import VECTOR, Action, path_of
from deltaproduce.engines.local.marked.vectors import Vector
from deltaproduce.types.excerpts import one_line

_CHECKPOINT_INTERVAL: Final = "delta.checkpointInterval"
_DEFAULT_INTERVAL: Final = 10
_KEPT: Final = ("path", "partitionValues", "size", "tags", "baseRowId", "defaultRowCommitVersion")
_MOST_TRIES: Final = 15
_UNNAMED: Final = frozenset({"appendOnly", "invariants"})
"""The features of a table whose protocol is too old to name any."""


@dataclass(frozen=True, slots=True)
class CommitChanges:
    """What one commit changes in a table's files.

    Attributes:
        added: new files.
        removed: the actions of files that the table has no more.
        marked: the numbers of more rows that count as deleted, by the path of their file.
        returned: the actions of files that the table had before.
        metadata: the table's ``metaData``, if it changes.
        operation: in Delta's terms.
        changes_rows: False if the table has the same rows after it.
        is_blind: the commit only adds rows, whatever the table has.
        fence: of all commits to the table with the same number, at most one takes effect.
    """

    added: Sequence[AddAction] = ()
    removed: Sequence[Action] = ()
    marked: Mapping[str, Numbers] | None = None
    returned: Sequence[Action] = ()
    metadata: Action | None = None
    operation: str = "MERGE"
    changes_rows: bool = True
    is_blind: bool = False
    fence: int | None = None


def commit(
    directory: Directory, state: TableState, changed: CommitChanges, said: str
) -> TableState:
    """Commit a change on top of a state, and return the state after it.

    Args:
        said: the commit's ``userMetadata``; none if empty.

    Raises:
        RefusedError: another commit follows the state, or an earlier one has the fencing token.
        OSError: it cannot be written.
    """
    fence, last = changed.fence, state.transactions.get(APP_ID)
    if fence is not None and last is not None and last >= fence:
        raise RefusedError(f"a commit with the fencing token {last} was made before")
    now = int(time.time() * 1000)
    marks = bool(changed.marked) or any(add.get(VECTOR) for add in changed.returned)
    about = _about(state, changed.metadata or state.metadata, marks=marks)
    files = [
        *(_removal(add, now, changes_rows=changed.changes_rows) for add in changed.removed),
        *_marking(directory, state, changed.marked or {}, now),
        *({"add": {**add, "dataChange": True}} for add in changed.returned),
        *(_addition(add, changes_rows=changed.changes_rows) for add in changed.added),
    ]
    info = {
        "timestamp": now,
        "operation": changed.operation,
        "operationParameters": {},
        "readVersion": state.delta_version,
        "isolationLevel": "Serializable",
        "isBlindAppend": changed.is_blind,
        "engineInfo": "deltaproduce",
        "txnId": str(uuid4()),
        **({"userMetadata": said} if said else {}),
    }
    token = {"appId": APP_ID, "version": fence, "lastUpdated": now}
    fences = [] if fence is None else [{"txn": token}]
    lines: list[Action] = [{"commitInfo": info}, *fences, *about, *files]
    number = state.delta_version + 1
    text = "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines)
    if not directory.put_first(commit_file(number), text) and not _is_there(
        directory, number, text
    ):
        raise RefusedError(f"another writer has made delta version {number}")
    after = state.updated(number, lines)
    if number - state.checkpoint >= _interval(state):  # others' commits may have made none
        with suppress(DeltaError, OSError, ValueError):  # a later commit makes the next one
            DeltaTable(directory.uri, storage_options=directory.storage_options).create_checkpoint()
            after = replace(after, checkpoint=number)
    return after


def commit_on_top(
    directory: Directory,
    states: TableStates,
    state: TableState,
    changed: CommitChanges,
    said: str,
    holds: Callable[[TableState], bool] = lambda _: True,
) -> TableState:
    """Commit a change on top of a state, or of what others have made of it meanwhile.

    With a fencing token, nobody else may commit meanwhile: two commits with the same one would not
    see each other.

    Args:
        states: of the store's tables.
        holds: returns whether the change still holds on top of a later state, whose columns and
            features are the same.

    Raises:
        RefusedError: another writer has the token, or has changed the table so that it cannot be
            done.
    """
    tries = 1 if changed.fence is not None else _MOST_TRIES
    for left in reversed(range(tries)):
        try:
            return commit(directory, state, changed, said)
        except RefusedError:
            if not left:
                raise
            state, before = states.newest(directory), state
            is_same = (state.protocol, state.metadata) == (before.protocol, before.metadata)
            if not is_same or not holds(state):
                raise
    raise AssertionError(tries)


def restored(directory: Directory, now: TableState, then: TableState) -> CommitChanges:
    """Return what changes if a table gets the files of an earlier state again.

    Raises:
        BrokenLogError: a file is gone.
    """
    missing = [path for path in then.files.paths() if not directory.exists(path)]
    if missing:
        raise BrokenLogError(one_line(FileNotFoundError(f"{missing[0]} was removed")))
    same = json.dumps(then.metadata, sort_keys=True) == json.dumps(now.metadata, sort_keys=True)
    return CommitChanges(
        removed=now.files.missing_in(then.files),
        returned=then.files.missing_in(now.files),
        metadata=None if same else then.metadata,
        operation="RESTORE",
    )


def _is_there(directory: Directory, number: int, text: str) -> bool:
    """Return whether a refused commit is there: a client may repeat a request that was lost."""
    try:
        return directory.read(commit_file(number)).text == text
    except OSError:
        return False


def _marking(
    directory: Directory, state: TableState, marked: Mapping[str, Numbers], now: int
) -> Iterable[Mapping[str, Action]]:
    """Yield the actions that replace the vectors of some files."""
    if not marked:
        return
    files = state.files.of_paths(marked)
    wanted = dict[str, Vector]()
    for path, rows in marked.items():
        old_vector, more = files[path].get(VECTOR), Vector.of(rows)
        wanted[path] = more if old_vector is None else vectors.read(directory, old_vector) | more
    full = {path for path, rows in wanted.items() if len(rows) == _rows(directory, files[path])}
    stored = vectors.stored(directory, {p: rows for p, rows in wanted.items() if p not in full})
    for path in wanted:
        yield _removal(files[path], now, changes_rows=True)
        if path not in full:
            yield _marked(directory, files[path], stored[path])


def _marked(directory: Directory, add: Action, vector: Mapping[str, Any]) -> Mapping[str, Action]:
    """Return the action that adds a file again, with a vector."""
    stats = json.loads(add.get("stats") or "{}")
    stats["numRecords"] = _rows(directory, add)
    stats["tightBounds"] = False
    about = {name: add[name] for name in _KEPT if add.get(name) is not None}
    return {
        "add": {
            **about,
            "modificationTime": add["modificationTime"],
            "dataChange": True,
            "stats": json.dumps(stats, separators=(",", ":")),
            VECTOR: dict(vector),
        }
    }


def _rows(directory: Directory, add: Action) -> int:
    """Return the number of rows of a file, with those that are marked."""
    known = json.loads(add.get("stats") or "{}").get("numRecords")
    return int(directory.footer(path_of(add)).num_rows if known is None else known)


def _removal(add: Action, now: int, *, changes_rows: bool) -> Mapping[str, Action]:
    about = {name: add[name] for name in _KEPT if add.get(name) is not None}
    vector = {} if add.get(VECTOR) is None else {VECTOR: add[VECTOR]}
    return {
        "remove": {
            **about,
            "deletionTimestamp": now,
            "dataChange": changes_rows,
            "extendedFileMetadata": True,
            **vector,
        }
    }


def _addition(add: AddAction, *, changes_rows: bool) -> Mapping[str, Action]:
    return {
        "add": {
            "path": logged_path(add.path),
            "partitionValues": dict(add.partition_values),
            "size": add.size,
            "modificationTime": add.modification_time,
            "dataChange": changes_rows,
            "stats": add.stats,
        }
    }


def _about(state: TableState, metadata: Action, *, marks: bool) -> list[Mapping[str, Action]]:
    """Return the actions that change a table's protocol and metadata as far as a commit needs."""
    actions, protocol = list[Mapping[str, Action]](), state.protocol
    needed = {FEATURE} if marks else set()
    if TIMESTAMP_NTZ in metadata["schemaString"]:
        needed |= {TIMES_FEATURE}
    readers, writers = ({*protocol.get(f"{who}Features", ())} for who in ("reader", "writer"))
    if not needed <= writers:
        writers |= needed if protocol["minWriterVersion"] == NAMED else needed | _UNNAMED
        versions = {"minReaderVersion": 3, "minWriterVersion": NAMED}
        features = {"readerFeatures": sorted(readers | needed), "writerFeatures": sorted(writers)}
        actions.append({"protocol": {**versions, **features}})
    properties = metadata.get("configuration") or {}
    if marks and properties.get(MARKS_ROWS) != "true":
        metadata = {**metadata, "configuration": {**properties, MARKS_ROWS: "true"}}
    if metadata is not state.metadata:
        actions.append({"metaData": metadata})
    return actions


def _interval(state: TableState) -> int:
    return int(state.configuration.get(_CHECKPOINT_INTERVAL, _DEFAULT_INTERVAL))
