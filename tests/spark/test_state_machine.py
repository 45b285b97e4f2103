"""A store under random operations always matches the model, at the head and at any version."""

import os

from forcing import WAYS
from machine import run_machine
from pyspark.sql import SparkSession

EXAMPLES = int(os.environ.get("STATE_MACHINE_EXAMPLES", "0"))
STEPS = int(os.environ.get("STATE_MACHINE_STEPS", "6"))


def test_random_operations(spark: SparkSession, long_run: bool) -> None:
    """`tests/local` has more of them in each run, without what needs a session."""
    run_machine(spark, WAYS, examples=EXAMPLES or (8 if long_run else 2), steps=STEPS)
