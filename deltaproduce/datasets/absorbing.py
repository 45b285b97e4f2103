"""Absorbing: one commit moves the rows of a data set into another by naming their files.

Before the commit, both tables get a mark with the same id, as a property: first the absorbing
table, then the other. The commit adds the files to the absorbing table and records the id there, in
an action ``txn``. From then on the rows are there, and readers of the other table leave out what
was absorbed. After the commit the other table is emptied, and the marks are removed. The invariant:
an absorption has happened if and only if the absorbing table has its id; so any process that finds
a mark knows what to do, and can do it twice.

The mark prevents an absorption that was undone from happening later: its commit is made on a
snapshot that has the mark. A commit to a marked table is refused like a commit to a changed table,
so nothing is added to the other table meanwhile. Others do not know of marks. If they remove or
rewrite files before the commit, the absorption begins again; if they rewrite them afterwards, the
log tells which new files have the absorbed rows.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.transaction import AddAction

from deltaproduce.datasets.actions import added, removed
from deltaproduce.datasets.rewrites import having_rows_of
from deltaproduce.datasets.tables import Change, DatasetSnapshot, DataTable
from deltaproduce.engines.file_systems.choice import directory
from deltaproduce.errors import (
    ConflictError,
    CorruptStoreError,
    DeltaProduceError,
    InvalidArgumentError,
    NotFoundError,
)
from deltaproduce.types.json.fields import Kind, fields, is_integer, is_text, parsed

_TRIES: Final = 20
_PROPERTY: Final = "deltaproduce.absorption"
_KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {"id": is_text, "into": is_text, "of": is_text, "delta_version": is_integer}
)


@dataclass(frozen=True, slots=True)
class Absorption:
    """One absorption, as the marks on both tables describe it.

    Attributes:
        id: unique.
        into: the address of the absorbing table.
        of: the address of the other table.
        delta_version: the version of the other table when the absorption began; its files at that
            version are absorbed.
    """

    id: str
    into: str
    of: str
    delta_version: int

    @staticmethod
    def on(snapshot: DatasetSnapshot, address: str) -> Absorption | None:
        """Return the absorption that a table is marked with; None if it is not marked.

        Raises:
            CorruptStoreError: the library did not write the mark.
        """
        text = snapshot.properties.get(_PROPERTY)
        if not text:
            return None
        values: dict[str, Any] | None = fields(parsed(text), _KINDS, required=_KINDS)
        if values is None:
            raise CorruptStoreError(
                f"the table at {address} has a broken property {_PROPERTY}; unset it", table=address
            )
        return Absorption(**values)

    @property
    def happened(self) -> str:
        """The name under which the absorbing table records it."""
        return f"deltaproduce.absorbed {self.id}"

    def path(self, of_other: str, number: int) -> str:
        """Return the path of a file in the absorbing table."""
        folder, slash, name = of_other.rpartition("/")
        codec = "".join(name.partition(".")[1:])
        return f"{folder}{slash}part-{self.id}-{number:05}{codec}"


def settled(table: DataTable) -> DatasetSnapshot:
    """Return the current snapshot of a data set, after settling any absorption in progress.

    An absorption that has happened is completed; any other is undone.

    Raises:
        NotFoundError: the data set does not exist any more.
    """
    while True:
        snapshot = _there(table)
        begun = Absorption.on(snapshot, table.address)
        if begun is None:
            return snapshot
        _check_place(begun, table)
        _settle(begun)


def visible(table: DataTable, snapshot: DatasetSnapshot) -> pa.Table:
    """Return the files whose rows are the data set's, as `DatasetSnapshot.files`.

    Absorbed files belong to the absorbing data set as soon as it has them.
    """
    files = snapshot.files
    begun = Absorption.on(snapshot, table.address)
    if begun is None or not _table(begun.of).is_same_as(table):
        return files
    into = _table(begun.into).snapshot()
    if into is None or not _has_happened(begun, into):
        return files
    return files.filter(pc.invert(_is_absorbed(begun, snapshot)))


def absorb(into: DataTable, other: DataTable) -> None:
    """Move the rows of another data set with the same descriptor into the first one.

    Raises:
        InvalidArgumentError: the other data set has rows that are marked as deleted, or it cannot
            be emptied.
        ConflictError: a writer of either has undone it, or other writers were faster too often.
        StorageError: something cannot be written; the rows are in one of the two.
    """
    for _ in range(_TRIES):
        into.check_rules(settled(into))
        start = settled(other)
        if not len(start.files):
            return
        if fault := _fault(start):
            message = f"the data set at {other.address} cannot be absorbed: {fault}"
            raise InvalidArgumentError(message, argument="other")
        begun = Absorption(uuid.uuid4().hex, into.address, other.address, start.delta_version)
        try:
            _mark(into, begun)
            has_moved = _mark(other, begun, start.delta_version) and _move(
                begun, into, other, start
            )
        except DeltaProduceError:
            with suppress(DeltaProduceError):  # the next absorption or writer tries again
                _settle(begun)
            raise
        _settle(begun)
        if has_moved:
            return
    raise ConflictError(f"other writers of {other.address} were faster {_TRIES} times")


def _fault(other: DatasetSnapshot) -> str | None:
    """Return why another data set cannot be emptied, or its files have other rows than it."""
    if other.has_marked_rows:
        return (
            "rows are marked as deleted, and would come back with their files; have Spark write "
            "these anew (REORG TABLE … APPLY (PURGE))"
        )
    if other.unremovable:
        return (
            "delta-rs spells the paths of some files otherwise than Spark, who wrote them, such as "
            f"{min(other.unremovable)!r}; absorb a copy of it (Dataset.copy)"
        )
    if other.properties.get("delta.appendOnly") == "true":
        return "its property delta.appendOnly keeps rows from being removed; unset it"
    return None


def _move(begun: Absorption, into: DataTable, other: DataTable, start: DatasetSnapshot) -> bool:
    """Commit the move, once both tables are marked.

    Returns:
        Whether it was committed; not if someone else has removed or rewritten files meanwhile, who
            does not know of marks.
    """
    is_whole, absorbed = True, start.files.column("path")
    files = list[AddAction]()
    for number, file in enumerate(start.files.to_pylist()):
        path = begun.path(file["path"], number)
        with into.effect("link"):
            into.directory.link(path, other.directory, file["path"])
        files.append(added(file, path, start.descriptor))

    def decide() -> tuple[DatasetSnapshot, Change] | None:
        nonlocal is_whole
        snapshot, now = _there(into), _there(other)
        if Absorption.on(snapshot, into.address) != begun:
            raise _undone(begun)
        is_there = pc.is_in(absorbed, value_set=now.files.column("path"))
        is_whole = pc.all(is_there).as_py() and not now.has_marked_rows
        return (snapshot, Change(adds=files, positions={begun.happened: 1})) if is_whole else None

    into.committed(decide)
    return is_whole


def _settle(begun: Absorption) -> None:
    """Complete an absorption that has happened, and undo any other."""
    into, other = _table(begun.into), _table(begun.of)
    while True:
        snapshot = into.snapshot()
        if snapshot is not None and _has_happened(begun, snapshot):
            _empty(other, begun)
            _unmark(other, begun)
            _unmark(into, begun)
            return
        if snapshot is None or _unmark(into, begun, unless_happened=True):
            break
    _discard(into, other, begun)
    _unmark(other, begun)


def _mark(table: DataTable, begun: Absorption, delta_version: int | None = None) -> bool:
    """Mark a table; with a Delta version, only at that version.

    Returns:
        Whether it has the mark.
    """
    is_marked = True

    def decide() -> tuple[DatasetSnapshot, Change] | None:
        nonlocal is_marked
        snapshot = settled(table) if delta_version is None else _there(table)
        is_marked = delta_version in (None, snapshot.delta_version)
        text = json.dumps(asdict(begun))
        return (snapshot, Change(properties={_PROPERTY: text})) if is_marked else None

    table.committed(decide)
    return is_marked


def _unmark(table: DataTable, begun: Absorption, *, unless_happened: bool = False) -> bool:
    """Remove an absorption's mark from a table, if it has it.

    Returns:
        Whether the mark is gone and, with `unless_happened`, the absorption has not happened.
    """
    is_over = True

    def decide() -> tuple[DatasetSnapshot, Change] | None:
        nonlocal is_over
        snapshot = table.snapshot()
        is_over = snapshot is None or not (unless_happened and _has_happened(begun, snapshot))
        if snapshot is None or not is_over or Absorption.on(snapshot, table.address) != begun:
            return None
        return snapshot, Change(properties={_PROPERTY: ""})

    table.committed(decide)
    return is_over


def _empty(other: DataTable, begun: Absorption) -> None:
    """Remove the absorbed files from the log of the table that had them.

    Raises:
        CorruptStoreError: someone else has rewritten them as files that cannot be removed.
    """

    def decide() -> tuple[DatasetSnapshot, Change] | None:
        snapshot = other.snapshot()
        if snapshot is None or Absorption.on(snapshot, other.address) != begun:
            return None
        gone = snapshot.files.filter(_is_absorbed(begun, snapshot))
        if not len(gone):
            return None
        if odd := snapshot.unremovable.intersection(gone.column("path").to_pylist()):
            raise CorruptStoreError(
                f"someone else has rewritten files of {other.address} that {begun.into} has "
                f"absorbed, as {min(odd)!r}, which only Spark can remove: restore it as it was "
                "before that",
                table=other.address,
            )
        return snapshot, Change(
            removes=[removed(file, snapshot.descriptor) for file in gone.to_pylist()]
        )

    other.committed(decide)


def _discard(into: DataTable, other: DataTable, begun: Absorption) -> None:
    """Delete the files of an absorption that was undone: no commit names them."""
    if other.opened() is None:
        return
    paths = other.at(begun.delta_version).files.column("path").to_pylist()
    for number, path in enumerate(paths):
        with into.effect("discard"):
            into.directory.remove_file(begun.path(path, number))


def _is_absorbed(begun: Absorption, snapshot: DatasetSnapshot) -> pa.Array:
    """Return which files of the other table have rows that it had when the absorption began."""
    return having_rows_of(_table(begun.of), begun.delta_version, snapshot)


def _has_happened(begun: Absorption, into: DatasetSnapshot) -> bool:
    return into.position(begun.happened) is not None


def _there(table: DataTable) -> DatasetSnapshot:
    snapshot = table.snapshot()
    if snapshot is None:
        raise NotFoundError(f"there is no data set at {table.address} any more")
    return snapshot


def _table(address: str) -> DataTable:
    home = directory(address)
    if home is None:
        raise CorruptStoreError(
            f"a mark of an absorption names {address!r}, where no data set can be", table=address
        )
    return DataTable(address, home)


def _check_place(begun: Absorption, table: DataTable) -> None:
    """Refuse a table that was moved before its absorption was over."""
    if not any(_table(place).is_same_as(table) for place in (begun.into, begun.of)):
        raise CorruptStoreError(
            f"the data set at {table.address} was moved while {begun.into} absorbed {begun.of}: "
            "move it back, open a writer of it, and move it then",
            table=table.address,
        )


def _undone(begun: Absorption) -> ConflictError:
    return ConflictError(
        f"a writer of {begun.into} or {begun.of} undid this absorption; the rows are where they "
        "were; absorb again"
    )
