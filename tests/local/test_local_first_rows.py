"""The first rows of partitions, whose table has them in order."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pytest

from deltaproduce import Limits, Pipeline, Store

SMALL_PARTS = Limits(small_table_rows=0, group_rows=16, replaced_percent=900)
"""A look-up by keys reads some rows of a table, as it does of a large one."""


def events() -> Pipeline:
    pipeline = Pipeline("events")
    pipeline.source("events", key="n bigint", value="id int, at int, v string")
    latest = "row_number() OVER (PARTITION BY id ORDER BY at DESC NULLS LAST) = 1"
    pipeline.sql(
        "latest", f"SELECT id, at, v, n FROM events QUALIFY {latest}", incremental="always"
    )
    numbered = (
        "SELECT *, row_number() OVER (PARTITION BY id, v ORDER BY at, n DESC) AS r FROM events"
    )
    pipeline.sql(
        "early", f"SELECT id, v, at, n, r FROM ({numbered}) WHERE r <= 3", incremental="always"
    )
    return pipeline


def expected(rows: dict[int, dict[str, Any]]) -> tuple[set[Any], set[Any]]:
    """The rows of both views; nulls come last in the first, and first in the second."""
    by_id, by_both = defaultdict[Any, list[Any]](list), defaultdict[Any, list[Any]](list)
    for one in rows.values():
        at, v = one["at"], one["v"]
        late = (at is None, -(at or 0))
        tie = (v is not None, v or "", one["n"])  # ties go by the columns of the source
        by_id[one["id"]].append((late, (one["n"],), tie, (one["id"], at, v, one["n"])))
        by_both[one["id"], v].append(((at is not None, at or 0), -one["n"], (one["id"], v, at)))
    latest = {min(group)[-1] for group in by_id.values()}
    early = {
        (*row, -n, place)
        for group in by_both.values()
        for place, (_, n, row) in enumerate(sorted(group, key=lambda one: one[:2])[:3], 1)
    }
    return latest, early


@pytest.mark.parametrize("table_type", ["copy_on_write", "merge_on_read"])
def test_first_rows_follow_random_changes(tmp_path: Path, table_type: Any) -> None:
    """Partitions come, lose their first rows, and go."""
    random, rows = Random(3), dict[int, dict[str, Any]]()
    with Store(None, str(tmp_path), events(), limits=SMALL_PARTS, table_type=table_type) as store:
        for step in range(12):
            batch = list[dict[str, Any]]()
            for n in random.sample(range(120), 90 if not step else 12):
                if n in rows and random.random() < 0.5:
                    batch.append({"n": n, "_change_type": "delete"})
                    del rows[n]
                    continue
                at = random.choice([None, *range(5)])
                one = {"n": n, "id": random.randrange(6), "at": at, "v": random.choice("ab")}
                rows[n] = one = one if random.random() < 0.8 else {**one, "id": None, "v": None}
                batch.append(one)
            version = store.update({"events": batch})
            assert not step or {one.mode for one in version.stages.values()} & {"full"} == set()
            views = ("latest", ("id", "at", "v", "n")), ("early", ("id", "v", "at", "n", "r"))
            found = tuple(
                {tuple(row[name] for name in names) for row in store.content(view).to_pylist()}
                for view, names in views
            )
            assert found == expected(rows), step
        assert not store.verify(recompute=True)


def test_a_change_reads_the_beginning_of_its_partition(tmp_path: Path) -> None:
    """One of 3,000 events of a partition comes, goes and is another one."""
    batch = [{"n": n, "id": n % 2, "at": n, "v": "a"} for n in range(6_000)]
    with Store(None, str(tmp_path), events(), limits=SMALL_PARTS) as store:
        store.update({"events": batch})
        for change in (
            {"n": 6_001, "id": 1, "at": 9_000, "v": "a"},
            {"n": 6_001, "_change_type": "delete"},
            {"n": 3, "id": 1, "at": 8_000, "v": "a"},
            {"n": 2_000, "_change_type": "delete"},
        ):
            store.update({"events": [change]})
            stages = store._opened.log.head().stages
            read = {name: one.rows_read for name, one in stages.items() if name != "events"}
            assert max(read.values()) <= 96, read
        assert not store.verify(recompute=True)
