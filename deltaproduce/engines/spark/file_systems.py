"""File systems: operations of Hadoop that neither Spark nor Delta offers.

Delta never drops a table at a path (``DROP TABLE`` treats it as external, and does nothing), and
Spark does not tell the file system of a path without a scheme. So this module reaches behind
PySpark's public interface, for the file system that Spark itself uses. The invariants: an
interrupted removal leaves a table that Delta can read, and that can be removed; and nothing is
removed through a symbolic link. `local.files` does the same without Spark.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from deltaproduce.engines.delta import log
from deltaproduce.engines.delta.log import LOG
from deltaproduce.engines.paths import local_path
from deltaproduce.errors import DefinitionError, StorageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_local(spark: SparkSession, address: str) -> bool:
    """Return whether a path, as Spark takes it, is in a file system of this machine."""
    path = _path(spark, address)
    return path is not None and _system(spark, path).getScheme() == "file"


def has_others(spark: SparkSession, address: str) -> bool:
    """Return whether another Delta table, and so perhaps a store, is below a table's directory."""
    path = _path(spark, address)
    return path is not None and _holds_a_log(_system(spark, path), path)


def check_relative(spark: SparkSession, path: str) -> None:
    """Refuse a relative path if a path without a scheme is not on this machine.

    Raises:
        DefinitionError: it is in another file system, which has another current directory.
    """
    if not is_local(spark, path):
        raise DefinitionError(
            f"{path!r} is a relative path, and a path without a scheme is not on this machine in "
            "this session: write the whole path, with its scheme if it has one, such as "
            "'s3a://bucket/lake' or 'file:///srv/lake'"
        )


def remove_table(spark: SparkSession, address: str) -> None:
    """Remove a Delta table's directory, and its parent directory if that is then empty.

    The data goes first, then the log, newest first: the rest of the log stays readable. Of symbolic
    links, only the links are removed.

    Raises:
        StorageError: the session is of Spark Connect, which cannot remove directories.
    """
    path = _path(spark, address)
    if path is None:
        raise StorageError(
            f"a session of Spark Connect cannot remove the directory {address}: remove it by hand, "
            "or vacuum the store in another session"
        )
    system = _system(spark, path)
    if not system.exists(path):
        return
    for entry in removed_in_turn(system, path):
        system.delete(entry, True)
    parent = path.getParent()
    if not system.listStatus(parent):
        system.delete(parent, False)


def removed_in_turn(system: Any, path: Any) -> list[Any]:  # noqa: ANN401 objects of Java
    """Return the paths to remove, in order; last the directory, with what the log begins with."""
    data = [entry for entry in _entries(system, path) if entry.getName() != LOG]
    files = {str(e.getName()): e for e in _entries(system, path.suffix(f"/{LOG}"))}
    return [*data, *(files[name] for name in log.removed_in_turn(files)), path]


def _entries(system: Any, path: Any) -> list[Any]:  # noqa: ANN401 objects of Java
    return [status.getPath() for status in _listed(system, path)]


def _holds_a_log(system: Any, path: Any) -> bool:  # noqa: ANN401 objects of Java
    """Return whether a directory below a path has a log, apart from the path's own."""
    below = [status.getPath() for status in _listed(system, path) if status.isDirectory()]
    return any(
        system.exists(directory.suffix(f"/{LOG}")) or _holds_a_log(system, directory)
        for directory in below
        if directory.getName() != LOG
    )


def _listed(system: Any, path: Any) -> Any:  # noqa: ANN401 objects of Java
    """Return a directory's entries; none for a symbolic link, whose target is elsewhere."""
    local = local_path(path.toString())
    is_link = local is not None and os.path.islink(local)
    return () if is_link or not system.exists(path) else system.listStatus(path)


def _path(spark: SparkSession, address: str) -> Any:  # noqa: ANN401 an object of Java
    jvm = getattr(spark, "_jvm", None)
    return None if jvm is None else jvm.org.apache.hadoop.fs.Path(address)


def _system(spark: SparkSession, path: Any) -> Any:  # noqa: ANN401 objects of Java
    settings = spark._jsparkSession.sessionState().newHadoopConf()
    return path.getFileSystem(settings)
