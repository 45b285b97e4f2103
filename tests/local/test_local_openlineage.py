"""Events for a lineage catalog: one per touched stage, and the same if sent again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from local_stores import shop
from openlineage.client.serde import Serde

import deltaproduce as dp

ORDERS = [{"id": i, "customer": f"c{i % 3}", "amount": i} for i in range(10)]


def told(store: dp.Store, version: int | None = None) -> dict[str, Any]:
    """The events of a version by the names of their jobs, as JSON has them."""
    found: list[Any] = []
    number = store.emit_openlineage(version, emit=found.append)
    events = {event.job.name: Serde.to_dict(event) for event in found}
    assert len(events) == len(found) == number
    return events


def test_each_stage_that_was_touched_has_an_event(location: str) -> None:
    with dp.Store(None, location, shop()) as store:
        store.update({"orders": ORDERS})
        events = told(store)
        store.update({"orders": [{"id": 100, "customer": "c0", "amount": 0}]})
        assert {*told(store, 1)} == {"shop", "shop.orders", "shop.by_customer", "shop.totals"}
        assert told(store, 1) == events  # when sent again
        later = told(store)
        store.refresh("totals")
        assert {*told(store)} == {"shop", "shop.totals"}
    ids = [event["run"]["runId"] for one in (events, later) for event in one.values()]
    assert len({*ids}) == len(ids)
    folder = str(Path(location).absolute())
    totals = events["shop.totals"]
    assert [(one["namespace"], one["name"]) for one in totals["inputs"]] == [
        ("file", f"{folder}/by_customer/content")
    ]
    (made,) = totals["outputs"]
    assert made["name"] == f"{folder}/totals/content"
    assert made["outputFacets"]["outputStatistics"]["rowCount"] == 3
    assert made["facets"]["version"]["datasetVersion"] == "0"
    columns = [(one["name"], one["type"]) for one in made["facets"]["schema"]["fields"]]
    assert columns == [("customer", "string"), ("total", "bigint")]
    parent = totals["run"]["facets"]["parent"]["run"]["runId"]
    assert parent == events["shop"]["run"]["runId"]


def test_a_client_that_fails_harms_no_version(location: str) -> None:
    def fail(event: Any) -> None:
        if event.job.name == "shop.by_customer":
            raise OSError("nobody listens")

    with dp.Store(None, location, shop()) as store:
        store.update({"orders": ORDERS})
        with pytest.raises(dp.SyncError, match="2 were sent: nobody listens"):
            store.emit_openlineage(emit=fail)
        assert store.head.number == 1
        with pytest.raises(dp.NotFoundError):
            store.emit_openlineage(7, emit=fail)


def test_the_event_of_the_pipeline_has_what_checks_found(location: str) -> None:
    pipeline = shop()
    pipeline.stages[0].expect(where="amount > 0", severity="warn")
    pipeline.limit("totals", rows=(1, None))
    with dp.Store(None, location, pipeline) as store:
        store.update({"orders": ORDERS})
        orders, totals = told(store)["shop"]["inputs"]
    assert orders["name"].endswith("/orders/content")
    assert totals["name"].endswith("/totals/content")
    for dataset, name, holds in ((orders, "orders_where", False), (totals, "totals_rows", True)):
        (one,) = dataset["inputFacets"]["dataQualityAssertions"]["assertions"]
        assert (one["assertion"], one["success"]) == (name, holds)
