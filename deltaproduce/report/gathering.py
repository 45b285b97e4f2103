"""Gathering a report: from the version log, the definitions and the logs of tables.

The invariant: everything that a report says about stages is from one version. Gathering needs no
session; with one, Spark only reads sample rows that cannot be read without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import Final

from deltaproduce.model.checks.results import CheckResult
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import CONTENT, UPDATES
from deltaproduce.model.window_moves import WindowMove
from deltaproduce.reading.opened import Opened
from deltaproduce.report.differences import difference
from deltaproduce.report.model import (
    CheckReport,
    ColumnReport,
    Report,
    StageReport,
    StepReport,
    TableReport,
    VersionReport,
)
from deltaproduce.report.samples import rows_changed
from deltaproduce.shown.update_ids import description
from deltaproduce.storage.figures import StageFigures
from deltaproduce.storage.versions import EMPTY, Version, find, stage_at
from deltaproduce.types.ddl import ddl_of
from deltaproduce.types.excerpts import shown

STEPS: Final = 20
"""The report lists this many of the newest versions that touched a stage."""


def report(
    store: Opened, pipeline: str, version: int | None, samples: int, now: datetime
) -> Report:
    """Return the report of a store's versions, with its stages in one of them.

    Args:
        pipeline: its name.
        version: the number of the version; the head if None.
        samples: the most rows to show of a version's changes to a stage.
        now: the current time, with time zone.

    Raises:
        NotFoundError: there is no such version, or its tables do not exist any more.
        CorruptStoreError: tables are missing, or differ from what the version recorded.
    """
    versions = [each.shown() for each in store.log.versions()]
    head = versions[-1] if versions else EMPTY
    chosen = head if version is None else find(versions, version)
    stages = store.graph.shown
    store.check_there(chosen, [stage.name for stage in stages], CONTENT, UPDATES)
    past = [each for each in reversed(versions) if each.number <= chosen.number]
    readers = {
        feeder: [one.name for one in stages if feeder in _names(one.merged)]
        for feeder in _names(stages)
    }
    return Report(
        pipeline,
        store.tables.location.address,
        now.timestamp(),
        head.number,
        _version(chosen),
        tuple(_stage(store, one, readers[one.name], past, samples) for one in stages),
        tuple(map(_version, versions)),
        tuple(_check(one, samples) for one in chosen.checks),
    )


def _check(result: CheckResult, samples: int) -> CheckReport:
    row = shown(dict(result.sample[0])) if samples and result.broken and result.sample else ""
    name, stage, level = result.name, result.stage, result.severity
    return CheckReport(name, stage, level, result.broken, result.rows, result.allows, row)


def _names(stages: Sequence[Stage]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(stage.name for stage in stages))


def _version(version: Version) -> VersionReport:
    figures = version.stages.values()
    time = version.committed_at
    return VersionReport(
        version.number,
        None if time is None else time.timestamp(),
        version.operation,
        description(version.update_id),
        sum(one.mode != "skipped" for one in figures),
        sum(one.seconds for one in figures),
        sum(one.affected_keys for one in figures),
        sum(one.changed_keys for one in figures),
        sum(one.rows_added for one in figures),
        sum(one.rows_removed for one in figures),
        sum(one.rows for one in figures),
        version.seconds,
    )


def _stage(
    store: Opened, stage: Stage, readers: Sequence[str], past: Sequence[Version], samples: int
) -> StageReport:
    """Return one stage in the first of these versions.

    Args:
        past: that version and the earlier ones, newest first.
    """
    chosen = past[0] if past else EMPTY
    figures, recorded = chosen.stages.get(stage.name), stage_at(chosen, stage)
    feeders = _names(stage.merged)
    definition = stage.kind.definition
    text = definition.text(feeders)
    touched = (
        (version, version.stages[stage.name])
        for version in past
        if stage.name in version.stages and version.stages[stage.name].mode != "skipped"
    )
    steps = tuple(_step(version, done) for version, done in islice(touched, STEPS))
    changed = difference(store, stage, past, samples)
    return StageReport(
        stage.name,
        stage.kind.word,
        feeders,
        tuple(readers),
        tuple(_columns(recorded)),
        tuple(column.name for column in recorded.source_key if not column.is_hidden),
        "" if text is None else definition.language,
        text or "",
        None if figures is None else _step(chosen, figures),
        () if figures is None else tuple(_tables(store, stage, figures)),
        steps,
        tuple(rows_changed(store, stage, past if changed is None else past[1:], samples)),
        changed,
    )


def _columns(stage: Stage) -> list[ColumnReport]:
    of_key = [(column, "key") for column in stage.schema.key if not column.is_hidden]
    return [
        ColumnReport(
            column.name,
            role,
            ddl_of(column.data_type).lower() if column.is_known else "",
            column.nullable,
            column.descending,
            stage.kind.key_use.copied.get(column.name),
        )
        for column, role in (*of_key, *((column, "value") for column in stage.schema.value))
    ]


def _step(version: Version, figures: StageFigures) -> StepReport:
    return StepReport(
        version.number,
        figures.mode,
        figures.reason,
        figures.affected_keys,
        figures.changed_keys,
        figures.rows_added,
        figures.rows_removed,
        figures.rows,
        figures.rows_read,
        figures.bytes_read,
        figures.seconds,
        _window(figures.window),
    )


def _window(move: WindowMove | None) -> str:
    if move is None:
        return ""
    return "no partitions" if move.first is None else f"{move.first} to {move.last}"


def _tables(store: Opened, stage: Stage, figures: StageFigures) -> list[TableReport]:
    return [_table(store, stage, kind, at) for kind, at in figures.delta_versions.items()]


def _table(store: Opened, stage: Stage, kind: str, delta_version: int) -> TableReport:
    """Return the size of one table; someone else's table is not read."""
    if kind == CONTENT and stage.kind.intake.table is not None:
        return TableReport(kind, delta_version, None, None)
    size = store.tables.reader.size(store.tables.location.table(stage.name, kind), delta_version)
    if size is None:
        return TableReport(kind, delta_version, None, None)
    return TableReport(kind, delta_version, size.files, size.bytes)
