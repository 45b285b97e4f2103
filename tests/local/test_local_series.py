"""S16 without a session: after every version, every table equals a computation from scratch.

The pipelines and histories are drawn like those of `tests/spark/test_random_series.py`; here each
takes milliseconds. Windows and the updates about them are included. ``LOCAL_PIPELINES``
(environment) makes the search longer.
"""

import os
import random
from collections.abc import Mapping
from typing import Any

import pytest
from comparing import assert_changes
from local_stores import IN_PARTS, assert_same_here, update_both
from selecting import chosen, some
from series import drawn, instructed

from deltaproduce import Limits, Pipeline, Store
from deltaproduce.testing import Oracle, strategies
from deltaproduce.testing.oracle.models import of_all

LONGER = "LOCAL_PIPELINES" in os.environ
PIPELINES = int(os.environ.get("LOCAL_PIPELINES", "6"))
VERSIONS = 5

WAYS: Mapping[str, Mapping[str, Any]] = {
    "small": {},
    "runs": {
        "limits": Limits(small_table_rows=0, replaced_percent=900, group_rows=3),
        "table_type": "merge_on_read",
    },
    "runs, often folded, many keys": {
        "limits": Limits(
            small_table_rows=0,
            replaced_percent=900,
            compaction_commits=2,
            compaction_rows=3,
            overlay_runs=3,
            seek_keys=1,
        ),
        "table_type": "merge_on_read",
    },
    "copy on write": {
        "limits": Limits(small_table_rows=0, compaction_commits=3, replaced_percent=0),
        "table_type": "copy_on_write",
    },
    "replaced": {
        "limits": Limits(small_table_rows=0, group_rows=3, replaced_percent=900, merged_commits=2),
        "table_type": "copy_on_write",
    },
    "in parts": {"limits": IN_PARTS},
    "in parts, copy on write": {"limits": IN_PARTS, "table_type": "copy_on_write"},
}
HALVES = (
    ("small", "runs, often folded, many keys", "replaced", "in parts, copy on write"),
    ("runs", "copy on write", "in parts"),
)
"""A short run of a law that only reads has one half of the ways, or the other."""


@pytest.mark.parametrize(
    ("number", "way"),
    some(
        ((n, w) for w in WAYS for n in range(PIPELINES if "parts" not in w else PIPELINES // 2)),
        lambda number, way: number == 0,
        longer=LONGER,
    ),
)
def test_incremental_versions_equal_the_oracle(
    location: str, number: int, way: str, long_run: bool
) -> None:
    """Each version, which is read when the last is made; a rollback, and what comes after it."""
    number = number * len(WAYS) + list(WAYS).index(way)
    (pipeline,) = drawn(strategies.pipelines(strict=True), 1, number)
    (history,) = drawn(instructed(pipeline, VERSIONS if long_run else 4), 1, number)
    oracle = Oracle(pipeline)
    with Store(None, location, pipeline, **WAYS[way]) as store:
        for batch, told in history:
            update_both(store, oracle, pipeline, batch, **told)
        assert_same_here(store, oracle, pipeline, range(oracle.head + 1))  # time travel
    with Store(None, location, pipeline, **WAYS[way]) as store:  # opened anew
        back = oracle.head // 2
        assert store.rollback(back).number == oracle.rollback(back)
        assert_same_here(store, oracle, pipeline, [oracle.head])
        batch, told = history[-1]
        update_both(store, oracle, pipeline, batch, **told)
        assert_same_here(store, oracle, pipeline, [oracle.head])


AGGREGATES = 200


@pytest.mark.parametrize("number", chosen(range(AGGREGATES), *range(2)))
def test_aggregates_and_windows_are_what_a_refresh_makes(
    location: str, number: int, long_run: bool
) -> None:
    """Bit for bit, after eight versions, or five; and so are older versions, and the feed."""
    number, way = 10_000 + number, list(WAYS)[number % len(WAYS)]
    with_aggregate = strategies.pipelines(strict=True).filter(aggregated)
    (pipeline,) = drawn(with_aggregate, 1, number)
    (history,) = drawn(instructed(pipeline, 8 if long_run else 5), 1, number)
    oracle, chance = Oracle(pipeline), random.Random(number)
    with Store(None, location, pipeline, **WAYS[way]) as store:
        for batch, told in history:
            update_both(store, oracle, pipeline, batch, **told)
        assert_same_here(store, oracle, pipeline, range(oracle.head + 1))
        for stage in pipeline.stages:
            since, until = sorted(chance.choices(range(oracle.head + 1), k=2))
            for mode in ("net", "complete"):
                assert_changes(store, oracle, stage.name, since, until, mode)
        assert store.verify(recompute=True) == ()
        for name in aggregated(pipeline):
            if store.head.delta_version(name, "updates") is not None:  # it has been made
                head, refreshed = store.head, store.refresh(name)
                if refreshed != head:  # a stage without rows needs no version
                    figures = refreshed.stages[name]
                    assert (figures.rows_added, figures.rows_removed) == (0, 0)
                else:
                    assert not head.stages[name].rows


def aggregated(pipeline: Pipeline) -> list[str]:
    """The aggregate stages of a pipeline."""
    return [stage.name for stage in pipeline.stages if of_all(stage.kind) is not None]
