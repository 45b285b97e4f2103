"""Projects: a folder with `deltaproduce.toml`, and its stages in SQL files and Python modules."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from deltaproduce.model import arguments
from deltaproduce.pipeline import Pipeline
from deltaproduce.projects.checks import Checked, Problem, broken
from deltaproduce.projects.file import read
from deltaproduce.projects.inference import inferred
from deltaproduce.projects.pipelines import Examined, examined, loaded, locating_errors
from deltaproduce.projects.stores import opened_with
from deltaproduce.shown.tabular import one_line
from deltaproduce.store import Store, refused
from deltaproduce.types.columns import stored_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Project:
    """A folder with a project file, `deltaproduce.toml`, and the stages that it names.

    Args:
        folder: the folder of the project file.
        vars: values that override variables of its ``[vars]``, by name: of the same types, or as
            text.

    Raises:
        DefinitionError: there is no project file, or it is wrong; or there is no such variable.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        vars: Mapping[str, object] | None = None,
    ) -> None:
        given = {} if vars is None else arguments.mapping(vars, "vars", "a dict of values by name")
        self._file = read(Path(arguments.place(folder, "folder")), given)

    def __repr__(self) -> str:
        return one_line(self, self._file.name, folder=str(self._file.folder))

    @property
    def name(self) -> str:
        """The project's name."""
        return self._file.name

    @property
    def location(self) -> str:
        """The location of its store."""
        return self._file.location

    @cached_property
    def pipeline(self) -> Pipeline:
        """The pipeline that its files define; read once.

        Raises:
            DefinitionError: a file is wrong; with `file` and `line`.
        """
        return loaded(self._file)

    def store(self, spark: SparkSession | None = None) -> Store:
        """Open its store.

        Args:
            spark: as for `Store`.

        Raises:
            DeltaProduceError: as for `Store` and `pipeline`.
        """
        with locating_errors(self._file):
            return opened_with(self._file, self.pipeline, spark)

    def check(self, store: Store | None = None) -> list[Problem]:
        """Return what is wrong in the project; no row is read, and nothing is written.

        Args:
            store: compare the definitions with its columns: if a query uses a column that is gone
                or renamed, or a key that changed, that is an error that names each user.

        Returns:
            The problems; an empty list if there are none.
        """
        return checked(examined(self._file), store).problems


def checked(examination: Examined, store: Store | None) -> Checked:
    """Return what is wrong in a project; see `Project.check`.

    Args:
        examination: its pipeline, as far as it can be defined.
    """
    pipeline = examination.pipeline
    now, unfit = inferred(pipeline.stages)
    by_spark = [] if store is None else refused(store, pipeline)
    reported, errors = (
        {error.stage for error in by_spark},
        [*examination.errors],
    )  # Spark's errors say more
    for error in [*by_spark, *(error for error in unfit if error.stage not in reported)]:
        places = (one for one in examination.files if one.statement.name == error.stage)
        errors += [one.at(error) for one in places] or [error]
    downstream = pipeline.graph().downstream_of(name for name in reported if name is not None)
    problems = [Problem.of(error) for error in errors]
    unchecked = (*examination.unchecked, *downstream)
    if store is None:
        return Checked(problems, unchecked)
    before = {
        name: stored_schema(*figures.columns.own, stage=name)
        for name, figures in store.head.stages.items()
        if figures.columns.key
    }
    problems += broken(before, pipeline.stages, now, examination.files, errors)
    return Checked(problems, unchecked)
