"""The competitors: ours, and what a user would do instead. Each does the same job.

A job is: apply a batch of changes to the orders, bring every derived table up to date, get deletes
right, and write a feed of what changed for whoever reads on. `Competitor.tables` is compared with
the right answer after the run; a competitor that is wrong has no figures.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import deltaproduce as dp
from benchmarks.w1 import BAND, COLUMNS, STAGES, derived, pipeline

KEYS: Final = {
    "orders": ("order_id",),
    "orders_by_customer": ("customer_id", "order_id"),
    "customer_totals": ("customer_id",),
    "customers_by_band": ("band", "customer_id"),
}


class Competitor(ABC):
    """One way to keep W1's tables, in a directory of its own.

    Args:
        stages: the stages to keep, in order.
    """

    name: str

    def __init__(self, spark: SparkSession, directory: Path, stages: Sequence[str]) -> None:
        self.spark = spark
        self.directory = directory
        self.stages = tuple(stages)
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)

    @abstractmethod
    def load(self, orders: DataFrame) -> None:
        """The first load."""

    def prepare(self, changes: DataFrame) -> None:
        """What precedes a step and is not part of it."""
        del changes  # for most, nothing does

    @abstractmethod
    def step(self, changes: DataFrame) -> None:
        """One batch of changes, through all tables."""

    @abstractmethod
    def table(self, name: str) -> DataFrame:
        """The rows of one table now, in the columns of `w1.COLUMNS`."""

    def notes(self) -> dict[str, Any]:
        """What else the last step said of itself."""
        return {}

    def path(self, name: str) -> str:
        """Where a table is."""
        return str(self.directory / name)


class Ours(Competitor):
    """This library, with Python producers."""

    name = "deltaproduce"

    def __init__(self, spark: SparkSession, directory: Path, stages: Sequence[str]) -> None:
        super().__init__(spark, directory, stages)
        self.store = dp.Store(spark, str(directory), pipeline(len(stages)))

    def load(self, orders: DataFrame) -> None:
        self.store.update({"orders": orders})

    def step(self, changes: DataFrame) -> None:
        self.store.update({"orders": changes})

    def table(self, name: str) -> DataFrame:
        return self.store.content(name).select(*COLUMNS[name])

    def notes(self) -> dict[str, Any]:
        return {
            name: f"{figures.mode}, {figures.affected_keys} keys, {figures.seconds:.2f} s"
            for name, figures in self.store.head.stages.items()
        }


class OursRefreshed(Ours):
    """This library, each step a refresh of all stages: the same functions called for all rows."""

    name = "deltaproduce, refresh"

    def prepare(self, changes: DataFrame) -> None:
        self.store.update({"orders": changes})

    def step(self, changes: DataFrame) -> None:
        self.store.refresh()


class Recompute(Competitor):
    """Plain DataFrames: every table is computed and written anew, then compared for the feed."""

    name = "full recompute (DataFrames)"

    def load(self, orders: DataFrame) -> None:
        self._write(orders.select(*COLUMNS["orders"]), "orders")
        self._derive()

    def step(self, changes: DataFrame) -> None:
        orders = self.table("orders").join(changes, "order_id", "left_anti")
        upserts = changes.where("_change_type = 'upsert'")
        kept, new = (rows.select(*COLUMNS["orders"]) for rows in (orders, upserts))
        self._write(kept.union(new), "orders")
        before = self.table(self.stages[-1])
        self._derive()
        self._feed(before, self.table(self.stages[-1]))

    def table(self, name: str) -> DataFrame:
        return self.spark.read.format("delta").load(self.path(name))

    def _derive(self) -> None:
        feeder = "orders"
        for stage in self.stages:
            self._write(derived(stage, self.table(feeder)), stage)
            feeder = stage

    def _feed(self, before: DataFrame, after: DataFrame) -> None:
        gone = before.exceptAll(after).withColumn("_change_type", f.lit("delete"))
        new = after.exceptAll(before).withColumn("_change_type", f.lit("insert"))
        gone.union(new).write.format("delta").mode("append").save(self.path("feed"))

    def _write(self, rows: DataFrame, name: str) -> None:
        in_order = rows.repartitionByRange(*KEYS[name]).sortWithinPartitions(*KEYS[name])
        in_order.write.format("delta").mode("overwrite").save(self.path(name))


class Merge(Competitor):
    """MERGE INTO with change data feeds, stage by stage: the usual hand-written pipeline."""

    name = "MERGE + change data feed"

    def __init__(self, spark: SparkSession, directory: Path, stages: Sequence[str]) -> None:
        super().__init__(spark, directory, stages)
        self._version = 0

    def load(self, orders: DataFrame) -> None:
        rows = orders.select(*COLUMNS["orders"])
        for name in ("orders", *self.stages):
            rows = rows if name == "orders" else derived(name, rows)
            in_order = rows.repartitionByRange(*KEYS[name]).sortWithinPartitions(*KEYS[name])
            (
                in_order.write.format("delta")
                .option("delta.enableChangeDataFeed", "true")
                .option("delta.enableDeletionVectors", "true")
                .save(self.path(name))
            )
            rows = self.table(name)

    def step(self, changes: DataFrame) -> None:
        deletes = f.col("_change_type") == "delete"
        self._merge("orders", changes.withColumn("_gone", deletes))
        feeder = "orders"
        for stage in self.stages:
            self._merge(stage, self._source(stage, feeder))
            feeder = stage

    def table(self, name: str) -> DataFrame:
        return self.spark.read.format("delta").load(self.path(name))

    def _changed(self, name: str) -> DataFrame:
        newest = self.spark.sql(f"DESCRIBE HISTORY delta.`{self.path(name)}` LIMIT 1")
        version = newest.collect()[0]["version"]
        reader = self.spark.read.format("delta").option("readChangeFeed", "true")
        return reader.option("startingVersion", version).load(self.path(name))

    def _source(self, stage: str, feeder: str) -> DataFrame:
        """The rows to be merged into a stage, from what changed in its feeder."""
        feed = self._changed(feeder).localCheckpoint()
        if stage == "customer_totals":
            customers = feed.select("customer_id").distinct()
            now = self.table(feeder).join(f.broadcast(customers), "customer_id", "left_semi")
            totals = derived(stage, now)
            return customers.join(totals, "customer_id", "left_outer").withColumn(
                "_gone", f.col("total").isNull()
            )
        old = derived(stage, feed.where("_change_type IN ('delete', 'update_preimage')"))
        new = derived(stage, feed.where("_change_type IN ('insert', 'update_postimage')"))
        key = list(KEYS[stage])
        gone = old.join(new, key, "left_anti").withColumn("_gone", f.lit(True))
        return gone.union(new.withColumn("_gone", f.lit(False)))

    def _merge(self, name: str, source: DataFrame) -> None:
        source.localCheckpoint().createOrReplaceTempView("merge_source")
        values = [c for c in COLUMNS[name] if c not in KEYS[name]]
        matched = " AND ".join(f"t.{c} = s.{c}" for c in KEYS[name])
        differs = " OR ".join(f"t.{c} <> s.{c}" for c in values)
        sets = ", ".join(f"{c} = s.{c}" for c in values)
        columns = ", ".join(COLUMNS[name])
        inserted = ", ".join(f"s.{c}" for c in COLUMNS[name])
        self.spark.sql(
            f"""MERGE INTO delta.`{self.path(name)}` t USING merge_source s ON {matched}
            WHEN MATCHED AND s._gone THEN DELETE
            WHEN MATCHED AND ({differs}) THEN UPDATE SET {sets}
            WHEN NOT MATCHED AND NOT s._gone THEN INSERT ({columns}) VALUES ({inserted})"""
        )


class DeltaRs(Competitor):
    """The MERGE of delta-rs, with DuckDB between the stages: one process, no Spark."""

    name = "MERGE of delta-rs"

    def load(self, orders: DataFrame) -> None:
        rows: Any = orders.select(*COLUMNS["orders"]).toArrow()
        for name in ("orders", *self.stages):
            if name != "orders":
                rows = _query(_DERIVED[name].format(feeder="rows"), rows=rows)
            write_deltalake(
                self.path(name),
                _sorted(rows, KEYS[name]),
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
        for stage in self.stages:
            if stage == "customer_totals":
                touched = _query("FROM old UNION ALL FROM new", old=old, new=new)
                old = self._rows(stage, touched, ("customer_id",))
                now = self._rows(feeder, touched, ("customer_id",))
                new = _query(_DERIVED[stage].format(feeder="rows"), rows=now)
            else:
                old = _query(_DERIVED[stage].format(feeder="rows"), rows=old)
                new = _query(_DERIVED[stage].format(feeder="rows"), rows=new)
            self._merge(stage, old, new)
            feeder = stage

    def table(self, name: str) -> DataFrame:
        return self.spark.read.format("delta").load(self.path(name)).select(*COLUMNS[name])

    def _rows(self, name: str, keys: pa.Table, columns: Sequence[str]) -> pa.Table:
        rows = DeltaTable(self.path(name)).to_pyarrow_dataset()
        on = ", ".join(columns)
        query = f"SELECT {', '.join(COLUMNS[name])} FROM rows SEMI JOIN keys USING ({on})"
        return _query(query, rows=rows, keys=keys)

    def _merge(self, name: str, old: pa.Table, new: pa.Table) -> None:
        key = ", ".join(KEYS[name])
        names = ", ".join(COLUMNS[name])
        source = _query(
            f"""SELECT {names}, true AS _gone FROM old ANTI JOIN new USING ({key})
            UNION ALL SELECT {names}, false FROM (SELECT {names} FROM new EXCEPT
                                                  SELECT {names} FROM old)""",
            old=old,
            new=new,
        )
        every = {c: f"s.{c}" for c in COLUMNS[name]}
        (
            DeltaTable(self.path(name))
            .merge(source, " AND ".join(f"t.{c} = s.{c}" for c in KEYS[name]), "s", "t")
            .when_matched_delete("s._gone")
            .when_matched_update(every, "NOT s._gone")
            .when_not_matched_insert(every, "NOT s._gone")
            .execute()
        )


class DuckDb(Competitor):
    """DuckDB computes everything anew from Parquet files: one process, no Spark, no versions."""

    name = "full recompute (DuckDB)"

    def load(self, orders: DataFrame) -> None:
        self._copy("rows", "orders", rows=orders.select(*COLUMNS["orders"]).toArrow())
        self._derive()

    def step(self, changes: DataFrame) -> None:
        given = changes.toArrow()
        names = ", ".join(COLUMNS["orders"])
        query = f"""(SELECT {names} FROM '{self._file("orders")}' ANTI JOIN given USING (order_id)
            UNION ALL SELECT {names} FROM given WHERE _change_type = 'upsert')"""
        self._copy(query, "orders.next", given=given, name="orders")
        Path(self._file("orders.next")).replace(self._file("orders"))
        last = self.stages[-1]
        Path(self._file(last)).replace(self._file("before"))
        self._derive()
        before, after = f"FROM '{self._file('before')}'", f"FROM '{self._file(last)}'"
        feed = f"(({before} EXCEPT ALL {after}) UNION ALL ({after} EXCEPT ALL {before}))"
        self._copy(feed, "feed", name=last)

    def table(self, name: str) -> DataFrame:
        return self.spark.read.parquet(self._file(name))

    def _file(self, name: str) -> str:
        return f"{self.path(name)}.parquet"

    def _derive(self) -> None:
        feeder = "orders"
        for stage in self.stages:
            query = _DERIVED[stage].format(feeder=f"'{self._file(feeder)}'")
            self._copy(f"({query})", stage)
            feeder = stage

    def _copy(self, query: str, target: str, *, name: str | None = None, **tables: object) -> None:
        order = ", ".join(KEYS[name or target])
        with duckdb.connect() as connection:
            for view, rows in tables.items():
                connection.register(view, rows)
            connection.execute(
                f"COPY (SELECT * FROM {query} ORDER BY {order}) TO '{self._file(target)}'"
            )


_DERIVED: Final = {
    "orders_by_customer": "SELECT customer_id, order_id, amount FROM {feeder}",
    "customer_totals": "SELECT customer_id, CAST(sum(amount) AS DECIMAL(22,2)) AS total "
    "FROM {feeder} GROUP BY customer_id",
    "customers_by_band": f"SELECT CAST(floor(total / {BAND}) AS INTEGER) AS band, "
    "customer_id, total FROM {feeder}",
}

COMPETITORS: Final = {
    "ours": Ours,
    "refresh": OursRefreshed,
    "recompute": Recompute,
    "merge": Merge,
    "delta-rs": DeltaRs,
    "duckdb": DuckDb,
}

assert set(_DERIVED) == set(STAGES)


def _query(text: str, **tables: object) -> pa.Table:
    with duckdb.connect() as connection:
        for name, rows in tables.items():
            connection.register(name, rows)
        return connection.sql(text).to_arrow_table()


def _sorted(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    return rows.sort_by([(name, "ascending") for name in key])
