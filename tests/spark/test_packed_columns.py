"""Both engines store whole numbers as differences, and all readers can read them."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Final

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from deltaproduce import Limits, Pipeline, Store

COLUMNS: Final = {
    "n": ("bigint", pa.int64()),
    "i": ("int", pa.int32()),
    "s": ("smallint", pa.int16()),
    "b": ("tinyint", pa.int8()),
    "d": ("date", pa.date32()),
    "t": ("timestamp", pa.timestamp("us", "UTC")),
    "a": ("decimal(18,2)", pa.decimal128(18, 2)),
}
OTHERS: Final = {"w": ("decimal(19,2)", pa.decimal128(19, 2)), "x": ("string", pa.string())}
FIRST: Final = datetime(1, 1, 1, tzinfo=UTC)
LAST: Final = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
WIDE: Final = Decimal("99999999999999999.99")
LONG: Final = Decimal("9999999999999999.99")
ROWS: Final = [
    (-(2**63), -(2**31), -(2**15), -(2**7), FIRST.date(), FIRST, -LONG, -WIDE, ""),
    (0, 0, 0, 0, date(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC), Decimal(0), Decimal(0), "x"),
    (1, *[None] * 8),
    (2**63 - 1, 2**31 - 1, 2**15 - 1, 2**7 - 1, LAST.date(), LAST, LONG, WIDE, "ä"),
]
NAMES: Final = [*COLUMNS, *OTHERS]
GIVEN: Final = pa.table(
    [
        pa.array(values, arrow)
        for *values, (_, arrow) in zip(*ROWS, (COLUMNS | OTHERS).values(), strict=True)
    ],
    NAMES,
)


def by_duckdb(files: list[str]) -> pa.Table:
    with duckdb.connect() as connection:
        connection.execute("SET timezone = 'UTC'")
        return connection.sql(f"FROM read_parquet({files})").to_arrow_table()


def by_polars(files: list[str]) -> pa.Table:
    return pl.read_parquet(files).to_arrow()


def by_delta_rs(files: list[str]) -> pa.Table:
    return DeltaTable(str(Path(files[0]).parent)).to_pyarrow_table()


def by_spark(files: list[str]) -> pa.Table:
    return SparkSession.active().read.parquet(*files).toArrow()


@pytest.mark.parametrize("by", [by_duckdb, by_polars, by_delta_rs, by_spark])
@pytest.mark.parametrize("way", ["local", "spark"])
def test_whole_numbers_are_differences_that_all_read(
    spark: SparkSession, tmp_path: Path, way: str, by: Callable[[list[str]], pa.Table]
) -> None:
    pipeline = Pipeline("whole")
    value = ", ".join(f"{name} {of}" for name, (of, _) in (COLUMNS | OTHERS).items() if name != "n")
    pipeline.source("numbers", key="n bigint", value=value)
    few = Limits(local_rows=0, small_table_rows=1)
    limits = few if way == "spark" else Limits()
    store = Store(spark, str(tmp_path), pipeline, limits=limits)
    store.update({"numbers": GIVEN})
    files = sorted(map(str, Path(tmp_path, "numbers", "content").glob("*.parquet")))
    assert {made_by(file) for file in files} == {"parquet-mr" if way == "spark" else "parquet-rs"}
    for file in files:
        found = encodings(file)
        assert all("DELTA_BINARY_PACKED" in found[name] for name in COLUMNS), found
        assert not any("DELTA_BINARY_PACKED" in found[name] for name in OTHERS), found
    read = by(files).select(NAMES).cast(GIVEN.schema).sort_by("n")
    assert read.to_pylist() == GIVEN.to_pylist()


def made_by(file: str) -> str:
    return str(pq.read_metadata(file).created_by).split()[0]


def encodings(file: str) -> dict[str, tuple[str, ...]]:
    group = pq.read_metadata(file).row_group(0)
    columns = (group.column(number) for number in range(group.num_columns))
    return {column.path_in_schema: column.encodings for column in columns}
