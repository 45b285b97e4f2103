"""Placement: on the driver or in Spark, by the seconds that each of both is estimated to take.

Estimates are made where executors are other machines than the driver: on one machine Spark has no
more cores, and is never sooner. The invariant: a decision follows from its arguments alone; what is
measured in a session is passed in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DRIVER_ROW_SECONDS: Final = 4e-6
"""What a step on the driver takes of one core for a row, with a function and its own writing."""
SPARK_ROW_SECONDS: Final = 9e-6
"""The same in Spark, which writes the rows of each stage to disk and reads them again."""
STEP_JOBS: Final = 12
"""How many jobs a step in Spark has: to read, compute, compare, and commit three tables."""
SENT_BYTES_A_SECOND: Final = 50e6
"""How many bytes of rows go between Spark and the driver in a second, through the driver's heap."""
COMPRESSED: Final = 3
"""How many times less bytes rows are about in files than in memory."""
QUICKEST_JOB_SECONDS: Final = 0.02
"""No session has a job done sooner."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """What a session's executors and its driver have.

    Attributes:
        driver_cores: how many cores the driver may use.
        executor_cores: how many cores the executors have together.
        job_seconds: how long a job without rows takes.
    """

    driver_cores: int
    executor_cores: int
    job_seconds: float


@dataclass(frozen=True, slots=True)
class Work:
    """The rows that a step processes in one place or in the other.

    Attributes:
        rows: their number.
        size: their bytes in memory.
        read_seconds: how long the driver takes to read them from files, with all of its cores; 0 if
            they are in memory.
        in_spark: whether Spark has them, so that they would come to the driver. Otherwise they are
            in files, which both read, or on the driver.
        on_driver: whether the driver has them, so that they would go to Spark.
    """

    rows: int
    size: int
    read_seconds: float = 0.0
    in_spark: bool = False
    on_driver: bool = False


@dataclass(frozen=True, slots=True)
class Estimate:
    """How long a step takes in each place.

    Attributes:
        driver_seconds: on the driver.
        spark_seconds: in Spark.
    """

    driver_seconds: float
    spark_seconds: float

    @property
    def is_on_driver(self) -> bool:
        """Whether the driver is to do it: it is sooner there, or no later."""
        return self.driver_seconds <= self.spark_seconds


def estimate(work: Work, cluster: Cluster) -> Estimate:
    """Return how long a step takes in each place."""
    moved = work.size / SENT_BYTES_A_SECOND
    driver = work.read_seconds + work.rows * DRIVER_ROW_SECONDS / cluster.driver_cores
    core_seconds = work.read_seconds * cluster.driver_cores + work.rows * SPARK_ROW_SECONDS
    spark = STEP_JOBS * cluster.job_seconds + core_seconds / cluster.executor_cores
    return Estimate(driver + moved * work.in_spark, spark + moved * work.on_driver)


def is_certain(work: Work, driver_cores: int) -> bool:
    """Return whether the driver is sooner however many executors there are.

    Then nothing has to be measured, and a small step runs no job for it.
    """
    quickest = STEP_JOBS * QUICKEST_JOB_SECONDS
    alone = Cluster(driver_cores, 1 << 30, QUICKEST_JOB_SECONDS)
    return estimate(work, alone).driver_seconds <= quickest
