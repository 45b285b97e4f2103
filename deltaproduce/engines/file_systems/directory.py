"""Directories: a path in a file system, and what is asked of one.

The invariant: paths are those of the file system, with ``/`` between their parts, and what is found
below a directory is really in it, not elsewhere behind a symbolic link.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

_INT96: Mapping[str, str] = {"coerce_int96_timestamp_unit": "us"}
"""How timestamps of Spark's old files are read."""


class Entry(NamedTuple):
    """What is in a directory.

    Attributes:
        size: in bytes; 0 of a directory.
        modified_ns: when, in nanoseconds since 1970; 0 of a directory.
    """

    name: str
    is_directory: bool
    is_link: bool
    size: int
    modified_ns: int


class Text(NamedTuple):
    """A file as text, and when it was modified, in nanoseconds since 1970."""

    text: str
    modified_ns: int


class FileSystem(Protocol):
    """Where files are: on this machine, or in an object store."""

    @property
    def storage_options(self) -> dict[str, str] | None:
        """What delta-rs is told, beside the URI."""

    @property
    def has_safe_spark(self) -> bool:
        """Whether a commit of delta-rs and one of Spark exclude each other there."""

    @property
    def keeps_first(self) -> bool:
        """Whether it is known that of two who put a file where there is none one does."""

    @property
    def reads_ahead(self) -> bool:
        """Whether it is quicker to read much at once than to read only what is asked for."""

    def serves_sessions(self, *, is_local: bool) -> bool:
        """Whether what a session calls by a path of this file system is what is read here.

        Args:
            is_local: the session has the path in a file system of this machine.
        """

    def takes(self, path: str) -> bool:
        """Whether delta-rs finds a path: where signs have a meaning in URLs it takes others."""

    def uri(self, path: str) -> str:
        """A path as delta-rs takes it."""

    def named(self, path: str) -> str:
        """A path as Spark names it."""

    def names(self, path: str) -> list[str]:
        """The names of what is in a directory.

        Raises:
            OSError: it cannot be said; FileNotFoundError if there is none.
        """

    def entries(self, path: str) -> list[Entry]:
        """What is in a directory, by name; nothing in none."""

    def exists(self, path: str) -> bool:
        """Whether there is such a file or directory."""

    def read(self, path: str) -> Text:
        """A file as text.

        Raises:
            OSError: it cannot be read.
        """

    def write(self, path: str, text: str) -> None:
        """Put a text file, whether there is one or not.

        Raises:
            OSError: it cannot be written.
        """

    def put_first(self, path: str, text: str) -> bool:
        """Put a text file where there is none, all of it at once; whether it was put.

        Only where a file system `keeps_first`.

        Raises:
            OSError: it cannot be written.
        """

    def mark(self, path: str) -> object | None:
        """What tells a file from another one at the same path; None if it cannot be said."""

    def parquet(self, path: str) -> dict[str, Any]:
        """A file as pyarrow's Parquet functions take it."""

    def make_directory(self, path: str) -> None:
        """Make a directory, and those above it, where files can only be in one that is there.

        Raises:
            OSError: it cannot be made.
        """

    def size(self, path: str) -> int:
        """How many bytes a file has.

        Raises:
            OSError: it cannot be said.
        """

    def link(self, path: str, of: str) -> None:
        """Put a file at another path too, where there is none: without its bytes if that can be.

        Raises:
            OSError: it cannot be done.
        """

    def opened(self, path: str, *, written: bool = False) -> BinaryIO:
        """A file, to be read from its beginning or to be written, by its bytes.

        Raises:
            OSError: it cannot be opened.
        """

    def real(self, path: str) -> str:
        """A path without symbolic links on the way."""

    def is_link(self, path: str) -> bool:
        """Whether a path is that of a symbolic link."""

    def is_linked(self, root: str, path: str) -> bool:
        """Whether the way from a directory down to a path goes through a symbolic link."""

    def remove_file(self, path: str) -> None:
        """Remove a file, if it is there."""

    def remove_tree(self, path: str) -> None:
        """Remove a file, a link, or a directory with all that is in it."""

    def remove_if_empty(self, path: str) -> None:
        """Remove a directory that has nothing in it."""

    def silence(self, error: BaseException) -> str | None:
        """What an error says of a file system that cannot be reached, or lets nobody in.

        None if the error is of a file, or of what is in it.
        """


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory, which may not be there.

    Attributes:
        path: in its file system, without a slash at its end.
    """

    file_system: FileSystem
    path: str

    def at(self, inside: str) -> Directory:
        """What is below it, by the path from there."""
        return Directory(self.file_system, f"{self.path}/{inside}")

    @property
    def parent(self) -> Directory:
        """The directory that it is in."""
        return Directory(self.file_system, self.path.rpartition("/")[0])

    @property
    def real(self) -> Directory:
        """The same directory, without symbolic links on the way."""
        return Directory(self.file_system, self.file_system.real(self.path))

    @property
    def is_taken(self) -> bool:
        """Whether delta-rs finds it."""
        return self.file_system.takes(self.path)

    @property
    def uri(self) -> str:
        """As delta-rs takes it."""
        return self.file_system.uri(self.path)

    @property
    def storage_options(self) -> dict[str, str] | None:
        """What delta-rs is told, beside the URI."""
        return self.file_system.storage_options

    def named(self, inside: str) -> str:
        """A file in it as Spark names it."""
        return self.file_system.named(f"{self.path}/{inside}")

    def inside(self, named: str) -> str:
        """The path from here of a file that `named` has named."""
        return named.removeprefix(self.named(""))

    def names(self, inside: str) -> list[str]:
        """The names of what is in a directory in it.

        Raises:
            OSError: it cannot be said; FileNotFoundError if there is none.
        """
        return self.file_system.names(f"{self.path}/{inside}")

    def entries(self) -> list[Entry]:
        """What is in it, by name; nothing if it is not there."""
        return self.file_system.entries(self.path)

    def exists(self, inside: str) -> bool:
        """Whether there is such a file or directory in it."""
        return self.file_system.exists(f"{self.path}/{inside}")

    def read(self, inside: str) -> Text:
        """A file in it as text.

        Raises:
            OSError: it cannot be read.
        """
        return self.file_system.read(f"{self.path}/{inside}")

    def write(self, inside: str, text: str) -> None:
        """Put a text file in it, whether there is one or not.

        Raises:
            OSError: it cannot be written.
        """
        self.file_system.write(f"{self.path}/{inside}", text)

    def put_first(self, inside: str, text: str) -> bool:
        """Put a text file in it where there is none; see `FileSystem.put_first`."""
        return self.file_system.put_first(f"{self.path}/{inside}", text)

    def mark(self, inside: str) -> object | None:
        """What tells a file in it from another one at the same path; None if there is none."""
        return self.file_system.mark(f"{self.path}/{inside}")

    def footer(self, inside: str) -> pq.FileMetaData:
        """What the footer of a Parquet file in it says.

        Raises:
            OSError, pa.ArrowInvalid: it cannot be read.
        """
        return pq.read_metadata(**self.file_system.parquet(f"{self.path}/{inside}"))

    def parquet(self, inside: str, footer: pq.FileMetaData | None = None) -> pq.ParquetFile:
        """A Parquet file in it, to be read.

        Args:
            footer: if it was read before.

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
        """A Parquet file in it, to be written; the directory comes with it.

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
        """How many bytes a file in it has.

        Raises:
            OSError: it cannot be said.
        """
        return self.file_system.size(f"{self.path}/{inside}")

    def link(self, inside: str, other: Directory, of: str) -> None:
        """Put a file of another directory into this one too; its directories come with it.

        Of one file system it is linked, or copied there; between two its bytes are copied here.

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
        """Whether the way from here down to a path goes through a symbolic link."""
        return self.file_system.is_linked(self.path, f"{self.path}/{inside}")

    def remove_file(self, inside: str) -> None:
        """Remove a file in it, if it is there."""
        self.file_system.remove_file(f"{self.path}/{inside}")

    def remove(self) -> None:
        """Remove it with all that is in it; of a link only the link."""
        self.file_system.remove_tree(self.path)

    def remove_if_empty(self) -> None:
        """Remove it if it has nothing in it."""
        self.file_system.remove_if_empty(self.path)
