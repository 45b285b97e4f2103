"""Invocations: what a verb is asked for, and the project that it is asked of.

Project, pipeline and store are read when a verb first needs them, and imported not before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from deltaproduce.errors import InvalidArgumentError

if TYPE_CHECKING:
    from deltaproduce.pipeline import Pipeline
    from deltaproduce.projects.file import ProjectFile
    from deltaproduce.store import Store


@dataclass(frozen=True, slots=True)
class Invocation:
    """One call of the command.

    Attributes:
        folder: where the project file is.
        variables: values in the place of those that variables have there, as ``name=value``.
    """

    folder: Path
    variables: tuple[str, ...] = ()

    def file(self) -> ProjectFile:
        """The project file.

        Raises:
            ProjectFileError: there is none, or something is wrong in it.
        """
        from deltaproduce.projects.file import read

        return read(self.folder, self.given())

    def given(self) -> dict[str, object]:
        """The values that variables are given, by name.

        Raises:
            InvalidArgumentError: one is not ``name=value``.
        """
        given = dict[str, object]()
        for text in self.variables:
            name, sign, value = text.partition("=")
            if not sign:
                message = f"--var is {text!r}; give name=value"
                raise InvalidArgumentError(message, argument="--var")
            given[name.strip()] = value
        return given

    def pipeline(self) -> Pipeline:
        """The project's pipeline.

        Raises:
            ProjectFileError: it cannot be loaded.
        """
        from deltaproduce.projects.pipelines import loaded

        return loaded(self.file())

    @contextmanager
    def store(self) -> Iterator[Store]:
        """The project's store, for a ``with`` block, after which it is closed.

        Raises:
            DeltaProduceError: as `file`, `pipeline` and `Store`.
        """
        from deltaproduce.cli.answers.progress import on_standard_error
        from deltaproduce.projects.pipelines import loaded
        from deltaproduce.projects.stores import opened

        file = self.file()
        with opened(file, loaded(file), on_standard_error()) as store:
            yield store
