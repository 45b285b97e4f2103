"""A store under random operations always matches the model, at the head and at any version."""

import os

from forcing import WAYS
from machine import run_machine
from pyspark.sql import SparkSession
from selecting import long

EXAMPLES = int(os.environ.get("STATE_MACHINE_EXAMPLES", "0"))
STEPS = int(os.environ.get("STATE_MACHINE_STEPS", "6"))


@long
def test_random_operations(spark: SparkSession) -> None:
    """`tests/local` has them in each run, without what needs a session."""
    run_machine(spark, WAYS, examples=EXAMPLES or 8, steps=STEPS)
