"""Limits: rules about what one version does to a stage."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest
from local_stores import WAYS

import deltaproduce as dp


def numbers(**limits: Any) -> dp.Pipeline:
    """Numbers, and how many there are of each value, with limits of the numbers."""
    pipeline = dp.Pipeline("numbers")
    pipeline.source("numbers", key="n bigint", value="v bigint")
    if limits:
        pipeline.limit("numbers", **limits)
    return pipeline


def rows(values: dict[int, list[int] | None]) -> dict[str, list[dict[str, Any]]]:
    """Rows of numbers, several of one key perhaps; None deletes."""
    return {
        "numbers": [
            row
            for n, of_key in values.items()
            for row in (
                [{"n": n, "v": None, "_change_type": "delete"}]
                if of_key is None
                else [{"n": n, "v": v, "_change_type": "upsert"} for v in of_key]
            )
        ]
    }


def whole(values: dict[int, list[int]]) -> dict[str, list[dict[str, Any]]]:
    """The same as a snapshot."""
    return {"numbers": [{"n": n, "v": v} for n, of_key in values.items() for v in of_key]}


def failing(error: pytest.ExceptionInfo[dp.ChecksFailedError]) -> dict[str, int]:
    return {one.name: one.rows for one in error.value.checks}


def test_a_share_that_equals_the_limit_holds(tmp_path: Path) -> None:
    """C2: compared exactly, whatever floats make of it; new keys count for neither."""
    pipeline = numbers(deleted=0.3, changed=Decimal("0.3"))
    with dp.Store(None, str(tmp_path / "store"), pipeline) as store:
        store.update(rows({n: [0] for n in range(10)}))
        first = store.update(rows({0: None, 1: None, 2: None, 3: [1], 4: [1], 5: [1], 90: [1]}))
        assert {one.name: one.rows for one in first.checks} == {
            "numbers_deleted": 3,
            "numbers_changed": 3,
        }
        for changes, broken in (
            (rows(dict.fromkeys(range(3, 6))), {"numbers_deleted": 3}),  # of eight
            (rows({n: [7] for n in range(3, 6)}), {"numbers_changed": 3}),
        ):
            with pytest.raises(dp.ChecksFailedError) as raised:
                store.update(changes)
            assert failing(raised) == broken
            assert raised.value.checks[0].stage == "numbers"
            assert len(raised.value.checks[0].sample) == 3
        assert store.update(rows({n: [5] for n in range(100, 200)})).number == 3


def test_a_third_is_a_third(tmp_path: Path) -> None:
    with dp.Store(None, str(tmp_path / "a"), numbers(deleted=Fraction(1, 3))) as store:
        store.update(rows({n: [0] for n in range(3)}))
        assert store.update(rows({0: None})).number == 2
    with dp.Store(None, str(tmp_path / "b"), numbers(deleted=0.3333)) as store:
        store.update(rows({n: [0] for n in range(3)}))
        with pytest.raises(dp.ChecksFailedError):
            store.update(rows({0: None}))


def test_no_keys_before_break_no_share(tmp_path: Path) -> None:
    """C2: a first load is no change of keys that were there."""
    with dp.Store(None, str(tmp_path / "store"), numbers(deleted=0, changed=0)) as store:
        store.update(rows({1: [1], 2: [1]}))
        with pytest.raises(dp.ChecksFailedError):
            store.update(rows({1: [2]}))
        with pytest.raises(dp.ChecksFailedError):
            store.load({"numbers": [{"n": 1, "v": 1}]})
        assert store.update(rows({1: [1], 3: [1]})).number == 2


def test_a_cut_off_snapshot_is_refused(tmp_path: Path) -> None:
    pipeline = numbers(deleted=0.2, rows=(6, 12))
    with dp.Store(None, str(tmp_path / "store"), pipeline) as store:
        store.load(whole({n: [0] for n in range(10)}))
        with pytest.raises(dp.ChecksFailedError) as raised:
            store.load(whole({n: [0] for n in range(5)}))
        assert failing(raised) == {"numbers_deleted": 5, "numbers_rows": 5}
        store.load(whole({n: [0] for n in range(8)}))
        with pytest.raises(dp.ChecksFailedError) as raised:
            store.update(rows({n: [0] for n in range(20, 25)}))
        assert failing(raised) == {"numbers_rows": 13}


def test_rows_count_in_every_version(tmp_path: Path) -> None:
    """C2: also where the version does not change the stage, and in a rollback."""
    place = str(tmp_path / "store")
    with dp.Store(None, place, two()) as store:
        store.update(rows({1: [1]}))
        store.update(rows({n: [1] for n in range(5)}))
        store.update({"others": [{"n": 1, "v": 1}]})
    pipeline = two()
    pipeline.limit(pipeline.stages[0], rows=(5, None), deleted=0.1)
    with dp.Store(None, place, pipeline) as store:
        with pytest.raises(dp.ChecksFailedError) as raised:
            store.rollback(1)
        assert failing(raised) == {"numbers_rows": 1}
    pipeline = two()
    pipeline.limit("numbers", rows=(6, None))
    with dp.Store(None, place, pipeline) as store:
        assert store.check()[0].broken
        for changes in ({}, {"others": [{"n": 2, "v": 1}]}):
            with pytest.raises(dp.ChecksFailedError) as raised:
                store.update(changes)
            assert raised.value.checks[0].broken_before
        assert store.update(rows({9: [9]})).number == 4


def two() -> dp.Pipeline:
    pipeline = numbers()
    pipeline.source("others", key="n bigint", value="v bigint")
    return pipeline


def test_shares_do_not_count_for_rollbacks_and_definitions(tmp_path: Path) -> None:
    """C2: nor for a repair."""

    def totals(step: int) -> dp.Pipeline:
        pipeline = numbers()

        @pipeline.producer("numbers", key="k bigint", value="total bigint")
        def totals(n: int, values: Iterator[int]) -> Iterator[tuple[int, int]]:
            yield n, sum(values) + step

        pipeline.limit("totals", changed=0, deleted=0)
        pipeline.limit("numbers", deleted=0)
        return pipeline

    place = str(tmp_path / "store")
    with dp.Store(None, place, totals(0)) as store:
        store.update(rows({1: [1], 2: [2]}))
        store.update(rows({3: [3]}))
        assert store.rollback(1).number == 3
    with dp.Store(None, place, totals(1)) as store:
        assert store.update(rows({4: [4]})).number == 4  # all totals differ by its definition
        with pytest.raises(dp.ChecksFailedError) as raised:
            store.update(rows({1: [7]}))
        assert failing(raised) == {"totals_changed": 1}


def test_a_limit_may_warn(tmp_path: Path) -> None:
    pipeline = numbers(deleted=0.1, severity="warn")
    with dp.Store(None, str(tmp_path / "store"), pipeline) as store:
        store.update(rows({n: [0] for n in range(4)}))
        version = store.update(rows({0: None}))
        assert [(one.name, one.broken, one.rows) for one in version.checks] == [
            ("numbers_deleted", True, 1)
        ]
        assert [(one.name, one.broken) for one in store.check()] == [("numbers_deleted", True)]
        version = store.update(rows({9: [9]}))
        assert [one.broken for one in version.checks] == [False]


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"deleted": 20},
        {"deleted": -0.1},
        {"deleted": True},
        {"deleted": "0.2"},
        {"changed": float("nan")},
        {"changed": float("inf")},
        {"rows": 10},
        {"rows": (None, None)},
        {"rows": (10, 1)},
        {"rows": (1, 2, 3)},
        {"rows": (-1, None)},
        {"rows": (0.5, None)},
        {"deleted": 0.1, "severity": "quarantine"},
        {"deleted": 0.1, "severity": None},
    ],
)
def test_a_wrong_limit_is_refused(limits: dict[str, Any]) -> None:
    pipeline = numbers()
    with pytest.raises(dp.DefinitionError):
        pipeline.limit("numbers", **limits)
    assert pipeline.checks == ()


def test_a_limit_needs_a_stage() -> None:
    pipeline = numbers(deleted=0.1)
    for stage in ("number", None, 3):
        with pytest.raises(dp.DefinitionError):
            pipeline.limit(stage, deleted=0.5)  # type: ignore[arg-type]
    with pytest.raises(dp.DefinitionError):
        pipeline.limit("numbers", deleted=0.5)  # there is one


def test_a_store_that_did_not_count_keys_counts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions of before did not record how many keys a stage has."""
    place = str(tmp_path / "store")
    with monkeypatch.context() as patch:
        patch.setattr("deltaproduce.operations.step.writes.StepResult.keys", lambda *_: None)
        with dp.Store(None, place, numbers()) as store:
            store.update(rows({n: [0, 1] for n in range(10)}))
            assert store.head.stages["numbers"].keys is None
    limits = WAYS["runs"]
    with dp.Store(None, place, numbers(changed=0.2), limits=limits) as store:
        with pytest.raises(dp.ChecksFailedError):
            store.update(rows({n: [2] for n in range(3)}))
        assert store.update(rows({n: [2] for n in range(2)})).number == 2


@pytest.mark.parametrize("way", ["small", "runs"])
def test_what_is_counted_is_what_differs(tmp_path: Path, way: str) -> None:
    """Over random changes, loads and deletes, beside dicts; and the keys that versions record."""
    random = Random(7)
    pipeline = numbers(deleted=0.34, changed=0.34, rows=(0, 9))
    model: dict[int, list[int]] = {}
    refused = 0
    with dp.Store(None, str(tmp_path / "store"), pipeline, limits=WAYS[way]) as store:
        for _ in range(25):
            drawn: dict[int, list[int] | None] = {
                random.randrange(9): None
                if random.random() < 0.3
                else [random.randrange(2) for _ in range(random.randrange(1, 3))]
                for _ in range(random.randrange(1, 5))
            }
            is_load = random.random() < 0.2
            merged = {**({} if is_load else model), **drawn}
            after = {n: of_key for n, of_key in merged.items() if of_key is not None}
            deleted = sum(n not in after for n in model)
            changed = sum(n in after and after[n] != was for n, was in model.items())
            count, keys = sum(map(len, after.values())), len(model)
            broken = {
                name: n
                for name, n, is_broken in (
                    ("numbers_deleted", deleted, keys and deleted / keys > 0.34),
                    ("numbers_changed", changed, keys and changed / keys > 0.34),
                    ("numbers_rows", count, count > 9),
                )
                if is_broken
            }
            act = store.load if is_load else store.update
            given = rows({n: v for n, v in drawn.items() if v or not is_load})
            if is_load:
                given = {"numbers": [{"n": r["n"], "v": r["v"]} for r in given["numbers"]]}
                if not given["numbers"]:
                    continue
            if broken:
                refused += 1
                with pytest.raises(dp.ChecksFailedError) as raised:
                    act(given)
                assert failing(raised) == broken
                continue
            head, version = store.head.number, act(given)
            model = after
            assert version.stages["numbers"].keys == len(model)
            if version.number > head:
                assert {one.name: one.rows for one in version.checks} == {
                    "numbers_deleted": deleted,
                    "numbers_changed": changed,
                    "numbers_rows": count,
                }
    assert refused > 3
