"""Merging: changes by Spark's ``MERGE``, for tables with features that our commits do not keep.

The invariant: the statement changes the rows of the given keys to the given rows, however Delta
writes that; and its commit directly follows the Delta version that was read, or nothing is changed.

Spark takes no version to merge into: a statement reads the newest one. But it reads the table
before its source, so the source looks for a later commit; and Delta may not try again if one comes
after that.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from deltaproduce.engines.delta.log import is_committed, next_commit
from deltaproduce.engines.delta.tables import Place
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.spark.columns import by_number
from deltaproduce.engines.spark.delta import SparkDelta
from deltaproduce.engines.spark.frames import frame
from deltaproduce.errors import SessionError
from deltaproduce.record_index.table import TableSnapshot, overtaken
from deltaproduce.storage.failpoints import effect
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import BooleanType
from deltaproduce.types.ddl import identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DELETED = Column("_deleted", BooleanType())
_Batches = Iterator[pa.RecordBatch]


def merge(
    spark: SparkSession | None,
    snapshot: TableSnapshot,
    why: str,
    upserts: pa.Table,
    deletes: pa.Table,
    metadata: Mapping[str, object],
) -> int:
    """Upsert rows and delete keys of a table, in one commit.

    Args:
        why: the reason why files cannot be replaced, for messages.
        upserts: rows in all columns.
        deletes: keys, in the key columns.
        metadata: the commit's metadata.

    Returns:
        The delta version of the commit.

    Raises:
        SessionError: there is no session.
        ConflictError: another process committed meanwhile; nothing of this change is visible.
        CommitUnknownError: the commit failed, and whether it is there cannot be read.
    """
    directory, columns = snapshot.directory, snapshot.columns
    if spark is None:
        raise SessionError(
            f"table {directory.path!r} can only be changed by Spark's MERGE, as {why}: give the "
            "record index a session, such as dp.local_session()"
        )
    rows = pa.concat_tables(
        [_marked(upserts, False), _marked(deletes, True)], promote_options="default"
    ).select([*(c.name for c in columns), _DELETED.name])
    changes = _unless_moved(frame(rows, spark, (*columns, _DELETED)), snapshot)
    attempt = uuid.uuid4().hex
    user_metadata = json.dumps({**metadata, "attempt": attempt})
    with effect("commit", directory.path):
        try:
            SparkDelta(spark).merge(
                _statement(directory.path, columns, deletes), changes, user_metadata
            )
        except Exception as error:
            if not is_committed(directory, snapshot.delta_version, attempt):
                if next_commit(directory, snapshot.delta_version):
                    raise overtaken(directory) from error
                raise
    return snapshot.delta_version + 1


def _statement(path: str, columns: Sequence[Column], deletes: pa.Table) -> str:
    target = _escaped(Place(path, in_catalog=False).sql)
    names = [_escaped(identifier(c.name)) for c in columns]
    keys = [_escaped(identifier(name)) for name in deletes.column_names]
    matches = " AND ".join(f"t.{name} <=> c.{name}" for name in keys)
    sets = ", ".join(f"t.{name} = c.{name}" for name in names)
    values = ", ".join(f"c.{name}" for name in names)
    return (
        f"MERGE INTO {target} t USING {{changes}} c ON {matches} "
        f"WHEN MATCHED AND c.{_DELETED.name} THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {sets} "
        f"WHEN NOT MATCHED AND NOT c.{_DELETED.name} THEN INSERT ({', '.join(names)}) "
        f"VALUES ({values})"
    )


def _unless_moved(rows: DataFrame, snapshot: TableSnapshot) -> DataFrame:
    """Return rows that cannot be read once the table has moved on."""
    check = _check(snapshot.directory, snapshot.delta_version)
    return by_number(rows).mapInArrow(check, rows.schema)


def _check(directory: Directory, delta_version: int) -> Callable[[_Batches], _Batches]:
    """Return a task's work, as a function that can be pickled."""

    def run(batches: _Batches) -> _Batches:
        if next_commit(directory, delta_version):
            raise RuntimeError(f"the table has moved on from its delta version {delta_version}")
        yield from batches

    return run


def _marked(rows: pa.Table, deleted: bool) -> pa.Table:
    return rows.append_column(_DELETED.name, pa.array(np.full(len(rows), deleted)))


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
