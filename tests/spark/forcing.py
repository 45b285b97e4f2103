"""Forcing a store's steps to be done in one way or another: each must make the same tables."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from deltaproduce.model import limits
from deltaproduce.operations.step.plan import TableType


@dataclass(frozen=True)
class Way:
    """A table type, and limits set to nothing or to few."""

    name: str
    table_type: TableType = "copy_on_write"
    limits: Mapping[str, int] = field(default_factory=dict)


_NONE_SMALL = {"SMALL_TABLE_ROWS": 0, "GROUP_ROWS": 3}
_IN_SPARK = {**_NONE_SMALL, "LOCAL_ROWS": 0}
WAYS = (
    Way("small tables"),
    Way("replaced", limits=_NONE_SMALL),
    Way("runs", "merge_on_read", _NONE_SMALL),
    Way(
        "runs, often folded",
        "merge_on_read",
        {**_NONE_SMALL, "OVERLAY_RUNS": 2, "COMPACTION_COMMITS": 1},
    ),
    Way("in Spark, replaced", limits={**_IN_SPARK, "COMPACTION_COMMITS": 2}),
    Way("in Spark, runs", "merge_on_read", _IN_SPARK),
    Way("in Spark, joined", limits={**_IN_SPARK, "SEEK_KEYS": 0, "PLAN_ROWS": 0}),
    Way(
        "mixed",
        "merge_on_read",
        {
            "SMALL_TABLE_ROWS": 9,
            "LOCAL_ROWS": 6,
            "LOCAL_BYTES": 2_000,
            "SEEK_KEYS": 4,
            "PLAN_ROWS": 5,
        },
    ),
    Way("runs, sought by Spark", "merge_on_read", {**_NONE_SMALL, "SEEK_ROWS": 0}),
    Way("in full where most changes", "merge_on_read", {**_NONE_SMALL, "FULL_ROWS": 0}),
)


@contextmanager
def forced(way: Way) -> Iterator[None]:
    before = {name: getattr(limits, name) for name in way.limits}
    for name, limit in way.limits.items():
        setattr(limits, name, limit)
    try:
        yield
    finally:
        for name, limit in before.items():
            setattr(limits, name, limit)


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """One of Spark's settings, for a while."""
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)
