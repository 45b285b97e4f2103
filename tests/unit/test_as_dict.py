"""Values that users get are also available as plain dicts that JSON can hold."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

import deltaproduce as dp

FIGURES = dp.StageFigures(
    "seek",
    reason="keys of 'orders' changed",
    affected_keys=3,
    changed_keys=2,
    rows_added=1,
    rows=7,
    rows_read=9,
    bytes_read=80,
    seconds=0.5,
    delta_versions={"content": 3, "updates": 4},
)
TOLD = {
    "mode": "seek",
    "reason": "keys of 'orders' changed",
    "affected_keys": 3,
    "changed_keys": 2,
    "rows_added": 1,
    "rows_removed": 0,
    "rows": 7,
    "rows_read": 9,
    "bytes_read": 80,
    "seconds": 0.5,
    "delta_versions": {"content": 3, "updates": 4},
}
VERSION = dp.Version(
    2, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "update", "monday", {"totals": FIGURES}
)
VERSION_TOLD = {
    "number": 2,
    "committed_at": "2026-01-02T03:04:05+00:00",
    "operation": "update",
    "update_id": "monday",
    "time_zone": None,
    "stages": {"totals": TOLD},
}
SOURCE = dp.Pipeline("shop").source("orders", key="id int", value="n int")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (FIGURES, TOLD),
        (VERSION, VERSION_TOLD),
        (
            dp.Version(0, None, "empty", None, {}),
            {
                "number": 0,
                "committed_at": None,
                "operation": "empty",
                "update_id": None,
                "time_zone": None,
                "stages": {},
            },
        ),
        (
            dp.Step(SOURCE, "changes", "changes are given"),
            {"stage": "orders", "how": "changes", "reason": "changes are given"}
            | {"redefined": False},
        ),
        (
            dp.Finding("totals", "content", "rows", "7 rows are 6"),
            {"stage": "totals", "table": "content", "what": "rows"}
            | {"wrong": "7 rows are 6", "mend": "store.repair()"},
        ),
        (
            dp.Vacuumed((1, 2), ("old/content",), 5, 700, ("a", "b")),
            {"versions": [1, 2], "tables": ["old/content"], "files": 5, "bytes": 700}
            | {"paths": ["a", "b"]},
        ),
        (
            dp.Forgotten(VERSION, (dp.Remaining("totals", "updates", (1, 2)),)),
            {
                "version": VERSION_TOLD,
                "remains": [{"stage": "totals", "table": "updates", "versions": [1, 2]}],
            },
        ),
        (
            dp.Progress("update", "totals", 1, 3),
            {"operation": "update", "stage": "totals", "done": 1, "total": 3},
        ),
        (
            dp.Changed(1, 2, 3, 4, 5, "files"),
            {"inserted": 1, "updated": 2, "deleted": 3, "ignored": 4}
            | {"delta_version": 5, "strategy": "files"},
        ),
        (
            dp.RecordIndexStats(1, "xxhash64", 2, 3, 4, 5, 6),
            {"buckets": 1, "hash": "xxhash64", "records": 2, "runs": 3}
            | {"tombstones": 4, "delta_version": 5, "remembered": 6},
        ),
        (
            dp.WrongEntry((datetime(2026, 1, 2, tzinfo=UTC), None), "a", ("b",)),
            {"key": ["2026-01-02T00:00:00+00:00", None], "indexed": "a", "found": ["b"]},
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_it_goes_through_json_and_back(value: Any, told: dict[str, object]) -> None:
    assert value.as_dict() == told
    assert json.loads(json.dumps(value.as_dict())) == told
