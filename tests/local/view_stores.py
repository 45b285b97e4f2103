"""Views that follow changes, for stores that live through crashes, rollbacks and other queries.

They are groups with states, a join, groups of a join that are filtered, and a view of views. Three
have hidden tables: a limit, subqueries, and groups of groups.
"""

from __future__ import annotations

from collections.abc import Mapping

from random_views import stages_alone

from deltaproduce import Pipeline
from deltaproduce.testing import Change, Delete, Upsert

VIEWS = {
    "sums": "SELECT a, sum(b) AS s, count(*) AS n, min(b) AS m FROM t GROUP BY a",
    "pairs": "SELECT t.k, t.a, u.n FROM t LEFT JOIN u ON t.a = u.n",
    "many": "SELECT t.b, count(*) AS c FROM t JOIN u ON t.a = u.a GROUP BY t.b HAVING count(*) > 1",
    "total": "SELECT count(*) AS n, sum(s) AS s FROM sums",
    "first": "SELECT k, a, b FROM t ORDER BY b DESC, a LIMIT 3 OFFSET 1",
    "above": "SELECT k FROM t WHERE a >= (SELECT avg(n) FROM u) AND b IN (SELECT a FROM u)",
    "sizes": "SELECT c, count(*) AS n FROM (SELECT a, count(*) AS c FROM t GROUP BY a) v "
    "GROUP BY c HAVING count(*) > 0",
    "lone": "SELECT p.k, p.n FROM pairs p LEFT ANTI JOIN many m ON m.b = p.n",
}
FIRST: list[dict[str, list[Change]]] = [
    {"t": [Upsert((n,), (n % 3, n % 2, "x")) for n in range(8)]},
    {"u": [Upsert((n,), (n % 4, n % 3)) for n in range(6)]},
    {"t": [Upsert((9,), (1, None, "y")), Delete((2,))], "u": [Delete((0,))]},
]
CHANGE: Mapping[str, list[Change]] = {
    "t": [Upsert((1,), (2, 1, "z")), Delete((4,)), Upsert((12,), (0, 1, ""))],
    "u": [Upsert((3,), (1, 1)), Delete((5,))],
}
OTHER: Mapping[str, list[Change]] = {"t": [Delete((n,)) for n in range(8)]}


def views(**other: str) -> Pipeline:
    pipeline = stages_alone()
    for name, query in {**VIEWS, **other}.items():
        pipeline.sql(name, query, incremental="always")
    return pipeline
