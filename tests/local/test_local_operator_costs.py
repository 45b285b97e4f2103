"""The table of operators in docs/sql.md: each row runs, follows changes, reads what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import deltaproduce as dp

PAGE = Path(dp.__file__).parent.parent / "docs" / "sql.md"
ROWS = 960
"""How many rows a stage has. Eight of them have the same ``g``; ``t`` and ``u`` have keys alike."""
OWN = 48
"""At most so many rows of the view itself are read for some keys."""
SEEN = 100
"""At most so many rows are read with those of stages, where a key finds them."""
EXAMPLES: dict[str, list[tuple[str, str, int]]] = {
    "`SELECT` of expressions, `WHERE`, `UNION ALL`, `VALUES`, `UNPIVOT`, `LATERAL VIEW` and other "
    "generators": [
        (
            "SELECT id + 1 AS x FROM t WHERE n > 0 UNION ALL SELECT y FROM (VALUES (1)) AS v(y)",
            "",
            OWN,
        ),
        ("SELECT id, e FROM t LATERAL VIEW explode(array(n, n + 1)) w AS e", "", OWN),
        ("SELECT id, what, x FROM t UNPIVOT (x FOR what IN (g, n))", "", OWN),
    ],
    "inner join, any number of tables, also of a stage with itself": [
        ("SELECT t.id, u.n FROM t JOIN u ON u.g = t.g AND u.id = t.id", "", SEEN),
        ("SELECT a.id, b.id AS other FROM t a JOIN t b ON a.g = b.g", "", SEEN),
    ],
    "left, right, semi and anti join, `EXISTS`, `IN`, `NOT IN`, a scalar subquery with a link to "
    "the row": [
        ("SELECT t.id, u.n FROM t LEFT JOIN u ON u.g = t.g AND u.id = t.id", "", SEEN),
        ("SELECT t.id FROM t LEFT ANTI JOIN u ON u.g = t.g AND u.id = t.id", "", SEEN),
        ("SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.g = t.g AND u.n < t.n)", "", SEEN),
        ("SELECT id FROM t WHERE g NOT IN (SELECT g FROM u WHERE u.g IS NOT NULL)", "", SEEN),
        ("SELECT id, (SELECT max(n) FROM u WHERE u.g = t.g) AS m FROM t", "", SEEN),
    ],
    "full join": [
        ("SELECT t.id, u.n FROM t FULL JOIN u ON u.g = t.g AND u.id = t.id", "", SEEN),
    ],
    "`GROUP BY` as the last operator, if the key of the view is the groups": [
        ("SELECT g, count(*) AS c, sum(n) AS s, avg(n) AS a FROM t GROUP BY g", "", SEEN),
        ("SELECT n % 7 AS r, sum(id) AS s FROM t GROUP BY n % 7", "", SEEN),
    ],
    "other `GROUP BY`, with `HAVING` or in a subquery": [
        (
            "SELECT r FROM (SELECT n % 7 AS r, count(*) AS c FROM t GROUP BY 1) v WHERE c > 3",
            "groups",
            SEEN,
        ),
        ("SELECT g FROM t GROUP BY g HAVING count(*) > 3", "", SEEN),
    ],
    "`GROUP BY` over a left or right join, by columns of the side that is kept, with `count`, "
    "`min`, `max`, `bool_and`, `bool_or` or sums of integers and decimals of the other side, if no "
    "key finds its rows": [
        (
            "SELECT t.g, count(u.id) AS c, sum(u.n) AS s, max(u.n) AS m FROM t LEFT JOIN u "
            "ON u.n = t.g GROUP BY t.g",
            "groups",
            SEEN,
        ),
        (
            "SELECT c, count(*) AS k FROM (SELECT t.g, count(*) AS c FROM u RIGHT JOIN t "
            "ON u.n = t.g AND u.g > 1 GROUP BY t.g) GROUP BY c",
            "groups",
            SEEN,
        ),
    ],
    "`GROUP BY` with `DISTINCT` in its functions": [
        ("SELECT n % 7 AS r, count(DISTINCT id) AS c FROM t GROUP BY 1", "groups", SEEN),
        ("SELECT g, count(DISTINCT id) AS c, sum(n) AS s FROM t GROUP BY g", "", SEEN),
    ],
    "`DISTINCT`, `UNION`": [
        ("SELECT DISTINCT n % 7 AS r FROM t", "", SEEN),
        ("SELECT g FROM t UNION SELECT n FROM u", "groups", SEEN),
    ],
    "`INTERSECT`, `EXCEPT`, also with `ALL`": [
        ("SELECT g FROM t INTERSECT SELECT g FROM u", "", SEEN),
        ("SELECT g, id FROM t EXCEPT ALL SELECT g, id FROM u", "", SEEN),
        ("SELECT n % 7 AS r FROM t INTERSECT SELECT n % 5 FROM u", "groups", SEEN),
    ],
    "a scalar subquery or `EXISTS` without a link to the row": [
        ("SELECT id FROM t WHERE n > (SELECT min(n) FROM u)", "groups", SEEN),
        ("SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u)", "groups", SEEN),
    ],
    "`ORDER BY … LIMIT`": [("SELECT id, n FROM t ORDER BY n DESC LIMIT 5", "ordered", SEEN)],
    "`PIVOT`, `LATERAL`": [
        (
            "SELECT * FROM (SELECT g, id % 2 AS p, n FROM t) PIVOT (sum(n) FOR p IN (0, 1))",
            "",
            SEEN,
        ),
        (
            "SELECT t.id, x.m FROM t, LATERAL (SELECT max(n) AS m FROM u WHERE u.g = t.g) x",
            "",
            SEEN,
        ),
    ],
    "`LIMIT` in a subquery that depends on the row": [
        (
            "SELECT t.id, x.n AS m FROM t, "
            "LATERAL (SELECT n FROM u WHERE u.g = t.g ORDER BY n DESC LIMIT 2) x",
            "",
            SEEN,
        ),
    ],
    "`ROLLUP`, `CUBE`, `GROUPING SETS`": [
        ("SELECT g, n, count(*) AS c FROM t GROUP BY g, ROLLUP (n)", "", SEEN),
    ],
    "a filter of `row_number()`, such as `QUALIFY row_number() OVER (PARTITION BY id ORDER BY at "
    "DESC) = 1`": [
        (
            "SELECT id, n FROM t QUALIFY row_number() OVER (PARTITION BY n ORDER BY id DESC) = 1",
            "ordered",
            SEEN + OWN,
        ),
        (
            "SELECT id, n FROM (SELECT id, n, row_number() OVER (ORDER BY n DESC, id) AS r FROM t) "
            "WHERE r <= 3",
            "ordered",
            SEEN + OWN,
        ),
    ],
    "other window functions with `PARTITION BY`, `QUALIFY`": [
        ("SELECT id, rank() OVER (PARTITION BY g ORDER BY n) AS r FROM t QUALIFY r < 3", "", SEEN),
    ],
}
"""Row of the table -> queries, the sorts of their hidden tables, how many rows they may read."""


def told() -> list[str]:
    """The operators of the table."""
    section = PAGE.read_text().split("## What a change of a view costs")[1].split("\n## ")[0]
    first = re.findall(r"^\| (.*?) \| .* \|$", section.split("\n### ")[0], re.MULTILINE)
    return [one for one in first if one != "operator" and not set(one) <= {"-"}]


def row(n: int, *, more: int = 0) -> dict[str, Any]:
    return {"g": n // 8, "id": n, "n": n * 7919 % 1000 + more}


def test_each_operator_of_the_table_follows_changes_and_reads_what_it_says(tmp_path: Path) -> None:
    """A row of both stages changes. What keys do not find has a hidden table, by its sort."""
    assert told() == [*EXAMPLES]
    pipeline = dp.Pipeline("costs")
    for name in ("t", "u"):
        pipeline.source(name, key="g bigint, id bigint", value="n bigint")
    queries = [query for found in EXAMPLES.values() for query in found]
    for place, (text, kinds, _) in enumerate(queries):
        pipeline.sql(f"v{place}", text, incremental="always")
        operators = pipeline.explain(f"v{place}").operators
        assert {one.mode for one in operators} == {"incremental"}, text
        found = [table["kind"] for one in operators for table in one.tables]
        assert found == kinds.split(), text
    limits = dp.Limits(small_table_rows=0, group_rows=16, replaced_percent=900)
    with dp.Store(None, str(tmp_path / "store"), pipeline, limits=limits) as store:
        store.update({name: [row(n) for n in range(ROWS)] for name in ("t", "u")})
        stages = store.update({name: [row(400, more=1)] for name in ("t", "u")}).stages
        read = {text: stages[f"v{place}"].rows_read for place, (text, *_) in enumerate(queries)}
        assert {text: read[text] for text, _, most in queries if read[text] > most} == {}
        assert "full" not in {one.mode for one in stages.values()}
        assert not store.verify()
