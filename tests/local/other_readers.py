"""Readers without the library: each opens a Delta table by its path and returns all of its rows.

What they return is as they give it; `rows_of` makes it comparable. A reader may refuse a table, as
`refuses` says, with an error; it never returns other rows.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import duckdb
import duckdb_extension_delta
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError
from local_stores import tuples

from deltaproduce.testing import plain_rows
from deltaproduce.types.atoms import arrow_schema
from deltaproduce.types.columns import Column, Columns

Read = Callable[[str, int | None], pa.Table]
"""Reads a table by its path, at a Delta version or as it is now."""

_EXTENSION: Final = Path(duckdb_extension_delta.__file__).parent.joinpath(
    "extensions", f"v{duckdb.__version__}", "delta.duckdb_extension"
)


@cache
def with_delta() -> duckdb.DuckDBPyConnection:
    """A connection with the extension that reads Delta tables, from the package that has it."""
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{_EXTENSION}'")
    return connection


def of_text(text: str) -> pa.Table:
    """What DuckDB selects by the text of a store; with the extension only if it is needed."""
    if "delta_scan(" in text:
        return with_delta().sql(text).to_arrow_table()
    with duckdb.connect() as connection:
        return connection.sql(text).to_arrow_table()


def by_duckdb(path: str, at: int | None) -> pa.Table:
    quoted = path.replace("'", "''")
    version = "" if at is None else f", version => {at}"
    return with_delta().sql(f"SELECT * FROM delta_scan('{quoted}'{version})").to_arrow_table()


def by_polars(path: str, at: int | None) -> pa.Table:
    return pl.scan_delta(path, version=at).collect().to_arrow()


def by_query_builder(path: str, at: int | None) -> pa.Table:
    query = QueryBuilder().register("found", DeltaTable(path, version=at))
    return pa.table(query.execute("SELECT * FROM found").read_all())


def by_pyarrow(path: str, at: int | None) -> pa.Table:
    return DeltaTable(path, version=at).to_pyarrow_table()


def by_pandas(path: str, at: int | None) -> pa.Table:
    return pa.Table.from_pandas(DeltaTable(path, version=at).to_pandas(types_mapper=pd.ArrowDtype))


READERS: Final[Mapping[str, Read]] = {
    "DuckDB, `delta_scan`": by_duckdb,
    "Polars, `scan_delta`": by_polars,
    "delta-rs, `QueryBuilder`": by_query_builder,
    "delta-rs, `to_pyarrow_table`": by_pyarrow,
    "pandas, `DeltaTable.to_pandas`": by_pandas,
}
REFUSE_MARKS: Final = (by_pyarrow, by_pandas)
"""The readers that refuse a table from the Delta version on that has marked rows."""


def refuses(read: Read, path: str, at: int | None) -> bool:
    """Whether a reader has to refuse a table."""
    features = DeltaTable(path, version=at).protocol().reader_features or ()
    return read in REFUSE_MARKS and "deletionVectors" in features


def rows_of(found: pa.Table, columns: Iterable[Column]) -> list[Any]:
    """Some columns of what a reader has found, in normal form, sorted."""
    told = [*columns]
    schema = arrow_schema(told)
    chosen = [_cast(found.column(field.name), field.type) for field in schema]
    rows = tuples(pa.table(chosen, schema=schema), Columns(tuple(told)))
    return sorted(plain_rows(rows), key=repr)


def _cast(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Polars and pandas have lists of pairs for maps."""
    if not pa.types.is_map(kind):
        return values.cast(kind)
    pairs = [
        None
        if value is None
        else [tuple(p.values()) if isinstance(p, dict) else tuple(p) for p in value]
        for value in values.to_pylist()
    ]
    return pa.chunked_array([pa.array(pairs, kind)])


def assert_read(
    read: Read, path: str, at: int | None, columns: Iterable[Column], expected: Iterable[Any]
) -> bool:
    """The reader has these rows, or refuses to read the table, and has to; return whether it read.

    Args:
        expected: in normal form.
    """
    if refuses(read, path, at):
        with pytest.raises(DeltaError, match=r"[dD]eletionVectors"):
            read(path, at)
        return False
    found = rows_of(read(path, at), columns)
    assert found == sorted(expected, key=repr), f"{read.__name__} of {path} at {at}"
    return True
