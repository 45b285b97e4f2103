"""The pipeline of a project: the object of a module, or what the modules of a folder define.

The project's folder comes first where Python looks for modules, here and in the processes that run
functions. The invariant: an error in a module of the user's is said by file and line.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType

from deltaproduce.cli.project.file import FILE_NAME, ProjectFile
from deltaproduce.cli.project.sections import ProjectFileError
from deltaproduce.errors import DeltaProduceError
from deltaproduce.pipeline import Pipeline
from deltaproduce.types.excerpts import described


def loaded(file: ProjectFile) -> Pipeline:
    """The pipeline that a project file names.

    Raises:
        ProjectFileError: there is none such, or a module fails; with the place.
    """
    folder = str(file.folder)
    if folder not in sys.path:
        sys.path.insert(0, folder)
        importlib.invalidate_caches()
    if ":" in file.pipeline:
        return _object(file)
    return _of_folder(file)


def _object(file: ProjectFile) -> Pipeline:
    name, _, attribute = file.pipeline.partition(":")
    module = _module(file, name)
    found = getattr(module, attribute, None)
    if not isinstance(found, Pipeline):
        there = [key for key, value in vars(module).items() if isinstance(value, Pipeline)]
        advice = f"; pipelines there: {', '.join(there)}" if there else ""
        raise ProjectFileError(
            f"{FILE_NAME}: [project] pipeline is {file.pipeline!r}, and {attribute!r} of module "
            f"{getattr(module, '__file__', name)!r} is no Pipeline{advice}"
        )
    return found


def _of_folder(file: ProjectFile) -> Pipeline:
    """The modules of the folder define it one after the other, in the order of their names."""
    folder = file.folder / file.pipeline
    modules = sorted(p for p in folder.glob("*.py") if not p.name.startswith("_"))
    if not modules:
        raise ProjectFileError(
            f"{FILE_NAME}: [project] pipeline is {file.pipeline!r}, which is neither "
            "'module:object' nor a folder with modules: give one of the two"
        )
    pipeline = Pipeline(file.name)
    package = ".".join(Path(file.pipeline).parts)
    for path in modules:
        module = _module(file, f"{package}.{path.stem}")
        define = getattr(module, "define", None)
        if not callable(define):
            raise ProjectFileError(f"{path}: there is no function define(pipeline); add it")
        try:
            define(pipeline)
        except Exception as error:
            raise _at(error, file) from error
    return pipeline


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
    """The error, by the last place of the project in its traceback."""
    said = str(error) if isinstance(error, DeltaProduceError) else described(error)
    if isinstance(error, SyntaxError) and error.filename:
        return ProjectFileError(f"{error.filename}:{error.lineno}: {error.msg}")
    places = [
        f"{frame.filename}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(file.folder)
    ]
    return ProjectFileError(f"{places[-1]}: {said}" if places else said)
