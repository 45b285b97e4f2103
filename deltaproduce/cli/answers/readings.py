"""Rows as verbs print them: filtered, limited, and turned into plain values.

The invariant: Spark returns only the rows that are printed, plus one that shows that there are
more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.cli.answers.answer import Answer
from deltaproduce.cli.answers.values import cell
from deltaproduce.errors import NotFoundError
from deltaproduce.model.graph import Stage
from deltaproduce.model.hidden import RECORDS
from deltaproduce.reading import stage_tables
from deltaproduce.reading.lookups import LookupOptions, lookup
from deltaproduce.reading.opened import opened_by
from deltaproduce.shown.table import Table
from deltaproduce.shown.tasks import Task
from deltaproduce.storage.versions import stage_at
from deltaproduce.times.zones import on_clock, zone_of
from deltaproduce.types.columns import Columns
from deltaproduce.types.ddl import quoted
from deltaproduce.types.json.plain import plain
from deltaproduce.types.python_values import python_tuples

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from deltaproduce.reading.lineages import Lineage
    from deltaproduce.reading.recorded.reader import Reader
    from deltaproduce.store import Store


def stage_of(store: Store | Reader, stage: str, version: int | None = None) -> Stage:
    """Return a stage with the columns that it has in a version; the head if None.

    Raises:
        NotFoundError: there is no such stage or version.
        SessionError: only Spark knows its columns.
    """
    opened = opened_by(store)
    recorded = stage_at(opened.version(version), opened.stage(stage))
    if stage in opened.needing and not all(column.is_known for column in recorded.schema.key):
        raise opened.needing[stage]  # no version has its columns
    return recorded


def key_columns(stage: Stage) -> Columns:
    """Return the key columns of a stage that readers see."""
    return Columns(tuple(column for column in stage.schema.key if not column.is_hidden))


def rows_of(
    store: Store | Reader,
    stage: Stage,
    filters: Mapping[str, Any],
    version: int | None,
    *,
    internal: bool,
) -> DataFrame | pa.Table:
    """Return the rows of a stage in order: all, or those with some values, as `filters_of` has.

    Args:
        internal: also return the library's columns.
    """
    opened, name = opened_by(store), stage.name
    if filters and len(filters) == len(key_columns(stage)):
        options = LookupOptions(version=version, ordered=True, internal=internal)
        return lookup(opened, name, [filters], options).rows
    rows = stage_tables.content(opened, name, version, ordered=True, internal=internal)
    return _where(rows, filters, store.time_zone)


def _where(
    rows: DataFrame | pa.Table, filters: Mapping[str, Any], zone: str
) -> DataFrame | pa.Table:
    """Keep the rows with these values in these columns; null is a value."""
    for name, value in filters.items():
        if isinstance(rows, pa.Table):
            column = rows.column(name)
            same = (
                pc.is_null(column) if value is None else pc.equal(column, _of(value, column, zone))
            )
            rows = rows.filter(same)
        else:
            from pyspark.sql import functions as f

            rows = rows.where(f.col(quoted(name)).eqNullSafe(f.lit(value)))
    return rows


def printed(rows: DataFrame | pa.Table, limit: int) -> Answer:
    """Return the first rows as an answer: an object each in JSON, and a table otherwise."""
    columns, fetched, more = _taken(rows, limit)
    data = {
        "rows": [dict(zip(columns, map(plain, row), strict=True)) for row in fetched],
        "truncated": more,
    }
    table = Table("", columns, tuple(tuple(map(cell, row)) for row in fetched))
    said = f"the first {limit:,} rows: --limit 0 prints all" if more else ""
    return Answer(data, tuple(p for p in (table if fetched else "no rows", said) if p))


def of_lineage(lineage: Lineage, limit: int) -> Answer:
    """Return a lineage as an answer: the stages upstream and downstream, and the keys in each."""
    ways = {"upstream": lineage.upstream, "downstream": lineage.downstream}
    taken = {
        way: {stage: _taken(keys, limit) for stage, keys in stages.items()}
        for way, stages in ways.items()
    }
    data: dict[str, Any] = {
        "stage": lineage.stage,
        "key": plain(lineage.key),
        "version": lineage.version,
    }
    for way, stages in taken.items():
        data[way] = {
            stage: {
                "keys": [dict(zip(names, map(plain, key), strict=True)) for key in keys],
                "truncated": more,
            }
            for stage, (names, keys, more) in stages.items()
        }
    rows = {
        way: [
            (way, stage, ", ".join(map(cell_of, key)))
            for stage, (_, keys, _) in stages.items()
            for key in keys
        ]
        for way, stages in taken.items()
    }
    if not any(rows.values()):
        return Answer(data, ("no such key, and so nothing is made of it",))
    own = ("this", lineage.stage, ", ".join(map(cell_of, _parts(lineage.key))))
    table = Table(
        f"version {lineage.version}",
        ("", "stage", "key"),
        (*rows["upstream"], own, *rows["downstream"]),
    )
    cut = [stage for stages in taken.values() for stage, (_, _, more) in stages.items() if more]
    said = f"of {', '.join(cut)} the first {limit:,} keys: --limit 0 prints all" if cut else ""
    return Answer(data, tuple(part for part in (table, said) if part))


def _parts(key: object) -> tuple[object, ...]:
    """Return the values of a key, as functions get it."""
    return key if isinstance(key, tuple) else (key,)


def cell_of(value: object) -> str:
    """Return a value as text for a line with several values."""
    return str(cell(value))


def _taken(
    rows: DataFrame | pa.Table, limit: int
) -> tuple[tuple[str, ...], list[tuple[Any, ...]], bool]:
    """Return the column names, at most `limit` rows, and whether there are more."""
    if not isinstance(rows, pa.Table):
        rows = (rows.limit(limit + 1) if limit else rows).toArrow()
    kept = rows.slice(0, limit) if limit else rows
    return tuple(rows.column_names), python_tuples(kept), len(kept) < len(rows)


def _of(value: object, column: pa.ChunkedArray, zone: str) -> pa.Scalar:
    """Return a value in a column's type; a time without a zone is on the store's clock."""
    if isinstance(value, datetime) and column.type.tz is not None:
        value = _as_instant(value, zone)
    return pa.scalar(value).cast(column.type)


def _as_instant(value: object, zone: str) -> object:
    """Return a time without a zone as one on a zone's clock."""
    match value:
        case datetime(tzinfo=None):
            return on_clock(value, zone_of(zone)).astimezone(UTC)
    return value


def has_tasks(store: Store | Reader) -> bool:
    """Return whether a pipeline has tasks: by its stages, or by the records that it keeps."""
    opened = opened_by(store)
    if any(stage.kind.tasks.make_rows for stage in opened.graph.stages):
        return True
    return any(figures.role == RECORDS for figures in opened.log.last_read.stages.values())


def of_partition(
    store: Store, stage: str, partition: Mapping[str, Any], as_of: str | None
) -> Answer | None:
    """Return the task that computes a partition as an answer; None if that is no task's.

    Args:
        as_of: the day of the task; None for the newest one that is known.

    Raises:
        NotFoundError: no task computes it.
    """
    tasks = opened_by(store).stage(stage).kind.tasks
    if not tasks.make_rows or set(partition) != set(tasks.columns):
        return None
    return _of_task(store.tasks(as_of=as_of), stage, partition, store.time_zone)


def _of_task(tasks: Iterable[Task], stage: str, partition: Mapping[str, Any], zone: str) -> Answer:
    """Return the scope, partition columns and dependencies of the task that computes a partition.

    Raises:
        NotFoundError: no task computes it.
    """
    wanted = {name: _as_instant(value, zone) for name, value in partition.items()}
    for task in tasks:
        has = {name: _as_instant(value, zone) for name, value in task.partition.items()}
        if task.stage == stage and has == wanted:
            data = {
                "task": str(task),
                "state": task.state,
                "scope": {name: plain(value) for name, value in task.scope.items()},
                "partition": {name: plain(value) for name, value in task.partition.items()},
                "dependencies": list(map(str, task.dependencies)),
            }
            return Answer(data, task.as_tables())
    named = "/".join(f"{name}={value}" for name, value in partition.items())
    raise NotFoundError(f"no task makes {stage}/{named} at that date; name another with --as-of")
