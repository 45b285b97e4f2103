"""Plans of views: the tables that they keep, and the rows that follow through them."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from delta_feeders import UTC, bag, next_rows, outcome
from followed_plans import InOrder, check, kept_rows, plan_of
from random_queries import Queries
from view_queries import STAGES, contents, tables

from deltaproduce.stages.sql.operators.changes.signed import changed
from deltaproduce.stages.sql.operators.computing import QueryError
from deltaproduce.stages.sql.operators.evaluation import rows_of
from deltaproduce.stages.sql.operators.following import Following
from deltaproduce.stages.sql.resolve import resolved
from deltaproduce.stages.views.keys import key_of
from deltaproduce.stages.views.plan.planning import planned
from deltaproduce.types.columns import row_schema


@pytest.mark.parametrize("part", range(2))
def test_random_queries_follow_through_their_tables(part: int, long_run: bool) -> None:
    """All stages change at once; nulls, duplicates, empty stages, ties at the end of a limit."""
    moved = kept = 0
    for seed in range(2500 if long_run else 40):
        random = Random(f"plan-{part}-{seed}")
        query = resolved(Queries(random, depth=1 + seed % 2).query(), STAGES)
        plan = plan_of(query)
        kept += len(plan.tables)
        rows = tables(contents(random))
        for _ in range(4):
            following = next_rows(random, rows, tables(contents(random)))
            try:
                moved += check(query, plan, rows, following)
            except QueryError:
                assert outcome(query, following) is None, query.text
                break
            rows = following
    assert moved > 10
    assert kept > 10


TABLES = {
    "SELECT a, n FROM (SELECT a % 2 AS a, count(*) AS n FROM t GROUP BY 1) g WHERE n > 1": (
        ["groups"]
    ),
    "SELECT k, a FROM t ORDER BY a DESC NULLS LAST, k LIMIT 2": ["ordered"],
    "SELECT k, a FROM t ORDER BY a LIMIT 3 OFFSET 1": ["ordered"],
    "SELECT k, s FROM t ORDER BY s OFFSET 2": ["ordered"],
    "SELECT k FROM t WHERE a > (SELECT avg(n) FROM u)": ["groups"],
    "SELECT k FROM t WHERE a > (SELECT sum(n) FROM u WHERE u.a = t.b)": ["groups"],
    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u)": ["groups"],
    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.n = t.a)": ["groups"],
    "SELECT k FROM t WHERE a NOT IN (SELECT n FROM u)": ["groups"],
    "SELECT t.k FROM t CROSS JOIN (SELECT count(*) AS c FROM u) v WHERE v.c > t.a": ["groups"],
    "SELECT g.c, t.k FROM (SELECT a, count(*) AS c FROM u GROUP BY a) g JOIN t ON t.a = g.c": (
        ["groups"]
    ),
    "SELECT v.k, t.a FROM (SELECT k, a + n AS x FROM u) v JOIN t ON t.a = v.x": ["rows"],
    "SELECT k FROM t WHERE s = 'x' AND b < (SELECT avg(b) FROM t r WHERE r.a = t.a)": (
        ["groups", "rows"]
    ),
    "SELECT k FROM t WHERE s > 'x' AND b < (SELECT avg(b) FROM t r WHERE r.a = t.a)": ["groups"],
    "SELECT k FROM t WHERE s = 'x' AND b < (SELECT avg(n) FROM u WHERE u.a = t.a)": ["groups"],
    "SELECT t.k FROM t JOIN u ON u.n = t.a WHERE u.a IN (1, 2) AND t.b > (SELECT avg(b) FROM t r "
    "WHERE r.a = u.n)": ["groups", "rows"],
    "SELECT t.k FROM t LEFT JOIN (SELECT n FROM u WHERE a = 1) u ON u.n = t.a WHERE t.b > (SELECT "
    "avg(b) FROM t r WHERE r.a = t.a)": ["groups"],
    "SELECT count(*) AS n FROM (SELECT a, count(*) AS c FROM t GROUP BY a HAVING count(*) > 1) v": (
        ["groups"]
    ),
    "SELECT x, count(*) AS n FROM (SELECT b, max(c) AS x FROM (SELECT a, b, count(*) AS c FROM t "
    "GROUP BY a, b) v GROUP BY b) w GROUP BY x": ["groups", "groups"],
    "SELECT k, a FROM t WHERE k IN (SELECT DISTINCT n FROM u) UNION SELECT k, n FROM u": (
        ["groups"]
    ),
    "SELECT a, b FROM t INTERSECT SELECT n, a FROM u": ["groups"],
    "SELECT a FROM t INTERSECT ALL SELECT n FROM u": ["groups"],
    "SELECT a, s FROM t EXCEPT SELECT n, 'x' FROM u WHERE a > 0": ["groups"],
    "SELECT a FROM t EXCEPT ALL SELECT n FROM u": ["groups"],
    "SELECT a, count(*) AS n FROM (SELECT a, b FROM t EXCEPT ALL SELECT a, n FROM u) v GROUP BY a "
    "HAVING count(*) > 1": ["groups"],
    "SELECT k, a FROM t EXCEPT SELECT k, n FROM u": [],
    "SELECT count(DISTINCT a) AS n FROM t": ["groups"],
    "SELECT b, sum(DISTINCT a) AS n, count(DISTINCT a) AS m FROM t GROUP BY b": ["groups"],
    "SELECT b % 2 AS b FROM t GROUP BY 1 HAVING count(DISTINCT a) > 1": ["groups", "groups"],
    "SELECT a % 2 AS a, max(b) AS m, min(s) AS s FROM t GROUP BY 1": [],
    "SELECT k, count(*) AS n FROM t GROUP BY k HAVING count(*) > 1": [],
    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k)": [],
    "SELECT s, count(*) AS n FROM t GROUP BY s": [],
    "SELECT b, sort_array(collect_list(DISTINCT a)) AS l FROM t GROUP BY b": [],
    "SELECT DISTINCT s FROM t": [],
}


@pytest.mark.parametrize("text", TABLES)
def test_only_what_is_not_found_by_keys_has_a_table(text: str, long_run: bool) -> None:
    query, random = resolved(text, STAGES), Random(text)
    plan = plan_of(query)
    assert not plan.reasons
    assert [table.role for table in plan.tables] == TABLES[text]
    assert sum(map(len, plan.kept_for.values())) == len(plan.tables)
    rows = tables(contents(random))
    for _ in range(200 if long_run else 15):
        following = next_rows(random, rows, tables(contents(random)))
        check(query, plan, rows, following)
        rows = following


def test_a_limit_reads_its_first_rows_and_as_many_as_go() -> None:
    query = resolved("SELECT k, a FROM t ORDER BY a LIMIT 2", STAGES)
    plan = plan_of(query)
    (table,) = plan.tables
    rows = [{"k": n, "a": n, "b": 0, "s": ""} for n in range(50)]
    old = tables({"t": rows, "u": []})
    new = {**old, "t": old["t"].slice(1)}
    sides = [kept_rows(table.kept, each) for each in (old, new)]
    feeder = InOrder(*sides, table=table)
    change = Following({table.name: feeder}, UTC).change(plan.kept.relation)
    assert sorted(change.counts) == [-1, 1]
    assert [count for _, count in feeder.asked] == [3]


FLOATS = {"f": row_schema("k bigint", "x double, d decimal(9,2), ts timestamp", stage="f")}


def test_the_order_of_a_limit_is_that_of_its_table() -> None:
    """Floats with NaN and both zeros, decimals and instants, up and down, nulls on either side."""
    names = ("x", "d", "ts", "k")
    random = Random(3)
    for _ in range(40):
        keys = random.sample(names, random.choice((1, 2, 3)))
        order = ", ".join(
            f"{name} {random.choice(('ASC', 'DESC'))} NULLS {random.choice(('FIRST', 'LAST'))}"
            for name in keys
        )
        text = f"SELECT x, d, ts, k FROM f ORDER BY {order} LIMIT 4 OFFSET {random.choice((0, 1))}"
        query = resolved(text, FLOATS)
        plan = planned(query, key_of(query, FLOATS), FLOATS, stage="v")
        sides = [random_floats(random) for _ in range(2)]
        (table,) = plan.tables
        kept = [kept_rows(table.kept, {"f": side}) for side in sides]
        feeder = InOrder(*kept, table=table)
        change = Following({table.name: feeder}, UTC).change(plan.kept.relation)
        before, after = (rows_of(query.relation, {"f": side}, UTC) for side in sides)
        assert bag(changed(before, change)) == bag(after), text


def random_floats(random: Random) -> pa.Table:
    import datetime as dt
    import decimal
    import math

    size = random.choice((0, 3, 9))
    floats = (None, 0.0, 1.5, -2.5, math.nan, math.inf)
    decimals = (None, decimal.Decimal("1.50"), decimal.Decimal("-3.25"))
    times = (None, dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(1950, 1, 1, tzinfo=dt.UTC))
    return pa.table(
        {
            "k": pa.array([random.choice((1, 2, None)) for _ in range(size)], pa.int64()),
            "x": pa.array([random.choice(floats) for _ in range(size)], pa.float64()),
            "d": pa.array([random.choice(decimals) for _ in range(size)], pa.decimal128(9, 2)),
            "ts": pa.array(
                [random.choice(times) for _ in range(size)], pa.timestamp("us", tz="UTC")
            ),
        }
    )
