"""Ways to force how a store does its steps: each way must make the same tables."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from limiting import limited
from pyspark.sql import SparkSession

from deltaproduce import Store
from deltaproduce.operations.step.plan import TableType


@dataclass(frozen=True)
class Way:
    """A table type, and limits set to nothing or to few."""

    name: str
    table_type: TableType = "copy_on_write"
    limits: Mapping[str, int] = field(default_factory=dict)


_NONE_SMALL = {"small_table_rows": 0, "replaced_percent": 900, "group_rows": 3}
_IN_SPARK = {**_NONE_SMALL, "local_rows": 0}
_REPLACED = {**_NONE_SMALL, "rewritten_rows": 0}
WAYS = (
    Way("small tables"),
    Way("replaced", limits=_REPLACED),
    Way("runs", "merge_on_read", _NONE_SMALL),
    Way(
        "runs, often folded",
        "merge_on_read",
        {**_NONE_SMALL, "overlay_runs": 2, "compaction_commits": 1},
    ),
    Way("in Spark, replaced", limits={**_IN_SPARK, "compaction_commits": 2}),
    Way("in Spark, runs", "merge_on_read", _IN_SPARK),
    Way("in Spark, joined", limits={**_IN_SPARK, "seek_keys": 0, "plan_rows": 0}),
    Way(
        "mixed",
        "merge_on_read",
        {
            "small_table_rows": 9,
            "local_rows": 6,
            "local_bytes": 2_000,
            "local_parts": 1,
            "seek_keys": 4,
            "plan_rows": 5,
        },
    ),
    Way("runs, sought by Spark", "merge_on_read", {**_NONE_SMALL, "seek_rows": 0}),
    Way("in full where most changes", "merge_on_read", {**_NONE_SMALL, "full_rows": 0}),
    Way(
        "in parts",
        "merge_on_read",
        {**_NONE_SMALL, "local_rows": 16, "local_bytes": 4_096, "seek_keys": 2, "local_parts": 99},
    ),
)


@contextmanager
def forced(way: Way) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        limited(patch, **way.limits)
        patch.setitem(Store.__init__.__kwdefaults__ or {}, "table_type", way.table_type)
        yield


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """One of Spark's settings, for a while."""
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)
