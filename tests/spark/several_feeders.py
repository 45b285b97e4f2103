"""A pipeline of stages that merge and join, in every combination of several feeders."""

from typing import Any

import deltaproduce as dp
from deltaproduce.testing.strategies.functions import gathered, last_first, matched, unchanged

ROWS: Any = {"key": "k bigint", "value": "n bigint, t string"}


def several() -> dp.Pipeline:
    """Two sources, a diamond over one of them, and stages that merge and join all that there is."""
    pipeline = dp.Pipeline("several")
    a = pipeline.source("a", **ROWS)
    b = pipeline.source("b", **ROWS)
    left = pipeline.producer(a, **ROWS, name="left")(unchanged)
    right = pipeline.producer(dp.merge(b, a), **ROWS, name="right")(unchanged)
    pipeline.producer(left, right, **ROWS, name="diamond")(matched)
    pipeline.producer(dp.merge(left, right), **ROWS, name="merged_diamond")(unchanged)
    pipeline.producer(a, b, right, **ROWS, name="three")(last_first)
    pipeline.producer(b, dp.merge("three", a), **ROWS, name="mixed")(gathered)
    return pipeline
