"""Directories: a path in a file system, and the operations on it.

The invariant: paths are those of the file system, with ``/`` between their parts, and whatever is
found below a directory is really in it, not elsewhere behind a symbolic link.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

_INT96: Mapping[str, str] = {"coerce_int96_timestamp_unit": "us"}
"""How to read timestamps of Spark's old files."""


class Entry(NamedTuple):
    """An entry of a directory.

    Attributes:
        size: in bytes; 0 for a directory.
        modified_ns: the time of its last change, in nanoseconds since 1970; 0 for a directory.
    """

    name: str
    is_directory: bool
    is_link: bool
    size: int
    modified_ns: int


class Text(NamedTuple):
    """A file as text, and the time of its last change, in nanoseconds since 1970."""

    text: str
    modified_ns: int


class FileSystem(Protocol):
    """The place of files: this machine, or an object store."""

    @property
    def storage_options(self) -> dict[str, str] | None:
        """The options for delta-rs, in addition to the URI."""

    @property
    def has_safe_spark(self) -> bool:
        """Whether commits of delta-rs and of Spark exclude each other there."""

    @property
    def keeps_first(self) -> bool:
        """Whether, if two writers create the same file, it is certain that only one succeeds."""

    @property
    def reads_ahead(self) -> bool:
        """Whether one large read is faster than several exact ones."""

    def serves_sessions(self, *, is_local: bool) -> bool:
        """Return whether a session sees the same files at a path as this file system.

        Args:
            is_local: the session has the path in a file system of this machine.
        """

    def takes(self, path: str) -> bool:
        """Return whether delta-rs finds a path: it misreads characters with a meaning in URLs."""

    def uri(self, path: str) -> str:
        """Return a path as delta-rs takes it."""

    def named(self, path: str) -> str:
        """Return a path as Spark names it."""

    def names(self, path: str) -> list[str]:
        """Return the names of a directory's entries.

        Raises:
            OSError: they cannot be listed; FileNotFoundError if there is no such directory.
        """

    def entries(self, path: str) -> list[Entry]:
        """Return a directory's entries, by name; none if there is no such directory."""

    def exists(self, path: str) -> bool:
        """Return whether there is such a file or directory."""

    def read(self, path: str) -> Text:
        """Return a file as text.

        Raises:
            OSError: it cannot be read.
        """

    def write(self, path: str, text: str) -> None:
        """Write a text file, whether there is one or not.

        Raises:
            OSError: it cannot be written.
        """

    def put_first(self, path: str, text: str) -> bool:
        """Write a text file where there is none, all of it at once; return whether it was written.

        Where a file system does not `keeps_first`, a `commit_probe` has to say that it obeys.

        Raises:
            OSError: it cannot be written.
        """

    def mark(self, path: str) -> object | None:
        """Return a mark that differs for another file at the same path; None if there is no way."""

    def parquet(self, path: str) -> dict[str, Any]:
        """Return a file as pyarrow's Parquet functions take it."""

    def make_directory(self, path: str) -> None:
        """Make a directory and its parents, where files need an existing directory.

        Raises:
            OSError: it cannot be made.
        """

    def size(self, path: str) -> int:
        """Return the number of bytes of a file.

        Raises:
            OSError: it is not known.
        """

    def link(self, path: str, of: str) -> None:
        """Put a file at a second path, where there is none: without copying its bytes if possible.

        It is new at both: a ``VACUUM`` removes old files that no commit names yet.

        Raises:
            OSError: it cannot be done.
        """

    def opened(self, path: str, *, written: bool = False) -> BinaryIO:
        """Open a file as bytes, to be read from its beginning or to be written.

        Raises:
            OSError: it cannot be opened.
        """

    def real(self, path: str) -> str:
        """Return a path without symbolic links in it."""

    def is_link(self, path: str) -> bool:
        """Return whether a path is a symbolic link."""

    def is_linked(self, root: str, path: str) -> bool:
        """Return whether the way from a directory down to a path goes through a symbolic link."""

    def remove_file(self, path: str) -> None:
        """Remove a file, if it is there."""

    def remove_tree(self, path: str) -> None:
        """Remove a file, a link, or a directory with all its contents."""

    def remove_if_empty(self, path: str) -> None:
        """Remove an empty directory."""

    def silence(self, error: BaseException) -> str | None:
        """Return the text of an error of a file system that cannot be reached, or denies access.

        None if the error is about a file or its content.
        """


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory, which may not exist.

    Attributes:
        path: in its file system, without a slash at its end.
    """

    file_system: FileSystem
    path: str

    def at(self, inside: str) -> Directory:
        """Return a directory below it, by its path from here."""
        return Directory(self.file_system, f"{self.path}/{inside}")

    @property
    def parent(self) -> Directory:
        """The directory that contains it."""
        return Directory(self.file_system, self.path.rpartition("/")[0])

    @property
    def real(self) -> Directory:
        """The same directory, without symbolic links in its path."""
        return Directory(self.file_system, self.file_system.real(self.path))

    @property
    def is_taken(self) -> bool:
        """Whether delta-rs finds it."""
        return self.file_system.takes(self.path)

    @property
    def uri(self) -> str:
        """The path as delta-rs takes it."""
        return self.file_system.uri(self.path)

    @property
    def storage_options(self) -> dict[str, str] | None:
        """The options for delta-rs, in addition to the URI."""
        return self.file_system.storage_options

    def named(self, inside: str) -> str:
        """Return a file in it as Spark names it."""
        return self.file_system.named(f"{self.path}/{inside}")

    def inside(self, named: str) -> str:
        """Return the path from here of a file that `named` has named."""
        return named.removeprefix(self.named(""))

    def names(self, inside: str) -> list[str]:
        """Return the names of the entries of a directory in it.

        Raises:
            OSError: they cannot be listed; FileNotFoundError if there is no such directory.
        """
        return self.file_system.names(f"{self.path}/{inside}")

    def entries(self) -> list[Entry]:
        """Return its entries, by name; none if it does not exist."""
        return self.file_system.entries(self.path)

    def exists(self, inside: str) -> bool:
        """Return whether there is such a file or directory in it."""
        return self.file_system.exists(f"{self.path}/{inside}")

    def read(self, inside: str) -> Text:
        """Return a file in it as text.

        Raises:
            OSError: it cannot be read.
        """
        return self.file_system.read(f"{self.path}/{inside}")

    def write(self, inside: str, text: str) -> None:
        """Write a text file in it, whether there is one or not.

        Raises:
            OSError: it cannot be written.
        """
        self.file_system.write(f"{self.path}/{inside}", text)

    def write_bytes(self, inside: str, data: bytes) -> None:
        """Write a file in it, whether there is one or not.

        Raises:
            OSError: it cannot be written.
        """
        with self.file_system.opened(f"{self.path}/{inside}", written=True) as file:
            file.write(data)

    def read_bytes(self, inside: str, at: int, size: int) -> bytes:
        """Return some bytes of a file in it, from a place on.

        Raises:
            OSError: it cannot be read.
        """
        with self.file_system.opened(f"{self.path}/{inside}") as file:
            file.read(at)
            return file.read(size)

    def put_first(self, inside: str, text: str) -> bool:
        """Write a text file in it where there is none; see `FileSystem.put_first`."""
        return self.file_system.put_first(f"{self.path}/{inside}", text)

    def mark(self, inside: str) -> object | None:
        """Return a mark that differs for another file at the same path; None without a file."""
        return self.file_system.mark(f"{self.path}/{inside}")

    def footer(self, inside: str) -> pq.FileMetaData:
        """Return the footer of a Parquet file in it.

        Raises:
            OSError, pa.ArrowInvalid: it cannot be read.
        """
        return pq.read_metadata(**self.file_system.parquet(f"{self.path}/{inside}"))

    def parquet(self, inside: str, footer: pq.FileMetaData | None = None) -> pq.ParquetFile:
        """Open a Parquet file in it, to be read.

        Args:
            footer: the file's footer, if it was read before.

        Raises:
            OSError, pa.ArrowInvalid: it cannot be read.
        """
        place = self.file_system.parquet(f"{self.path}/{inside}")
        source = place.pop("where")
        ahead = self.file_system.reads_ahead
        return pq.ParquetFile(source, metadata=footer, pre_buffer=ahead, **place, **_INT96)

    def parquet_writer(
        self,
        inside: str,
        schema: pa.Schema,
        *,
        compression: str = "snappy",
        **encodings: Any,  # noqa: ANN401 as pyarrow's writer takes them
    ) -> pq.ParquetWriter:
        """Open a Parquet file in it, to be written; its directory is made too.

        Args:
            encodings: how columns are stored.

        Raises:
            OSError: it cannot be written.
        """
        self.file_system.make_directory(self.path)
        place = self.file_system.parquet(f"{self.path}/{inside}")
        where = place.pop("where")
        return pq.ParquetWriter(
            where,
            schema,
            compression=compression,
            **encodings,
            **place,
        )

    def size(self, inside: str) -> int:
        """Return the number of bytes of a file in it.

        Raises:
            OSError: it is not known.
        """
        return self.file_system.size(f"{self.path}/{inside}")

    def link(self, inside: str, other: Directory, of: str) -> None:
        """Put a file of another directory into this one too; its directories are made too.

        Within a file system the file is linked, or copied there; between two, this process copies
        its bytes.

        Raises:
            OSError: it cannot be done.
        """
        path, of_path = f"{self.path}/{inside}", f"{other.path}/{of}"
        self.file_system.make_directory(path.rpartition("/")[0])
        if self.file_system == other.file_system:
            self.file_system.link(path, of_path)
            return
        with (
            other.file_system.opened(of_path) as source,
            self.file_system.opened(path, written=True) as copy,
        ):
            shutil.copyfileobj(source, copy)

    @property
    def is_there(self) -> bool:
        """Whether there is such a directory, or a file."""
        return self.file_system.exists(self.path)

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return self.file_system.is_link(self.path)

    def is_linked(self, inside: str) -> bool:
        """Return whether the way from here down to a path goes through a symbolic link."""
        return self.file_system.is_linked(self.path, f"{self.path}/{inside}")

    def remove_file(self, inside: str) -> None:
        """Remove a file in it, if it is there."""
        self.file_system.remove_file(f"{self.path}/{inside}")

    def remove(self) -> None:
        """Remove it with all its contents; of a link, remove only the link."""
        self.file_system.remove_tree(self.path)

    def remove_if_empty(self) -> None:
        """Remove it if it is empty."""
        self.file_system.remove_if_empty(self.path)
