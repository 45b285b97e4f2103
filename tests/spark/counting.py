"""Counting Spark jobs."""

from pyspark.sql import SparkSession


def jobs(spark: SparkSession) -> int:
    """How many jobs there were; Spark remembers only the last thousand, so they are not counted."""
    return max(spark.sparkContext.statusTracker().getJobIdsForGroup(None), default=-1) + 1
