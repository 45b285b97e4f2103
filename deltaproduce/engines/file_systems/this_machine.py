"""This machine: directories by plain paths.

Symbolic links are reported, and not followed when files are listed or removed.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from typing_extensions import override

from deltaproduce.engines.file_systems.directory import Entry, FileSystem, Text
from deltaproduce.engines.paths import is_linked

_PLAIN: Final = re.compile(r"[\w ./=@+~-]+")


@dataclass(frozen=True, slots=True)
class ThisMachine(FileSystem):
    """The file system of this machine, whatever is mounted in it. See `FileSystem`."""

    @property
    def storage_options(self) -> None:
        """No options are needed."""

    @property
    def has_safe_spark(self) -> bool:
        """A commit is a file that exists or not, for Spark and for delta-rs."""
        return True

    @property
    def keeps_first(self) -> bool:
        """A commit's file is linked or renamed to a path where there is none."""
        return True

    @property
    def reads_ahead(self) -> bool:
        """Reading ahead uses a thread pool, which costs more than it saves."""
        return False

    def serves_sessions(self, *, is_local: bool) -> bool:
        """The session's path may be of another file system, or of another machine."""
        return is_local

    @override
    def takes(self, path: str) -> bool:
        return _PLAIN.fullmatch(path) is not None

    def uri(self, path: str) -> str:
        """A plain path is a URI for delta-rs."""
        return path

    @override
    def named(self, path: str) -> str:
        return f"file:{path}"

    @override
    def names(self, path: str) -> list[str]:
        return os.listdir(path)

    @override
    def entries(self, path: str) -> list[Entry]:
        names = []
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(path) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # another process was faster
                    names.append(_entry(entry))
        return sorted(names)

    @override
    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    @override
    def read(self, path: str) -> Text:
        with open(path, encoding="utf-8") as file:
            return Text(file.read(), os.fstat(file.fileno()).st_mtime_ns)

    @override
    def write(self, path: str, text: str) -> None:
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    @override
    def put_first(self, path: str, text: str) -> bool:
        """The file is written under another name, and then linked."""
        beside = f"{path}.{uuid.uuid4().hex}.tmp"
        try:
            self.write(beside, text)
            try:
                os.link(beside, path)
            except FileExistsError:
                return False
            return True
        finally:
            with suppress(OSError):  # the file is there, or not, whatever becomes of this one
                os.unlink(beside)

    @override
    def mark(self, path: str) -> object | None:
        try:
            status = os.stat(path)
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    @override
    def parquet(self, path: str) -> dict[str, Any]:
        return {"where": path}

    @override
    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    @override
    def size(self, path: str) -> int:
        return os.path.getsize(path)

    @override
    def link(self, path: str, of: str) -> None:
        """A second name, or a copy where files cannot have two."""
        try:
            os.utime(of)  # both names have one age
            os.link(of, path)
        except FileExistsError:
            raise
        except OSError:
            shutil.copyfile(of, path)

    @override
    def opened(self, path: str, *, written: bool = False) -> BinaryIO:
        return open(path, "wb") if written else open(path, "rb")

    @override
    def real(self, path: str) -> str:
        return os.path.realpath(path)

    @override
    def is_link(self, path: str) -> bool:
        return os.path.islink(path)

    @override
    def is_linked(self, root: str, path: str) -> bool:
        return is_linked(root, path)

    @override
    def remove_file(self, path: str) -> None:
        """Also removes Hadoop's checksum file for it."""
        file = Path(path)
        file.unlink(missing_ok=True)
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)

    @override
    def remove_tree(self, path: str) -> None:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)

    @override
    def remove_if_empty(self, path: str) -> None:
        if not os.listdir(path):
            os.rmdir(path)

    def silence(self, error: BaseException) -> None:
        """It always responds."""


def _entry(entry: os.DirEntry[str]) -> Entry:
    is_directory, is_link = entry.is_dir(), entry.is_symlink()
    if is_directory or is_link:
        return Entry(entry.name, is_directory, is_link, 0, 0)
    about = entry.stat()
    return Entry(entry.name, False, False, about.st_size, about.st_mtime_ns)
