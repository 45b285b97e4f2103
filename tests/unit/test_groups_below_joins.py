"""A GROUP BY over a left join: rows that no key finds are grouped before they are joined."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from random import Random

import pytest
from delta_feeders import UTC, next_rows
from followed_plans import check, kept_rows, plan_of
from view_queries import STAGES, contents, tables

from deltaproduce.stages.sql.algebra.relations import Join
from deltaproduce.stages.sql.operators.computing import QueryError
from deltaproduce.stages.sql.operators.evaluation import rows_of
from deltaproduce.stages.sql.resolve import Resolved, resolved
from deltaproduce.stages.views.kept import GROUPS
from deltaproduce.stages.views.plan.planning import ViewPlan

BY_GROUPS = (
    "SELECT t.k, count(u.n) AS n FROM t LEFT JOIN u ON u.a = t.k GROUP BY t.k",
    "SELECT t.k, count(*) AS n FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.k",
    "SELECT t.k, count(1) AS n, count(*) AS m FROM u RIGHT JOIN t ON u.a = t.a GROUP BY t.k",
    "SELECT t.k, t.s, min(u.n) AS n, max(u.a) AS a FROM t LEFT JOIN u ON u.a = t.k "
    "GROUP BY t.k, t.s",
    "SELECT t.s, count(u.n) AS n, max(u.n) AS x, min(t.b) AS b, max(t.b + 1) AS c "
    "FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.s",
    "SELECT t.s FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.s",
    "SELECT t.k, sum(u.n) AS n, count(*) AS c FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.k",
    "SELECT t.s, sum(u.k) AS n, sum(u.n) FILTER (WHERE u.k > 1) AS m FROM t LEFT JOIN u ON "
    "u.a = t.a GROUP BY t.s",
    "SELECT s, sum(k) AS k, sum(d) AS d FROM (SELECT t.s, u.k, u.d FROM t LEFT JOIN (SELECT k, a, "
    "CAST(n AS decimal(9, 2)) AS d FROM u) u ON u.a = t.a) v GROUP BY s HAVING sum(k) > 2",
    "SELECT sum(u.k) AS n, count(u.k) AS c FROM t LEFT JOIN u ON u.a = t.a",
    "SELECT t.k, count(u.n) AS n FROM t LEFT JOIN u ON u.a = t.a AND u.n > 1 GROUP BY t.k",
    "SELECT t.k, count(*) AS n FROM t LEFT JOIN u ON u.a = t.a AND t.b > 1 AND u.n IS NULL "
    "GROUP BY t.k",
    "SELECT t.k, count(*) AS n, count(u.a) AS a FROM t LEFT JOIN u ON u.a <=> t.a GROUP BY t.k",
    "SELECT t.k, count(u.n) AS n FROM t LEFT JOIN u ON u.a = t.a AND t.b = u.n GROUP BY t.k",
    "SELECT t.k, count(u.k) AS n FROM t LEFT JOIN u ON u.a = t.a AND u.a = t.b GROUP BY t.k",
    "SELECT t.k FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.k HAVING count(u.n) > 1",
    "SELECT t.b, count(u.n) AS n FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.b HAVING count(*) > 1",
    "SELECT n, count(*) AS m FROM (SELECT t.k, count(u.n) AS n FROM t LEFT JOIN u ON u.a = t.k "
    "GROUP BY t.k) v GROUP BY n",
    "SELECT t.b % 2 AS b, count(u.n) AS n FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.b % 2",
    "SELECT t.k, count(*) FILTER (WHERE u.n > 1) AS n, count(u.a) FILTER (WHERE u.n IS NULL) AS m "
    "FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.k",
    "SELECT t.k, count(*) FILTER (WHERE u.n IS NULL) AS n, count(*) FILTER (WHERE true) AS m, "
    "count_if(u.n IS NULL) AS f, count(coalesce(u.n, 1)) AS c "
    "FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.k",
    "SELECT t.k, max(u.n) FILTER (WHERE u.a > 1) AS x, min(t.s) FILTER (WHERE t.b > 1) AS s, "
    "min(u.n) FILTER (WHERE u.n IS NULL) AS z FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.k",
    "SELECT t.k, bool_or(u.n > 1) AS o, every(u.n > 1) AS e, bool_and(t.b > 1) AS b "
    "FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.k",
    "SELECT k, count(y) AS n, max(z) AS z, min(w) AS w FROM (SELECT t.k, u.n AS y, "
    "u.n > 1 AS z, t.b IS NULL AS w FROM t LEFT JOIN u ON u.a = t.a) v GROUP BY k",
    "SELECT t.k, count(u.n) AS n FROM t LEFT JOIN u ON u.a = t.a WHERE t.b > 1 AND t.s <> 'x' "
    "GROUP BY t.k",
    "SELECT count(u.n) AS n, count(*) AS m, max(u.n) AS x, min(t.s) AS s "
    "FROM t LEFT JOIN u ON u.a = t.a",
    "SELECT t.k, count(f.x) AS n, max(f.x) AS m, min(f.x) AS l FROM t LEFT JOIN f ON f.a = t.a "
    "GROUP BY t.k",
    "SELECT t.k, count(u.n) AS n, min(f.x) AS x FROM t JOIN f ON f.k = t.k "
    "LEFT JOIN u ON u.a = t.a GROUP BY t.k",
    "WITH j AS (SELECT t.k, t.b, u.n FROM t LEFT JOIN u ON u.a = t.a) SELECT x.k, x.n, y.c FROM "
    "(SELECT k, count(n) AS n FROM j GROUP BY k) x JOIN (SELECT k, count(*) AS c FROM j "
    "GROUP BY k) y ON y.k = x.k",
    "SELECT t.k, count(v.n) AS n FROM t LEFT JOIN (SELECT a + 1 AS a, n FROM u) v ON v.a = t.a "
    "GROUP BY t.k",
    "SELECT t.k, count(v.n) AS n FROM t LEFT JOIN (SELECT a, count(*) AS n FROM u GROUP BY a, k) v "
    "ON v.a = t.a GROUP BY t.k",
    "SELECT v.x, count(u.n) AS n FROM (SELECT a + b AS x FROM t) v LEFT JOIN u ON u.a = v.x "
    "GROUP BY v.x",
)
"""Forms that are grouped below the join."""
AS_THEY_ARE = (
    "SELECT x.k, count(y.x) AS n, max(y.x) AS m, min(y.x) AS l FROM f x LEFT JOIN f y ON y.x = x.x "
    "GROUP BY x.k",
    "SELECT t.k, count(u.n) AS n FROM t LEFT JOIN u ON u.a = t.a GROUP BY ROLLUP (t.k)",
    "SELECT k, max(z) AS z FROM (SELECT t.k, coalesce(u.n, 3) IS NULL AS z FROM t "
    "LEFT JOIN u ON u.a = t.a) v GROUP BY k",
    "SELECT t.k, count(NULL) AS n FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.k",
    "SELECT t.k, count(u.n) AS n FROM t LEFT JOIN u ON u.k = t.a GROUP BY t.k",  # found by the key
    "SELECT t.k, count(u.n) AS n FROM t JOIN u ON u.a = t.a GROUP BY t.k",
    "SELECT t.k, count(u.n) AS n FROM t FULL JOIN u ON u.a = t.a GROUP BY t.k",
    "SELECT t.k, count(u.n) AS n FROM t LEFT JOIN u ON u.a = t.a AND u.n > t.b GROUP BY t.k",
    "SELECT t.k, count(u.n) AS n FROM t LEFT JOIN u ON u.a = t.a + 1 GROUP BY t.k",
    "SELECT t.k, count(u.n) AS n FROM t LEFT JOIN u ON u.a = t.a AND 1 / u.n > 0 GROUP BY t.k",
    "SELECT t.k, count(1 / u.n) AS n FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.k",
    "SELECT t.k, count(u.n) AS n FROM t LEFT JOIN u ON u.a = t.a WHERE u.n > 1 GROUP BY t.k",
    "SELECT t.k, u.n, count(*) AS m FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.k, u.n",
    "SELECT t.k, count(DISTINCT u.n) AS n FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.k",
    "SELECT t.k, count(t.b) AS n FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.k",
    "SELECT t.k, count(u.n) AS n, sum(t.b) AS s FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.k",
    "SELECT t.k, sum(f.x) AS x FROM t LEFT JOIN f ON f.a = t.a GROUP BY t.k",
    "SELECT t.k, sum(u.n + 1) AS n FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.k",
    "SELECT t.k, sum(coalesce(u.n, 1)) AS n FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.k",
    "SELECT t.k, avg(u.n) AS n FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.k",
    "SELECT t.k, min(coalesce(u.n, 0)) AS n FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.k",
    "SELECT t.k, max(u.n + t.b) AS n FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.k",
    "SELECT t.k, count(u.n) FILTER (WHERE t.b > 1) AS n FROM t LEFT JOIN u ON u.a = t.a "
    "GROUP BY t.k",
    "SELECT k, count(z) AS n FROM (SELECT t.k, 1 / u.n AS z FROM t LEFT JOIN u ON u.a = t.a) v "
    "GROUP BY k",
    "SELECT t.k, count(u.n, u.a) AS n FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.k",
    "SELECT t.k, count(v.n) AS n FROM t LEFT JOIN (SELECT a, count(*) AS n FROM u GROUP BY a) v "
    "ON v.a = t.a GROUP BY t.k",  # these are groups already
    "SELECT t.k, count(v.n) AS n FROM t LEFT JOIN (SELECT max(n) AS n FROM u) v ON v.n = t.a "
    "GROUP BY t.k",  # one row
)
"""Forms beside them, which are not."""


def groups_of_joins(query: Resolved, plan: ViewPlan) -> list[str]:
    """The roles of the tables that joins have."""
    joins = [one for one in query.relation.walk() if isinstance(one, Join)]
    return [table.role for one in joins for table in plan.kept_for.get(id(one), ())]


@pytest.mark.parametrize("text", BY_GROUPS)
def test_groups_below_a_join_follow_all_changes(text: str, long_run: bool) -> None:
    """Both sides change at once: nulls, duplicates, sides that are emptied, rows without others."""
    query, random = resolved(text, STAGES), Random(text)
    plan = plan_of(query)
    assert not plan.reasons
    assert GROUPS in groups_of_joins(query, plan)
    assert sum(map(len, plan.kept_for.values())) == len(plan.tables)
    rows, moved = tables(contents(random)), 0
    for _ in range(100 if long_run else 12):
        following = next_rows(random, rows, tables(contents(random)))
        moved += check(query, plan, rows, following)
        rows = following
    assert moved


@pytest.mark.parametrize("text", AS_THEY_ARE)
def test_other_forms_stay_as_they_are(text: str) -> None:
    query, random = resolved(text, STAGES), Random(text)
    plan = plan_of(query)
    assert GROUPS not in groups_of_joins(query, plan)
    rows = tables(contents(random))
    for _ in range(8):
        following = next_rows(random, rows, tables(contents(random)))
        with suppress(QueryError):
            check(query, plan, rows, following)
        rows = following


LINKS = ("u.a = t.a", "u.a = t.k", "u.n <=> t.b", "t.b = u.n", "u.a = t.a AND u.n = t.b")
REST = ("u.n > 1", "t.b > 1", "t.s <> 'x'", "u.n IS NULL", "(u.k = 2 OR u.n = 1)", "u.n > t.b")
CALLS = (
    *("count(*)", "count(u.n)", "count(u.a)", "min(u.n)", "max(u.k)", "max(t.s)", "min(t.b)"),
    *("count_if(u.n > 1)", "count_if(u.n IS NULL)", "bool_or(u.k > u.a)", "count(t.k)"),
    *("sum(u.n)", "sum(u.k)"),
)
KEYS = ("t.k", "t.a", "t.b", "t.s", "t.a IS NULL")
WHERE = ("t.b > 0", "u.n IS NULL", "u.k <> u.a")


def random_groups(random: Random) -> str:
    """Any keys, functions, links and conditions, of which some keep a query as it is."""
    calls = random.sample(CALLS, random.choice((1, 2, 3)))
    keys = random.sample(KEYS, random.choice((0, 1, 1, 2)))
    items = [*(f"{one} AS c{n}" for n, one in enumerate(calls))]
    if random.random() < 0.2:
        items[0] = items[0].replace(" AS ", f" FILTER (WHERE {random.choice(REST)}) AS ")
    sides = random.choice(("t LEFT JOIN u", "u RIGHT JOIN t"))
    on = [random.choice(LINKS), *random.sample(REST, random.choice((0, 0, 1, 2)))]
    where = f" WHERE {random.choice(WHERE)}" if random.random() < 0.2 else ""
    text = f"FROM {sides} ON {' AND '.join(on)}{where}"
    if keys:
        items += [f"{one} AS k{n}" for n, one in enumerate(keys)]
        text += f" GROUP BY {', '.join(keys)}"
    if random.random() < 0.3:
        text += f" HAVING {calls[-1]} IS NOT NULL"
    return f"SELECT {', '.join(items)} {text}"


def test_random_groups_over_left_joins_follow_all_changes(long_run: bool) -> None:
    grouped = moved = 0
    for seed in range(1000 if long_run else 40):
        random = Random(f"groups-{seed}")
        query = resolved(random_groups(random), STAGES)
        plan = plan_of(query)
        assert not plan.reasons
        grouped += GROUPS in groups_of_joins(query, plan)
        rows = tables(contents(random))
        for _ in range(4):
            following = next_rows(random, rows, tables(contents(random)))
            moved += check(query, plan, rows, following)
            rows = following
    assert grouped > 5
    assert moved > 20


@pytest.mark.parametrize(
    ("links", "fails"),
    [((9, 9), False), ((1, 1), True), ((1, 9), False), ((2, 9), True), ((2, 3), True)],
)
def test_a_sum_overflows_where_the_query_does(links: tuple[int, int], fails: bool) -> None:
    """Not for rows that no row joins; and where two rows of the kept side join the same ones."""
    query = resolved(
        "SELECT t.b, sum(u.k) AS n FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.b", STAGES
    )
    plan = plan_of(query)
    (table,) = plan.tables
    great = 2**63 - 1
    rows = tables(
        {
            "t": [{"k": n, "a": a, "b": 0, "s": ""} for n, a in enumerate((1, 2, 2))],
            "u": [{"k": great, "n": n, "a": a} for n, a in enumerate(links)],
        }
    )
    rows[table.name] = kept_rows(table.kept, rows)
    for relation in (query.relation, plan.kept.relation):
        with pytest.raises(QueryError) if fails else nullcontext():
            rows_of(relation, rows, UTC)
