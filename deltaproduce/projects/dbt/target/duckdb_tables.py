"""Tables of a DuckDB file, read as Arrow.

The only module that uses duckdb. The invariant: the file is opened to be read only, so that nobody
can write it meanwhile, and all tables are of one state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import duckdb
import pyarrow as pa
from typing_extensions import override

from deltaproduce.sync.comparing.tables import (
    PART_ROWS,
    OtherColumn,
    OtherTable,
    UnreadableTableError,
)
from deltaproduce.types.excerpts import one_line

_AS_TEXT: Final = frozenset({"time", "time with time zone", "time_ns", "interval", "bit", "bignum"})
"""Types without an equal in a store: they are compared as text."""
_IS_THERE: Final = (
    "SELECT table_name FROM information_schema.tables "
    "WHERE lower(table_schema) = lower(?) AND lower(table_name) = lower(?)"
)


@dataclass(frozen=True)
class DuckDBTable(OtherTable):
    """A table or view.

    Attributes:
        parts_of_name: schema and name.
    """

    connection: duckdb.DuckDBPyConnection
    parts_of_name: tuple[str, ...]

    @cached_property
    @override
    def columns(self) -> Mapping[str, OtherColumn]:
        if not self.connection.execute(_IS_THERE, self.parts_of_name).fetchall():
            missing = ".".join(self.parts_of_name)
            raise UnreadableTableError(f"there is no table {missing} there")
        try:
            rows = self.connection.sql(f"SELECT * FROM {self._name} LIMIT 0")
        except duckdb.Error as error:
            raise UnreadableTableError(one_line(error)) from error
        declared = dict(zip(rows.columns, map(str, rows.types), strict=True))
        schema = self._read(rows.columns, declared, "LIMIT 0").schema
        return {
            field.name: OtherColumn(field.type, declared[field.name].lower()) for field in schema
        }

    @override
    def parts(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        declared = {name: column.declared for name, column in self.columns.items()}
        reader = self._read(columns, declared, "")
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            except (duckdb.Error, pa.ArrowException, OSError) as error:
                raise UnreadableTableError(one_line(error)) from error
            yield pa.Table.from_batches([batch])

    @property
    def _name(self) -> str:
        return ".".join(map(_quoted, self.parts_of_name))

    def _read(
        self, columns: Sequence[str], declared: Mapping[str, str], end: str
    ) -> pa.RecordBatchReader:
        terms = ", ".join(
            f"CAST({_quoted(name)} AS VARCHAR) AS {_quoted(name)}"
            if declared[name].lower() in _AS_TEXT
            else _quoted(name)
            for name in columns
        )
        try:
            rows = self.connection.sql(f"SELECT {terms} FROM {self._name} {end}")
            return rows.to_arrow_reader(PART_ROWS)
        except duckdb.Error as error:
            raise UnreadableTableError(one_line(error)) from error


@contextmanager
def connected(path: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a file for a ``with`` block.

    Raises:
        UnreadableTableError: it is no file of DuckDB, or of a newer one, or another process writes
            it.
    """
    try:
        connection = duckdb.connect(path, read_only=True)
    except (duckdb.Error, UnicodeError) as error:
        here = f"duckdb {duckdb.__version__}"
        raise UnreadableTableError(
            f"{path!r} cannot be opened by {here}: {one_line(error)}"
        ) from error
    try:
        yield connection
    finally:
        connection.close()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
