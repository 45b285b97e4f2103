"""Views that name the date of a version, ``:as_of``: they follow it as they follow their stages."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from local_stores import as_rows
from selecting import chosen

from deltaproduce import DefinitionError, InvalidArgumentError, Pipeline, ProducerError, Store
from deltaproduce.testing import Change, Delete, Oracle, Upsert, plain_rows

FIRST = date(2023, 12, 29)
DATED = {
    "filter": "SELECT * FROM t WHERE day <= :as_of AND year(day) = year(:as_of)",
    "project": "SELECT k, n, day = :as_of AS is_now, n + year(:as_of) AS m FROM t",
    "inner": "SELECT t.k, u.k AS other FROM t JOIN u ON t.n = u.n AND t.day < u.day "
    "AND u.day <= :as_of",
    "left": "SELECT t.k, u.k AS other FROM t LEFT JOIN u ON t.n = u.n AND u.day > :as_of",
    "full": "SELECT t.k, u.k AS other FROM t FULL JOIN u ON t.n = u.n AND u.day <> :as_of",
    "groups": "SELECT n, sum(CASE WHEN day <= :as_of THEN k END) AS s, count(*) AS c FROM t "
    "GROUP BY n",
    "of_groups": "SELECT n, count(*) AS c, max(day) >= :as_of AS late FROM t GROUP BY n",
    "counted": "SELECT t.k, count(u.k) AS c, max(u.day) AS d FROM t LEFT JOIN u ON t.n = u.n AND "
    "u.day <= :as_of WHERE t.day > :as_of OR t.n = 1 GROUP BY t.k",
    "total": "SELECT count(*) AS c, sum(n) AS s FROM t WHERE day < :as_of",
    "having": "SELECT t.n, max(u.day) AS last FROM t JOIN u ON t.n = u.n GROUP BY t.n "
    "HAVING last <= :as_of",
    "hidden": "SELECT c, count(*) AS m FROM (SELECT t.n, count(*) AS c FROM t JOIN u ON t.n = u.n "
    "WHERE u.day <= :as_of GROUP BY t.n) GROUP BY c",
    "limit": "SELECT k, n FROM t WHERE day <= :as_of ORDER BY n DESC LIMIT 2",
    "exists": "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.n = t.n AND u.day = :as_of)",
    "among": "SELECT k FROM t WHERE n NOT IN (SELECT n FROM u WHERE day <= :as_of)",
    "scalar": "SELECT k, (SELECT max(k) FROM u WHERE day <= :as_of) AS m FROM t",
    "distinct": "SELECT DISTINCT n, day >= :as_of AS late FROM t",
    "except": "SELECT n FROM t WHERE day <= :as_of EXCEPT ALL SELECT n FROM u WHERE day > :as_of",
    "window": "SELECT k, n, sum(CASE WHEN day <= :as_of THEN 1 END) OVER (PARTITION BY n) AS s "
    "FROM t",
    "rollup": "SELECT n, day, count(*) AS c FROM t WHERE day <= :as_of GROUP BY n, ROLLUP (day)",
    "values": "SELECT t.k, v.d FROM t, VALUES (coalesce(year(:as_of), 0)) AS v(d)",
    "explode": "SELECT k, e FROM t LATERAL VIEW explode(array(n, year(:as_of))) x AS e",
    "of_a_view": "SELECT is_now, count(*) AS c FROM `project` GROUP BY is_now",
}


def dated() -> Pipeline:
    pipeline = Pipeline("dated")
    for name in ("t", "u"):
        pipeline.source(name, key="k bigint", value="n int, day date")
    for name, text in DATED.items():
        pipeline.sql(name, text, incremental="always")
    return pipeline


def some_date(random: Random) -> Any:
    day = FIRST + timedelta(days=random.randrange(6))
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    return random.choice((..., ..., None, day, day, day, noon, noon + timedelta(hours=1)))


def batch(random: Random) -> dict[str, list[Change]]:
    found = dict[str, list[Change]]()
    for name in ("t", "u"):
        if random.random() < 0.5:
            continue
        changes = list[Change]()
        for key in random.sample((None, 1, 2, 3, 4), random.choice((1, 2, 4))):
            if random.random() < 0.3:
                changes.append(Delete((key,)))
                continue
            for _ in range(random.choice((1, 1, 2))):
                day = random.choice((None, FIRST + timedelta(days=random.randrange(6))))
                changes.append(Upsert((key,), (random.choice((None, 0, 1)), day)))
        found[name] = changes
    return found


def rows_of(table: Any) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.parametrize("seed", chosen(range(8), 0))
def test_views_follow_the_date_of_a_version(tmp_path: Path, seed: int) -> None:
    """Rows and updates are those of the query over its stages, with the date that was named last.

    The date comes, moves in both directions, gets a time and ends, also in the step of a change.
    """
    random, pipeline = Random(seed), dated()
    oracle, store = Oracle(pipeline), Store(None, str(tmp_path / "store"), pipeline)
    with store:
        for _ in range(8):
            changes, as_of = batch(random), some_date(random)
            number = oracle.update(changes, as_of=as_of)
            assert store.update(as_rows(pipeline, changes), as_of=as_of).number == number
            for name in DATED if number else ():
                found = store.content(name, ordered=True)
                assert plain_rows(rows_of(found)) == oracle.content(name), name
                updates = store.updates(name, ordered=True)
                assert plain_rows(rows_of(updates)) == oracle.updates(name), name
        assert not store.verify()


def orders(query: str, **arguments: Any) -> Pipeline:
    pipeline = Pipeline("orders")
    pipeline.source("orders", key="id bigint", value="day date, n int")
    pipeline.sql("v", query, **arguments)
    return pipeline


ROWS = [{"id": n, "day": date(2024, 1, n), "n": n} for n in range(1, 9)]
RECENT = "SELECT id FROM orders WHERE day > :as_of - INTERVAL 3 DAYS AND day <= :as_of"


def test_a_version_without_another_date_costs_such_views_nothing(tmp_path: Path) -> None:
    with Store(None, str(tmp_path), orders(RECENT)) as store:
        store.update({"orders": ROWS}, as_of="2024-01-04")
        assert store.content("v").column("id").to_pylist() == [2, 3, 4]
        before = store.head.number
        assert store.update({}, as_of=date(2024, 1, 4)).number == before
        version = store.update({"orders": [{"id": 9, "day": date(2024, 2, 1), "n": 0}]})
        assert version.stages["v"].rows_added == 0
        assert version.as_of == date(2024, 1, 4)
        assert version.as_of_time is None


def test_a_plan_says_that_the_date_moves(tmp_path: Path) -> None:
    with Store(None, str(tmp_path), orders(RECENT)) as store:
        store.update({"orders": ROWS})
        (step,) = (one for one in store.plan({}, as_of="2024-01-05") if one.stage.name == "v")
        assert (step.how, step.reason) == ("incremental", "as_of is 2024-01-05")
        version = store.update({}, as_of="2024-01-05T06:00:00+02:00")
        assert version.as_of_time == datetime(2024, 1, 5, 4, tzinfo=UTC)
        assert version.stages["v"].mode != "full"
    with Store(None, str(tmp_path), orders(RECENT)) as store:
        assert store.head.as_of_time == datetime(2024, 1, 5, 4, tzinfo=UTC)
        assert store.content("v").column("id").to_pylist() == [3, 4, 5]
        version = store.update({}, as_of=None)
        assert store.content("v").num_rows == 0
        assert store.rollback(version.number - 1).as_of_time is not None
        assert store.content("v").column("id").to_pylist() == [3, 4, 5]
        assert not store.verify()


def test_what_runs_as_a_whole_follows_the_date(tmp_path: Path) -> None:
    with Store(None, str(tmp_path), orders(RECENT, incremental="never")) as store:
        store.update({"orders": ROWS}, as_of="2024-01-04")
        version = store.update({}, as_of="2024-01-05")
        assert version.stages["v"].mode == "full"
        assert store.content("v").column("id").to_pylist() == [3, 4, 5]


def test_a_date_with_a_time_is_refused_where_a_column_is_one_of_days(tmp_path: Path) -> None:
    with Store(None, str(tmp_path), orders("SELECT id, :as_of AS day FROM orders")) as store:
        store.update({"orders": ROWS}, as_of="2024-01-04")
        with pytest.raises(InvalidArgumentError) as caught:
            store.update({}, as_of="2024-01-04T12:00")
        assert caught.value.argument == "as_of"
        assert store.head.number == 1


def test_only_views_have_a_date() -> None:
    pipeline = orders("SELECT id, day FROM orders WHERE day = :as_of")
    assert pipeline.stages[-1].kind.word == "view"
    with pytest.raises(DefinitionError, match="as_of"):
        orders("SELECT id, :as_of FROM orders")
    with pytest.raises(DefinitionError, match="parameter"):
        orders("SELECT id, :other AS x FROM orders")


def test_an_expression_that_fails_for_the_new_date_changes_nothing(tmp_path: Path) -> None:
    text = "SELECT id, 10 DIV (n - day(:as_of)) AS x FROM orders"
    with Store(None, str(tmp_path), orders(text)) as store:
        store.update({"orders": ROWS}, as_of="2024-01-20")
        with pytest.raises(ProducerError) as caught:
            store.update({}, as_of="2024-01-04")
        assert caught.value.stage == "v"
        assert store.head.number == 1
        assert store.head.as_of == date(2024, 1, 20)
