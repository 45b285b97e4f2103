"""Table states: what a Delta log says of a table at one of its delta versions, action by action.

Delta-rs lists the files of a table, but neither their deletion vectors nor the actions that added
them, which a commit of our own has to repeat. So this module replays the log: its newest
checkpoint in one file, and the commits after it
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md, "Action Reconciliation"). The invariant:
a state has exactly the files of its delta version. A log that cannot be replayed here is an error,
and the caller asks delta-rs or Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from deltaproduce.engines.delta.log import (
    LOG,
    checkpoint_file,
    checkpoint_of,
    commit_file,
    commits_in,
)
from deltaproduce.engines.delta.tables import BrokenLogError
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local.marked.table_files import Action, TableFiles
from deltaproduce.types.excerpts import one_line

FEATURE: Final = "deletionVectors"
_MOST: Final = 256
"""The most states that are kept: each has the files of its table."""
NAMED: Final = 7
"""The writer version from which on a protocol names its features."""
TIMES_FEATURE: Final = "timestampNtz"
TIMESTAMP_NTZ: Final = '"timestamp_ntz"'
"""The type of columns that need this feature, as schemas have it."""
_SIMPLE_FEATURES: Final = frozenset({FEATURE, TIMES_FEATURE, "appendOnly", "invariants"})
_OLD_WRITER: Final = 2
"""The last writer version before that of a feature beyond these."""
_NO_USE: Final = frozenset({"variantType"})
"""Features that delta-rs gives to tables which have no column of that type."""
_DEMANDS: Final = ("delta.appendOnly", "delta.enableChangeDataFeed", "delta.enableRowTracking")
_UNREADABLE: Final = (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException)
_ADD: Final = "add"
_CHECKPOINTED: Final = ["protocol", "metaData", _ADD, "txn"]
_NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TableState:
    """A table at one delta version.

    Attributes:
        protocol: its newest ``protocol`` action.
        metadata: its newest ``metaData`` action.
        files: its files.
        transactions: the newest number of each application that gave its commits numbers (``txn``).
        checkpoint: the newest checkpoint that is known; 0 if there is none.
    """

    delta_version: int
    protocol: Action
    metadata: Action
    files: TableFiles
    transactions: Mapping[str, int]
    checkpoint: int = field(default=0, compare=False)

    @property
    def configuration(self) -> Mapping[str, str]:
        """The table's properties."""
        configuration: Mapping[str, str] = self.metadata.get("configuration") or {}
        return configuration

    @property
    def partition_columns(self) -> list[str]:
        """The columns that the table is partitioned by."""
        return list(self.metadata.get("partitionColumns") or ())

    @property
    def is_inside(self) -> bool:
        """Whether all files are in the table's directory."""
        return self.files.are_inside

    @property
    def is_simple(self) -> bool:
        """Whether a commit may mark rows and add files, and owes the table nothing else.

        Constraints, column mapping, change data feeds and the like are left to Spark.
        """
        if self.protocol["minWriterVersion"] == NAMED:
            named = {*self.protocol.get("writerFeatures", ())}
            named |= {*self.protocol.get("readerFeatures", ())}
            is_known = named - _NO_USE <= _SIMPLE_FEATURES
        else:
            is_known = self.protocol["minWriterVersion"] <= _OLD_WRITER
        demands = any(self.configuration.get(name) == "true" for name in _DEMANDS)
        schema = self.metadata["schemaString"]
        others = '"variant"' in schema or "delta.invariants" in schema
        return is_known and not demands and not others

    def after(self, commit: str) -> TableState:
        """Return the state after the next commit, given as text."""
        lines = commit.split("\n")
        return self.updated(self.delta_version + 1, [json.loads(line) for line in lines if line])

    def updated(self, delta_version: int, actions: Iterable[Action]) -> TableState:
        """Return the state at a later delta version, given all actions since."""
        protocol, metadata, transactions = self.protocol, self.metadata, dict(self.transactions)
        added, removed = list[Action](), list[Action]()
        for action in actions:
            if (add := action.get(_ADD)) is not None:
                added.append(add)
            elif (remove := action.get("remove")) is not None:
                removed.append(remove)
            elif (txn := action.get("txn")) is not None:
                transactions[txn["appId"]] = txn["version"]
            protocol = action.get("protocol") or protocol
            metadata = action.get("metaData") or metadata
        # A commit removes a file before it adds it anew, in whichever order it says so.
        files = self.files.updated(removed, added)
        return TableState(delta_version, protocol, metadata, files, transactions, self.checkpoint)


def state_at(directory: Directory, delta_version: int | None) -> TableState:
    """Return the state of a table at a delta version, from its log; at the newest if None.

    Raises:
        BrokenLogError: the log does not have that delta version, or is not read here.
    """
    try:
        return _replayed(directory, delta_version)
    except _UNREADABLE as error:
        raise BrokenLogError(one_line(error)) from error


def _replayed(directory: Directory, delta_version: int | None) -> TableState:
    names = directory.names(LOG)
    commits = commits_in(names)
    if not commits:
        raise FileNotFoundError("there are no commits")
    last = max(commits) if delta_version is None else delta_version
    known = (
        checkpoint
        for checkpoint in map(checkpoint_of, names)
        if checkpoint is not None and checkpoint <= last
    )
    first = max(known, default=None)
    state = TableState(-1, _NOTHING, _NOTHING, TableFiles(), {})
    if first is not None:
        files, others = _of_checkpoint(directory, first)
        state = replace(state, files=files, checkpoint=first).updated(first, others)
    while state.delta_version < last:
        state = _following(directory, state)
    if not state.protocol or not state.metadata:
        raise ValueError("the log has no metadata")
    return state


def _of_checkpoint(directory: Directory, number: int) -> tuple[TableFiles, list[Action]]:
    """Return the files of a checkpoint, and its other actions."""
    rows = directory.parquet(checkpoint_file(number)).read(_CHECKPOINTED)
    if _ADD not in rows.column_names:
        raise ValueError("the checkpoint has no files")
    files = rows.column(_ADD).combine_chunks()
    actions = list[Action]()
    for kind in {*rows.column_names} - {_ADD}:
        column = rows.column(kind)
        for fields in column.filter(column.is_valid()).to_pylist():
            about = {name: value for name, value in fields.items() if value is not None}
            if "configuration" in about:
                about["configuration"] = dict(about["configuration"])
            if "format" in about:
                about["format"] = {**about["format"], "options": dict(about["format"]["options"])}
            actions.append({kind: about})
    return TableFiles.of_checkpoint(files.filter(files.is_valid())), actions


def _following(directory: Directory, state: TableState) -> TableState:
    """Return the state after the next commit, which is there."""
    return state.after(directory.read(commit_file(state.delta_version + 1)).text)


class TableStates:
    """The newest known states of one store's tables, which continue from commit to commit.

    The invariant: a state is used only while the commit that it has read last is the same file.
    """

    def __init__(self) -> None:
        self._kept: dict[Directory, tuple[TableState, object]] = {}

    def newest(self, directory: Directory) -> TableState:
        """Return a table's current state.

        Raises:
            BrokenLogError: as for `state_at`.
        """
        known = self._known(directory)
        try:
            while known is not None:
                if not directory.exists(commit_file(known.delta_version + 1)):
                    return known
                known = self._keep(directory, _following(directory, known))
        except _UNREADABLE as error:
            raise BrokenLogError(one_line(error)) from error
        return self._keep(directory, state_at(directory, None))

    def at(self, directory: Directory, delta_version: int) -> TableState:
        """Return a table's state at a delta version.

        Raises:
            BrokenLogError: as for `state_at`.
        """
        known = self._known(directory)
        if known is None or known.delta_version > delta_version:
            state = state_at(directory, delta_version)
            return state if known is not None else self._keep(directory, state)
        try:
            while known.delta_version < delta_version:
                known = self._keep(directory, _following(directory, known))
        except _UNREADABLE as error:
            raise BrokenLogError(one_line(error)) from error
        return known

    def keep(self, directory: Directory, state: TableState) -> None:
        """Keep the state after a commit that was just made, so that it need not be read again."""
        self._keep(directory, state)

    def _known(self, directory: Directory) -> TableState | None:
        state, mark = self._kept.get(directory, (None, None))
        if state is None or directory.mark(commit_file(state.delta_version)) != mark:
            return None
        return state

    def _keep(self, directory: Directory, state: TableState) -> TableState:
        mark = directory.mark(commit_file(state.delta_version))
        if mark is not None and (directory in self._kept or len(self._kept) < _MOST):
            self._kept[directory] = state, mark
        return state
