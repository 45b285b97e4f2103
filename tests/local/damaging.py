"""Damage to tables by someone else, without Spark, and faults that look like versions of ours."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, QueryBuilder, write_deltalake

from deltaproduce import Store
from deltaproduce.storage.attempts import Attempt

Harm = Callable[[Path], object]
"""Something done to a table, given its directory."""

Fault = Callable[[pa.Table], pa.Table]
"""The rows that a table has instead of its own."""


def rows_of(table: Path) -> pa.Table:
    """The rows of a table, of which some may be marked as deleted."""
    opened = DeltaTable(table)
    found = pa.table(QueryBuilder().register("rows", opened).execute("SELECT * FROM rows"))
    return found.cast(pa.schema(opened.schema()))


def append(table: Path) -> None:
    write_deltalake(table, rows_of(table), mode="append")


def delete(table: Path) -> None:
    DeltaTable(table).delete("customer IS NOT NULL")


def restore(table: Path) -> None:
    append(table)
    DeltaTable(table).restore(0)


def drop(table: Path) -> None:
    shutil.rmtree(table)


def recreate(table: Path) -> None:
    rows = rows_of(table)
    shutil.rmtree(table)
    for _ in range(8):
        write_deltalake(table, rows, mode="append")


def remove_files(table: Path) -> None:
    for file in table.glob("*.parquet"):
        file.unlink()


def truncate_files(table: Path) -> None:
    for file in table.glob("*.parquet"):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def empty_log(table: Path) -> None:
    for file in (table / "_delta_log").glob("*.*"):
        file.unlink()


COMMITS: Mapping[str, Harm] = {"append": append, "delete": delete, "restore": restore}
LOSSES: Mapping[str, Harm] = {
    "drop": drop,
    "recreate": recreate,
    "removed files": remove_files,
    "truncated files": truncate_files,
    "log without commits": empty_log,
}


def _with(name: str, made: Callable[[pa.Table], object]) -> Fault:
    """A column has other values."""

    def fault(rows: pa.Table) -> pa.Table:
        place = rows.schema.get_field_index(name)
        column = pa.chunked_array(made(rows), rows.schema.field(name).type)
        return rows.set_column(place, rows.schema.field(name), column)

    return fault


def _added(name: str, number: int) -> Fault:
    return _with(name, lambda rows: [pc.add(rows.column(name), number).combine_chunks()])


def _without_last(rows: pa.Table) -> pa.Table:
    last = pc.max(rows.column("_source_id"))
    return rows.filter(pc.not_equal(rows.column("_source_id"), last))


def _later(rows: pa.Table) -> pa.Table:
    row = {"_version": 99, "_change_type": "add", "customer": 99, "_position": 0, "amount": 9}
    return pa.concat_tables([rows, pa.Table.from_pylist([row], rows.schema)])


def _all_add(rows: pa.Table) -> pa.Table:
    column = rows.column("_change_type")
    words = pc.if_else(pc.equal(column, "update"), "add", column)
    return _with("_change_type", lambda _: [words.combine_chunks()])(rows)


def _backwards(rows: pa.Table) -> pa.Table:
    return rows.sort_by("customer").take(pa.array(np.arange(len(rows))[::-1]))


FAULTS: Mapping[str, tuple[Mapping[str, Fault], set[tuple[str, str]]]] = {
    "numbers, mappings and words": (
        {"content": _added("_ordinal", 1), "key_mappings": _without_last, "updates": _all_add},
        {("content", "rows"), ("key_mappings", "pairs"), ("updates", "steps")},
    ),
    "a row less, and later updates": (
        {"content": _without_last, "updates": _later},
        {("content", "rows"), ("key_mappings", "pairs"), ("updates", "steps"), ("updates", "fold")},
    ),
    "other values, and pairs twice": (
        {"content": _added("amount", 1), "key_mappings": lambda r: pa.concat_tables([r, r])},
        {("updates", "fold"), ("key_mappings", "pairs")},
    ),
    "out of order, and other updates": (
        {"content": _backwards, "updates": _added("amount", 1)},
        {("content", "order"), ("updates", "fold")},
    ),
    "columns": (
        {
            "content": lambda rows: rows.append_column("more", pa.nulls(len(rows), pa.int32())),
            "updates": _added("_position", 1),
        },
        {("content", "columns"), ("updates", "steps")},
    ),
}
"""What is done to the tables of ``by_customer`` -> what is found of them."""


def planted(store: Store, faults: Mapping[str, Fault], stage: str = "by_customer") -> None:
    """Make tables of a stage wrong, as if a version had done so."""
    head = store._opened.log.head()
    attempt = Attempt.after(head, datetime.now(UTC))
    stages = {name: figures.carried() for name, figures in head.stages.items()}
    for kind, fault in faults.items():
        table = store._opened.tables.location.table(stage, kind)
        rows = fault(rows_of(Path(table.address)))
        told = CommitProperties({"userMetadata": attempt.metadata(table.name)})
        write_deltalake(
            table.address, rows, mode="overwrite", schema_mode="overwrite", commit_properties=told
        )
        newest = store._opened.tables.reader.recent_commits(table)[0].delta_version
        wrong = stages[stage].at({kind: newest})
        added = {**wrong.base.added, kind: int(fault is not _backwards)}
        stages[stage] = replace(wrong, base=replace(wrong.base, added=added))
    version = replace(head, number=head.number + 1, stages=stages, attempt=attempt)
    store._opened.log.publish(version, attempt)


def log_without(number: int, location: str) -> None:
    """Someone else deletes the row of a version from the version log."""
    DeltaTable(f"{location}/_versions").delete(f"number = {number}")
