"""Changes since a position: the rows that a copy of some stages lacks, as of one version.

The invariant: whatever the position is, a copy that applies all `StageChanges` then has the rows of
the version in `Changes.position`, for all these stages. Applying them twice does no harm: changed
keys come with all their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, get_args

import pyarrow as pa

from deltaproduce.errors import InvalidArgumentError, SyncError
from deltaproduce.model import arguments
from deltaproduce.model.graph import Stage
from deltaproduce.reading.copying import all_rows, changed_rows, copied_columns, copied_stage
from deltaproduce.reading.opened import Opened, opened_by
from deltaproduce.storage.versions import Version, find, stage_at
from deltaproduce.store import Store
from deltaproduce.sync.positions import Position, fault
from deltaproduce.types.columns import Column

OnBreak = Literal["raise", "reload"]
"""The reaction if it is unknown what a copy lacks: an error, or all rows again."""


@dataclass(frozen=True, slots=True)
class StageChanges:
    """What a copy of one stage lacks.

    Attributes:
        stage: its name.
        key: the key columns; none if the stage has one row over all.
        value: the value columns.
        is_whole: if true, the batches are all rows and replace those of the copy; if false, they
            are the changed keys, and others stay.
        reason: why they are all rows; empty if they are not.
        is_empty: there is nothing to apply.
    """

    stage: str
    key: tuple[Column, ...]
    value: tuple[Column, ...]
    is_whole: bool
    reason: str
    is_empty: bool
    _read: Callable[[], Iterator[pa.Table]] = field(repr=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of a copy."""
        return (*self.key, *self.value)

    def batches(self) -> Iterator[pa.Table]:
        """The rows, some 65,000 or 16 MiB at a time, in any order; read as you ask for them.

        Returns:
            Key columns and value columns; if they are not all rows, ``_change_type`` too:
            ``upsert`` for each current row of a key, or one ``delete`` for a key without rows.
            `Store.update` accepts this form.
        """
        return self._read()


@dataclass(frozen=True, slots=True)
class Changes:
    """What a copy lacks.

    Attributes:
        position: what the copy has after it applied all stages; store it with them.
        stages: in the order in which you asked for them.
    """

    position: Position
    stages: tuple[StageChanges, ...]


def changes_since(
    store: Store,
    position: Position | None,
    stages: Sequence[str] | None = None,
    *,
    until: int | None = None,
    on_break: OnBreak = "raise",
) -> Changes:
    """Return what a copy lacks that has some stages at a position, over any number of versions.

    This reads only the version log. `StageChanges.batches` reads rows: all of a stage's content the
    first time, then the updates of the versions in between.

    Args:
        position: what the copy has; None if it has nothing. A stage that it does not name is new.
        stages: names of sources and stages; all of the pipeline if None.
        until: the number of the version that the copy should have; the head if None.
        on_break: what happens if it is unknown what the copy lacks, because its position is of
            another store, or of one that was restored, or the versions since were dropped, or the
            stage has other columns: ``raise`` an error, or ``reload``, which returns all rows.

    Raises:
        NotFoundError: there is no such stage or version.
        DefinitionError: a source forgets rows (``expire="forget"``), which its updates do not
            contain.
        SyncError: it is unknown what the copy lacks.
        InvalidArgumentError: ``until`` is before the position; or an argument has the wrong type.
    """
    arguments.choice(on_break, "on_break", get_args(OnBreak))
    opened = opened_by(store)
    versions = opened.log.versions()
    number = opened.log.last_read.number if until is None else arguments.integer(until, "until")
    last, chosen = find(versions, number), _chosen(store, stages)
    store_id = opened.log.store_id
    if position is not None and position.store_id == (store_id or "") and position.version > number:
        _check_forwards(position, number, versions)
    changes = [
        _changes_of(opened, stage, position, versions, last, store_id, on_break) for stage in chosen
    ]
    return Changes(Position.of(store_id, last, [stage.name for stage in chosen]), tuple(changes))


def _chosen(store: Store, stages: Sequence[str] | None) -> list[Stage]:
    if isinstance(stages, str):
        raise InvalidArgumentError(f"stages is {stages!r}; give a list of names", argument="stages")
    names = [stage.name for stage in opened_by(store).defined] if stages is None else stages
    return [copied_stage(opened_by(store), name) for name in names]


def _check_forwards(position: Position, until: int, versions: Sequence[Version]) -> None:
    """Refuse to go back to a version before the position, if the store has its version."""
    if versions and position.version <= versions[-1].number:
        raise InvalidArgumentError(
            f"until is version {until}, and the copy has version {position.version} already",
            argument="until",
        )


def _changes_of(
    store: Opened,
    stage: Stage,
    position: Position | None,
    versions: Sequence[Version],
    last: Version,
    store_id: str | None,
    on_break: OnBreak,
) -> StageChanges:
    stage = stage_at(last, stage)
    whole = partial(all_rows, store, stage, last)
    columns = copied_columns(stage)
    names = stage.schema.key.names
    key = tuple(column for column in columns if column.name in names)
    value = tuple(column for column in columns if column.name not in names)
    changes = partial(StageChanges, stage.name, key, value)
    if position is None or stage.name not in position.definitions or not position.version:
        return changes(is_whole=True, reason="it is new", is_empty=False, _read=whole)
    wrong = fault(position, store_id, [v for v in versions if v.number <= last.number], stage.name)
    if wrong is not None and on_break == "raise":
        raise SyncError(
            f"what the copy of stage {stage.name!r} lacks is not known: {wrong}; load it anew with "
            "on_break='reload'",
            stage=stage.name,
        )
    if wrong is not None:
        return changes(is_whole=True, reason=wrong, is_empty=False, _read=whole)
    since = find(versions, position.version)
    if not _changed(stage.name, versions, since, last):
        return changes(is_whole=False, reason="", is_empty=True, _read=partial(iter, ()))
    if not key:
        return changes(is_whole=True, reason="it has one row", is_empty=False, _read=whole)
    read = partial(changed_rows, store, stage, since, last)
    return changes(is_whole=False, reason="", is_empty=False, _read=read)


def _changed(stage: str, versions: Sequence[Version], since: Version, last: Version) -> bool:
    """Return whether any version after `since`, up to `last`, has updates of a stage."""
    between = (v for v in versions if since.number < v.number <= last.number)
    figures = (version.stages.get(stage) for version in between)
    return any(figure is not None and figure.changed_keys for figure in figures)
