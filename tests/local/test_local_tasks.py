"""Partitioned stages without Spark: the tasks that a run makes or skips, and dirty tasks."""

import atexit
import json
import random
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import date, timedelta
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
import pytest
from crashing import CrashAt, CrashError, fail
from damaging import LOSSES, drop, planted
from processes import started
from selecting import chosen, long
from task_runs import AGAIN, AS_OF, DAYS, TEN, days_shop, row, shop

import deltaproduce as dp
from deltaproduce import (
    DefinitionError,
    InvalidArgumentError,
    NotFoundError,
    Pipeline,
    ProducerError,
    SessionError,
    Store,
    TasksFailedError,
)
from deltaproduce.stages.partitioned import on_driver
from deltaproduce.stages.partitioned.digests import digests
from deltaproduce.stages.sql.resolve import resolved
from deltaproduce.storage import failpoints

FIRST = date(2022, 3, 29)


def states(store: Store, as_of: str | date) -> dict[str, str]:
    return {str(task): task.state for task in store.tasks(as_of=as_of)}


def contents(store: Store, stage: str) -> list[str]:
    rows = dp_rows(store.content(stage))
    return sorted(map(repr, rows))


def dp_rows(table: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.to_pylist()
    return found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(None, tmp_path / "shop", shop()) as found:
        yield found


def test_a_run_makes_what_is_missing_and_the_next_one_nothing(store: Store) -> None:
    store.update({"sales": [row("31"), row("30", "Detroit")]})
    assert set(states(store, "2022-03-31").values()) == {"missing"}
    run = store.run(as_of="2022-03-31")
    assert len(run.done) == 9
    assert store.head.tasks == tuple(map(str, run.done))
    assert set(states(store, "2022-03-31").values()) == {"present"}
    head = store.head.number
    assert store.run(as_of="2022-03-31") == dp.Run()
    assert store.head.number == head


def test_a_run_with_nothing_to_do_reads_digests_and_records_once(tmp_path: Path) -> None:
    """The rows read of hidden stages are those that they have; no row of a source is read."""
    with Store(None, tmp_path / "shop", shop()) as store:
        store.update({"sales": [row("31"), row("30", "Detroit"), row("29")]})
        store.run(as_of="2022-03-31")
    with Store(None, tmp_path / "shop", shop()) as store:
        stages = store._opened.log.head().stages
        hidden = [figures.rows for name, figures in stages.items() if figures.role]
        readings = store._opened.tables.readings
        before = readings.total
        assert store.run(as_of="2022-03-31") == dp.Run()
        assert readings.total.after(before).rows == sum(hidden) > 0


def test_a_query_is_resolved_once_in_a_run_for_all_tasks_of_its_stage(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = list[str]()

    def counted(text: str, *given: Any) -> Any:
        texts.append(text)
        return resolved(text, *given)

    monkeypatch.setattr(on_driver, "resolved", counted)
    store.update({"sales": [row("31"), row("30", "Detroit"), row("29")]})
    assert len(store.run(as_of="2022-03-31").done) == 9
    assert len(texts) == len(set(texts)) == 2


def test_a_query_is_resolved_again_for_a_value_that_changes_more_than_its_rows(
    tmp_path: Path,
) -> None:
    """A text that is no number makes one task fail, as if it were the only one."""
    pipeline = Pipeline("sums")
    pipeline.source("amounts", key="k int", value="amount int", partition="k")
    pipeline.partitioned(
        "sums",
        "SELECT k, amount + CAST(word AS INT) AS amount FROM amounts",
        key="k",
        partition="word = word",
        scopes="FOR word IN array('1', 'x', '2')",
    )
    with Store(None, tmp_path / "sums", pipeline) as store:
        store.update({"amounts": [{"k": 1, "amount": 5}]})
        with pytest.raises(TasksFailedError) as caught:
            store.run(as_of="2022-03-31")
        assert list(map(str, caught.value.run.failed)) == ["sums/word=x"]
        rows = dp_rows(store.content("sums"))
    assert {each["word"]: each["amount"] for each in rows} == {"1": 6, "2": 7}


def test_rows_that_are_made_again_equal_dirty_nobody(store: Store) -> None:
    store.update({"sales": [row("31", n=2, sold=4)]})
    store.run(as_of="2022-03-31")
    store.update({"sales": [row("31", n=2, sold=5)]})  # 5 DIV 2 is 4 DIV 2
    assert [name for name, state in states(store, "2022-03-31").items() if state == "dirty"] == [
        "stores/day=2022-03-31/store=Paris"
    ]
    assert list(map(str, store.run(as_of="2022-03-31").done)) == [
        "stores/day=2022-03-31/store=Paris"
    ]
    store.update({"sales": [row("31", n=2, sold=4)]})
    store.run(as_of="2022-03-31")
    store.update({"sales": [row("31", n=2, sold=9)]})
    store.update({"sales": [row("31", n=2, sold=4)]})  # as it was made
    assert set(states(store, "2022-03-31").values()) == {"present"}


def test_a_limit_leaves_tasks_in_order_of_readiness(store: Store) -> None:
    store.update({"sales": [row("31")]})
    done = list[str]()
    while run := store.run(as_of="2022-03-31", max_tasks=2):
        done += map(str, run.done)
        assert len(done) + len(run.left) == 9  # those too that wait for others which are left
        assert run.blocked == ()
        if not run.left:
            break
    assert len(done) == len(set(done)) == 9
    assert done[:6] == sorted(done[:6], reverse=True, key=lambda n: n.split("/")[1])
    assert all(name.startswith("recent") for name in done[6:])


def test_what_waits_for_a_failed_task_is_blocked_and_not_left(store: Store) -> None:
    store.update({"sales": [row("31", n=0)]})
    with pytest.raises(TasksFailedError) as caught:
        store.run(as_of="2022-03-31", max_tasks=5)
    run = caught.value.run
    assert list(map(str, run.failed)) == ["stores/day=2022-03-31/store=Paris"]
    assert list(map(str, run.blocked)) == ["recent/day=2022-03-31"]
    assert list(map(str, run.left)) == [
        "stores/day=2022-03-29/store=Paris",
        "recent/day=2022-03-30",
        "recent/day=2022-03-29",
    ]


def test_a_task_that_fails_blocks_what_needs_it_and_keeps_its_rows(store: Store) -> None:
    store.update({"sales": [row("31"), row("29")]})
    store.run(as_of="2022-03-31")
    before = contents(store, "stores")
    store.update({"sales": [row("31", n=0), row("29", sold=8)]})
    with pytest.raises(TasksFailedError) as caught:
        store.run(as_of="2022-03-31")
    run = caught.value.run
    assert isinstance(run, dp.Run)
    assert list(map(str, run.failed)) == ["stores/day=2022-03-31/store=Paris"]
    assert isinstance(run.failed[0].error, ProducerError)
    assert "stores/day=2022-03-29/store=Paris" in map(str, run.done)
    assert states(store, "2022-03-31")["stores/day=2022-03-31/store=Paris"] == "dirty"
    assert [one for one in before if "31" in one] == [
        one for one in contents(store, "stores") if "31" in one
    ]


def test_tasks_wait_for_partitions_that_are_to_come(tmp_path: Path) -> None:
    with Store(None, tmp_path / "shop", shop(scopes=True)) as store:
        store.update({"sales": [row("31")]})
        run = store.run(as_of="2022-03-31")
        assert list(map(str, run.done)) == ["stores/day=2022-03-31/store=Paris"]
        assert len(run.blocked) == 8
        store.update({"sales": [row("31", "Detroit"), row("30"), row("30", "Detroit")]})
        assert "recent/day=2022-03-31" in map(str, store.run(as_of="2022-03-31").done)


def test_a_changed_definition_makes_its_tasks_dirty(tmp_path: Path) -> None:
    with Store(None, tmp_path / "shop", shop()) as store:
        store.update({"sales": [row("31")]})
        store.run(as_of="2022-03-31")
    with Store(None, tmp_path / "shop", shop(plus=2)) as store:
        found = states(store, "2022-03-31")
        assert {name for name, state in found.items() if state == "dirty"} == {
            name for name in found if name.startswith("stores")
        }
        store.update({"sales": [row("30")]})
        assert len(store.run(as_of="2022-03-31").done) > 6
        assert [one["sold"] for one in dp_rows(store.content("stores"))] == [5, 5]


def test_digests_of_rows_with_other_columns_are_of_the_new_rows(tmp_path: Path) -> None:
    """The rows of before are not known in the new columns, so nothing is subtracted."""

    def days(value: str) -> Pipeline:
        pipeline = Pipeline("shop")
        pipeline.source("sales", key="day string, n bigint", value=value, partition="day")
        query = "SELECT n, sold FROM sales WHERE day = d"
        pipeline.partitioned("days", query, key="n", partition="day = d", scopes=DAYS)
        return pipeline

    sold = [{"day": f"2022-03-{day}", "n": 1, "sold": 3} for day in (30, 31)]
    with Store(None, tmp_path / "shop", days("sold bigint")) as store:
        store.update({"sales": [*sold, sold[0] | {"n": 2}]})
        store.run(as_of=AS_OF)
    with Store(None, tmp_path / "shop", days("sold bigint, price bigint")) as store:
        store.load({"sales": [one | {"price": 1} for one in sold]})
        assert len(store.run(as_of=AS_OF).done) == 2
        assert store.run(as_of=AS_OF) == dp.Run()
        assert store.verify(recompute=True) == ()


def test_partitions_that_no_task_asks_for_are_dropped_and_dirty_nobody(tmp_path: Path) -> None:
    with Store(None, tmp_path / "shop", shop(retention="tasks")) as store:
        store.update({"sales": [row(day) for day in ("29", "30", "31")]})
        store.run(as_of="2022-03-31")
        run = store.run(as_of="2022-04-01")
        assert "stores/day=2022-03-29/store=Paris" in map(str, run.dropped)
        assert all("2022-04-01" in str(of) for of in run.done)
        assert not [one for one in contents(store, "stores") if "2022-03-29" in one]
        head = store.head.number
        older = store.run(as_of="2022-03-31")
        assert not older.dropped
        assert head <= store.head.number


def test_an_update_of_a_day_makes_what_it_dirties_or_nothing(store: Store) -> None:
    store.update({"sales": [row("31")]})
    store.run(as_of="2022-03-31")
    version = store.update({"sales": [row("31", sold=8)]}, as_of="2022-03-31")
    assert version.tasks == ("stores/day=2022-03-31/store=Paris", "recent/day=2022-03-31")
    assert set(states(store, "2022-03-31").values()) == {"present"}
    with pytest.raises(ProducerError):
        store.update({"sales": [row("31", n=0)]}, as_of="2022-03-31")
    assert store.head.number == version.number


def test_a_backfill_makes_what_is_marked_and_what_is_named(store: Store) -> None:
    store.update({"sales": [row("31"), row("30")]})
    store.run(as_of="2022-03-31")
    alone = store.backfill("stores", {"day": "2022-03-31"}, downstream="none")
    assert len(alone.tasks) == 2
    both = store.backfill("stores", {"day": ["2022-03-30"], "store": "Paris"}, ["recent"])
    assert both.tasks == (
        "stores/day=2022-03-30/store=Paris",
        "recent/day=2022-03-31",
        "recent/day=2022-03-30",
    )
    store.update({"sales": [row("30", sold=9)]})
    store.backfill("stores", {"day": "2022-03-30"}, downstream="none")
    assert set(states(store, "2022-03-31").values()) == {"present"}  # though rows differ
    with pytest.raises(InvalidArgumentError):
        store.backfill("stores", {"n": 1})
    with pytest.raises(InvalidArgumentError):
        store.backfill("recent", {"day": "2022-03-30"}, ["stores"])
    with pytest.raises(InvalidArgumentError):
        store.backfill("stores", {"day": "1999-01-01"})


NULLS = "CASE WHEN name = 'nothing' THEN NULL ELSE name END"


@pytest.mark.parametrize("names", [("nothing", "null"), ("nothing",)])
def test_a_null_partition_is_not_the_text_that_its_name_shows(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    pipeline = Pipeline("shop")
    pipeline.source("sales", key="n bigint", value="sold bigint")
    texts = ", ".join(f"'{name}'" for name in names)
    scopes = f"FOR name IN array({texts}), LET place = {NULLS}"
    pipeline.partitioned(
        "by_place", "SELECT n, sold FROM sales", key="n", partition="place", scopes=scopes
    )
    with Store(None, tmp_path / "shop", pipeline) as store:
        store.update({"sales": [{"n": 1, "sold": 2}]})
        store.run(as_of="2022-03-31")

        def made(place: object) -> list[object]:
            found = store.backfill("by_place", {"place": place}, dry_run=True)
            return sorted((task.partition["place"] for task in found), key=repr)

        assert made(None) == [None]
        if len(names) > 1:
            assert made("null") == ["null"]
            assert made(["null", None]) == ["null", None]
            return
        with pytest.raises(InvalidArgumentError, match="a null is None"):
            made("null")


def test_what_cannot_be_asked(store: Store, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        store.backfill("stores", {"day": "2022-03-31"})
    with pytest.raises(InvalidArgumentError):
        store.run(as_of="yesterday")
    with pytest.raises(InvalidArgumentError):
        store.run(as_of="2022-03-31", dry_run="no")  # type: ignore[arg-type]
    with pytest.raises(NotFoundError):
        store.refresh("stores")
    with pytest.raises(NotFoundError):
        store.key_mappings("stores")
    with pytest.raises(DefinitionError):
        shop().partitioned("x", "SELECT day FROM sales", partition="day = 1")


@pytest.mark.parametrize("seed", chosen(range(12), 0))
def test_what_is_clean_equals_a_run_from_scratch(seed: int, tmp_path: Path) -> None:
    """After any series of changes, dates, limits, failures and backfills, a run makes all as new.

    So it does after rollbacks and other definitions. Before it, what is not dirty has the rows that
    a run from scratch gives it.
    """
    chance, last, plus = random.Random(seed), FIRST, 1
    with Store(None, tmp_path / "shop", shop()) as store:
        store.update({"sales": [row("29")]})
        store.run(as_of=last)
    for _ in range(7):
        with Store(None, tmp_path / "shop", shop(plus=plus)) as store:
            day, kind = last - timedelta(days=chance.randrange(3)), chance.random()
            change: dict[str, Any] = {
                "day": day.isoformat(),
                "store": chance.choice(["Detroit", "Paris"]),
                "n": chance.choice([0, 1, 2, 2, 3]),
                "sold": chance.randrange(6),
                "_change_type": chance.choice(["upsert", "upsert", "delete"]),
            }
            if kind < 0.45:
                store.update({"sales": [change]})
            elif kind < 0.6:
                last += timedelta(days=1)
            elif kind < 0.7:
                done = attempt(store, change, last)
                assert not done or set(done) <= states(store, last).keys()
            elif kind < 0.8:
                backfilled(store, day)
            elif kind < 0.9:
                store.rollback(chance.randrange(1, store.head.number + 1))
            else:
                plus = 3 - plus
            ran(store, last, chance.choice([None, 1, 3]))
    with Store(None, tmp_path / "shop", shop(plus=plus)) as store:
        zeros = [one for one in dp_rows(store.content("sales")) if one["n"] == 0]
        if zeros:
            store.update({"sales": [{**one, "_change_type": "delete"} for one in zeros]})
        due = {name for name, state in states(store, last).items() if state != "present"}
        run = store.run(as_of=last)
        assert due <= set(map(str, run.done))
        assert set(states(store, last).values()) == {"present"}
        assert store.run(as_of=last) == dp.Run()
        with Store(None, tmp_path / "scratch", shop(plus=plus)) as scratch:
            scratch.load({"sales": store.content("sales").drop_columns(["_ordinal"])})
            scratch.run(as_of=last)
            wanted = sorted({task.partition["day"] for task in scratch.tasks(as_of=last)})
            assert of_days(store, "stores", wanted) == of_days(scratch, "stores", wanted)
            # of the first day, the store has the day before, which no task of now asks for
            assert of_days(store, "recent", wanted[1:]) == of_days(scratch, "recent", wanted[1:])
        assert not store.verify()


def of_days(store: Store, stage: str, days: list[str]) -> list[str]:
    return sorted(repr(one) for one in dp_rows(store.content(stage)) if one["day"] in days)


def attempt(store: Store, change: dict[str, Any], as_of: date) -> tuple[str, ...]:
    try:
        return store.update({"sales": [change]}, as_of=as_of.isoformat()).tasks
    except ProducerError:
        return ()


def backfilled(store: Store, day: date) -> None:
    try:
        store.backfill("stores", {"day": day.isoformat()})
    except (InvalidArgumentError, TasksFailedError):
        return


def ran(store: Store, as_of: date, max_tasks: int | None) -> None:
    before = states(store, as_of)
    try:
        run = store.run(as_of=as_of, max_tasks=max_tasks)
    except TasksFailedError as error:
        run = error.run  # type: ignore[assignment]
    assert isinstance(run, dp.Run)
    assert len(run.done) == len(set(run.done))
    for of in run.done:  # no task without a reason
        assert before[str(of)] != "present" or str(of).startswith("recent")


def priced(query: str) -> Pipeline:
    """Tasks of days, each over two days of sales, and prices."""
    pipeline = Pipeline("shop")
    pipeline.source("sales", key="day string, id int", value="item string, n int", partition="day")
    pipeline.source("prices", key="item string", value="price int")
    pipeline.partitioned(
        "totals",
        query,
        key="item",
        partition="day = d",
        scopes="FOR t IN timeseries('1 day', 2), LET d = date_format(t, 'yyyy-MM-dd'), "
        'LET note = "Ann\'s"',
    )
    return pipeline


def test_a_task_joins_and_groups_the_partitions_that_it_reads(tmp_path: Path) -> None:
    """A name of the scope is a value of its type, whatever characters are in it."""
    text = """
        WITH priced AS (SELECT s.day, s.item, s.n * p.price AS cost
            FROM sales s JOIN prices p ON p.item = s.item
            WHERE s.day BETWEEN date_sub(d, 1) AND d)
        SELECT item, sum(cost) AS total, note AS note, max(day) = d AS is_new FROM priced
        GROUP BY item HAVING count(*) > 1 OR EXISTS (SELECT 1 FROM prices q WHERE q.price > 6)"""
    sales = [
        {"day": f"2022-03-{day}", "id": n, "item": item, "n": n}
        for day, item, n in ((29, "tea", 1), (30, "tea", 2), (31, "tea", 4), (31, "jam", 8))
    ]
    with Store(None, tmp_path / "shop", priced(text)) as store:
        store.update({"sales": sales, "prices": [{"item": "tea", "price": 3}]})
        assert len(store.run(as_of="2022-03-31").done) == 2
        assert totals(store) == [("2022-03-30", "tea", 9, True), ("2022-03-31", "tea", 18, True)]
        store.update({"prices": [{"item": "jam", "price": 7}]})
        assert len(store.run(as_of="2022-03-31").done) == 2
        assert totals(store)[1:] == [
            ("2022-03-31", "jam", 56, True),
            ("2022-03-31", "tea", 18, True),
        ]
        assert {each["note"] for each in dp_rows(store.content("totals"))} == {"Ann's"}


def totals(store: Store) -> list[tuple[Any, ...]]:
    found = dp_rows(store.content("totals"))
    return sorted((each["day"], each["item"], each["total"], each["is_new"]) for each in found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT item, item ILIKE 't%' AS t FROM sales WHERE day = d", "ILIKE 't%'"),
        ("SELECT item, max(n) AS m FROM sales WHERE day = d GROUP BY item ORDER BY max(n) LIMIT 1 "
         "OFFSET n", "needs a whole number"),
    ],
)  # fmt: skip
def test_a_task_that_only_spark_computes_is_told_by_its_expression(
    text: str, said: str, tmp_path: Path
) -> None:
    with Store(None, tmp_path / "shop", priced(text)) as store:
        sold = {"day": "2022-03-31", "id": 1, "item": "tea", "n": 1}
        store.update({"sales": [sold], "prices": []})
        with pytest.raises(SessionError) as caught:
            store.run(as_of="2022-03-31")
    assert said in str(caught.value)
    assert caught.value.stage == "totals"


def test_a_function_makes_the_rows_of_a_partition(tmp_path: Path) -> None:
    """It gets what its query reads, and the task; what it gives must have the declared columns."""
    pipeline, seen = shop(), list[tuple[str, int]]()

    def define(wrong: str = "sold") -> Pipeline:
        mine = shop()

        @mine.foreign(
            reads="SELECT n, sold FROM stores WHERE stores.day = d",
            schema="sold bigint, day_text string",
            partition="day = d",
            scopes=DAYS,
            revision=wrong,
        )
        def totals(rows: pa.Table, task: dp.Task) -> pa.Table:
            seen.append((str(task), len(rows)))
            total = sum(rows.column("sold").to_pylist())
            return pa.table({wrong: [total], "day_text": [str(task.scope["d"])]})

        return mine

    del pipeline
    with Store(None, tmp_path / "shop", define()) as store:
        store.update({"sales": [row("31"), row("31", "Detroit")]})
        store.run(as_of="2022-03-31")
        assert ("totals/day=2022-03-31", 2) in seen
        found = [one for one in dp_rows(store.content("totals")) if one["day"] == "2022-03-31"]
        assert [(one["sold"], one["day_text"]) for one in found] == [(8, "2022-03-31")]
    with Store(None, tmp_path / "shop", define("nope")) as store:
        with pytest.raises(TasksFailedError) as caught:
            store.run(as_of="2022-03-31")
        assert isinstance(caught.value.run, dp.Run)
        assert len(caught.value.run.failed) == 3
        assert dp_rows(store.content("totals"))[0]["sold"] == 0


def test_partitions_of_several_columns_are_named_by_dicts(tmp_path: Path) -> None:
    """A value alone names a partition of one column."""
    pipeline = dp.Pipeline("p")
    pipeline.source("raw", key="day date, store string", value="n bigint", partition="day, store")
    pipeline.source("days", key="day date", value="n bigint", partition="day")
    for source in ("raw", "days"):
        pipeline.partitioned(
            f"of_{source}",
            f"SELECT day AS of_day, n FROM {source} WHERE day = d",
            key="of_day",
            partition="due = d",
            scopes="FOR t IN timeseries('1 day', 1), LET d = to_date(t)",
        )
    with dp.Store(None, str(tmp_path / "lake"), pipeline) as store:
        for wrong in (["2022-03-30"], "2022-03-30", {"day": ["2022-03-30"]}):
            with pytest.raises(dp.InvalidArgumentError, match="by day, store: give a list"):
                store.update({}, partitions={"raw": wrong})
        with pytest.raises(dp.InvalidArgumentError, match="types"):
            store.update({}, partitions={"days": [3]})
        named = {"raw": [{"day": "2022-03-30", "store": "Paris"}], "days": ["2022-03-30"]}
        assert store.update({}, partitions=named).number == 1


def test_a_partition_that_is_named_is_there_without_rows_and_stays(tmp_path: Path) -> None:
    """A source's partition is there once it was named or had rows, whatever becomes of them."""
    with Store(None, tmp_path / "shop", shop(scopes=True)) as store:
        store.update({"sales": [row("31")]})
        paris, detroit = (
            {"day": "2022-03-31", "store": "Paris"},
            "stores/day=2022-03-31/store=Detroit",
        )
        assert detroit in map(str, store.run(as_of="2022-03-31").blocked)
        assert not store.plan(partitions={"sales": [paris]})  # it names what an update may name
        assert store.update(partitions={"sales": []}).number == store.head.number
        version = store.update(partitions={"sales": [{**paris, "store": "Detroit"}]})
        assert detroit in map(str, store.run(as_of="2022-03-31").done)
        assert store.update(partitions={"sales": [paris]}).number == store.head.number
        assert version.number < store.head.number
        with pytest.raises(NotFoundError):
            store.lineage("stores", ("2022-03-31", "Paris", 1))
        store.update({"sales": [{**row("31"), "_change_type": "delete"}]})
        run = store.run(as_of="2022-03-31")
        assert "stores/day=2022-03-31/store=Paris" in map(str, run.done)
        for wrong in ({"day": "2022-03-31"}, {"day": 1, "store": "Paris"}):
            with pytest.raises(InvalidArgumentError):
                store.update(partitions={"sales": [wrong]})
        assert not store.verify()


@pytest.mark.parametrize(
    ("operation", "step"),
    [
        ("run", 19),
        *(pytest.param(name, 1, marks=pytest.mark.long) for name in ("run", "backfill", "update")),
    ],
)
def test_after_a_crash_before_any_effect_the_next_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str, step: int
) -> None:
    """Whatever there is, is one whole version, and a run then makes what one from scratch makes."""
    monkeypatch.setattr("deltaproduce.operations.publisher._WRITERS", 1)
    wanted = dict[str, list[str]]()
    for point in count(0, step):
        with Store(None, tmp_path / f"{point}", shop()) as store:
            store.update({"sales": [row("31"), row("30", "Detroit")]})
            if operation != "run":
                store.run(as_of="2022-03-31")
            head = store.head.number
        store = Store(None, tmp_path / f"{point}", shop())
        with failpoints.armed(CrashAt(point, fail)), suppress(CrashError):
            if operation == "run":
                store.run(as_of="2022-03-31")
            elif operation == "backfill":
                store.backfill("stores", {"day": "2022-03-31"})
            else:
                store.update({"sales": [row("31", sold=7)]}, as_of="2022-03-31")
        with Store(None, tmp_path / f"{point}", shop()) as again:
            published = again.head.number == head + 1
            assert published or again.head.number == head
            if operation == "update":
                again.update({"sales": [row("31", sold=7)]}, as_of="2022-03-31")
            again.run(as_of="2022-03-31")
            assert set(states(again, "2022-03-31").values()) == {"present"}
            assert not again.verify()
            found = {stage: contents(again, stage) for stage in ("stores", "recent")}
            assert wanted in ({}, found)
            wanted = found
        if published:  # there was no effect of that number
            break
    assert point > 3


def test_two_runs_at_once_publish_no_task_twice(tmp_path: Path) -> None:
    with Store(None, tmp_path / "shop", shop()) as store:
        store.update({"sales": [row(day, name) for day in ("29", "31") for name in ("Paris", "x")]})

    def ran_by_one(_: int) -> dp.Run:
        with Store(None, tmp_path / "shop", shop()) as mine:
            return mine.run(as_of="2022-03-31")

    with ThreadPoolExecutor(2) as threads:
        runs = list(threads.map(ran_by_one, range(2)))
    done = [of for run in runs for of in run.done]
    assert len(done) == len(set(done)) == 9


def sold(day: date, sold: int = 4, n: int = 1) -> dict[str, Any]:
    return {"day": day, "n": n, "sold": sold}


@cache
def origin() -> Path:
    """A store with ten days and their tasks, to be copied."""
    place = Path(mkdtemp()) / "origin"
    atexit.register(shutil.rmtree, place.parent, ignore_errors=True)
    with Store(None, place, days_shop()) as store:
        store.update({"sales": [sold(day) for day in TEN]})
        store.run(as_of=TEN[-1])
    return place


def loaded(location: Path) -> Store:
    shutil.copytree(origin(), location)
    return Store(None, location, days_shop())


WHERE: dict[str, tuple[Any, list[int]]] = {
    "a value": ({"day": "2022-03-24"}, [24]),
    "values": ({"day": [date(2022, 3, 24), "2022-03-26"]}, [24, 26]),
    "a range": ({"day": ("2022-03-24", date(2022, 3, 26))}, [24, 25, 26]),
    "from": ({"day": (date(2022, 3, 30), None)}, [30, 31]),
    "until": ({"day": (None, "2022-03-23")}, [22, 23]),
    "a condition": ("day BETWEEN '2022-03-24' AND '2022-03-26' AND day <> '2022-03-25'", [24, 26]),
    "in": ("`DAY` IN (DATE'2022-03-24', DATE'2022-03-31') OR day IS NULL", [24, 31]),
    "a function": ("dayofmonth(day) % 10 = 5", [25]),
}


@pytest.mark.parametrize("case", WHERE)
def test_what_a_backfill_marks(case: str, tmp_path: Path) -> None:
    where, days = WHERE[case]
    with loaded(tmp_path / "shop") as store:
        found = store.backfill("days", where, "none", dry_run=True)
        assert sorted(task.partition["day"].day for task in found) == days


@pytest.mark.parametrize(
    "where",
    [
        *({"day": ("2022-03-24",)}, {"day": ("x", None)}, {"n": 1}, {"day": (1, 2)}, None, 3),
        *("n = 1", "day = ", "day", "rand() < 1", "", "day = (SELECT 1)", "day > '2023-01-01'"),
    ],
)
def test_what_no_backfill_marks(where: Any, tmp_path: Path) -> None:
    with loaded(tmp_path / "shop") as store:
        head = store.head.number
        with pytest.raises(InvalidArgumentError) as caught:
            store.backfill("days", where)
        assert caught.value.argument == "where"
        assert store.head.number == head


@pytest.mark.parametrize("downstream", ["all", "none", ["pairs"]])
def test_a_backfill_of_many_tasks_is_several_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, downstream: Any
) -> None:
    """Each task is made once, feeders first, and what is not marked stays clean in each of them."""
    with loaded(tmp_path / "shop") as store:
        store.update({"sales": [sold(day, 9) for day in TEN]})
        monkeypatch.setattr("deltaproduce.operations.verbs.tasks.PER_VERSION", 4)
        head, others = store.head.number, {"none": {"pairs", "more"}, "all": set()}
        untouched = {"more"} if isinstance(downstream, list) else others[downstream]
        found = store.backfill("days", "true", downstream)
        versions = [version for version in store.versions() if version.number > head]
        assert [len(version.tasks) for version in versions[:-1]] == [4] * (len(versions) - 1)
        assert [name for version in versions for name in version.tasks] == list(found.tasks)
        assert {version.operation for version in versions} == {"backfill"}
        assert found.number == store.head.number
        assert set(states(store, TEN[-1]).values()) == {"present"}
        assert all(
            not version.stages[name].changed_keys for version in versions for name in untouched
        )
        assert store.run(as_of=TEN[-1]) == dp.Run()
        assert not store.verify()


def test_a_backfill_goes_on_after_a_failure_which_stays_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what needs the failed task, too; the next run makes these, and what reads them stays."""
    with loaded(tmp_path / "shop") as store:
        store.update({"sales": [sold(day, 9, n=int(day.day != 25)) for day in TEN]})
        monkeypatch.setattr("deltaproduce.operations.verbs.tasks.PER_VERSION", 4)
        head = store.head.number
        with pytest.raises(ProducerError):
            store.backfill("days", "true", ["pairs"], atomic=True)
        assert store.head.number == head
        with pytest.raises(TasksFailedError) as caught:
            store.backfill("days", "true", ["pairs"])
        run = caught.value.run
        assert isinstance(run, dp.Run)
        assert list(map(str, run.failed)) == ["days/day=2022-03-25"]
        assert sorted(map(str, run.blocked)) == ["pairs/day=2022-03-25", "pairs/day=2022-03-26"]
        assert len(run.done) == 17
        marked = {"days/day=2022-03-25", "pairs/day=2022-03-25", "pairs/day=2022-03-26"}
        assert {
            name for name, state in states(store, TEN[-1]).items() if state == "dirty"
        } == marked
        gone = {**sold(date(2022, 3, 25), n=0), "_change_type": "delete"}
        store.update({"sales": [gone]})
    with Store(None, tmp_path / "shop", days_shop()) as store:
        assert set(map(str, store.run(as_of=TEN[-1]).done)) == marked
        assert set(states(store, TEN[-1]).values()) == {"present"}  # `more` is not made again
        assert {row["more"] for row in dp_rows(store.content("more"))} == {5}
        assert not store.verify()


class CrashBefore:
    """Crashes before the effect of a number, in whichever version that is."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, when: str, effect: str, table: str) -> None:
        del effect, table
        self.left -= when == "before"
        if self.left < 0:
            fail()


@pytest.mark.parametrize("downstream", chosen(["none", "all"], "all"))
@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.long), 25])
def test_after_a_crash_a_run_goes_on_with_a_backfill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, downstream: str, step: int
) -> None:
    """With what it had marked and not made, once each; and what it had not marked stays clean."""
    monkeypatch.setattr("deltaproduce.operations.publisher._WRITERS", 1)
    monkeypatch.setattr("deltaproduce.operations.verbs.tasks.PER_VERSION", 4)
    loaded(tmp_path / "first").close()
    size = 6 if downstream == "none" else 6 + 7 + 7
    for point in count(0, step):
        location = tmp_path / f"{point}"
        shutil.copytree(tmp_path / "first", location)
        with Store(None, location, days_shop()) as store:
            store.update({"sales": [sold(day, 9) for day in TEN[2:8]]})
            head = store.head.number
        store, finished = Store(None, location, days_shop()), False
        with failpoints.armed(CrashBefore(point)), suppress(CrashError):
            store.backfill("days", AGAIN, downstream)
            finished = True
        with Store(None, location, days_shop()) as again:
            begun = again.head.number > head
            if begun:
                again.run(as_of=TEN[-1])
                made = [n for v in again.versions() if v.number > head for n in v.tasks]
                assert len(made) == len(set(made)) == size
                assert set(states(again, TEN[-1]).values()) == {"present"}
            assert not again.verify()
        shutil.rmtree(location)
        if begun and finished:
            break
    assert point > 3


@long
def test_a_backfill_that_was_killed_at_any_moment_is_resumed(tmp_path: Path) -> None:
    """Each marked task is made once, as in a backfill that nobody killed, however it was cut."""
    chance, kills = random.Random(1), 12
    with loaded(tmp_path / "first") as store:
        store.update({"sales": [sold(day, 9) for day in TEN[2:8]]})
        head = store.head.number
    process, cut = started("task_runs", "backfilled"), 0
    assert process.stdin is not None
    assert process.stdout is not None

    def killed_after(location: Path, seconds: float) -> tuple[bool, float]:
        shutil.copytree(tmp_path / "first", location)
        process.stdin.write(f"{json.dumps([str(location), seconds])}\n")
        process.stdin.flush()
        was_killed, lasted = json.loads(process.stdout.readline())
        return was_killed, lasted

    try:
        _, most = killed_after(tmp_path / "whole", 600)
        with Store(None, tmp_path / "whole", days_shop()) as store:
            wanted = {stage: contents(store, stage) for stage in ("days", "pairs", "more")}
        for number in range(kills):
            location = tmp_path / f"{number}"
            was_killed, _ = killed_after(location, most * (number + chance.random()) / kills)
            with Store(None, location, days_shop()) as again:
                begun = again.head.number > head
                cut += was_killed and begun and again.run(as_of=TEN[-1], dry_run=True).done != ()
                again.run(as_of=TEN[-1])
                made = [n for v in again.versions() if v.number > head for n in v.tasks]
                assert len(made) == len(set(made)) == 20
                assert {stage: contents(again, stage) for stage in wanted} == wanted
                assert set(states(again, TEN[-1]).values()) == {"present"}
                assert not again.verify()
            shutil.rmtree(location)
    finally:
        process.communicate()
    assert cut > 0


def test_a_backfill_that_is_rehearsed_says_what_it_is_and_writes_nothing(store: Store) -> None:
    store.update({"sales": [row("31"), row("30", n=2), row("30", n=3)]})
    store.run(as_of="2022-03-31")
    head = store.head.number
    found = store.backfill("stores", {"day": "2022-03-30"}, dry_run=True)
    assert found.tasks == (
        "stores/day=2022-03-30/store=Detroit",
        "stores/day=2022-03-30/store=Paris",
        "recent/day=2022-03-31",
        "recent/day=2022-03-30",
    )
    assert [(one.stage, one.tasks, one.rows) for one in found.sizes] == [
        ("stores", 2, 2),
        ("recent", 2, 5),
    ]
    assert all(one.bytes for one in found.sizes)
    assert found.number is None
    assert store.head.number == head
    made = store.backfill("stores", {"day": "2022-03-30"})
    assert [str(task) for task in made] == list(found.tasks) == list(store.head.tasks)
    assert made.number == store.head.number == head + 1


def test_a_run_that_is_rehearsed_tells_what_the_run_then_makes(store: Store) -> None:
    """Also of a date in the future, and of a limit."""
    store.update({"sales": [row("31"), row("30")]})
    for as_of, most in (("2022-03-31", 4), ("2022-03-31", None), ("2022-04-02", None)):
        head = store.head.number
        foreseen = store.run(as_of=as_of, max_tasks=most, dry_run=True)
        assert store.head.number == head
        assert store.run(as_of=as_of, max_tasks=most) == foreseen
    store.update({"sales": [row("31", sold=9)]})
    foreseen = store.run(as_of="2022-03-31", dry_run=True)
    assert set(foreseen.done) <= set(store.run(as_of="2022-03-31").done)


def test_tasks_that_wait_are_rehearsed_as_such(tmp_path: Path) -> None:
    with Store(None, tmp_path / "shop", shop(scopes=True, retention="tasks")) as store:
        store.update({"sales": [row("31"), row("31", "Detroit"), row("30"), row("30", "Detroit")]})
        for as_of in ("2022-03-31", "2022-04-02"):
            foreseen = store.run(as_of=as_of, dry_run=True)
            assert foreseen.blocked
            assert store.run(as_of=as_of) == foreseen
        assert foreseen.dropped


def test_a_refresh_makes_all_tasks_of_a_stage_and_what_needs_them(store: Store) -> None:
    with pytest.raises(NotFoundError):
        store.refresh("stores")
    store.update({"sales": [row("31"), row("30")]})
    store.run(as_of="2022-03-31")
    store.run(as_of="2022-04-01")
    version = store.refresh("stores")
    assert version.tasks
    assert set(version.tasks) == {str(task) for task in store.tasks(as_of="2022-03-31")} | {
        str(task) for task in store.tasks(as_of="2022-04-01")
    }
    assert set(store.refresh("recent").tasks) == {n for n in version.tasks if n[0] == "r"}
    assert set(store.refresh().tasks) == set(version.tasks)
    assert not store.verify()


def test_hidden_stages_are_told_of_nowhere(tmp_path: Path) -> None:
    told = list[dp.Progress]()
    with Store(None, tmp_path / "shop", shop(), progress=told.append) as store:
        store.update({"sales": [row("31")]})
        store.run(as_of="2022-03-31")
        store.update({"sales": [row("31", sold=9)]}, as_of="2022-03-31")
        store.refresh()
        seen = [store.plan(["sales"]), *store.versions(), store.head, *store.tasks(), store]
    assert {one.stage for one in told} == {"", "commit", "sales", "stores", "recent"}
    begun = [one for one in told if one.event == "begins" and not one.phase]
    assert all(one.done < one.total <= 3 for one in begun if one.stage != "commit")
    assert not [one for one in seen if "_tasks_" in f"{one} {one!r}"]


def test_digests_move_with_the_rows(tmp_path: Path) -> None:
    """After any changes they are those of all rows that there are."""
    chance = random.Random(5)
    with Store(None, tmp_path / "shop", shop()) as store:
        graph = store._opened.graph
        keeper, sales = graph.stage("_tasks_2_sales"), graph.stage("sales")
        for _ in range(8):
            changes = [
                {
                    **row(day, name, n, chance.randrange(9)),
                    "_change_type": chance.choice(["upsert", "upsert", "delete"]),
                }
                for day in ("29", "30", "31")
                for name in ("Paris", "Detroit")
                for n in range(3)
                if chance.random() < 0.3
            ]
            store.update({"sales": changes})
            head = store._opened.log.head()
            found, rows = (store._opened.reader.content(head, one) for one in (keeper, sales))
            if found is None or rows is None:
                assert found is rows is None
                continue
            wanted = digests(rows.rows(), sales, store._opened.engines)
            kept = found.rows().select(wanted.column_names)
            assert sorted(map(repr, dp_rows(kept))) == sorted(map(repr, dp_rows(wanted)))
        assert not store.verify()


def test_a_feeder_without_partitions_dirties_all_that_read_it(tmp_path: Path) -> None:
    """It is one partition; what is made again equal of it dirties nobody."""
    pipeline = Pipeline("shop")
    pipeline.source("prices", key="n bigint", value="price bigint, version string")
    pipeline.partitioned(
        "cheap",
        "SELECT n, price FROM prices WHERE price < 5",
        key="n",
        partition="version = d, rows = d",
        scopes=DAYS,
    )
    with Store(None, tmp_path / "shop", pipeline) as store:
        store.update({"prices": [{"n": 1, "price": 3, "version": "a"}]})
        assert len(store.run(as_of="2022-03-31").done) == 3
        assert store.run(as_of="2022-03-31") == dp.Run()
        (task, *_) = store.tasks(as_of="2022-03-31")
        assert [str(one) for one in task.dependencies] == ["prices"]
        store.update({"prices": [{"n": 2, "price": 9, "version": "b"}]})
        assert set(states(store, "2022-03-31").values()) == {"dirty"}
        store.update({"prices": [{"n": 2, "_change_type": "delete", "price": 0, "version": ""}]})
        assert set(states(store, "2022-03-31").values()) == {"present"}


_TABLES = [
    f"{stage}/{kind}"
    for stage in ("stores", "recent", "_tasks_1_stores", "_tasks_1_recent", "_tasks_2_sales")
    for kind in ("content", "updates", "runs")
]


@pytest.mark.parametrize("seed", chosen(range(30), 0))
def test_what_is_damaged_is_repaired_and_then_run(seed: int, tmp_path: Path) -> None:
    """After any losses a repair leaves nothing wrong, and a run makes all as if nothing had been.

    What the stage's own updates have is there again with the repair itself.
    """
    chance = random.Random(seed)
    limits = chance.choice([dp.Limits(), dp.Limits(small_table_rows=0, replaced_percent=900)])
    place, as_of = tmp_path / "shop", "2022-03-31"
    with Store(None, place, shop(), limits=limits) as store:
        for number in range(3):
            days = chance.sample(["28", "29", "30", "31"], 2)
            store.update({"sales": [row(day, n=number + 1, sold=number * 7) for day in days]})
            store.run(as_of=as_of)
        wanted = {stage: contents(store, stage) for stage in ("stores", "recent")}
    harmed = chance.sample([one for one in _TABLES if (place / one).exists()], chance.randint(1, 4))
    for table in harmed:
        LOSSES[chance.choice(["drop", "removed files", "truncated files"])](place / table)
    with Store(None, place, shop(), limits=limits) as store:
        store.repair()
        assert store.verify() == ()
        for stage, rows in wanted.items():
            if not {f"{stage}/updates", f"_tasks_1_{stage}/updates"} & {*harmed}:
                assert contents(store, stage) == rows
        store.run(as_of=as_of)
        assert {stage: contents(store, stage) for stage in wanted} == wanted
        assert set(states(store, as_of).values()) == {"present"}
        assert store.run(as_of=as_of) == dp.Run()
        store.update({"sales": [row("31", n=2, sold=9)]}, as_of=as_of)
        assert set(states(store, as_of).values()) == {"present"}
        assert store.verify() == ()


@pytest.mark.parametrize("harm", ["lost", "wrong", "without records"])
def test_a_stage_that_only_tasks_can_make_again_is_empty_until_a_run(
    store: Store, tmp_path: Path, harm: str
) -> None:
    """Its rows and updates are lost, or differ; or nobody knows what it was made of."""
    store.update({"sales": [row("31"), row("30", n=2)]})
    store.run(as_of="2022-03-31")
    wanted = {stage: contents(store, stage) for stage in ("stores", "recent")}
    if harm == "wrong":
        planted(store, {"content": doubled}, "stores")
    for kind in ("content", "updates"):
        if harm != "wrong":
            drop(tmp_path / "shop" / ("stores" if harm == "lost" else "_tasks_1_stores") / kind)
    with Store(None, tmp_path / "shop", shop()) as again:
        again.repair()
        assert not again.verify()
        assert not contents(again, "stores")
        assert contents(again, "recent") == wanted["recent"]
        found = states(again, "2022-03-31").items()
        assert {state for name, state in found if name.startswith("stores/")} == {"missing"}
        run = again.run(as_of="2022-03-31")
        assert {str(of).split("/")[0] for of in run.done} == {"stores"}  # equal rows dirty nobody
        assert {stage: contents(again, stage) for stage in wanted} == wanted
        assert not again.verify()


def doubled(rows: pa.Table) -> pa.Table:
    sold = pa.array([2 * one + 1 for one in rows.column("sold").to_pylist()])
    return rows.set_column(rows.column_names.index("sold"), "sold", sold)


@long
def test_two_processes_at_once_publish_no_task_twice(tmp_path: Path) -> None:
    """Each makes what the other has not made, in versions of two tasks. Threads do so above."""
    place = tmp_path / "shop"
    with Store(None, place, shop()) as store:
        store.update({"sales": [row("31"), row("30", "Detroit")]})
    runs = [started("task_runs", "at-once", place) for _ in range(2)]
    lines = [str(run.stdout.readline()).strip() for run in runs if run.stdout]
    assert lines == ["ready", "ready"]
    for run in runs:
        assert run.stdin
        run.stdin.write("go\n")
        run.stdin.flush()
    done = [name for run in runs for name in json.loads(run.communicate(timeout=300)[0])]
    assert len(done) == len(set(done)) == 9
    made_once(place)


@pytest.mark.parametrize("which", ["some", pytest.param("all", marks=pytest.mark.long)])
def test_a_run_that_is_killed_goes_on_and_makes_no_task_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """Between two versions, or at any other fail point of the five that it makes."""
    monkeypatch.setattr("deltaproduce.operations.verbs.tasks.PER_VERSION", 2)
    with Store(None, tmp_path / "new", shop()) as store:
        store.update({"sales": [row("31"), row("30", "Detroit")]})
    shutil.copytree(tmp_path / "new", tmp_path / "whole")
    points = list[tuple[str, str]]()
    with Store(None, tmp_path / "whole", shop()) as store:
        with failpoints.armed(lambda when, effect, _: points.append((when, effect))):
            store.run(as_of=AS_OF)
        wanted = {stage: contents(store, stage) for stage in ("stores", "recent")}
    published = [number for number, point in enumerate(points) if point == ("after", "publish")]
    assert len(published) == 5
    stops = range(len(points)) if which == "all" else [published[0], published[2], published[3] - 1]
    for stop in stops:
        shutil.copytree(tmp_path / "new", tmp_path / f"{stop}")
    with started(
        "task_runs", "killed", *(f"{tmp_path / str(stop)}:{stop}" for stop in stops)
    ) as run:
        said, _ = run.communicate(timeout=300)
    assert said.split() == ["True"] * len(stops)
    for stop in stops:
        made = made_once(tmp_path / f"{stop}", wanted)
        assert made == 1 + sum(number <= stop for number in published)


def made_once(place: Path, wanted: Mapping[str, list[str]] | None = None) -> int:
    """A store in which a run that ends makes each task that none has made, and no other.

    Returns:
        How many versions there were before.
    """
    with Store(None, place, shop()) as store:
        head = store.head.number
        assert not store.verify()
        store.run(as_of=AS_OF)
        made = [task for version in store.versions() for task in version.tasks]
        assert len(made) == len(set(made)) == 9
        assert set(states(store, AS_OF).values()) == {"present"}
        assert wanted in (None, {stage: contents(store, stage) for stage in wanted or ()})
        assert not store.verify()
        return head
