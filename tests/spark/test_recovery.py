"""An update that dies between its first commit and its publication leaves the head as before."""

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from comparing import as_frames, assert_same
from forcing import setting
from pyspark.sql import SparkSession
from selecting import long
from swapping import swap

from deltaproduce import Store
from deltaproduce.storage.tables.committer import Committer
from deltaproduce.storage.version_log import VersionLog
from deltaproduce.testing import Change, Delete, Oracle, Upsert


class DiedError(Exception):
    pass


def dying(*_: Any, **__: Any) -> Any:
    raise DiedError


def rows(*found: tuple[int, int]) -> list[Change]:
    return [Upsert((a,), (b,)) for a, b in found]


@long
def test_the_next_update_starts_from_the_head(
    spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`test_crashes` and `tests/local` have crashes in each run."""
    store, oracle = Store(spark, location, swap), Oracle(swap)

    def update(changes: list[Change]) -> None:
        number = oracle.update({"pairs": changes})
        assert store.update(as_frames(spark, swap, {"pairs": changes})).number == number
        assert_same(store, oracle, swap, number)

    def dies(changes: list[Change]) -> None:
        with pytest.raises(DiedError):
            store.update(as_frames(spark, swap, {"pairs": changes}))
        assert store.head.number == oracle.head
        assert_same(store, oracle, swap, oracle.head)

    with monkeypatch.context() as patched:  # every table is written, and none is in a version
        patched.setattr(VersionLog, "publish", dying)
        dies(rows((1, 1), (2, 2)))
    update(rows((1, 10), (2, 20), (3, 20)))
    with monkeypatch.context() as patched:  # every table ran ahead
        patched.setattr(VersionLog, "publish", dying)
        dies([*rows((1, 20), (4, 40)), Delete((2,))])
    update(rows((3, 30)))
    with monkeypatch.context() as patched:  # one table ran ahead; another writer takes over
        commit = Committer.commit
        patched.setattr("deltaproduce.operations.publisher._WRITERS", 1)
        patched.setattr(
            Committer,
            "commit",
            lambda self, table, *rest: (
                dying() if "swapped" in table.name else commit(self, table, *rest)
            ),
        )
        dies(rows((1, 50), (5, 50)))
    store = Store(spark, location, swap)
    update([*rows((1, 60)), Delete((3,))])


def test_versions_can_be_read_however_old_they_are(
    spark: SparkSession, location: str, long_run: bool
) -> None:
    """A plain VACUUM, with Delta's defaults, removes nothing that one of them needs."""
    store, oracle = Store(spark, location, swap, table_type="copy_on_write"), Oracle(swap)
    for changes in (rows((1, 1), (2, 2)), rows((1, 5)), [Delete((2,)), *rows((3, 3))]):
        store.update(as_frames(spark, swap, {"pairs": changes}))
        oracle.update({"pairs": changes})
    aged = f"{location}-aged"  # Delta remembers the times of what it has read
    shutil.copytree(location, aged)
    long_ago = (datetime.now(UTC) - timedelta(days=60)).timestamp()
    for path in sorted(Path(aged).glob("**/*")):
        os.utime(path, (long_ago, long_ago))
    with setting(spark, "spark.sql.sources.parallelPartitionDiscovery.parallelism", "2"):
        spark.sql(f"VACUUM delta.`{aged}/swapped/content`")
    store = Store(spark, aged, swap, table_type="copy_on_write")
    assert store.update(as_frames(spark, swap, {"pairs": rows((4, 4))})).number == 4
    oracle.update({"pairs": rows((4, 4))})
    for number in range(5):
        assert_same(store, oracle, swap, number, in_spark=long_run and number == 1)
