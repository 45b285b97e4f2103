"""Merging: changes by Spark's ``MERGE``, for tables with features that our commits do not keep.

The invariant: the statement changes the rows of the given keys to the given rows, however Delta
writes that.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType

from deltaproduce.engines.delta_tables import Place
from deltaproduce.engines.spark.frames import frame
from deltaproduce.errors import SessionError
from deltaproduce.storage.failpoints import effect
from deltaproduce.types.columns import Column
from deltaproduce.types.ddl import identifier

_DELETED = Column("_deleted", BooleanType())


def merge(
    spark: SparkSession | None,
    path: str,
    why: str,
    upserts: pa.Table,
    deletes: pa.Table,
    columns: Sequence[Column],
) -> None:
    """Upsert rows and delete keys of a table at a path, in one commit.

    Args:
        why: the reason why files cannot be replaced, for messages.
        upserts: rows in all columns.
        deletes: keys, in the key columns.

    Raises:
        SessionError: there is no session.
    """
    if spark is None:
        raise SessionError(
            f"table {path!r} can only be changed by Spark's MERGE, as {why}: give the record index "
            "a session, such as dp.local_session()"
        )
    rows = pa.concat_tables(
        [_marked(upserts, False), _marked(deletes, True)], promote_options="default"
    )
    changes = frame(
        rows.select([*(c.name for c in columns), _DELETED.name]), spark, (*columns, _DELETED)
    )
    target = Place(path, in_catalog=False).sql.replace("{", "{{").replace("}", "}}")
    names = [_escaped(c.name) for c in columns]
    matches = " AND ".join(
        f"t.{_escaped(name)} <=> c.{_escaped(name)}" for name in deletes.column_names
    )
    sets = ", ".join(f"t.{name} = c.{name}" for name in names)
    values = ", ".join(f"c.{name}" for name in names)
    with effect("commit", path):
        spark.sql(
            f"MERGE INTO {target} t USING {{changes}} c ON {matches} "
            f"WHEN MATCHED AND c.{_DELETED.name} THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {sets} "
            f"WHEN NOT MATCHED AND NOT c.{_DELETED.name} THEN INSERT ({', '.join(names)}) "
            f"VALUES ({values})",
            changes=changes,
        )


def _marked(rows: pa.Table, deleted: bool) -> pa.Table:
    return rows.append_column(_DELETED.name, pa.array(np.full(len(rows), deleted)))


def _escaped(name: str) -> str:
    return identifier(name).replace("{", "{{").replace("}", "}}")
