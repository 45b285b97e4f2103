"""Approximate aggregates without a session: equal to the oracle where exact, else near it."""

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pytest
from crashing import CrashAt, CrashError, fail
from local_stores import WAYS, as_rows, assert_refreshed, assert_same_here, assert_versions
from selecting import some
from test_local_ordered import COLUMNS, history

import deltaproduce as dp
from deltaproduce import agg
from deltaproduce.stages.aggregates import kind
from deltaproduce.stages.aggregates.windowed import Way
from deltaproduce.storage import failpoints
from deltaproduce.storage.parquet.files import ParquetFiles
from deltaproduce.testing import Delete, Oracle, Upsert

VERSIONS, SHORT = 6, 3
RANKED = ("n", "l", "x", "y", "price", "day", "at", "local")
"""Columns of numbers and moments."""
STAGES = ("by_g", "by_two", "of_two", "by_day", "all_days", "over_all")


def values(columns: Iterable[str] = COLUMNS) -> dict[str, agg.AggregateCall]:
    """All functions of some columns."""
    ranked = [column for column in columns if column in RANKED]
    return {
        **{f"distinct_{c}": agg.approx_count_distinct(c) for c in columns},
        **{f"median_{c}": agg.approx_percentile(c, 0.5) for c in ranked},
        **{f"thirds_{c}": agg.approx_percentile(c, [0, 1 / 3, 2 / 3, 1]) for c in ranked[:2]},
        **{f"top_{c}": agg.approx_top_k(c, 2) for c in columns},
    }


def site(columns: Iterable[str] = COLUMNS) -> dp.Pipeline:
    """Sketches of a source and of two that are merged; of days, of all days, and all."""
    pipeline = dp.Pipeline("site")
    value = "g string, " + ", ".join(f"{name} {ddl}" for name, (ddl, _) in COLUMNS.items())
    events, more = (pipeline.source(n, key="id bigint", value=value) for n in ("events", "more"))
    calls = values(columns)
    pipeline.aggregate("by_g", events, key="g", values={**calls, "rows": agg.count()})
    both = dp.merge(events, more)
    two = {
        "different": agg.approx_count_distinct("t", lg_k=4),
        "most": agg.approx_percentile("n", 1),
    }
    by_two = pipeline.aggregate(
        "by_two", both, key="ok, t", values={**two, "sum": agg.sum("n")}, where="n IS NULL OR n < 7"
    )
    of_two = {name: agg.merge(name) for name in two}
    pipeline.aggregate("of_two", by_two, key="ok", values={**of_two, "texts": agg.count()})
    by_day = pipeline.aggregate("by_day", both, key="day AS on_day, g", values=calls)
    merged = {f"all_{name}": agg.merge(name) for name in calls}
    all_days = pipeline.aggregate(
        "all_days", by_day, key="g", values={**merged, "days": agg.count()}
    )
    again = {name: agg.merge(f"all_{name}") for name in calls}
    pipeline.aggregate("over_all", all_days, key="", values=again)
    return pipeline


CASES = {
    "numbers": ("n", "x", "price"),
    "moments": ("day", "at", "local"),
    "others": ("l", "y", "ok", "large"),
    "texts": ("t", "raw"),
}


@pytest.mark.parametrize(
    ("case", "way"),
    some(
        [
            *((case, "runs") for case in [*CASES][:3]),
            ("texts", "small"),
            ("texts", "runs, often folded"),
        ],
        lambda case, way: (case, way) in (("numbers", "runs"), ("texts", "runs, often folded")),
    ),
)
def test_versions_equal_the_oracle(location: str, case: str, way: str, long_run: bool) -> None:
    """And what is stored, sketches too, is what a refresh makes."""
    pipeline = site(CASES[case])
    oracle = Oracle(pipeline)
    with dp.Store(None, location, pipeline, limits=WAYS[way]) as store:
        series = history(40 + [*CASES].index(case))[: VERSIONS if long_run else SHORT]
        assert_versions(store, oracle, pipeline, series)
        assert_refreshed(store, STAGES)
        back = oracle.head // 2
        assert store.rollback(back).number == oracle.head + 2  # the refresh is one
        for stage in pipeline.graph().stages:
            now, then = (store.content(stage.name, at, ordered=True) for at in (None, back))
            assert repr(now.to_pylist()) == repr(then.to_pylist())  # NaN is not equal to itself
        store.update(as_rows(pipeline, series[-1]))
        assert store.verify(recompute=True) == ()


SKETCHES = {
    "visitors": agg.approx_count_distinct("who"),
    "middle": agg.approx_percentile("who", 0.5),
    "most": agg.approx_top_k("who", 3),
}


def visits(window: dp.Window | None = None) -> dp.Pipeline:
    """Visitors of days, and of all of them or of those of a window."""
    pipeline = dp.Pipeline("visits")
    source = pipeline.source("visits", key="day date, id bigint", value="page string, who bigint")
    by_day = pipeline.aggregate("by_day", source, key="day, page", values=SKETCHES)
    merged = {name: agg.merge(name) for name in SKETCHES}
    pipeline.aggregate("by_page", by_day, key="page", values=merged, window=window)
    return pipeline


FIRST = date(2013, 3, 1)


def assert_near(row: dict[str, Any], members: Iterable[int]) -> None:
    """Three times the standard error of the number, and twice the stated one of the middle."""
    whos = list(members)
    exact = len(set(whos))
    assert abs(row["visitors"] - exact) <= (0.05 * exact if exact > 300 else 0)
    below = sum(who < row["middle"] for who in whos) / len(whos)
    until = sum(who <= row["middle"] for who in whos) / len(whos)
    slack = 0.027 if len(whos) > 200 else 0
    assert below - slack <= 0.5 <= until + slack
    counts = Counter(whos)
    expected = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:3]
    assert [(one["item"], one["count"]) for one in row["most"]] == expected


@pytest.mark.parametrize("members", [10, 10_000])
def test_visitors_of_thirty_days_keep_to_their_error_while_the_window_moves(
    location: str, members: int
) -> None:
    """Merged from days: days that leave, that come late, and that lose visits."""
    chance, limits = random.Random(members), dp.Limits(small_table_rows=0, replaced_percent=900)
    alive, ids = dict[int, tuple[date, int]](), itertools.count()

    def come(day: int, count: int) -> list[dict[str, Any]]:
        """So many visits of a day."""
        found = []
        for number in itertools.islice(ids, count):
            alive[number] = (FIRST + timedelta(days=day), chance.randrange(members))
            of_day, who = alive[number]
            found.append({"id": number, "day": of_day, "page": "home", "who": who})
        return found

    with dp.Store(None, location, visits(dp.window("day", last=30)), limits=limits) as store:
        store.update({"visits": [row for day in range(30) for row in come(day, members // 5)]})
        for newest in (30, 31, 33):
            gone = [(number, *alive.pop(number)) for number in chance.sample(sorted(alive), 5)]
            deletes = [{"id": n, "day": day, "_change_type": "delete"} for n, day, _ in gone]
            store.update({"visits": [*come(newest, members // 5), *come(newest - 3, 2), *deletes]})
            edge = FIRST + timedelta(days=newest)
            inside = [who for day, who in alive.values() if edge - timedelta(days=30) < day <= edge]
            (row,) = store.content("by_page").to_pylist()
            assert_near(row, inside)


def test_a_key_that_no_change_reaches_keeps_its_sketch_and_its_value(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it was made by chance: while others change, are made again, or the window moves."""
    monkeypatch.setattr(kind, "way", lambda *_: Way(False, "it would be quicker"))
    pipeline = visits(dp.window("day", last=3))
    with dp.Store(
        None, location, pipeline, limits=dp.Limits(small_table_rows=0, replaced_percent=900)
    ) as store:

        def rows(page: str, day: int, ids: Iterable[int]) -> list[dict[str, Any]]:
            of_day = FIRST + timedelta(days=day)
            return [{"id": n, "day": of_day, "page": page, "who": n} for n in ids]

        def quiet() -> list[Any]:
            found = (store.content(stage).to_pylist() for stage in ("by_day", "by_page"))
            return [row for some in found for row in some if row["page"] == "quiet"]

        of_quiet = [row for day in (1, 2) for row in rows("quiet", day, range(day, 3_000, 2))]
        store.update({"visits": of_quiet + rows("busy", 0, range(5_000, 5_900))})
        before = quiet()
        assert len(before) == 3
        store.update({"visits": rows("busy", 2, range(5_000, 5_400))})
        gone = [{**row, "_change_type": "delete"} for row in rows("busy", 0, range(5_000, 5_800))]
        version = store.update({"visits": gone})
        assert version.stages["by_page"].affected_keys == 1
        version = store.update({"visits": rows("busy", 3, range(5_000, 5_400))})
        assert [str(day) for day in version.stages["by_page"].window.left] == ["2013-03-01"]
        assert quiet() == before
        assert store.verify(recompute=True) == ()


def test_a_key_that_has_lost_a_row_is_merged_again_from_its_own_partials(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of others few are read, with those that share a row group."""
    limits = dp.Limits(small_table_rows=0, replaced_percent=900, group_rows=20)
    with dp.Store(None, location, visits(dp.window("day", last=4)), limits=limits) as store:
        rows = [
            {"day": FIRST + timedelta(days=n % 4), "id": n, "page": f"{n // 4:04}", "who": n % 3}
            for n in range(4_000)
        ]
        store.update({"visits": rows})
        read, whole = list[int](), ParquetFiles.read_groups

        def counting(files: ParquetFiles, *given: Any, **named: Any) -> pa.Table:
            found = whole(files, *given, **named)
            if "_state_1" in found.column_names:
                read.append(len(found))
            return found

        monkeypatch.setattr(ParquetFiles, "read_groups", counting)
        late = {"day": FIRST + timedelta(days=1), "id": 9_999, "page": "0500", "who": 8}
        for batch in ([late], [{**late, "_change_type": "delete"}]):
            read.clear()
            store.update({"visits": batch})
            (row,) = (r for r in store.content("by_page").to_pylist() if r["page"] == "0500")
            assert_near(row, [0, 1, 2, 2, *(r["who"] for r in batch if "_change_type" not in r)])
            assert 0 < sum(read) <= 400  # of 5,000 rows of both stages


@pytest.mark.parametrize("effect", range(6))
def test_an_update_that_goes_on_makes_keys_again_that_have_lost_rows(
    location: str, effect: int
) -> None:
    """Where it stopped between the days and what merges them."""
    limits = dp.Limits(small_table_rows=0, replaced_percent=900)
    rows = [{"day": FIRST, "id": n, "page": "ab"[n % 2], "who": n % 7} for n in range(40)]
    batch = [{**row, "_change_type": "delete"} for row in rows[:6]]
    batch += [{"day": FIRST, "id": 99, "page": "a", "who": 99}]
    pipeline = visits()
    with dp.Store(None, location, pipeline, limits=limits) as store:
        store.update({"visits": rows})
        with failpoints.armed(CrashAt(effect, fail)), suppress(CrashError):
            store.update({"visits": batch}, update_id="one")
    with dp.Store(None, location, pipeline, limits=limits) as store:
        store.update({"visits": batch}, update_id="one")
        for page in store.content("by_page").to_pylist():
            left = [row["who"] for row in [*rows[6:], batch[-1]] if row["page"] == page["page"]]
            assert_near(page, left)
        for stage in ("by_day", "by_page"):
            figures = store.refresh(stage).stages[stage]
            assert (figures.rows_added, figures.rows_removed) == (0, 0)


@pytest.mark.parametrize("value", SKETCHES)
def test_a_window_that_drops_partitions_is_of_partials_only(value: str) -> None:
    """Since nothing is taken from a sketch. One that has a fixed start drops none."""
    pipeline = visits()
    given: dict[str, Any] = {"key": "page", "values": {"n": agg.count(), value: SKETCHES[value]}}
    for last in (dp.window("day", last=3), dp.window("day", last=3, end=FIRST)):
        with pytest.raises(dp.DefinitionError, match=r"agg\.merge") as caught:
            pipeline.aggregate("wrong", "visits", **given, window=last)
        assert (caught.value.stage, caught.value.column) == ("wrong", value)
    pipeline.aggregate("since", "visits", **given, window=dp.window("day", start=FIRST))


@pytest.mark.parametrize("seed", range(2))
def test_a_window_from_a_fixed_start_is_as_the_oracle_says(location: str, seed: int) -> None:
    """It may move back, by which rows leave it."""
    pipeline, chance = dp.Pipeline("visits"), random.Random(seed)
    source = pipeline.source("visits", key="day date, id bigint", value="page string, who bigint")
    window = dp.window("day", start=FIRST + timedelta(days=3))
    pipeline.aggregate("by_page", source, key="page", values=SKETCHES, window=window)
    oracle = Oracle(pipeline)
    with dp.Store(
        None, location, pipeline, limits=dp.Limits(small_table_rows=0, replaced_percent=900)
    ) as store:
        for newest in (4, 6, 7, 9, 9):
            keys = {(FIRST + timedelta(days=newest - chance.randrange(6)), n) for n in range(5)}
            changes: list[Any] = [
                Delete(key)
                if chance.random() < 0.3
                else Upsert(key, (chance.choice("ab"), chance.choice([None, 1, 2])))
                for key in sorted(keys)
            ]
            as_of = chance.choice([None, FIRST + timedelta(days=newest - 2)])
            version = store.update(as_rows(pipeline, {"visits": changes}), as_of=as_of)
            assert version.number == oracle.update({"visits": changes}, as_of=as_of)
            assert_same_here(store, oracle, pipeline, [version.number])


def test_sketches_of_several_sorts_are_not_merged() -> None:
    pipeline = dp.Pipeline("visits")
    source = pipeline.source("visits", key="id bigint", value="page string, n int, who bigint")
    calls = {
        "n": (agg.approx_count_distinct("n"), agg.approx_count_distinct("who")),
        "k": (agg.approx_count_distinct("n"), agg.approx_count_distinct("n", lg_k=11)),
        "p": (agg.approx_percentile("n", 0.5), agg.approx_percentile("n", 0.9)),
    }
    for number in range(2):
        values = {name: both[number] for name, both in calls.items()}
        pipeline.aggregate(f"of_{number}", source, key="page", values=values)
    for name in calls:
        merged = {"all": agg.merge(name)}
        with pytest.raises(dp.DefinitionError) as caught:
            pipeline.aggregate("both", dp.merge("of_0", "of_1"), key="", values=merged)
        assert caught.value.column == "all"


WRONG: dict[str, Any] = {
    "registers": lambda: agg.approx_count_distinct("n", lg_k=3),
    "too many registers": lambda: agg.approx_count_distinct("n", lg_k=22),
    "registers that are no number": lambda: agg.approx_count_distinct("n", lg_k=True),
    "no share": lambda: agg.approx_percentile("n", 1.5),
    "not a share among them": lambda: agg.approx_percentile("n", [0.5, math.nan]),
    "no shares": lambda: agg.approx_percentile("n", []),
    "none": lambda: agg.approx_top_k("n", 0),
    "more than are tracked": lambda: agg.approx_top_k("n", 10_001),
    "a text": lambda: agg.approx_percentile("n", "0.5"),
    "no column": lambda: agg.approx_top_k(" ", 1),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_call_is_refused(case: str) -> None:
    with pytest.raises(dp.DefinitionError, match=r"agg\.approx_"):
        WRONG[case]()


WRONG_TYPES = {
    "a percentile of text": agg.approx_percentile("t", 0.5),
    "a percentile of long decimals": agg.approx_percentile("w", 0.5),
    "a percentile of conditions": agg.approx_percentile("ok", 0.5),
    "an array": agg.approx_count_distinct("several"),
    "the most frequent arrays": agg.approx_top_k("several", 1),
}


@pytest.mark.parametrize("case", WRONG_TYPES)
def test_a_wrong_type_is_refused(case: str) -> None:
    pipeline = dp.Pipeline("wrong")
    value = "t string, w decimal(19,2), ok boolean, several array<int>"
    source = pipeline.source("rows", key="id bigint", value=value)
    with pytest.raises(dp.DefinitionError) as caught:
        pipeline.aggregate("wrong", source, key="t", values={"value": WRONG_TYPES[case]})
    assert (caught.value.stage, caught.value.column) == ("wrong", "value")
