"""S16 without a session: after every version, every table is what the oracle computes from scratch.

The pipelines and histories are drawn as those of `tests/spark/test_random_series.py`; here each
takes milliseconds. ``LOCAL_PIPELINES`` (environment) makes a longer search.
"""

import os
from collections.abc import Mapping
from typing import Any

import pytest
from local_stores import as_rows, assert_same_here
from series import drawn

from deltaproduce import Limits, Store
from deltaproduce.testing import Oracle, strategies

PIPELINES = int(os.environ.get("LOCAL_PIPELINES", "9"))
VERSIONS = 5

WAYS: Mapping[str, Mapping[str, Any]] = {
    "small": {},
    "runs": {"limits": Limits(small_table_rows=0)},
    "runs, often folded, many keys": {
        "limits": Limits(
            small_table_rows=0, compaction_commits=2, compaction_rows=3, overlay_runs=3, seek_keys=1
        )
    },
    "copy on write": {
        "limits": Limits(small_table_rows=0, compaction_commits=3),
        "table_type": "copy_on_write",
    },
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", range(PIPELINES))
def test_incremental_versions_equal_the_oracle(location: str, number: int, way: str) -> None:
    number = number * len(WAYS) + list(WAYS).index(way)
    (pipeline,) = drawn(strategies.pipelines(), 1, number)
    histories = strategies.histories(pipeline, min_versions=VERSIONS, max_versions=VERSIONS)
    (history,) = drawn(histories, 1, number)
    oracle = Oracle(pipeline)
    with Store(None, location, pipeline, **WAYS[way]) as store:
        for batch in history:
            version = store.update(as_rows(pipeline, batch))
            assert version.number == oracle.update(batch)
            assert_same_here(store, oracle, pipeline, [version.number])
        assert_same_here(store, oracle, pipeline, range(store.head.number + 1))  # time travel
    with Store(None, location, pipeline, **WAYS[way]) as store:  # opened anew
        back = oracle.head // 2
        assert store.rollback(back).number == oracle.rollback(back)
        assert_same_here(store, oracle, pipeline, [oracle.head, back])
