"""Progress of an update: each stage, each phase with its seconds, and log records."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from local_stores import shop

import deltaproduce as dp

ORDERS = [{"id": i, "customer": f"c{i % 3}", "amount": i} for i in range(10)]


def test_phases_have_all_the_time_and_stages_tell_what_they_did(location: str) -> None:
    heard: list[dp.Progress] = []
    with dp.Store(None, location, shop(), progress=heard.append) as store:
        version = store.update({"orders": ORDERS})
    ends = [progress for progress in heard if progress.event == "ends"]
    total = ends[-1].seconds
    assert total is not None
    assert sum(p.seconds or 0 for p in ends if p.phase) == pytest.approx(total, rel=0.05)
    stages = [p for p in ends if p.stage and not p.phase]
    assert [p.stage for p in stages] == list(version.stages)
    for p in stages:
        figures = version.stages[p.stage]
        assert (p.keys_changed, p.rows) == (figures.changed_keys, figures.rows)
        assert p.seconds == pytest.approx(figures.seconds, abs=0.001)
    assert [p.keys_in for p in stages] == [10, 10, 3]
    begun = [(p.stage, p.done, p.total) for p in heard if p.event == "begins" and not p.phase]
    assert begun == [("orders", 0, 3), ("by_customer", 1, 3), ("totals", 2, 3), ("commit", 3, 3)]
    assert {p.phase for p in ends} >= {
        "checking",
        "computing",
        "comparing",
        "writing",
        "publishing",
    }


def test_every_operation_says_its_name_and_its_end(location: str) -> None:
    heard: list[dp.Progress] = []
    with dp.Store(None, location, shop(), progress=heard.append) as store:
        store.load({"orders": ORDERS})
        store.refresh("totals")
        store.forget("orders", 1)
        store.rollback(1)
        store.vacuum(keep_versions=1)
        store.repair()
    ends = [p.operation for p in heard if p.event == "ends" and not p.phase and not p.stage]
    assert ends == ["load", "refresh", "forget", "rollback", "vacuum", "repair"]


def test_a_listener_is_not_told_of_an_operation_of_its_own(location: str) -> None:
    heard: list[tuple[str, str]] = []

    def listen(progress: dp.Progress) -> None:
        heard.append((progress.operation, progress.stage))
        if progress.stage == "commit":
            with dp.Store(None, f"{location}_of_the_listener", shop()) as other:
                other.load({"orders": ORDERS})

    with dp.Store(None, location, shop(), progress=listen) as store:
        store.update({"orders": ORDERS})
    assert {operation for operation, _ in heard} == {"update"}
    assert [stage for _, stage in heard].count("commit") == 1


def test_a_failed_update_ends_too(location: str) -> None:
    heard: list[dp.Progress] = []
    store = dp.Store(None, location, shop(), progress=heard.append)
    with pytest.raises(dp.InvalidChangesError):
        store.update({"orders": [{"id": "x"}]})
    assert (heard[-1].event, heard[-1].phase, heard[-1].stage) == ("ends", "", "")


def test_a_record_a_stage_and_one_a_version(
    location: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "deltaproduce")
    with dp.Store(None, location, shop()) as store:
        version = store.update({"orders": ORDERS}, "day 1")
        store.update({"orders": ORDERS[:1]})
    records: list[Any] = [r for r in caplog.records if r.name == "deltaproduce"]
    assert [getattr(r, "stage", None) for r in records] == [*version.stages, None, None]
    totals, made, same = records[-3:]
    assert (totals.mode, totals.changed_keys, totals.rows, totals.version) == ("full", 3, 3, 1)
    assert "stage=totals mode=full affected_keys=3 changed_keys=3" in totals.getMessage()
    assert (made.operation, made.update_id, made.published) == ("update", "day 1", True)
    assert "update_id='day 1' published=True" in made.getMessage()
    assert (same.published, same.version) == (False, 1)
    assert logging.getLogger("deltaproduce").handlers == []
