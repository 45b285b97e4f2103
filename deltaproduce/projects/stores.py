"""The store of a project, opened with the engine that its file names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltaproduce.pipeline import Pipeline
from deltaproduce.projects.file import ProjectFile
from deltaproduce.projects.sessions import session
from deltaproduce.shown.phases import Listener
from deltaproduce.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ProjectStore(Store):
    """The store of a project. Without a session it opens whatever its stages need, to be read.

    Stages that need a session are read with the columns that versions have recorded. Methods that
    make them raise a SessionError, with `stage`.
    """

    def _check_makes_all(self) -> None:
        """Leave it to the methods that make stages."""


def opened(file: ProjectFile, pipeline: Pipeline, progress: Listener | None = None) -> Store:
    """Open the store, with a local session if the engine is Spark.

    Args:
        progress: called with the progress of a version.

    Raises:
        SessionError: no session can start.
        DefinitionError: as for `Store`.
    """
    return opened_with(file, pipeline, session(file), progress)


def opened_with(
    file: ProjectFile,
    pipeline: Pipeline,
    spark: SparkSession | None,
    progress: Listener | None = None,
) -> Store:
    """Open the store, with a session or without.

    Raises:
        DefinitionError: as for `Store`.
    """
    return ProjectStore(
        spark,
        file.location,
        pipeline,
        table_type=file.table_type,
        policy=file.policy,
        time_zone=file.time_zone,
        progress=progress,
    )
