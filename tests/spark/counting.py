"""Counting Spark jobs, and the files that queries read."""

from pyspark.sql import SparkSession


def jobs(spark: SparkSession) -> int:
    """How many jobs there were; Spark remembers only the last thousand, so they are not counted."""
    return max(spark.sparkContext.statusTracker().getJobIdsForGroup(None), default=-1) + 1


def files_read(spark: SparkSession) -> int:
    """How many files all queries of the session have read, of those that Spark remembers."""
    known = spark._jsparkSession.sharedState().statusStore()
    queries, total = known.executionsList(), 0
    for place in range(queries.size()):
        query = queries.apply(place)
        values = known.executionMetrics(query.executionId())
        for n in range(query.metrics().size()):
            metric = query.metrics().apply(n)
            if metric.name() == "number of files read":
                found = values.get(metric.accumulatorId())
                total += int(found.get().replace(",", "")) if found.isDefined() else 0
    return total
