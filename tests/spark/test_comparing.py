"""The comparison of a store with the oracle notices wrong rows in any table."""

from typing import Any

import pytest
from comparing import TABLES, as_frames, assert_same
from pyspark.sql import SparkSession
from swapping import swap

from deltaproduce import Store
from deltaproduce.testing import Oracle, Upsert

SPOILT = {
    "a row less": lambda rows: rows[:-1],
    "another order": lambda rows: [rows[1], rows[0], *rows[2:]],
    "another value": lambda rows: [(*rows[0][:-1], 99), *rows[1:]],
}


def test_other_rows_are_noticed(
    spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    oracle, store = Oracle(swap), Store(spark, location, swap)
    batch = {"pairs": [Upsert((1,), (8,)), Upsert((2,), (7,)), Upsert((2,), (8,))]}
    oracle.update(batch)
    store.update(as_frames(spark, swap, batch))
    for in_spark in (False, True):
        assert_same(store, oracle, swap, 1, in_spark=in_spark)
    for table in TABLES:
        right = getattr(oracle, table)
        for spoil in SPOILT.values():

            def wrong(stage: str, version: int, spoil: Any = spoil, right: Any = right) -> Any:
                rows = right(stage, version)
                return spoil(rows) if stage == "swapped" else rows

            with monkeypatch.context() as patched:
                patched.setattr(oracle, table, wrong)
                with pytest.raises(AssertionError, match=table):
                    assert_same(store, oracle, swap, 1)
