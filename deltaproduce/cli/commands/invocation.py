"""Invocations: the options of one call, and its project.

Project, pipeline and store are imported and read when a verb first needs them. A call reads its
file once, and loads its pipeline once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from deltaproduce.errors import InvalidArgumentError

if TYPE_CHECKING:
    from deltaproduce.model.graph import Graph
    from deltaproduce.pipeline import Pipeline
    from deltaproduce.projects.file import ProjectFile
    from deltaproduce.reading.recorded.reader import Reader
    from deltaproduce.store import Store


@dataclass(frozen=True)
class Invocation:
    """One call of the command.

    Attributes:
        folder: the folder of the project file.
        variables: values that override the project file's variables, as ``name=value``.
    """

    folder: Path
    variables: tuple[str, ...] = ()

    @cached_property
    def file(self) -> ProjectFile:
        """The project file.

        Raises:
            ProjectFileError: there is no project file, or it is not valid.
        """
        from deltaproduce.projects.file import read

        return read(self.folder, self.given())

    def given(self) -> dict[str, object]:
        """The values given for variables, by name.

        Raises:
            InvalidArgumentError: a text is not ``name=value``.
        """
        given = dict[str, object]()
        for text in self.variables:
            name, sign, value = text.partition("=")
            if not sign:
                message = f"--var is {text!r}; give name=value"
                raise InvalidArgumentError(message, argument="--var")
            given[name.strip()] = value
        return given

    @cached_property
    def pipeline(self) -> Pipeline:
        """The project's pipeline.

        Raises:
            ProjectFileError: the pipeline cannot be loaded.
        """
        from deltaproduce.projects.pipelines import loaded

        return loaded(self.file)

    def selected(
        self, select: Collection[str] | None, graph: Graph | None = None
    ) -> tuple[str, ...]:
        """Return the stages that --select names, feeders first; all if it is not given.

        Args:
            graph: of the pipeline as far as it can be defined; the pipeline's if None.

        Raises:
            NotFoundError: a term selects no stage, or is not valid.
            ProjectFileError: the pipeline cannot be loaded.
        """
        from deltaproduce.cli.selection import feeders_of, names_labels, selected
        from deltaproduce.projects.pipelines import labels

        terms = select or ()
        feeders = feeders_of(self.pipeline.graph() if graph is None else graph)
        return selected(terms, feeders, labels(self.file) if names_labels(terms) else {})

    @contextmanager
    def store(self) -> Iterator[Store]:
        """Open the project's store for a ``with`` block, and close it afterwards.

        Raises:
            DeltaProduceError: as for `file`, `pipeline` and `Store`.
        """
        from deltaproduce.cli.answers.progress import on_standard_error
        from deltaproduce.projects.pipelines import locating_errors
        from deltaproduce.projects.stores import opened

        file = self.file
        with locating_errors(file), opened(file, self.pipeline, on_standard_error()) as store:
            yield store

    @contextmanager
    def reading(self, place: str | None, stage: str | None = None) -> Iterator[Store | Reader]:
        """Open a store to read for a ``with`` block: the project's, or the one at a place.

        It is read as its version log has it. The project's pipeline is loaded only where the log
        says nothing: there is no store yet, or the head does not have the stage.

        Args:
            place: the location of a store; the project's if None.
            stage: the stage that is read, if it is one.

        Raises:
            DeltaProduceError: as for `store` and `deltaproduce.open`.
        """
        from deltaproduce.projects.reading import recorded
        from deltaproduce.reading.recorded.reader import open

        reader = recorded(self.file) if place is None else open(place)
        if reader is None or (place is None and stage is not None and stage not in reader.stages):
            with self.store() as store:
                yield store
        else:
            yield reader
