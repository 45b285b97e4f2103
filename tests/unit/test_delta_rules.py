"""The delta rules of queries: rows before and their change make the rows after."""

from __future__ import annotations

import math
from random import Random

import pyarrow as pa
import pytest
from delta_feeders import UTC, InMemory, are_same, bag, next_rows, outcome
from random_queries import Queries
from view_queries import EXAMPLES, OF_SPARK, STAGES, contents, tables

from deltaproduce.stages.sql.operators.changes.signed import (
    InconsistentError,
    Signed,
    bag_difference,
    changed,
)
from deltaproduce.stages.sql.operators.computing import QueryError
from deltaproduce.stages.sql.operators.following import Following
from deltaproduce.stages.sql.resolve import Resolved, resolved
from deltaproduce.types.columns import row_schema


def check(query: Resolved, old: dict[str, pa.Table], new: dict[str, pa.Table]) -> bool:
    """Q(new) is Q(old) and the change; the rule fails exactly if Q(new) does."""
    before, after = outcome(query, old), outcome(query, new)
    if before is None:
        return False
    feeders = {name: InMemory(old[name], new[name], len(old[name]) // 3) for name in old}
    following = Following(feeders, UTC)
    try:
        change = following.change(query.relation)
    except QueryError:
        assert after is None, query.text
        return False
    assert after is not None, query.text
    assert are_same(query.relation, changed(before, change), after), query.text
    assert 0 not in change.counts
    return bool(len(change))


@pytest.mark.parametrize("part", range(4))
def test_random_queries_follow_random_changes(part: int, long_run: bool) -> None:
    """All stages change at once: nulls, duplicates, empty stages, keys that come and go."""
    moved = 0
    for seed in range(2500 if long_run else 20):
        random = Random(f"delta-{part}-{seed}")
        query = resolved(Queries(random, depth=1 + seed % 2).query(), STAGES)
        rows = tables(contents(random))
        for _ in range(3):
            following = next_rows(random, rows, tables(contents(random)))
            moved += check(query, rows, following)
            rows = following
    assert moved > 5


MORE = (
    "SELECT r.k, a FROM t r LEFT JOIN (SELECT k AS kk, count(*) AS c FROM u GROUP BY k) g "
    "ON g.kk = r.k WHERE c > 0 OR c IS NULL",
    "SELECT x.k, y.k AS yk FROM t x FULL JOIN t y ON x.a = y.b AND x.k = y.a",
    "SELECT x.k FROM t x FULL JOIN u ON x.k <=> u.n",
    "SELECT g.a, n FROM (SELECT a, count(*) AS c FROM t GROUP BY a) g LEFT JOIN u ON u.n = g.c",
    "SELECT t.a, n FROM t RIGHT JOIN u ON t.b = u.n AND t.a > u.a",
    "SELECT c, count(*) AS n FROM (SELECT u.a AS c FROM t LEFT JOIN u ON u.n = t.a) v GROUP BY c",
    "SELECT c, count(*) AS n FROM (SELECT u.a AS c FROM t FULL JOIN u ON u.n = t.a) v GROUP BY c",
    "SELECT a / b AS q FROM t",
    "SELECT t.k FROM t JOIN u ON t.k = u.k AND t.a / u.n > 0",
    "SELECT t.k FROM t LEFT JOIN u ON t.k = u.k AND t.a / u.n > 0",
    "SELECT t.k FROM t FULL JOIN u ON t.k = u.k AND t.a / u.n > 0",
    "SELECT t.k, x / n AS r FROM (SELECT k, sum(a) AS x FROM t GROUP BY k) t JOIN u ON t.k = u.k",
    "SELECT a, sum(b) / min(b) AS r FROM t GROUP BY a",
    "SELECT k, (SELECT n FROM u WHERE u.k = t.k) AS m FROM t",
    "SELECT k, (SELECT n FROM u) AS m FROM t",
    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND t.a / u.n > 0)",
    "SELECT k, sum(a / b) OVER (PARTITION BY k ORDER BY a ROWS 1 PRECEDING) AS r FROM t",
    "SELECT k, lag(a) OVER (PARTITION BY b ORDER BY k) / b AS r FROM t",
    "SELECT r.n, count(*) AS c FROM (SELECT t.k, row_number() OVER (PARTITION BY a ORDER BY b) "
    "AS n FROM t) r JOIN u ON u.k = r.k GROUP BY r.n",
    "SELECT r.k, u.n FROM u LEFT JOIN (SELECT k, a, rank() OVER (PARTITION BY a ORDER BY b) AS n "
    "FROM t) r ON u.k = r.k AND u.n = r.n",
    "SELECT k, y, z FROM t LATERAL VIEW inline(array(struct(a AS y, s AS z), "
    "struct(b AS y, 'z' AS z))) v AS y, z",
    "SELECT DISTINCT array(a, b) AS l FROM t",
)


@pytest.mark.parametrize("text", [*EXAMPLES, *OF_SPARK, *MORE])
def test_an_example_of_each_rule(text: str, long_run: bool) -> None:
    """Also of what fails: exactly if the query fails over the stages after."""
    random, query = Random(text), resolved(text, STAGES)
    rows = tables(contents(random))
    for _ in range(200 if long_run else 12):
        following = next_rows(random, rows, tables(contents(random)))
        check(query, rows, following)
        rows = following if outcome(query, following) is not None else tables(contents(random))


FLOATS = {"f": row_schema("k bigint", "x double, y float", stage="f")}
OF_FLOATS = (
    "SELECT x, count(*) AS n, min(y) AS m, max(x) AS o FROM f GROUP BY x",
    "SELECT DISTINCT x, y FROM f",
    "SELECT a.x, b.y FROM f a JOIN f b ON a.x = b.x",
    "SELECT a.x, b.y FROM f a FULL JOIN f b ON a.x = b.x AND a.k = b.k",
    "SELECT x FROM f INTERSECT SELECT -x FROM f",
    "SELECT x FROM f EXCEPT ALL SELECT x FROM f WHERE k = 1",
    "SELECT x, CAST(k AS double) * x AS z FROM f WHERE x IN (SELECT x FROM f WHERE k > 1)",
    "SELECT x FROM f WHERE x NOT IN (SELECT x FROM f WHERE k > 1)",
    "SELECT sum(x) AS s, avg(y) AS a, stddev(x) AS d FROM f",
    "SELECT k, lag(x) OVER w AS l, row_number() OVER w AS n, nth_value(y, 2) OVER w AS v FROM f "
    "WINDOW w AS (PARTITION BY k ORDER BY y DESC)",
    "SELECT x, rank() OVER (PARTITION BY x ORDER BY y) AS r, sum(y) OVER (PARTITION BY k ORDER BY "
    "x RANGE 1 PRECEDING) AS s, max(x) OVER (PARTITION BY k ORDER BY y ROWS 1 PRECEDING) AS m "
    "FROM f",
    "SELECT x, sum(x) OVER (PARTITION BY k ORDER BY y ROWS 1 PRECEDING) AS s, "
    "first_value(x) IGNORE NULLS OVER (PARTITION BY y ORDER BY k) AS f FROM f",
)


@pytest.mark.parametrize("text", OF_FLOATS)
def test_zeros_and_nan_are_equal_as_in_spark(text: str) -> None:
    """Rows that are equal are one key; a row that changes from 0.0 to -0.0 changes."""
    random, query = Random(text), resolved(text, FLOATS)

    def some() -> dict[str, pa.Table]:
        floats = (None, 0.0, -0.0, math.nan, -math.nan, 1.5, math.inf)
        size = random.choice((0, 2, 6))
        columns = {"k": pa.array([random.choice((1, 2)) for _ in range(size)], pa.int64())}
        for name, kind in (("x", pa.float64()), ("y", pa.float32())):
            columns[name] = pa.array([random.choice(floats) for _ in range(size)], kind)
        return {"f": pa.table(columns)}

    rows = some()
    for _ in range(25):
        following = next_rows(random, rows, some())
        check(query, rows, following)
        rows = following


def test_a_join_asks_for_the_rows_that_join() -> None:
    """Of the other side by the equal columns, and for no row of a side that nothing reaches."""
    query = resolved("SELECT t.k, n FROM t JOIN u ON t.a = u.n WHERE t.b > 0", STAGES)
    old = tables({"t": [{"k": n, "a": n % 5, "b": 1, "s": ""} for n in range(50)], "u": []})
    new = {**old, "t": old["t"].slice(1)}
    feeders = {name: InMemory(old[name], new[name]) for name in old}
    Following(feeders, UTC).change(query.relation)
    assert feeders["t"].asked == []
    assert [keys for _, keys in feeders["u"].asked] == [1]


def test_keys_of_groups_reach_the_stages_through_joins() -> None:
    text = "SELECT u.k, sum(b) AS s FROM t JOIN u ON t.a = u.k GROUP BY u.k"
    query = resolved(text, STAGES)
    rows = [{"k": n, "a": n % 5, "b": 1, "s": ""} for n in range(50)]
    old = tables({"t": rows, "u": [{"k": n, "n": 0, "a": 0} for n in range(5)]})
    new = {**old, "t": old["t"].slice(1)}
    feeders = {name: InMemory(old[name], new[name]) for name in old}
    Following(feeders, UTC).change(query.relation)
    asked = [keys for feeder in feeders.values() for _, keys in feeder.asked]
    assert asked
    assert set(asked) == {1}


def test_what_is_not_there_cannot_be_removed() -> None:
    """Equal rows are removed by their bits first, then by Spark's equality."""
    rows = pa.table({"x": [0.0, -0.0, 1.0]})
    gone = Signed.added(pa.table({"x": [-0.0]}))
    assert bag(bag_difference(rows, gone)) == bag(pa.table({"x": [0.0, 1.0]}))
    assert len(bag_difference(rows, Signed.concat([gone, gone]))) == 1
    with pytest.raises(InconsistentError):
        bag_difference(rows, Signed.concat([gone, gone, gone]))
    assert not len(Signed.between(rows, rows))
    assert len(Signed.between(pa.table({"x": [0.0]}), pa.table({"x": [-0.0]}))) == 2
