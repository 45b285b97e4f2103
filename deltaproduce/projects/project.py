"""Projects: a folder with `deltaproduce.toml`, and its stages in SQL files and Python modules."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from pyspark.sql import SparkSession

from deltaproduce.errors import DefinitionError
from deltaproduce.model import arguments
from deltaproduce.pipeline import Pipeline
from deltaproduce.projects.checks import Problem, broken
from deltaproduce.projects.file import read
from deltaproduce.projects.inference import inferred
from deltaproduce.projects.pipelines import examined, loaded, sql_files
from deltaproduce.projects.stores import opened_with
from deltaproduce.shown.tabular import one_line
from deltaproduce.store import Store, refused
from deltaproduce.types.columns import stored_schema


class Project:
    """A folder with a project file, `deltaproduce.toml`, and the stages that it names.

    Args:
        folder: where the project file is.
        vars: values in the place of those that variables have in its ``[vars]``, by name: of the
            same types, or texts that stand for such.

    Raises:
        DefinitionError: there is none, or something is wrong in it; or there is no such variable.
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
        """Where its store is."""
        return self._file.location

    @cached_property
    def pipeline(self) -> Pipeline:
        """What its files define; read once.

        Raises:
            DefinitionError: something in a file is wrong; with `file` and `line`.
        """
        return loaded(self._file)

    def store(self, spark: SparkSession | None = None) -> Store:
        """Its store.

        Args:
            spark: as for `Store`.

        Raises:
            DeltaProduceError: as `Store` and `pipeline`.
        """
        try:
            return opened_with(self._file, self.pipeline, spark)
        except DefinitionError as error:
            for file in sql_files(self._file):
                if file.statement.name == error.stage and error.file is None:
                    raise file.at(error) from error
            raise

    def check(self, store: Store | None = None) -> list[Problem]:
        """What is wrong in the project; no row is read, and nothing written.

        Args:
            store: whose columns the project's are compared with: columns that are gone, renamed or
                another key, and are used by a query, are errors that name each user.

        Returns:
            An empty list if all is well.
        """
        pipeline, errors, files = examined(self._file)
        now, unfit = inferred(pipeline.stages)
        found = [] if store is None else refused(store, pipeline)
        told = {error.stage for error in found}  # by Spark, which says more
        for error in [*found, *(error for error in unfit if error.stage not in told)]:
            places = (file for file in files if file.statement.name == error.stage)
            errors += [file.at(error) for file in places] or [error]
        problems = [Problem.of(error) for error in errors]
        if store is None:
            return problems
        stages = store.head.stages
        before = {
            name: stored_schema(*figures.columns.own, stage=name)
            for name, figures in stages.items()
            if figures.columns.key
        }
        return [*problems, *broken(before, pipeline.stages, now, files, errors)]
