"""Costs of a cluster: what its jobs take, as measured in the session, and what follows for a step.

The invariant: a small step measures nothing and runs no job; what was measured stays for the
session.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from deltaproduce.engines.spark.sessions.remote import parallelism
from deltaproduce.model.limits.machine import cores
from deltaproduce.model.limits.placement import Cluster, Estimate, Work, estimate, is_certain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ASSUMED_JOB_SECONDS: Final = 0.2
"""What a job takes, until one was measured."""
_MEASURED_JOBS: Final = 3
"""The first jobs of a session take longer than all others; the quickest counts."""


class ClusterCosts:
    """Where steps of a session with other machines run.

    Args:
        session: the session.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._job_seconds: float | None = None
        self._of_thread = threading.local()

    def is_on_driver(self, work: Work) -> bool:
        """Return whether the driver is sooner, or no later; note what was estimated."""
        certain = is_certain(work, cores())
        estimated = estimate(work, self.cluster(measured=not certain))
        noted: tuple[int, Estimate] | None = getattr(self._of_thread, "noted", None)
        if noted is None or work.rows >= noted[0]:
            self._of_thread.noted = work.rows, estimated
        return certain or estimated.is_on_driver

    def cluster(self, *, measured: bool = False) -> Cluster:
        """Return what the driver and the executors have now.

        Args:
            measured: whether jobs are run to measure what one takes, if none were yet.
        """
        if measured and self._job_seconds is None:
            self._job_seconds = _measured(self._session)
        seconds = self._job_seconds or ASSUMED_JOB_SECONDS
        return Cluster(cores(), max(parallelism(self._session), 1), seconds)

    def taken(self) -> Estimate | None:
        """Return the estimate of the most rows since the last call; None if none were decided on.

        Each thread has its own.
        """
        noted: tuple[int, Estimate] | None = getattr(self._of_thread, "noted", None)
        self._of_thread.noted = None
        return None if noted is None else noted[1]


def _measured(session: SparkSession) -> float:
    seconds = []
    for _ in range(_MEASURED_JOBS):
        began = time.perf_counter()
        session.range(1).collect()
        seconds.append(time.perf_counter() - began)
    return min(seconds)
