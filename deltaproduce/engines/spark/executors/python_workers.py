"""Spark's Python workers: what a function may have there, and not in a process on the driver.

The invariant: if a session gives its workers something of their own, its functions stay there.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from deltaproduce.engines.spark.sessions.remote import is_remote

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

INTERPRETER_KEY: Final = "spark.sql.execution.pyspark.python"
_MEMORY_KEY: Final = "spark.executor.pyspark.memory"

_ONE_PROCESS: Final = re.compile(r"local(\[.*\])?")
"""How `spark.master` names one process; `local-cluster` has processes of its own."""

_HELD_BY_SPARK: Final = (
    ("pyspark.accumulators", "Accumulator"),
    ("pyspark.core.broadcast", "Broadcast"),
    ("pyspark.core.context", "SparkContext"),
)


def held_by_spark() -> tuple[type, ...]:
    """Return the classes that a function may hold and that work only in Spark's workers.

    PySpark's client has no such classes, and a function cannot hold one that was not imported.
    """
    held = ((sys.modules.get(module), name) for module, name in _HELD_BY_SPARK)
    return tuple(getattr(module, name) for module, name in held if module is not None)


def are_as_beside(spark: SparkSession) -> bool:
    """Return whether a function runs on the driver as it does in the session's workers.

    Workers may run another interpreter, with other packages, have a bound on their memory, or files
    added to the session. For a remote session this is unknown.
    """
    if is_remote(spark):
        return False
    context = spark.sparkContext
    interpreter = spark.conf.get(INTERPRETER_KEY, None) or context.pythonExec
    return (
        os.name == "posix"
        and _is_this(interpreter)
        and spark.conf.get(_MEMORY_KEY, None) is None
        and not _has_files(context)
    )


def has_other_machines(spark: SparkSession) -> bool:
    """Return whether a session's tasks run elsewhere than in this machine's one Java process."""
    return is_remote(spark) or _ONE_PROCESS.fullmatch(spark.sparkContext.master or "") is None


def _has_files(context: SparkContext) -> bool:
    """Return whether files were added that the driver cannot import, as it can Python files.

    `spark.jars.packages` adds only jars.
    """
    java = context._jsc  # PySpark asks for one name after the other, for 12 ms
    if java is None:
        return False
    files = str(java.sc().listFiles().mkString("\n"))
    importable = tuple(f"/{name}" for name in context._python_includes or ())
    return any(not name.endswith((".jar", ".py", *importable)) for name in files.splitlines())


def as_in_spark(rows: pa.Table, time_zone: str) -> pa.Table:
    """Return rows as Spark's workers get them: timestamps have the session's time zone."""
    types = [_zoned(kind, time_zone) for kind in rows.schema.types]
    if types == rows.schema.types:
        return rows
    arrays = [column.cast(t) for column, t in zip(rows.columns, types, strict=True)]
    return pa.Table.from_arrays(arrays, names=rows.column_names)


def _zoned(kind: pa.DataType, zone: str) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return kind if kind.tz is None else pa.timestamp(kind.unit, zone)
    if pa.types.is_map(kind):
        key, item = kind.key_field, kind.item_field
        return pa.map_(key.with_type(_zoned(key.type, zone)), _zoned_field(item, zone))
    if pa.types.is_list(kind):
        return pa.list_(_zoned_field(kind.value_field, zone))
    if pa.types.is_struct(kind):
        return pa.struct([_zoned_field(field, zone) for field in kind])
    return kind


def _zoned_field(field: pa.Field, zone: str) -> pa.Field:
    return field.with_type(_zoned(field.type, zone))


def _is_this(interpreter: str) -> bool:
    """Return whether it is this process's interpreter, in the same folder.

    The folder counts because environments share a program.
    """
    interpreter_path = shutil.which(interpreter)
    if interpreter_path is None or not sys.executable:
        return False
    one, other = (
        os.path.split(os.path.abspath(path)) for path in (interpreter_path, sys.executable)
    )
    return os.path.samefile(interpreter_path, sys.executable) and os.path.samefile(one[0], other[0])
