"""Queries read the columns that count: of stages, of subqueries, and of what is read twice."""

from __future__ import annotations

import pytest

from deltaproduce.stages.sql.algebra.relations import AggregateRelation, ProjectRelation
from deltaproduce.stages.sql.resolve import resolved
from deltaproduce.types.columns import row_schema

STAGES = {
    "t": row_schema("k bigint", "a int, b int, c string, m map<string, int>", stage="t"),
    "u": row_schema("k bigint", "a int, d int", stage="u"),
}
READ = {
    "SELECT a FROM t": ["t a"],
    "SELECT count(*) AS n FROM t": ["t k"],
    "SELECT k FROM t WHERE b > 1": ["t k b"],
    "SELECT sum(a) AS s FROM t GROUP BY b HAVING max(c) > 'x'": ["t a b c"],
    "SELECT n FROM (SELECT b, sum(a) AS s, count(*) AS n FROM t GROUP BY b)": ["t b"],
    "SELECT d FROM t JOIN u ON t.a = u.a": ["t a", "u a d"],
    "SELECT t.b FROM t LEFT SEMI JOIN u ON t.a = u.a AND t.k > u.d": ["t k a b", "u a d"],
    "SELECT c FROM t WHERE a IN (SELECT d FROM u)": ["t a c", "u d"],
    "SELECT c FROM t WHERE EXISTS (SELECT * FROM u WHERE u.k = t.a)": ["t a c", "u k"],
    "SELECT c, (SELECT max(d) FROM u WHERE u.k = t.a) AS x FROM t": ["t a c", "u k d"],
    "WITH w AS (SELECT * FROM t) SELECT x.a, y.b FROM w x JOIN w y ON x.k = y.k": ["t k a b"],
    "SELECT a FROM (SELECT k, a, b FROM t UNION ALL SELECT k, a, d FROM u)": ["t a", "u a"],
    "SELECT a FROM (SELECT k, a FROM t UNION SELECT k, a FROM u)": ["t k a", "u k a"],
    "SELECT a FROM (SELECT DISTINCT a, b FROM t)": ["t a b"],
    "SELECT a FROM (SELECT a, c FROM t ORDER BY b LIMIT 2)": ["t a b c"],
    "SELECT a FROM t ORDER BY b": ["t a b"],
    "SELECT a, rank() OVER (PARTITION BY k ORDER BY b) AS r FROM t": ["t k a b"],
    "SELECT a, row_number() OVER (PARTITION BY k ORDER BY b) AS r FROM t": ["t k a b c m"],
    "SELECT sum(b) AS s FROM t GROUP BY ROLLUP (a, k)": ["t k a b"],
    "SELECT k, x FROM t LATERAL VIEW posexplode(array(a, b)) e AS p, x": ["t k a b"],
    "SELECT a FROM (SELECT a, row_number() OVER (PARTITION BY k ORDER BY b) AS r FROM t)": ["t a"],
}
"""Queries, and the columns that they read of each stage."""


@pytest.mark.parametrize("text", READ)
def test_a_query_reads_the_columns_that_count(text: str) -> None:
    scans = resolved(text, STAGES).scans
    assert sorted(" ".join((one.feeder, *one.columns)) for one in scans) == READ[text]


def test_expressions_and_aggregates_that_do_not_count_are_not_computed() -> None:
    text = "SELECT k FROM (SELECT k, max(a) AS x FROM (SELECT k, a, 1 / b AS q FROM t) GROUP BY k)"
    relations = [*resolved(text, STAGES).relation.walk()]
    (groups,) = [one for one in relations if isinstance(one, AggregateRelation)]
    assert groups.calls == ()
    computed = (
        out.scalar.text
        for one in relations
        if isinstance(one, ProjectRelation)
        for out in one.outputs
    )
    assert not any("/" in text for text in computed)
