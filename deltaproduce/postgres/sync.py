"""The sync: brings the copies in a PostgreSQL database to a version, in one transaction.

The constructor checks what a database can store, before it connects. The invariant: rows and
positions of all copies change together, or not at all.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

from deltaproduce.errors import DefinitionError, InvalidArgumentError, SyncError
from deltaproduce.model import arguments
from deltaproduce.model.graph import Stage
from deltaproduce.postgres import kept
from deltaproduce.postgres.copies import Copy, Database, KeysCopy, RowsCopy, RowTooLargeError
from deltaproduce.postgres.sizes import PAGE, least_size
from deltaproduce.postgres.statements import Names, quoted
from deltaproduce.postgres.types import check_columns, name_fault
from deltaproduce.reading.copying import copied_columns, copied_stage
from deltaproduce.reading.opened import Opened, opened_by
from deltaproduce.storage.versions import Version, stage_at
from deltaproduce.store import Store
from deltaproduce.sync import OnBreak, Position, StageChanges, changes_since
from deltaproduce.types.excerpts import shown

_KEYS = "__keys"


@dataclass(frozen=True, slots=True)
class SyncedTable:
    """What a sync did to one table.

    Attributes:
        table: its name.
        stage: the stage whose rows or keys it has.
        reason: why the sync sent all rows; empty if it sent only changes, or nothing.
        deleted: the number of deleted rows.
        inserted: the number of inserted rows.
        rows: the number of rows that it has now.
        seconds: wall time.
    """

    table: str
    stage: str
    reason: str
    deleted: int
    inserted: int
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Synced:
    """What a sync did.

    Attributes:
        version: the number of the version of all its tables.
        tables: what it did to each table, in the order of the stages.
    """

    version: int
    tables: tuple[SyncedTable, ...]

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        lines = (
            f"{one.table}: {one.rows} rows, {one.deleted} deleted, {one.inserted} inserted"
            f"{f' ({one.reason})' if one.reason else ''}, {one.seconds:.2f} s"
            for one in self.tables
        )
        return "\n".join([*lines, f"version {self.version}"])


class Sync:
    """Keeps tables of a PostgreSQL database equal to stages of a store.

    Each stage is a table of its name, with the stage's key and value columns, and its rows. Each
    stage in ``key_tables`` also has a table ``<stage>__keys``, with a row for each key: its
    surrogate number, which is the primary key, and the key columns. The table
    ``_deltaproduce_sync`` records their version.

    Args:
        store: a store, with or without a session. It is only read.
        to: the database: ``postgresql://user@host/database``, or any connection string of libpq.
        stages: names of sources and stages; all of the pipeline if None.
        key_tables: names of stages with a surrogate that also get a key table.
        schema: the database's schema, which is created if it does not exist.
        on_break: what happens if the sync cannot continue from the database's position: it is of
            another store or of one that was restored, the versions since were dropped, the stage
            has other columns, or someone else changed the table. ``raise``: a SyncError;
            ``reload``: the sync reloads all rows of the table.
        wait_seconds: how long to wait for another sync, or for a lock on a table.

    Raises:
        NotFoundError: there is no such stage.
        DefinitionError: a stage cannot be a table of PostgreSQL, has no surrogate for a key table,
            or is a source that forgets rows.
        InvalidArgumentError: an argument has the wrong type.
    """

    def __init__(
        self,
        store: Store,
        to: str,
        *,
        stages: Sequence[str] | None = None,
        key_tables: Collection[str] = (),
        schema: str = "public",
        on_break: OnBreak = "raise",
        wait_seconds: float = 60,
    ) -> None:
        self._store = store
        self._to = arguments.text(to, "to")
        self._schema = arguments.text(schema, "schema")
        arguments.choice(on_break, "on_break", get_args(OnBreak))
        self._on_break: OnBreak = on_break
        self._wait_seconds = arguments.number(wait_seconds, "wait_seconds")
        for given, name in ((stages, "stages"), (key_tables, "key_tables")):
            if isinstance(given, str):
                raise InvalidArgumentError(f"{name} is {given!r}; give a list", argument=name)
        defined = [stage.name for stage in opened_by(store).defined]
        self._stages = defined if stages is None else [*dict.fromkeys(stages)]
        self._key_tables = [*dict.fromkeys(key_tables)]
        self._copies(store.head)

    def run(self) -> Synced:
        """Bring all tables to the newest version, in one transaction.

        The first run sends all rows. Later ones send what has changed since, over any number of
        versions. Reading costs the same as `changes_since`; rows are sent in batches.

        Raises:
            SyncError: the sync cannot continue from the database's position; someone else changed a
                table, or has one of its name; PostgreSQL cannot store a value, refuses something,
                or cannot be reached; or psycopg is not installed. Nothing was written.
            ConflictError: another sync, or someone else's lock, lasted too long.
            CommitUnknownError: the connection was lost during the commit. Sync again: it continues
                from the position in the database.
            DefinitionError: as for the constructor, because of what has changed since.
        """
        try:
            from deltaproduce.postgres.connection import connected
        except ModuleNotFoundError as error:
            raise SyncError(
                f"PostgreSQL needs {error.name}: pip install 'deltaproduce[postgres]'"
            ) from error
        with connected(self._to, self._schema, self._wait_seconds) as database:
            kept.create(database, self._schema)
            version = self._store.head
            copies = self._copies(version)
            left = kept.kept(database, self._schema)
            works = [
                self._work(database, number, copy, left.get(copy.table), version)
                for number, copy in enumerate(copies)
            ]
            return Synced(version.number, tuple(self._done(database, works, version)))

    def _copies(self, version: Version) -> list[Copy]:
        """Return the copies of the chosen stages in a version; copies of keys come first."""
        opened = opened_by(self._store)
        keys = (_keys_copy(_stage(opened, name, version)) for name in self._key_tables)
        rows = (_rows_copy(_stage(opened, name, version)) for name in self._stages)
        copies = [*keys, *rows]
        names = [copy.table for copy in copies]
        for copy in copies:
            check_columns(copy.columns, stage=copy.stage)
            _check_size(copy)
            wrong = name_fault(copy.table)
            if wrong is None and names.count(copy.table) > 1:
                wrong = "two of the chosen tables have that name"
            if wrong is not None:
                raise DefinitionError(f"table {copy.table!r}: {wrong}", stage=copy.stage)
        return copies

    def _work(
        self,
        database: Database,
        number: int,
        copy: Copy,
        left: kept.CopyState | None,
        version: Version,
    ) -> _Work:
        """Return the work for a copy, after creating the table if needed and locking it."""
        names = Names(f"{quoted(self._schema)}.{quoted(copy.table)}", number)
        table = kept.existing_table(database, self._schema, copy.table)
        if table is not None and left is None:
            raise SyncError(
                f"there is a table {names.copy} that no sync has made; drop it, or choose another "
                "schema",
                stage=copy.stage,
            )
        if table is not None:
            database.execute(f"LOCK TABLE {names.copy} IN SHARE ROW EXCLUSIVE MODE")
        position = None if left is None else left.position
        changes = self._changes(copy, position, version, self._on_break)
        wrong = None if left is None else self._fault(database, names, table, left, copy)
        if wrong is not None and self._on_break == "raise":
            raise SyncError(
                f"table {names.copy} was changed since the last sync: {wrong}; load it anew with "
                "on_break='reload'",
                stage=copy.stage,
            )
        if wrong is not None and not changes.is_whole:
            changes = replace(self._changes(copy, None, version, "raise"), reason=wrong)
        fits = table is not None and table.columns == kept.expected(copy.columns)
        if table is not None and not fits:
            database.execute(f"DROP TABLE {names.copy}")
        if not fits:
            copy.create(database, names)
        had = _rows_in(database, names) if changes.is_whole else 0 if left is None else left.rows
        return _Work(copy, names, changes, had, is_new=not fits)

    def _changes(
        self, copy: Copy, position: Position | None, version: Version, on_break: OnBreak
    ) -> StageChanges:
        changes = changes_since(
            self._store, position, [copy.stage], until=version.number, on_break=on_break
        )
        return changes.stages[0]

    def _fault(
        self,
        database: Database,
        names: Names,
        table: kept.ExistingTable | None,
        left: kept.CopyState,
        copy: Copy,
    ) -> str | None:
        """Return what someone did to a copy since the last sync; None if no change is found."""
        is_counted = left.rows <= kept.COUNTED_ROWS or self._on_break == "reload"
        count = _rows_in(database, names) if is_counted and table is not None else None
        return kept.fault(table, left, copy.columns, count)

    def _done(
        self, database: Database, works: Sequence[_Work], version: Version
    ) -> Iterator[SyncedTable]:
        """Do all work: new keys before rows that may refer to them, deleted keys last."""
        done = [_carried_out(database, work) for work in works]
        for work, (deleted, inserted, seconds) in zip(works, done, strict=True):
            started = time.perf_counter()
            if not work.changes.is_whole and not work.changes.is_empty:
                deleted += work.copy.finish(database, work.names)
            rows = work.had - deleted + inserted
            _check_rows(work, rows, version)
            table = kept.existing_table(database, self._schema, work.copy.table)
            assert table is not None
            position = Position.of(opened_by(self._store).log.store_id, version, [work.copy.stage])
            kept.keep(database, self._schema, work.copy, kept.CopyState(position, table.oid, rows))
            yield SyncedTable(
                work.copy.table,
                work.copy.stage,
                work.changes.reason if work.changes.is_whole else "",
                deleted,
                inserted,
                rows,
                seconds + time.perf_counter() - started,
            )


@dataclass(frozen=True, slots=True)
class _Work:
    """The work for a copy.

    Attributes:
        had: the number of rows in the table.
        is_new: whether this transaction created the table.
    """

    copy: Copy
    names: Names
    changes: StageChanges
    had: int
    is_new: bool


def _check_size(copy: Copy) -> None:
    """Refuse a table of which PostgreSQL could store no row."""
    size = least_size(copy.columns)
    if size > PAGE:
        raise DefinitionError(
            f"a row of stage {copy.stage!r} has at least {size} bytes, as some columns cannot be "
            f"null, and PostgreSQL stores at most {PAGE} in a row; sync a stage of fewer columns",
            stage=copy.stage,
        )


def _check_rows(work: _Work, rows: int, version: Version) -> None:
    """Refuse to commit a copy whose number of rows differs from its stage's."""
    figures = version.stages.get(work.copy.stage)
    expected = work.copy.expected_rows(0 if figures is None else figures.rows)
    if expected is not None and rows != expected:
        raise SyncError(
            f"table {work.names.copy} would have {rows} rows, and the stage has {expected}: "
            "someone else changed the table since the last sync; load it anew with "
            "on_break='reload'",
            stage=work.copy.stage,
        )


def _carried_out(database: Database, work: _Work) -> tuple[int, int, float]:
    """Do the work; return the number of deleted and inserted rows, and the seconds."""
    started, done = time.perf_counter(), (0, 0)
    try:
        if work.changes.is_whole:
            batches = work.changes.batches()
            done = work.copy.load(database, work.names, batches, is_new=work.is_new)
        elif not work.changes.is_empty:
            done = work.copy.apply(database, work.names, work.changes.batches())
    except RowTooLargeError as error:
        raise _too_large(work, error) from error
    return *done, time.perf_counter() - started


def _too_large(work: _Work, error: RowTooLargeError) -> SyncError:
    keys = work.copy.too_large(work.changes.batches())
    return SyncError(
        f"a row or key of stage {work.copy.stage!r} is too large for PostgreSQL: {error}; the "
        f"largest: {', '.join(map(shown, keys)) or '(it has no key)'}; nothing was written",
        stage=work.copy.stage,
        keys=keys,
    )


def _stage(store: Opened, name: str, version: Version) -> Stage:
    return stage_at(version, copied_stage(store, name))


def _rows_in(database: Database, names: Names) -> int:
    ((count,),) = database.rows(f"SELECT count(*) FROM {names.copy}")
    return int(count)


def _rows_copy(stage: Stage) -> Copy:
    columns = copied_columns(stage)
    key = tuple(c for c in columns if c.name in stage.schema.key.names)
    return RowsCopy(stage.name, stage.name, key, columns)


def _keys_copy(stage: Stage) -> Copy:
    numbered = stage.kind.key_use.numbered
    column = next((c for c in stage.schema.value if c.name == numbered), None)
    if column is None:
        raise DefinitionError(
            f"stage {stage.name!r} has no surrogate, so its keys have no id that a key table could "
            "have; give it one, with surrogate=",
            stage=stage.name,
        )
    key = stage.schema.key.columns
    return KeysCopy(stage.name, stage.name + _KEYS, key, (column, *key))
