"""The session of a project: what its file says of Spark, as a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltaproduce.projects.file import ProjectFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session(file: ProjectFile) -> SparkSession | None:
    """Return a session with the file's settings; None for the engine without Spark.

    In ``[spark]``, ``cores`` and ``memory`` are arguments of `local_session`; the rest are
    settings.
    """
    if file.engine == "local":
        return None
    from deltaproduce.engines.spark.sessions.session import local_session

    config = dict(file.spark)
    cores, memory = config.pop("cores", None), config.pop("memory", "2g")
    return local_session(
        file.name, cores=None if cores is None else int(cores), memory=memory, config=config
    )
