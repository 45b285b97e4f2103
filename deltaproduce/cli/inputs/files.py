"""Files of an input: lists them in order, with a digest of each one's content.

An input is a file, a folder with all files below it, or a pattern. Names that begin with ``.`` or
``_`` are skipped, as in Spark, including names of folders.
"""

from __future__ import annotations

import hashlib
from glob import glob, has_magic
from pathlib import Path

from deltaproduce.projects.file import Input, ProjectFile
from deltaproduce.projects.sections import ProjectFileError


def files_of(file: ProjectFile, input_: Input) -> dict[str, Path]:
    """Return the files by name, in the order of names: paths relative to the input's folder.

    Raises:
        ProjectFileError: there is no such file or folder, or a snapshot would have no file.
    """
    place = Path(file.place(input_.path))
    if has_magic(input_.path):
        parts = Path(input_.path).parts
        plain = next(n for n, part in enumerate(parts) if has_magic(part))
        root = Path(file.folder, *parts[:plain])  # it may have such characters itself
        paths = [
            root / path for path in glob(str(Path(*parts[plain:])), root_dir=root, recursive=True)
        ]
    elif place.is_dir():
        root, paths = place, [*place.rglob("*")]
    elif place.is_file():
        root, paths = place.parent, [place]
    else:
        raise missing(input_, f"{str(place)!r} is not there")
    names = {path.relative_to(root).as_posix(): path for path in paths if path.is_file()}
    there = {name: names[name] for name in sorted(names) if not _is_hidden(name)}
    if not there and input_.mode == "snapshot":
        raise missing(input_, f"no file is at {str(place)!r}, which would delete all of its rows")
    return there


def digests(files: dict[str, Path]) -> dict[str, str]:
    """Return a digest of each file: 16 hexadecimal digits of its SHA-256."""
    return {name: _digest(path) for name, path in files.items()}


def _digest(path: Path) -> str:
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()[:16]


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "_")) for part in name.split("/"))


def missing(input_: Input, what: str) -> ProjectFileError:
    """Return the error that an input is not where its path says."""
    return ProjectFileError(
        f"[sources.{input_.source}] path is {input_.path!r}, and {what}: mend the path, or put the "
        "files there"
    )
