"""One machine without Spark: the MERGE of delta-rs, for W1 only, and DuckDB.

DuckDB can do workloads of one source whose stages have a query in its SQL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame

from benchmarks.competitor import Competitor


class DeltaRs(Competitor):
    """The MERGE of delta-rs, with DuckDB between the stages: one process, no Spark."""

    name = "MERGE of delta-rs"

    def load(self, rows: Mapping[str, DataFrame]) -> None:
        found: Any = rows["orders"].toArrow()
        for name, table in self.workload.tables.items():
            if name != self.workload.source:
                found = _query(self._derived(name), rows=found)
            write_deltalake(
                self.path(name),
                found.sort_by([(column, "ascending") for column in table.row]),
                configuration={"delta.enableChangeDataFeed": "true"},
            )

    def step(self, changes: DataFrame) -> None:
        given = changes.toArrow()
        old = self._rows("orders", given, ("order_id",))
        new = _query(
            "SELECT * EXCLUDE (_change_type) FROM g WHERE _change_type = 'upsert'", g=given
        )
        self._merge("orders", old, new)
        feeder = "orders"
        for stage in self.workload.stages:
            if stage == "customer_totals":
                touched = _query("FROM old UNION ALL FROM new", old=old, new=new)
                old = self._rows(stage, touched, ("customer_id",))
                now = self._rows(feeder, touched, ("customer_id",))
                new = _query(self._derived(stage), rows=now)
            else:
                old = _query(self._derived(stage), rows=old)
                new = _query(self._derived(stage), rows=new)
            self._merge(stage, old, new)
            feeder = stage

    def table(self, name: str) -> DataFrame:
        columns = self.described(name).columns
        return self.spark.read.format("delta").load(self.path(name)).select(*columns)

    def feed(self) -> DataFrame:
        newest = DeltaTable(self.path(self.last)).version()
        reader = self.spark.read.format("delta").option("readChangeFeed", "true")
        return reader.option("startingVersion", newest).load(self.path(self.last))

    def _derived(self, stage: str) -> str:
        return self.workload.queries[stage].format(feeder="rows")

    def _rows(self, name: str, keys: pa.Table, columns: Sequence[str]) -> pa.Table:
        rows = DeltaTable(self.path(name)).to_pyarrow_dataset()
        names = ", ".join(self.described(name).columns)
        query = f"SELECT {names} FROM rows SEMI JOIN keys USING ({', '.join(columns)})"
        return _query(query, rows=rows, keys=keys)

    def _merge(self, name: str, old: pa.Table, new: pa.Table) -> None:
        table = self.described(name)
        key = ", ".join(table.row)
        names = ", ".join(table.columns)
        source = _query(
            f"""SELECT {names}, true AS _gone FROM old ANTI JOIN new USING ({key})
            UNION ALL SELECT {names}, false FROM (SELECT {names} FROM new EXCEPT
                                                  SELECT {names} FROM old)""",
            old=old,
            new=new,
        )
        every = {c: f"s.{c}" for c in table.columns}
        (
            DeltaTable(self.path(name))
            .merge(source, " AND ".join(f"t.{c} = s.{c}" for c in table.row), "s", "t")
            .when_matched_delete("s._gone")
            .when_matched_update(every, "NOT s._gone")
            .when_not_matched_insert(every, "NOT s._gone")
            .execute()
        )


class DuckDb(Competitor):
    """DuckDB recomputes everything from Parquet files: one process, no Spark, no versions."""

    name = "full recompute (DuckDB)"

    def load(self, rows: Mapping[str, DataFrame]) -> None:
        source = self.workload.source
        self._copy("rows", source, rows=rows[source].toArrow())
        self._derive()

    def step(self, changes: DataFrame) -> None:
        source, given = self.workload.source, changes.toArrow()
        names, key = (
            ", ".join(of) for of in (self.described(source).columns, self.described(source).key)
        )
        query = f"""(SELECT {names} FROM '{self._file(source)}' ANTI JOIN given USING ({key})
            UNION ALL SELECT {names} FROM given WHERE _change_type = 'upsert')"""
        following = f"{source}.next"
        self._copy(query, following, given=given, name=source)
        Path(self._file(following)).replace(self._file(source))
        Path(self._file(self.last)).replace(self._file("before"))
        self._derive()
        before, after = f"FROM '{self._file('before')}'", f"FROM '{self._file(self.last)}'"
        feed = f"(({before} EXCEPT ALL {after}) UNION ALL ({after} EXCEPT ALL {before}))"
        self._copy(feed, "feed", name=self.last)

    def table(self, name: str) -> DataFrame:
        return self.spark.read.parquet(self._file(name))

    def feed(self) -> DataFrame:
        return self.table("feed")

    def _file(self, name: str) -> str:
        return f"{self.path(name)}.parquet"

    def _derive(self) -> None:
        feeder = self.workload.source
        for stage in self.workload.stages:
            query = self.workload.queries[stage].format(feeder=f"'{self._file(feeder)}'")
            self._copy(f"({query})", stage)
            feeder = stage

    def _copy(self, query: str, target: str, *, name: str | None = None, **tables: object) -> None:
        order = ", ".join(self.described(name or target).row)
        with duckdb.connect() as connection:
            for view, rows in tables.items():
                connection.register(view, rows)
            connection.execute(
                f"COPY (SELECT * FROM {query} ORDER BY {order}) TO '{self._file(target)}'"
            )


def _query(text: str, **tables: object) -> pa.Table:
    with duckdb.connect() as connection:
        for name, rows in tables.items():
            connection.register(name, rows)
        return connection.sql(text).to_arrow_table()
