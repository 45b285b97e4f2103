"""Counters of Spark jobs and of the files that queries read."""

from pyspark.sql import SparkSession


def told(spark: SparkSession) -> None:
    """Wait until Spark's listeners know of all that has run."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()


def jobs(spark: SparkSession) -> int:
    """How many jobs there were; Spark remembers only the last thousand, so they are not counted."""
    told(spark)
    return max(spark.sparkContext.statusTracker().getJobIdsForGroup(None), default=-1) + 1


def latest_query(spark: SparkSession) -> int:
    """The number of the latest query of the session; -1 if there was none."""
    told(spark)
    queries = spark._jsparkSession.sharedState().statusStore().executionsList()
    return max((queries.apply(n).executionId() for n in range(queries.size())), default=-1)


def files_read(spark: SparkSession, after: int) -> int:
    """How many files were read by the queries after the one of that number.

    Spark forgets all but its last thousand queries, so a total over all of them would also fall.
    """
    told(spark)
    known = spark._jsparkSession.sharedState().statusStore()
    queries, total = known.executionsList(), 0
    for place in range(queries.size()):
        query = queries.apply(place)
        if query.executionId() <= after:
            continue
        values = known.executionMetrics(query.executionId())
        for n in range(query.metrics().size()):
            metric = query.metrics().apply(n)
            if metric.name() == "number of files read":
                found = values.get(metric.accumulatorId())
                total += int(found.get().replace(",", "")) if found.isDefined() else 0
    return total
