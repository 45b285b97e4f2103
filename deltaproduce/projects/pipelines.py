"""The pipeline of a project: an object in a module, or the definitions in a folder's modules.

The project's folder comes first on Python's module path, here and in the processes that run
functions. The invariant: an error in a user's module names file and line, and each project has the
modules of its own folder; those in a folder of stages are read again each time.
"""

from __future__ import annotations

import importlib
import linecache
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import PathFinder
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Final

from deltaproduce.engines.choice import OPEN_IN_SESSION
from deltaproduce.errors import DefinitionError, DeltaProduceError, SessionError
from deltaproduce.pipeline import Pipeline
from deltaproduce.projects.file import FILE_NAME, ProjectFile
from deltaproduce.projects.sections import ProjectFileError
from deltaproduce.projects.statements import SqlFile, define_all, located
from deltaproduce.types.excerpts import described

CHECKS: Final = "checks"
"""The folder with the checks of a project."""


def loaded(file: ProjectFile) -> Pipeline:
    """Load the pipeline that a project file names.

    Raises:
        ProjectFileError: there is no such pipeline, or a module fails; with the place.
    """
    _importable(file)
    return _object(file) if ":" in file.pipeline else _of_folder(file)[0]


@dataclass(frozen=True, slots=True)
class Examined:
    """A pipeline, as far as it can be defined.

    Attributes:
        errors: why the rest cannot be.
        files: its SQL files.
        unchecked: the stages that were not defined because they read others that cannot be.
    """

    pipeline: Pipeline
    errors: tuple[DefinitionError, ...] = ()
    files: tuple[SqlFile, ...] = ()
    unchecked: tuple[str, ...] = ()


def examined(file: ProjectFile) -> Examined:
    """Define as much of the pipeline as possible."""
    _importable(file)
    errors = list[DefinitionError]()
    try:
        if ":" in file.pipeline:
            return Examined(_object(file))
        files = tuple(sql_files(file, errors))
        pipeline, unchecked = _of_folder(file, files, errors)
        return Examined(pipeline, tuple(errors), files, unchecked)
    except DefinitionError as error:
        return Examined(Pipeline(file.name), (*errors, error))


@contextmanager
def locating_errors(file: ProjectFile) -> Iterator[None]:
    """Add the SQL file and its line to errors about a stage, and what to do in the project.

    Raises:
        ProjectFileError: for a definition; with `file` and `line`.
        SessionError: for a stage that needs Spark.
    """
    try:
        yield
    except (DefinitionError, SessionError) as error:
        if error.stage is None or getattr(error, "file", None) is not None:
            raise
        there = [one for one in sql_files(file, []) if one.statement.name == error.stage]
        if isinstance(error, DefinitionError):
            if not there:
                raise
            raise there[0].at(error) from error
        raise in_project(error, there[0] if there else None) from error


def in_project(error: SessionError, file: SqlFile | None) -> SessionError:
    """Return the error of a stage that needs Spark as one of its project.

    Args:
        file: the SQL file that defines the stage; None if none does.
    """
    place = "" if file is None else f"{file.name}:{file.statement.line}: "
    said = str(error).replace(OPEN_IN_SESSION, f'set engine = "spark" in [project] of {FILE_NAME}')
    return SessionError(f"{place}{said}", stage=error.stage)


def sql_files(file: ProjectFile, errors: list[DefinitionError] | None = None) -> Iterator[SqlFile]:
    """Read the SQL files of a project's folder, in the order of their names, then its checks.

    Args:
        errors: collects the errors of files; the first is raised if None.

    Raises:
        ProjectFileError: a file cannot be read; with `file` and `line`.
    """
    folders = [(file.pipeline, False), *([] if file.pipeline == CHECKS else [(CHECKS, True)])]
    paths = [
        (path, is_check)
        for folder, is_check in folders
        for path in sorted((file.folder / folder).glob("*.sql"))
    ]
    for path, is_check in paths:
        try:
            yield SqlFile.read(path, file.folder, file.vars, is_check=is_check)
        except DefinitionError as error:
            if errors is None:
                raise
            errors.append(error)


def labels(file: ProjectFile) -> dict[str, frozenset[str]]:
    """Return the labels of the stages that SQL files define, by name; see `Statement.labels`."""
    statements = (one.statement for one in sql_files(file, []))
    return {one.name: one.labels for one in statements if one.sort != "CHECK"}


def _importable(file: ProjectFile) -> None:
    """Put the project's folder before others that have modules of the same names."""
    folder = str(file.folder)
    if sys.path[:1] != [folder]:
        sys.path[:] = [folder, *(other for other in sys.path if other != folder)]
    importlib.invalidate_caches()


def _package(file: ProjectFile) -> str:
    """Return the package that holds the modules of a folder."""
    return ".".join(Path(file.pipeline).parts)


def _forget(package: str) -> None:
    """Make Python reload the modules of a package: they are another project's, or were changed."""
    for name in [name for name in sys.modules if f"{name}.".startswith(f"{package}.")]:
        del sys.modules[name]


def _forget_another_s(file: ProjectFile, module: str) -> None:
    """Make Python load the project's own module where one of that name is loaded from elsewhere."""
    package, *parts = module.split(".")
    if PathFinder.find_spec(package, [str(file.folder)]) is None:
        return
    for name in accumulate([package, *parts], "{}.{}".format):
        place = getattr(sys.modules.get(name), "__file__", None)
        if place and not Path(place).resolve().is_relative_to(file.folder.resolve()):
            _forget(package)
            return


def _object(file: ProjectFile) -> Pipeline:
    if any((file.folder / CHECKS).glob("*.sql")):
        raise ProjectFileError(
            f"{FILE_NAME}: [project] pipeline is {file.pipeline!r}, an object, and there are files "
            f"in {CHECKS!r}, which are for pipelines of a folder: call check of the object instead"
        )
    name, _, attribute = file.pipeline.partition(":")
    _forget_another_s(file, name)
    module = _module(file, name)
    attribute_value = getattr(module, attribute, None)
    if not isinstance(attribute_value, Pipeline):
        there = [key for key, value in vars(module).items() if isinstance(value, Pipeline)]
        advice = f"; pipelines there: {', '.join(there)}" if there else ""
        raise ProjectFileError(
            f"{FILE_NAME}: [project] pipeline is {file.pipeline!r}, and {attribute!r} of module "
            f"{getattr(module, '__file__', name)!r} is not a Pipeline{advice}"
        )
    return attribute_value


def _of_folder(
    file: ProjectFile,
    files: Sequence[SqlFile] | None = None,
    errors: list[DefinitionError] | None = None,
) -> tuple[Pipeline, tuple[str, ...]]:
    """Define the pipeline by the folder's SQL files, feeders first, and its modules, by name.

    Also returns the stages that are left out because they read one that cannot be defined.

    Args:
        files: the SQL files that could be read; read here if None.
        errors: collects the errors; the first is raised if None.
    """
    folder = file.folder / file.pipeline
    modules = sorted(p for p in folder.glob("*.py") if not p.name.startswith("_"))
    if not modules and not any(folder.glob("*.sql")):
        raise ProjectFileError(
            f"{FILE_NAME}: [project] pipeline is {file.pipeline!r}, which is neither "
            "'module:object' nor a folder with .sql files or modules: give one of the two"
        )
    _forget(_package(file))
    pipeline = Pipeline(file.name)
    sql_paths = list(sql_files(file)) if files is None else files
    definers = {path.relative_to(file.folder).as_posix(): _definer(file, path) for path in modules}
    return pipeline, define_all(sql_paths, definers, pipeline, errors)


def _definer(file: ProjectFile, path: Path) -> Callable[[Pipeline], None]:
    """Return a function that imports a module and calls its function ``define``."""

    def called(pipeline: Pipeline) -> None:
        define = getattr(_read(file, path), "define", None)
        if not callable(define):
            name = path.relative_to(file.folder).as_posix()
            with located(name):
                raise DefinitionError("there is no function define(pipeline); add it")
        try:
            define(pipeline)
        except Exception as error:
            raise _at(error, file) from error

    return called


def _read(file: ProjectFile, path: Path) -> ModuleType:
    """Load a module of the folder from its source, since Python's compiled file may be older."""
    name = f"{_package(file)}.{path.stem}"
    module = ModuleType(name)
    module.__file__, module.__package__ = str(path), _package(file)
    sys.modules[name] = module
    linecache.checkcache(str(path))
    try:
        exec(compile(path.read_bytes(), path, "exec"), vars(module))  # noqa: S102 it is the user's
    except Exception as error:
        del sys.modules[name]
        raise _at(error, file) from error
    return module


def _module(file: ProjectFile, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ProjectFileError(
                f"{FILE_NAME}: [project] pipeline is {file.pipeline!r}, and there is no module "
                f"{error.name!r} in {str(file.folder)!r}"
            ) from None
        raise _at(error, file) from error
    except Exception as error:
        raise _at(error, file) from error


def _at(error: Exception, file: ProjectFile) -> ProjectFileError:
    """Place an error at the last line of the project in its traceback; keep its stage, if any."""
    said = str(error) if isinstance(error, DeltaProduceError) else described(error)
    places = [(f.filename, f.lineno or 1) for f in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        places.append((error.filename, error.lineno or 1))
        said = error.msg
    own = [(Path(name), line) for name, line in places if _is_own(Path(name), file.folder)]
    if not own:
        return ProjectFileError(said)
    of_stages = [one for one in own if one[0].is_relative_to(file.folder / file.pipeline)]
    path, line = (of_stages or own)[-1]
    name = path.relative_to(file.folder).as_posix()
    return ProjectFileError(
        f"{name}:{line}: {said}",
        stage=getattr(error, "stage", None),
        column=getattr(error, "column", None),
        file=name,
        line=line,
    )


def _is_own(path: Path, folder: Path) -> bool:
    """Return whether a file belongs to the project, and not to an environment in its folder."""
    return path.is_relative_to(folder) and "site-packages" not in path.parts
