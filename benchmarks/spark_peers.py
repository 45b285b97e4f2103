"""The alternatives of a Spark user: recompute with DataFrames, or a handwritten MERGE."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.competitor import Competitor
from benchmarks.workload import Workload


class Recompute(Competitor):
    """Plain DataFrames: recomputes and writes every table, then compares them for the feed."""

    name = "full recompute (DataFrames)"

    def __init__(self, spark: SparkSession, directory: Path, workload: Workload) -> None:
        super().__init__(spark, directory, workload)
        self._steps = 0

    def load(self, rows: Mapping[str, DataFrame]) -> None:
        for source, given in rows.items():
            self._write(given, source)
        self._derive()

    def step(self, changes: DataFrame) -> None:
        source = self.workload.source
        table = self.described(source)
        kept = self.table(source).join(changes, list(table.key), "left_anti")
        upserts = changes.where("_change_type = 'upsert'")
        kept, new = (rows.select(*table.columns) for rows in (kept, upserts))
        self._write(kept.union(new), source)
        self._derive()
        self._feed()

    def table(self, name: str) -> DataFrame:
        return self.spark.read.format("delta").load(self.path(name))

    def feed(self) -> DataFrame:
        return self.table("feed").where(f.col("_step") == self._steps)

    def _derive(self) -> None:
        for stage in self.workload.stages:
            feeders = (self.table(feeder) for feeder in self.workload.feeders(stage))
            self._write(self.workload.derived(stage, *feeders), stage)

    def _feed(self) -> None:
        # Without a version, a DataFrame reads the newest one when it is computed.
        reader = self.spark.read.format("delta").option("versionAsOf", self._steps)
        before, after = reader.load(self.path(self.last)), self.table(self.last)
        self._steps += 1
        gone = before.exceptAll(after).withColumn("_change_type", f.lit("delete"))
        new = after.exceptAll(before).withColumn("_change_type", f.lit("insert"))
        feed = gone.union(new).withColumn("_step", f.lit(self._steps))
        feed.write.format("delta").mode("append").save(self.path("feed"))

    def _write(self, rows: DataFrame, name: str) -> None:
        order = self.described(name).row
        in_order = rows.repartitionByRange(*order).sortWithinPartitions(*order)
        in_order.write.format("delta").mode("overwrite").save(self.path(name))


class Merge(Competitor):
    """MERGE INTO with change data feeds, stage by stage: the usual hand-written pipeline.

    It can do workloads whose tables' ``row`` columns identify one row, as MERGE requires.
    """

    name = "MERGE + change data feed"

    def load(self, rows: Mapping[str, DataFrame]) -> None:
        for name, table in self.workload.tables.items():
            made = rows[name] if name in rows else self._derived(name)
            in_order = made.repartitionByRange(*table.row).sortWithinPartitions(*table.row)
            (
                in_order.write.format("delta")
                .option("delta.enableChangeDataFeed", "true")
                .option("delta.enableDeletionVectors", "true")
                .save(self.path(name))
            )

    def step(self, changes: DataFrame) -> None:
        gone = f.col("_change_type") == "delete"
        self._merge(self.workload.source, changes.withColumn("_gone", gone))
        for stage in self.workload.stages:
            self._merge(stage, self._source(stage))

    def table(self, name: str) -> DataFrame:
        return self.spark.read.format("delta").load(self.path(name))

    def feed(self) -> DataFrame:
        return self._changed(self.last)

    def _changed(self, name: str) -> DataFrame:
        newest = self.spark.sql(f"DESCRIBE HISTORY delta.`{self.path(name)}` LIMIT 1")
        version = newest.collect()[0]["version"]
        reader = self.spark.read.format("delta").option("readChangeFeed", "true")
        return reader.option("startingVersion", version).load(self.path(name))

    def _derived(self, stage: str, touched: DataFrame | None = None) -> DataFrame:
        """Return a stage's rows from all current rows of its feeders, or from some keys' rows."""
        feeders = [self.table(feeder) for feeder in self.workload.feeders(stage)]
        if touched is not None:
            keys = f.broadcast(touched)
            feeders = [rows.join(keys, touched.columns, "left_semi") for rows in feeders]
        return self.workload.derived(stage, *feeders)

    def _source(self, stage: str) -> DataFrame:
        """Return the rows to merge into a stage, from the changes of its first feeder."""
        changed, row = self.workload.feeders(stage)[0], list(self.described(stage).row)
        feed = self._changed(changed).localCheckpoint()
        if self.described(stage).key == tuple(row) and set(row) <= set(feed.columns):
            # One row a key of the feeder's columns: computed from all of the key's rows.
            touched = feed.select(*row).distinct()
            now = self._derived(stage, touched).withColumn("_gone", f.lit(False))
            found = touched.join(now, row, "left_outer")
            return found.withColumn("_gone", f.coalesce("_gone", f.lit(True)))
        derived = self.workload.derived
        old = derived(stage, feed.where("_change_type IN ('delete', 'update_preimage')"))
        new = derived(stage, feed.where("_change_type IN ('insert', 'update_postimage')"))
        gone = old.join(new, row, "left_anti")
        return gone.withColumn("_gone", f.lit(True)).union(new.withColumn("_gone", f.lit(False)))

    def _merge(self, name: str, source: DataFrame) -> None:
        source.localCheckpoint().createOrReplaceTempView("merge_source")
        table = self.described(name)
        values = [c for c in table.columns if c not in table.row]
        matched = " AND ".join(f"t.{c} = s.{c}" for c in table.row)
        differs = " OR ".join(f"NOT t.{c} <=> s.{c}" for c in values)
        sets = ", ".join(f"{c} = s.{c}" for c in values)
        columns = ", ".join(table.columns)
        inserted = ", ".join(f"s.{c}" for c in table.columns)
        self.spark.sql(
            f"""MERGE INTO delta.`{self.path(name)}` t USING merge_source s ON {matched}
            WHEN MATCHED AND s._gone THEN DELETE
            WHEN MATCHED AND ({differs}) THEN UPDATE SET {sets}
            WHEN NOT MATCHED AND NOT s._gone THEN INSERT ({columns}) VALUES ({inserted})"""
        )
