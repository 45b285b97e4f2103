"""Databases: the one at an address, opened to be read.

The invariant: an address is a connection string of PostgreSQL, or the path of a DuckDB file, and a
package that is missing is named.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from deltaproduce.projects.dbt.manifest import ManifestError
from deltaproduce.sync.comparing.tables import OtherTable
from deltaproduce.types.excerpts import shown

Find = Callable[[tuple[str, ...]], OtherTable]
"""Returns the table of a schema and a name."""


def is_postgres(address: str) -> bool:
    """Return whether an address is one of libpq: a URI, or settings such as ``service=shop``."""
    return re.match(r"postgres(ql)?://|\w+ *= *\S", address) is not None


def shown_address(address: str) -> str:
    """Return an address without its password, and a path without ``..``."""
    if not is_postgres(address):
        return os.path.normpath(address) if "://" not in address else address
    hidden = re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", address)
    return re.sub(r"(password *= *)('(?:[^'\\]|\\.)*'|\S+)", r"\1***", hidden)


@contextmanager
def opened(address: str) -> Iterator[Find]:
    """Open a database for a ``with`` block.

    Raises:
        ManifestError: there is no such file, or the package that reads it is missing.
        UnreadableTableError: it cannot be read.
    """
    if is_postgres(address):
        with _in_postgres(address) as find:
            yield find
    else:
        with _in_duckdb(address) as find:
            yield find


@contextmanager
def _in_postgres(address: str) -> Iterator[Find]:
    try:
        from deltaproduce.postgres.reading import PostgresTable, reading
    except ModuleNotFoundError as error:
        raise ManifestError(
            f"PostgreSQL needs {error.name}: pip install 'deltaproduce[postgres]'"
        ) from error
    with reading(address) as reader:
        yield lambda name: PostgresTable(reader, name)


@contextmanager
def _in_duckdb(path: str) -> Iterator[Find]:
    try:
        from deltaproduce.projects.dbt.target.duckdb_tables import DuckDBTable, connected
    except ModuleNotFoundError as error:
        raise ManifestError(
            f"DuckDB needs {error.name}: pip install 'deltaproduce[duckdb]'"
        ) from error
    if not re.match(r"\w{2,}:", path) and not Path(path).is_file():
        raise ManifestError(
            f"there is no file {shown(path)}: run dbt there, or name the database with --with"
        )
    with connected(path) as connection:
        yield lambda name: DuckDBTable(connection, name)
