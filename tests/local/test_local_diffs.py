"""Diffs of a store without a session equal the differences of the oracle's versions."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, date, datetime
from itertools import product
from typing import Any

import pytest
from local_stores import as_rows
from selecting import in_turn
from series import drawn
from test_local_series import HALVES, WAYS

import deltaproduce as dp
from deltaproduce.reading.readers import StageReader
from deltaproduce.testing import Oracle, plain_rows, strategies

VERSIONS = 4


def values(oracle: Oracle, stage: dp.Stage, version: int) -> dict[tuple[Any, ...], list[Any]]:
    """The ordered values of each key, as they are shown."""
    names = oracle.columns(stage.name, "content")
    keys = [n for n, name in enumerate(names) if name in stage.schema.key.names]
    values = [n for n, name in enumerate(names) if name in stage.schema.value.names]
    found: dict[tuple[Any, ...], list[Any]] = {}
    for row in oracle.content(stage.name, version):
        found.setdefault(tuple(map(repr, (row[n] for n in keys))), []).append(
            repr(tuple(row[n] for n in values))
        )
    return found


def assert_diff(store: dp.Store, oracle: Oracle, stages: Any, before: int, after: int) -> None:
    """Counts, rows and samples are those of the models."""
    found = store.diff(before, after, sample=3)
    assert (found.before, found.after) == (before, after)
    assert list(found.stages) == [stage.name for stage in stages]
    json.dumps(found.as_dict(), allow_nan=False)
    for stage in stages:
        were, are = (values(oracle, stage, version) for version in (before, after))
        differing = {
            "added": are.keys() - were.keys(),
            "removed": were.keys() - are.keys(),
            "changed": {key for key in were.keys() & are.keys() if were[key] != are[key]},
        }
        one = found.stages[stage.name]
        counts = {sort: getattr(one, sort) for sort in differing}
        assert counts == {sort: len(keys) for sort, keys in differing.items()}, stage.name
        assert one.rows_before == len(oracle.content(stage.name, before))
        assert one.rows_after == len(oracle.content(stage.name, after))
        assert len(one.sample) == sum(min(3, len(keys)) for keys in differing.values())
        for key in one.sample:
            assert len(key.before) == len(were.get(_plain(key), ()))
            assert len(key.after) == len(are.get(_plain(key), ()))
            assert _plain(key) in differing[key.difference]


def _plain(key: dp.KeyDiff) -> tuple[str, ...]:
    """A key as the oracle has it, whose moments are those of UTC."""
    moments = (
        value.astimezone(UTC).replace(tzinfo=None)
        if isinstance(value, datetime) and value.tzinfo is not None
        else value
        for value in key.key.values()
    )
    (row,) = plain_rows([tuple(moments)])
    return tuple(map(repr, row))


@pytest.mark.parametrize(("number", "way"), in_turn(2, WAYS, 2, kept=HALVES[1]))
def test_a_diff_is_the_difference_of_two_models(
    location: str, number: int, way: str, long_run: bool
) -> None:
    """Of all pairs of versions, in both directions and of one with itself, after a rollback too."""
    number = 4_000 + number * len(WAYS) + list(WAYS).index(way)
    (pipeline,) = drawn(strategies.pipelines(), 1, number)
    versions = VERSIONS if long_run else 3
    histories = strategies.histories(pipeline, min_versions=versions, max_versions=versions)
    (history,) = drawn(histories, 1, number)
    oracle, chance = Oracle(pipeline), random.Random(number)
    with dp.Store(None, location, pipeline, **WAYS[way]) as store:
        for batch in history:
            assert store.update(as_rows(pipeline, batch)).number == oracle.update(batch)
        assert store.rollback(1).number == oracle.rollback(1)
        pairs = [*product(range(oracle.head + 1), repeat=2)]
        for before, after in chance.sample(pairs, 12 if long_run else 5):
            assert_diff(store, oracle, pipeline.stages, before, after)


def shop(value: str = "total bigint", factor: int = 1) -> dp.Pipeline:
    pipeline = dp.Pipeline("shop")
    orders = pipeline.source("orders", key="id bigint", value="customer string, amount bigint")

    @pipeline.producer(orders, key="customer string", value=value)
    def totals(key: int, values: Any) -> Any:
        yield from ((value.customer, value.amount * factor) for value in values)

    return pipeline


def order(number: int, customer: str, amount: int, **more: str) -> dict[str, Any]:
    return {"id": number, "customer": customer, "amount": amount, **more}


def test_a_diff_tells_keys_and_rows_in_order(location: str) -> None:
    with dp.Store(None, location, shop()) as store:
        store.update({"orders": [order(1, "ann", 5), order(2, "bob", 7), order(3, "ann", 1)]})
        store.update(
            {
                "orders": [
                    order(1, "ann", 6),
                    order(4, "cid", 2),
                    order(2, "", 0, _change_type="delete"),
                ]
            }
        )
        found = store.diff(1).stages["totals"]
        assert [(k.difference, k.key["customer"]) for k in found.sample] == [
            ("added", "cid"),
            ("removed", "bob"),
            ("changed", "ann"),
        ]
        assert found.sample[2].before == ({"total": 5}, {"total": 1})
        assert found.sample[2].after == ({"total": 6}, {"total": 1})
        back = store.diff(2, 1, sample=0).stages["totals"]
        assert (back.added, back.removed, back.changed, back.sample) == (1, 1, 1, ())
        text = str(store.diff(1, 2))
        assert text.startswith("version 1 -> version 2\n")
        assert "total=5  total=6" in text  # and not the row that both have


def test_where_columns_differ_keys_are_compared(location: str) -> None:
    with dp.Store(None, location, shop()) as store:
        store.update({"orders": [order(1, "ann", 5), order(2, "bob", 7)]})
    with dp.Store(None, location, shop("total int")) as store:
        store.update({"orders": [order(2, "", 0, _change_type="delete"), order(3, "cid", 1)]})
        found = store.diff(1, 2).stages["totals"]
        assert (found.added, found.removed, found.changed) == (1, 1, 1)
        assert found.columns == (dp.Altered("value columns", "total bigint", "total int"),)
        assert "value columns changed" in str(store.diff(1, 2))


def test_content_is_not_read_where_no_update_tells_of_a_change(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dp.Store(None, location, shop()) as store:
        store.update({"orders": [order(1, "ann", 5)]})
        store.update({}, "an id")
        read: list[str] = []
        content: Callable[..., Any] = StageReader.content

        def noted(self: StageReader, version: dp.Version, stage: dp.Stage) -> Any:
            read.append(stage.name)
            return content(self, version, stage)

        monkeypatch.setattr(StageReader, "content", noted)
        assert not any(found.differs for found in store.diff(1, 2).stages.values())
        assert read == []
        assert store.diff(0, 2).stages["totals"].added == 1
        assert "totals" in read


def test_wrong_numbers_are_refused(location: str) -> None:
    with dp.Store(None, location, shop()) as store:
        for wrong in ({"before": 1}, {"before": 0, "after": 7}):
            with pytest.raises(dp.NotFoundError):
                store.diff(**wrong)
        for wrong in ({"before": "1"}, {"before": 0, "sample": -1}):
            with pytest.raises(dp.InvalidArgumentError):
                store.diff(**wrong)  # type: ignore[arg-type]


def test_rows_that_a_source_has_forgotten_are_removed(location: str) -> None:
    """No update tells of them, so all rows are compared."""
    pipeline = dp.Pipeline("kept")
    window = dp.window("day", last=2)
    days = pipeline.source(
        "days", key="day date, id bigint", value="n int", retain=window, expire="forget"
    )
    pipeline.aggregate("totals", days, key="", values={"total": dp.agg.sum("n")})

    def day(number: int) -> dict[str, Any]:
        return {"day": date(2026, 1, number), "id": number, "n": 1}

    with dp.Store(None, location, pipeline) as store:
        store.update({"days": [day(1), day(2)]})
        store.update({"days": [day(3)]})
        found = store.diff(1, 2).stages["days"]
        assert (found.added, found.removed, found.changed) == (1, 1, 0)
        assert [(one.difference, one.key["id"]) for one in found.sample] == [
            ("added", 3),
            ("removed", 1),
        ]
        assert len(store.updates("days", 2)) == 1
        assert store.diff(1, 2).stages["totals"].sample[0].key == {}
        losses = store.plan(as_of="2026-01-09").losses
        assert [(loss.stage, loss.what, loss.rows) for loss in losses] == [("days", "rows", None)]


def test_a_diff_has_values_as_all_json_of_the_library_has_them(location: str) -> None:
    pipeline = dp.Pipeline("moments")
    value = "at timestamp, b binary, x double, s struct<n: int, d: date>"
    pipeline.source("given", key="id int", value=value)
    row = {"at": datetime(2026, 1, 31, 8, tzinfo=UTC), "b": b"\x0a", "x": float("nan")}
    with dp.Store(None, location, pipeline) as store:
        store.update({"given": [{"id": 1, **row, "s": {"n": 1, "d": date(2026, 2, 1)}}]})
        (one,) = store.diff(0, 1).as_dict()["stages"]["given"]["sample"]
    assert one["after"] == [
        {
            "at": "2026-01-31T08:00:00+00:00",
            "b": "0a",
            "x": "nan",
            "s": {"n": 1, "d": "2026-02-01"},
        }
    ]
