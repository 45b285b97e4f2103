"""Queries that are key-local, queries that are not, and data that tells them apart.

Each example has a name for the test's id. `ACCEPTED` and `REFUSED` use SQL that both Spark and
DuckDB have; `ACCEPTED_BY_SPARK` and `REFUSED_UNRUN` use SQL that only Spark has.
"""

import random
from collections.abc import Mapping
from typing import Any

import pytest
from selecting import long

from deltaproduce.types.columns import RowSchema, row_schema

STAGES: Mapping[str, RowSchema] = {
    "orders": row_schema("k int", "x int, y int", stage="orders"),
    "lines": row_schema("k int", "x int, z int", stage="lines"),
    "parts": row_schema("id int", "z int, w int", stage="parts"),
    "pairs": row_schema("a int, b int", "v int", stage="pairs"),
    "more": row_schema("p int, q int", "v int, w int", stage="more"),
}

ODD_STAGES: Mapping[str, RowSchema] = {
    "odd stage": row_schema("`K.1` int", "`Größe` int, `a``b` int, `x'\"y` int", stage="odd stage"),
}
"""Stages whose names and columns need quotes."""

ALL_STAGES: Mapping[str, RowSchema] = {**STAGES, **ODD_STAGES}

KEYS: Mapping[int, list[tuple[int | None, ...]]] = {
    1: [(None,), (1,), (2,), (3,)],
    2: [(None, None), (None, 1), (1, None), (1, 1), (1, 2), (2, 1)],
}

Row = tuple[Any, ...]


def rows(seed: int) -> dict[str, list[Row]]:
    """Few rows of few values for each stage, with nulls, equal rows and missing keys."""
    drawn = random.Random(seed)
    content = {}
    for name, schema in ALL_STAGES.items():
        present = [key for key in KEYS[len(schema.key)] if drawn.random() < 0.8]
        content[name] = [
            (*drawn.choice(present), *(drawn.choice([None, 1, 1, 2]) for _ in schema.value))
            for _ in range(drawn.randint(5, 9) if present else 0)
        ]
    return content


def of_key(content: Mapping[str, list[Row]], key: Row) -> dict[str, list[Row]]:
    """The rows of one source key; none of stages with another number of key columns."""
    fitting = {name for name, schema in ALL_STAGES.items() if len(schema.key) == len(key)}
    return {
        name: [row for row in rows if name in fitting and row[: len(key)] == key]
        for name, rows in content.items()
    }


ACCEPTED: dict[str, str] = {
    "all columns": "SELECT * FROM orders",
    "the key left out": "SELECT y, x AS z FROM orders",
    "the key renamed": "SELECT k + 1 AS x, k AS id FROM orders o WHERE o.x = 1 OR k IS NULL",
    "a filter": "SELECT x, y FROM orders WHERE x IS NOT DISTINCT FROM y",
    "grouped": "SELECT k, sum(x) AS s, count(*) AS n FROM orders GROUP BY k",
    "grouped without the key": "SELECT y, count(x) AS n FROM orders GROUP BY y, orders.k",
    "grouped by number": "SELECT y AS g, k AS id, max(x) AS m FROM orders GROUP BY 1, 2",
    "grouped by number alone": "SELECT k AS id, max(x) AS m FROM orders GROUP BY 1",
    "grouped by alias": "SELECT k AS id, min(x) AS m FROM orders GROUP BY id",
    "grouped by all": "SELECT k AS id, y, min(x) AS m FROM orders GROUP BY ALL",
    "having": "SELECT sum(x) AS s FROM orders GROUP BY k HAVING count(*) > 1",
    "grouped by two": "SELECT sum(v) AS s FROM pairs GROUP BY b, a",
    "a constant group": "SELECT 1 AS one, k, count(*) AS n FROM orders GROUP BY 1, 2",
    "distinct": "SELECT DISTINCT y, k FROM orders",
    "distinct of a subquery": "SELECT x FROM (SELECT DISTINCT k, x FROM orders) o",
    "inner": "SELECT o.x, z FROM orders o JOIN lines l ON o.k = l.k AND o.x = l.x",
    "inner, sides changed": "SELECT y, z FROM orders o JOIN lines l ON l.k = o.k AND (z > 0)",
    "inner, of null keys": "SELECT y, z FROM orders o JOIN lines l ON l.k IS NOT DISTINCT FROM o.k",
    "left": "SELECT o.k, o.x, l.z FROM orders o LEFT JOIN lines l ON o.k = l.k AND l.z = o.y",
    "right": "SELECT l.k, o.x, l.z FROM orders o RIGHT OUTER JOIN lines l ON o.k = l.k AND l.z = 1",
    "full": "SELECT o.x, l.z FROM orders o FULL OUTER JOIN lines l ON o.k = l.k AND l.z = o.x",
    "semi": "SELECT * FROM orders o SEMI JOIN lines l ON o.k = l.k AND l.z = o.x",
    "anti": "SELECT * FROM orders o ANTI JOIN lines l ON o.k = l.k AND l.z = o.x",
    "using": "SELECT k, y, z FROM orders JOIN lines USING (k, x)",
    "using, all columns": "SELECT * FROM orders JOIN lines USING (k, x)",
    "left using": "SELECT * FROM orders LEFT JOIN lines USING (k, x)",
    "right using": "SELECT * FROM orders RIGHT JOIN lines USING (k, x)",
    "full using": "SELECT * FROM orders FULL JOIN lines USING (k, x)",
    "full using, grouped": "SELECT count(y) AS n FROM orders FULL JOIN lines USING (k) GROUP BY k",
    "right using, grouped": """
        SELECT k, count(y) AS n FROM orders RIGHT JOIN lines USING (k) GROUP BY k""",
    "natural": "SELECT * FROM orders NATURAL JOIN lines",
    "natural full": "SELECT * FROM orders NATURAL FULL JOIN lines",
    "keys of other names": "SELECT x, w FROM orders JOIN parts ON id = k",
    "full, grouped": """
        SELECT coalesce(o.k, p.id) AS k, count(x) AS n, count(w) AS m
        FROM orders o FULL JOIN parts p ON o.k = p.id GROUP BY coalesce(o.k, p.id)""",
    "full of three": """
        SELECT o.x, l.z, p.w FROM orders o FULL JOIN lines l ON o.k = l.k
        FULL JOIN parts p ON coalesce(o.k, l.k) = p.id""",
    "full using of three": """
        SELECT * FROM orders FULL JOIN lines USING (k, x)
        FULL JOIN (SELECT id AS k, w FROM parts) p USING (k)""",
    "three": """
        SELECT o.x, l.z, p.w FROM orders o JOIN lines l ON o.k = l.k
        LEFT JOIN parts p ON p.id = l.k AND p.z = l.z""",
    "a left join of a left join": """
        SELECT o.x, p.w FROM orders o LEFT JOIN lines l ON l.k = o.k AND l.z = 2
        LEFT JOIN parts p ON p.id = l.k""",
    "a full join by the side that may be null": """
        SELECT o.x, p.w FROM orders o LEFT JOIN lines l ON l.k = o.k AND l.z = 2
        FULL JOIN parts p ON p.id = l.k""",
    "a full join by one side of a full join": """
        SELECT o.x, p.w FROM orders o FULL JOIN lines l ON l.k = o.k AND l.z = o.x
        FULL JOIN parts p ON p.id = l.k""",
    "an inner join by one side of a full join": """
        SELECT o.k, l.k AS j, p.w FROM orders o FULL JOIN lines l ON l.k = o.k AND l.z = o.x
        JOIN parts p ON p.id = o.k""",
    "a subquery by the side that may be null": """
        SELECT o.x FROM orders o LEFT JOIN lines l ON l.k = o.k AND l.z = 2
        WHERE NOT EXISTS (SELECT 1 FROM parts p WHERE p.id = l.k)""",
    "grouped by what is joined to a full join": """
        SELECT p.id, count(y) AS n FROM orders o FULL JOIN lines l ON l.k = o.k AND l.z = o.x
        JOIN parts p ON p.id = coalesce(o.k, l.k) GROUP BY p.id""",
    "a key of two names, of which one is another's too": """
        SELECT x, n FROM (SELECT k, k AS j, x FROM orders)
        JOIN (SELECT k AS i, k, z AS n FROM lines) l ON j = i""",
    "joins in parentheses": """
        SELECT o.y, l.z
        FROM orders o LEFT JOIN (lines l JOIN parts p ON l.k = p.id) ON o.k = p.id""",
    "a subquery without an alias": """
        SELECT x, n FROM (SELECT x, k FROM orders) JOIN (SELECT id, w AS n FROM parts) ON k = id""",
    "subqueries without aliases and keys of one name": """
        SELECT x, n FROM (SELECT x, k FROM orders) FULL JOIN (SELECT w AS n, id AS k FROM parts)
        USING (k)""",
    "a self-join": "SELECT a.x, b.y FROM orders a JOIN orders b ON a.k = b.k AND a.x = b.y",
    "two key columns": """
        SELECT pairs.v, w FROM pairs LEFT JOIN more ON a = p AND q = b AND w = 1""",
    "two key columns, full": "SELECT w FROM pairs FULL JOIN more ON a = p AND q = b",
    "constants": "SELECT k, n FROM orders CROSS JOIN (VALUES (1), (2)) v(n)",
    "constants left": "SELECT k, n FROM orders LEFT JOIN (VALUES (1), (2)) v(n) ON n = x",
    "constants from the left": "SELECT k, n FROM (VALUES (1), (2)) v(n) RIGHT JOIN orders ON n = x",
    "constants anti": "SELECT k, x FROM orders ANTI JOIN (SELECT 1 AS n) v ON n = x",
    "a grouped side": """
        SELECT o.x, s.t FROM orders o
        LEFT JOIN (SELECT k, sum(z) AS t FROM lines GROUP BY k) s ON s.k = o.k""",
    "a join of subqueries with hidden keys on one side": """
        SELECT t.n, l.z FROM (SELECT x AS n, k AS j FROM orders) t JOIN lines l ON l.k = t.j""",
    "nested without the key": """
        SELECT n + 1 AS m FROM (SELECT x AS n FROM (SELECT x, y FROM orders WHERE y = 1) a) b""",
    "star over hidden columns": "SELECT * FROM (SELECT x, y FROM orders) t",
    "star of a table with hidden columns": """
        SELECT t.*, v.n FROM (SELECT x, y FROM orders) t CROSS JOIN (VALUES (1), (2)) v(n)""",
    "hidden columns through columns of an alias": """
        SELECT b, a FROM (SELECT x, y FROM orders) t(a, b) WHERE a = 1""",
    "a CTE": "WITH t AS (SELECT x, k FROM orders) SELECT x FROM t",
    "a CTE without the key": "WITH t(n) AS (SELECT x FROM orders) SELECT * FROM t WHERE n > 0",
    "a CTE used twice": """
        WITH t AS (SELECT k, sum(x) AS s FROM orders GROUP BY k)
        SELECT a.s, b.s AS r FROM t a JOIN t b ON a.k = b.k""",
    "a CTE of a CTE": """
        WITH t AS (SELECT x, y FROM orders), u AS (SELECT y FROM t WHERE x = 1) SELECT y FROM u""",
    "a CTE named like a stage": """
        WITH orders AS (SELECT x, k FROM orders WHERE y = 1) SELECT x FROM orders""",
    "a CTE inside that reads one outside": """
        WITH a AS (SELECT x, k FROM orders)
        SELECT * FROM (WITH b AS (SELECT x FROM a) SELECT x AS m FROM b) u""",
    "two tables of a name": "SELECT k, n FROM orders CROSS JOIN (VALUES (1)) orders(n)",
    "a CTE inside": "SELECT * FROM (WITH t AS (SELECT x FROM orders) SELECT x AS m FROM t) u",
    "union all": "SELECT x, y FROM orders UNION ALL SELECT z, k FROM lines",
    "union all of three": """
        SELECT x FROM orders UNION ALL SELECT z FROM lines UNION ALL SELECT w FROM parts""",
    "union": "SELECT k, x FROM orders UNION SELECT k, z FROM lines",
    "union, key last": "SELECT x, k FROM orders UNION SELECT w, id FROM parts",
    "intersect": "SELECT k, x FROM orders INTERSECT SELECT k, x FROM lines",
    "except": "SELECT k, x FROM orders EXCEPT SELECT k, x FROM lines",
    "intersect all": "SELECT k, x FROM orders INTERSECT ALL SELECT k, x FROM lines",
    "except all": "SELECT k, x FROM orders EXCEPT ALL SELECT k, x FROM lines",
    "a set operation in parentheses": """
        SELECT x FROM orders UNION ALL (SELECT z FROM (SELECT k, z FROM lines
        EXCEPT SELECT id, w FROM parts) t)""",
    "union all in FROM": """
        SELECT n FROM (SELECT x FROM orders UNION ALL SELECT z FROM lines) t(n) WHERE n = 1""",
    "union all in FROM, grouped": """
        SELECT j, count(*) AS n
        FROM (SELECT k AS j, x FROM orders UNION ALL SELECT id, w FROM parts) t GROUP BY j""",
    "window": "SELECT x, sum(x) OVER (PARTITION BY k) AS s FROM orders",
    "window, ranked": """
        SELECT k, x, rank() OVER (PARTITION BY y, k ORDER BY x DESC NULLS LAST) AS r FROM orders""",
    "window, named": """
        SELECT x, count(*) OVER w AS n, max(y) OVER w AS m
        FROM orders WINDOW w AS (PARTITION BY k)""",
    "window over groups": """
        SELECT y, rank() OVER (PARTITION BY k ORDER BY count(*)) AS r FROM orders GROUP BY k, y""",
    "window in a subquery": """
        SELECT x FROM (SELECT x, row_number() OVER (PARTITION BY k ORDER BY x, y) AS r
        FROM orders) t
        WHERE r <= 2""",
    "window over a full join": """
        SELECT count(*) OVER (PARTITION BY coalesce(l.k, o.k)) AS n
        FROM orders o FULL JOIN lines l ON l.k = o.k AND l.x = o.x""",
    "exists": """
        SELECT x FROM orders o WHERE EXISTS (SELECT 1
        FROM lines l WHERE l.k = o.k AND l.x = o.x)""",
    "not exists": """
        SELECT x FROM orders o WHERE NOT EXISTS (SELECT * FROM lines WHERE lines.k = o.k)""",
    "in": "SELECT x FROM orders o WHERE x IN (SELECT z FROM lines l WHERE o.k = l.k)",
    "a scalar subquery": """
        SELECT x, (SELECT max(z) FROM lines l WHERE l.k = o.k) AS m FROM orders o""",
    "a subquery of constants": "SELECT x FROM orders WHERE x IN (SELECT n FROM (VALUES (1)) v(n))",
    "a scalar subquery of constants": "SELECT x, (SELECT 3) AS three FROM orders",
    "exists, over two feeders": """
        SELECT w FROM pairs JOIN more ON p = a AND q = b
        WHERE EXISTS (SELECT 1 FROM pairs i WHERE i.a = p AND i.b = pairs.b AND i.v = 1)""",
    "case counts nowhere": "sElEcT O.K, ORDERS.x FROM Orders JOIN LINES o ON Orders.K = o.k",
    "comments": """
        SELECT -- the key is left out, SELECT x FROM nothing
          x /* FROM orders; */ FROM orders -- at the end""",
    "a semicolon": "SELECT x FROM orders;",
    "text like SQL": "SELECT 'SELECT * FROM orders LIMIT 1 --' AS t, x FROM orders",
}
"""Queries that are accepted, by what is special about them."""

ACCEPTED_BY_SPARK: dict[str, str] = {
    "lateral view": """
        SELECT k, e FROM orders LATERAL VIEW explode(array(x, y)) t AS e""",
    "lateral views, all columns": """
        SELECT * FROM (SELECT x, y FROM orders) o
        LATERAL VIEW OUTER explode(array(x, y)) t AS e LATERAL VIEW posexplode(array(1)) u
        AS p, q""",
    "explode in the select list": "SELECT y, explode(array(x, y, k)) AS e FROM orders",
    "inline": "SELECT inline(array(named_struct('a', x, 'b', y))) AS (a, b) FROM orders",
    "stack": "SELECT stack(2, x, 1, y, 2) AS (a, b) FROM orders",
    "a generator in FROM": "SELECT x, i FROM orders JOIN range(3) r(i) ON i = x",
    "from first": "FROM orders o SELECT y, o.x",
    "hints": """
        SELECT /*+ BROADCAST(l), REPARTITION(2) */ o.x, z
        FROM orders o JOIN lines l ON o.k = l.k""",
    "null-safe": "SELECT o.x, z FROM orders o LEFT JOIN lines l ON o.k <=> l.k AND l.z <=> o.y",
    "left semi using": "SELECT * FROM orders LEFT SEMI JOIN lines USING (k)",
    "minus": "SELECT k, x FROM orders MINUS SELECT k, x FROM lines",
    "except in a star": "SELECT * EXCEPT (x, k), x FROM orders",
    "except in a star over hidden columns": """
        SELECT t.* EXCEPT (x) FROM (SELECT x, y FROM orders) t""",
    "a star in a function": "SELECT to_json(struct(*)) AS t FROM (SELECT x, y FROM orders) o",
    "a star in a count": """
        SELECT k, count(*) AS n, count(DISTINCT *) AS m
        FROM (SELECT x, y, k FROM orders) t GROUP BY k""",
    "a star in WHERE": "SELECT x FROM (SELECT x, y FROM orders) o WHERE coalesce(*) = 1",
    "nvl in GROUP BY": """
        SELECT count(*) AS n FROM orders o FULL JOIN lines l ON o.k = l.k GROUP BY nvl(o.k, l.k)""",
    "sorted lists": """
        SELECT k, sort_array(collect_list(x)) AS l, size(collect_set(y)) AS n
        FROM orders GROUP BY k""",
    "listagg": """
        SELECT k, listagg(DISTINCT cast(x AS string), ',') WITHIN GROUP (ORDER BY cast(x AS string))
        AS l FROM orders GROUP BY k""",
    "first of a window": """
        SELECT x, first(y, true) OVER (PARTITION BY k ORDER BY x, y) AS f FROM orders""",
    "distribute by in a window": """
        SELECT x, count(*) OVER (DISTRIBUTE BY k) AS n FROM orders""",
    "a filtered aggregate": "SELECT k, count(*) FILTER (WHERE x > 1) AS n FROM orders GROUP BY k",
    "structs": """
        SELECT s.u, s.v AS r, o.s.v FROM (SELECT struct(x AS u, y AS v) AS s, k FROM orders) o""",
    "higher-order functions": """
        SELECT k, transform(array(x, y), k -> k + 1)[0] AS t, exists(array(x), e -> e > 1) AS u
        FROM orders""",
    "patterns and literals": r"""
        SELECT date_format(timestamp '2020-01-02 03:04:05.678', "yyyy-MM-dd'T'HH:mm:ss.SSS E") AS d,
          r'\d' AS p, X'1f' AS h, 1.50BD AS b, "dq" AS q, 'it''s' AS s, x DIV 2 AS i
        FROM orders""",
    "odd names": """
        SELECT `Größe` + 1 AS `select`, `o d`.`a``b` AS `c.d`, `x'"y` AS `名`
        FROM `odd stage` AS `o d`""",
    "odd names in a join": """
        WITH `my-cte`(`a.b`) AS (SELECT `Größe` FROM `odd stage`)
        SELECT * FROM `my-cte` CROSS JOIN (VALUES (1)) AS `v 1`(`order`)""",
    "an odd stage without an alias": "SELECT `odd stage`.* FROM `odd stage`",
    "volatile columns": """
        SELECT k, x, now() IS NULL AS n, rand() < 0 AS r, current_date IS NULL AS d FROM orders
        UNION ALL SELECT k, z, uuid() IS NULL, FALSE, FALSE FROM lines""",
    "grouped, with a time": """
        SELECT k, count(*) AS n, current_timestamp() IS NULL AS t FROM orders GROUP BY k""",
}
"""Queries that are accepted, in SQL of Spark's own, also over `ODD_STAGES`."""

ORDERED: dict[str, str] = {
    "by columns": "SELECT k, x, y FROM orders ORDER BY x DESC, y",
    "by number and alias": "SELECT k, x AS n, y FROM orders ORDER BY n NULLS LAST, 3 DESC",
    "by what is no column": "SELECT k, x FROM orders ORDER BY -y NULLS LAST, x",
    "by an expression of both": "SELECT k, x, k AS j FROM orders ORDER BY coalesce(x, y), x, y",
    "by an alias that is a column of FROM": "SELECT k, -x AS y, x FROM orders ORDER BY y, x",
    "by a column of FROM with its table": "SELECT k, -x AS y, x FROM orders o ORDER BY o.y, o.x",
    "by an aggregate": "SELECT k, y, sum(x) AS s FROM orders GROUP BY k, y ORDER BY count(*), y",
    "by number of groups": """
        SELECT y, k, count(*) AS n FROM orders GROUP BY 1, 2 ORDER BY 3 DESC, 1""",
    "of a union": "SELECT k, x FROM orders UNION ALL SELECT k, z AS x FROM lines ORDER BY x + 1",
    "of distinct": "SELECT DISTINCT o.k, o.x FROM orders o ORDER BY o.x DESC NULLS FIRST",
    "of a join": """
        SELECT o.k, o.x, l.z FROM orders o JOIN lines l ON o.k = l.k ORDER BY l.z, o.x DESC""",
    "with comments": "SELECT k, x FROM orders ORDER BY x -- up\n, k /* down */ DESC -- end",
}
"""Queries with an ORDER BY that leaves no choice, and with the source key in a column ``k``."""

REFUSED: dict[str, str] = {
    "an aggregate": "SELECT sum(x) AS s FROM orders",
    "an aggregate in FROM": """
        SELECT x, s FROM orders JOIN (SELECT max(z) AS s FROM lines) t ON true""",
    "grouped by another column": "SELECT x, count(*) AS n FROM orders GROUP BY x",
    "grouped by an expression of the key": "SELECT count(*) AS n FROM orders GROUP BY k IS NULL",
    "grouped by number": "SELECT x, k % 2 AS j, count(*) AS n FROM orders GROUP BY 1, 2",
    "grouped by the alias of another": "SELECT y AS j, count(*) AS n FROM orders GROUP BY j",
    "grouped by one of two": "SELECT sum(v) AS s FROM pairs GROUP BY a",
    "grouped by all without the key": "SELECT x, count(*) AS n FROM orders GROUP BY ALL",
    "grouped by one side of a full join": """
        SELECT count(*) AS n FROM orders o FULL JOIN lines l ON o.k = l.k GROUP BY o.k""",
    "grouped by the other side of a left join": """
        SELECT count(*) AS n
        FROM orders o LEFT JOIN lines l ON o.k = l.k AND l.z = 2 GROUP BY l.k""",
    "grouping sets": "SELECT k, count(*) AS n FROM orders GROUP BY GROUPING SETS ((k), ())",
    "rollup": "SELECT k, x, count(*) AS n FROM orders GROUP BY ROLLUP (k, x)",
    "cube": "SELECT k, x, count(*) AS n FROM orders GROUP BY CUBE (k, x)",
    "having alone": "SELECT 1 AS one FROM orders HAVING count(*) > 3",
    "distinct": "SELECT DISTINCT x FROM orders",
    "distinct of a key's expression": "SELECT DISTINCT k IS NULL AS n FROM orders",
    "distinct in FROM": "SELECT * FROM (SELECT DISTINCT y FROM orders) t",
    "union": "SELECT x FROM orders UNION SELECT z FROM lines",
    "union with the key at other places": "SELECT k, x FROM orders UNION SELECT z, k FROM lines",
    "intersect": "SELECT x FROM orders INTERSECT SELECT z FROM lines",
    "except": "SELECT x FROM orders EXCEPT SELECT z FROM lines",
    "intersect all": "SELECT x FROM orders INTERSECT ALL SELECT z FROM lines",
    "except all": "SELECT x FROM orders EXCEPT ALL SELECT z FROM lines",
    "union all of distinct": "SELECT x FROM orders UNION ALL SELECT DISTINCT z FROM lines",
    "union all with constants": "SELECT x FROM orders UNION ALL SELECT 7",
    "a cross join": "SELECT o.x, z FROM orders o CROSS JOIN lines l",
    "a comma": "SELECT o.x, z FROM orders o, lines l",
    "a join by other columns": "SELECT o.x, l.z FROM orders o JOIN lines l ON o.x = l.x",
    "a join by the key and another column": "SELECT y FROM orders o JOIN lines l ON o.k = l.x",
    "a join by half of a key": "SELECT w FROM pairs JOIN more ON a = p",
    "a join by a key crosswise": "SELECT w FROM pairs JOIN more ON a = q AND b = p",
    "a join by the key or else": "SELECT z FROM orders o JOIN lines l ON o.k = l.k OR o.x = l.x",
    "a join by not the key": "SELECT z FROM orders o JOIN lines l ON NOT o.k = l.k",
    "a join by an expression of the key": "SELECT z FROM orders o JOIN lines l ON o.k = l.k + 1",
    "a join by a renamed column": """
        SELECT z FROM (SELECT x AS k, y FROM orders) o JOIN lines l ON o.k = l.k""",
    "using another column": "SELECT y, z FROM orders JOIN lines USING (x)",
    "a left join": "SELECT y, z FROM orders o LEFT JOIN lines l ON l.x = o.x",
    "a semi join": "SELECT y FROM orders o SEMI JOIN lines l ON l.x = o.x",
    "an anti join": "SELECT y FROM orders o ANTI JOIN lines l ON l.x = o.x",
    "a third table by the side that may be null, nulls being equal": """
        SELECT o.k, p.w FROM orders o LEFT JOIN lines l ON l.k = o.k AND l.z = 2
        JOIN parts p ON p.id IS NOT DISTINCT FROM l.k""",
    "a subquery by the side that may be null, nulls being equal": """
        SELECT o.x FROM orders o LEFT JOIN lines l ON l.k = o.k AND l.z = 2
        WHERE EXISTS (SELECT 1 FROM parts p WHERE p.id IS NOT DISTINCT FROM l.k)""",
    "a third table by values": """
        SELECT w FROM orders o JOIN lines l ON l.k = o.k JOIN parts p ON p.w = o.x""",
    "a join inside of a join": """
        SELECT o.x FROM orders o JOIN lines l JOIN parts p ON l.z = p.w ON o.k = l.k""",
    "constants that stay": "SELECT n, x FROM (VALUES (1), (5)) v(n) LEFT JOIN orders ON n = k",
    "constants that stay, full": "SELECT n FROM orders FULL JOIN (VALUES (1), (5)) v(n) ON n = k",
    "constants that depend on rows": """
        SELECT n FROM (VALUES (1), (5)) v(n) ANTI JOIN orders ON n = x""",
    "a window over all": "SELECT count(*) OVER () AS n FROM orders",
    "a window by another column": "SELECT sum(x) OVER (PARTITION BY y) AS s FROM orders",
    "a window by half of a key": "SELECT sum(v) OVER (PARTITION BY b) AS s FROM pairs",
    "a window in order of the key": "SELECT rank() OVER (ORDER BY k) AS r FROM orders",
    "a named window": "SELECT count(*) OVER w AS n FROM orders WINDOW w AS (PARTITION BY x)",
    "one of two windows": """
        SELECT count(*) OVER (PARTITION BY k) AS n, count(*) OVER (PARTITION BY x) AS m
        FROM orders""",
    "a window in FROM": """
        SELECT x FROM (SELECT x, row_number() OVER (ORDER BY x, y, k) AS r FROM orders) t
        WHERE r <= 2""",
    "a scalar subquery": "SELECT x, (SELECT max(z) FROM lines) AS m FROM orders",
    "exists": "SELECT x FROM orders WHERE EXISTS (SELECT 1 FROM lines WHERE z = 1)",
    "in": "SELECT y FROM orders WHERE x IN (SELECT z FROM lines)",
    "not in": "SELECT y FROM orders WHERE k NOT IN (SELECT k FROM lines)",
    "a subquery correlated by another column": """
        SELECT x FROM orders o WHERE EXISTS (SELECT 1 FROM lines l WHERE l.x = o.x)""",
    "a subquery correlated to itself": """
        SELECT x FROM orders o WHERE EXISTS (SELECT 1 FROM lines l WHERE l.k = k AND l.x = o.x)""",
    "a subquery correlated by half a key": """
        SELECT v FROM pairs WHERE EXISTS (SELECT 1 FROM more WHERE p = a AND more.v = pairs.v)""",
    "a limit": "SELECT k, x FROM orders ORDER BY k, x LIMIT 2",
    "an offset": "SELECT k, x FROM orders ORDER BY k, x OFFSET 2",
    "a limit in FROM": "SELECT x FROM (SELECT k, x, y FROM orders ORDER BY k, x, y LIMIT 3) t",
    "a limit in a CTE": """
        WITH t AS (SELECT k, x, y FROM orders ORDER BY y, x, k LIMIT 3) SELECT k FROM t""",
    "a pivot": "SELECT * FROM (SELECT x, y FROM orders) PIVOT (sum(y) FOR x IN (1, 2))",
}
"""Queries that are not key-local, so that they must be refused."""

REFUSED_UNRUN: dict[str, str] = {
    "no query": "DROP TABLE orders",
    "nothing": "",
    "two queries": "SELECT x FROM orders; SELECT x FROM orders",
    "an insert": "INSERT INTO orders SELECT x FROM orders",
    "a syntax error": "SELECT x FROM orders WHERE",
    "an open quote": "SELECT 'x FROM orders",
    "from alone": "FROM orders",
    "no columns": "SELECT FROM orders",
    "values": "VALUES (1, 2)",
    "no stage": "SELECT 1 AS x",
    "no stage but in a CTE": "WITH t AS (SELECT x FROM orders) SELECT 1 AS one",
    "another table": "SELECT x FROM sales",
    "a later stage": "SELECT x FROM totals",
    "a table of a schema": "SELECT x FROM db.orders",
    "a table of a catalog": "SELECT x FROM spark_catalog.db.orders",
    "a CTE before it is defined": """
        WITH a AS (SELECT k FROM b), b AS (SELECT k FROM orders) SELECT k FROM a""",
    "a recursive CTE": """
        WITH RECURSIVE t AS (SELECT k, x FROM orders UNION ALL SELECT k, x + 1 FROM t WHERE x < 9)
        SELECT * FROM t""",
    "time travel": "SELECT x FROM orders VERSION AS OF 3",
    "a sample": "SELECT x FROM orders TABLESAMPLE (10 PERCENT)",
    "an unpivot": "SELECT * FROM orders UNPIVOT (v FOR n IN (x, y))",
    "lateral": "SELECT k, n FROM orders, LATERAL (SELECT x + 1 AS n)",
    "a lateral function": "SELECT k, e FROM orders JOIN LATERAL explode(array(x)) AS t(e)",
    "a table function": "SELECT k FROM my_function(TABLE(orders))",
    "an unknown table function": "SELECT k, n FROM orders JOIN my_function(1) t(n)",
    "identifier of a table": "SELECT k FROM IDENTIFIER('orders')",
    "identifier of a column": "SELECT IDENTIFIER('k') AS k FROM orders",
    "a pipe": "SELECT k FROM orders |> WHERE x = 1",
    "a script": "SELECT TRANSFORM (k, x) USING 'cat' AS (k, x) FROM orders",
    "rollup, in Hive's words": "SELECT k, count(*) AS n FROM orders GROUP BY k WITH ROLLUP",
    "cube, in Hive's words": "SELECT k, count(*) AS n FROM orders GROUP BY k WITH CUBE",
    "sets, in Hive's words": """
        SELECT k, count(*) AS n FROM orders GROUP BY k GROUPING SETS ((k), ())""",
    "grouped by a struct": "SELECT count(*) AS n FROM orders GROUP BY (k, x)",
    "sort by": "SELECT x FROM orders SORT BY x",
    "cluster by": "SELECT x FROM orders CLUSTER BY x",
    "distribute by": "SELECT x FROM orders DISTRIBUTE BY k",
    "order by inside": "SELECT x FROM (SELECT x FROM orders ORDER BY x) t",
    "order by in parentheses": "(SELECT x FROM orders ORDER BY x)",
    "order by all": "SELECT x FROM orders ORDER BY ALL",
    "order by a number too large": "SELECT x FROM orders ORDER BY 2",
    "order by random": "SELECT x FROM orders ORDER BY rand()",
    "order by an aggregate": "SELECT x FROM orders ORDER BY count(*)",
    "order by a query": "SELECT x FROM orders ORDER BY (SELECT max(z) FROM lines)",
    "order by a window": "SELECT x FROM orders ORDER BY count(*) OVER (PARTITION BY k)",
    "order by two meanings": "SELECT -x AS x, k FROM orders ORDER BY x + y",
    "order by a table's name that is a column's": """
        SELECT k, x AS o FROM orders o ORDER BY o.y""",
    "order by another column of distinct": "SELECT DISTINCT k, x FROM orders ORDER BY y",
    "order by another column of a union": """
        SELECT k FROM orders UNION ALL SELECT k FROM lines ORDER BY x""",
    "order by before a window": """
        SELECT x, count(*) OVER w AS n FROM orders ORDER BY x WINDOW w AS (PARTITION BY k)""",
    "random in WHERE": "SELECT x FROM orders WHERE rand() < 0.5",
    "random in ON": "SELECT y FROM orders o JOIN lines l ON o.k = l.k AND random() < 0.5",
    "random in HAVING": "SELECT k FROM orders GROUP BY k HAVING count(*) > rand()",
    "random in GROUP BY": "SELECT k, count(*) AS n FROM orders GROUP BY k, rand() < 0.5",
    "random in GROUP BY, by number": """
        SELECT k, uuid() AS u, count(*) AS n FROM orders GROUP BY 1, 2""",
    "random in PARTITION BY": "SELECT count(*) OVER (PARTITION BY k, rand() < 1) AS n FROM orders",
    "random in QUALIFY": """
        SELECT x FROM orders QUALIFY rank() OVER (PARTITION BY k ORDER BY x) < rand()""",
    "random in FROM": "SELECT r FROM (SELECT k, rand() AS r FROM orders) t WHERE r < 0.5",
    "random in a CTE": "WITH t AS (SELECT x, uuid() AS u FROM orders) SELECT x FROM t",
    "random in DISTINCT": "SELECT DISTINCT k, shuffle(array(1, x)) AS s FROM orders",
    "random in UNION": "SELECT k, rand() AS r FROM orders UNION SELECT k, x FROM lines",
    "random in a generator": "SELECT explode(sequence(0, int(rand() * 9))) AS e FROM orders",
    "random in a lateral view": "SELECT e FROM orders LATERAL VIEW explode(array(rand())) t AS e",
    "random constants": "SELECT r FROM orders JOIN (SELECT rand() AS r) t ON true",
    "random values": "SELECT r FROM orders JOIN (VALUES (rand())) t(r) ON true",
    "the time in WHERE": "SELECT x FROM orders WHERE now() > current_date",
    "the time as a literal": "SELECT x FROM orders WHERE date'2020-01-01' < date'today'",
    "the time by default": "SELECT x FROM orders WHERE unix_timestamp() > x",
    "the user": "SELECT x FROM orders WHERE user = 'ann'",
    "the row's place": "SELECT x, monotonically_increasing_id() AS id FROM orders",
    "the row's file": "SELECT x, input_file_name() AS f FROM orders",
    "the row's partition": "SELECT x, spark_partition_id() AS p FROM orders",
    "first": "SELECT k, first(x) AS f FROM orders GROUP BY k",
    "last, ignoring nulls": "SELECT k, last(x) IGNORE NULLS AS l FROM orders GROUP BY k",
    "any_value": "SELECT k, any_value(x) AS v FROM orders GROUP BY k",
    "collect_list": "SELECT k, collect_list(x) AS l FROM orders GROUP BY k",
    "collect_set": "SELECT k, concat_ws(',', collect_set(x)) AS s FROM orders GROUP BY k",
    "array_agg": "SELECT k, array_agg(x)[0] AS s FROM orders GROUP BY k",
    "listagg": "SELECT k, listagg(y) AS s FROM orders GROUP BY k",
    "first_value of a window": "SELECT first_value(x) OVER (PARTITION BY k) AS f FROM orders",
    "aggregates that sqlglot does not know": "SELECT hll_sketch_agg(x) AS h FROM orders",
    "aggregates that look like predicates": "SELECT any(x > 1) AS a FROM orders",
    "aggregates in quotes": "SELECT `sum`(x) AS s FROM orders",
    "aggregates with a path": "SELECT system.builtin.count(x) AS s FROM orders",
    "an aggregate in QUALIFY": "SELECT x FROM orders QUALIFY sum(x) > 1",
    "a column without a name": "SELECT x + 1 FROM orders",
    "a cast without a name": "SELECT cast(x AS string) FROM orders",
    "a generator without a name": "SELECT explode(array(x)) FROM orders",
    "a lateral view without names": "SELECT x FROM orders LATERAL VIEW explode(array(x)) t",
    "a column without a name in FROM": "SELECT x FROM (SELECT x, x + 1 FROM orders) t",
    "the fields of a struct": "SELECT s.* FROM (SELECT struct(x, y) AS s, k FROM orders) t",
    "two columns of a name": "SELECT x, y AS X FROM orders",
    "two columns of a name by a star": "SELECT * FROM orders o JOIN lines l ON o.k = l.k",
    "a reserved name": "SELECT x AS _x FROM orders",
    "a reserved name in FROM": "SELECT x FROM (SELECT x, y AS _key_0 FROM orders) t",
    "a reserved name of a CTE": "WITH _t AS (SELECT x FROM orders) SELECT x FROM _t",
    "too few names": "SELECT a FROM (SELECT x, y FROM orders) t(a)",
    "a key that no name reaches": """
        SELECT x FROM (SELECT x, k FROM orders) CROSS JOIN (VALUES (1)) v(k)""",
    "one table twice": "SELECT 1 AS one FROM orders JOIN orders USING (k)",
    "other numbers of key columns": "SELECT 1 AS one FROM orders JOIN pairs ON k = a",
    "other numbers of key columns, unjoined": "SELECT x FROM orders UNION ALL SELECT v FROM pairs",
    "other numbers of key columns, unused": """
        WITH t AS (SELECT v FROM pairs) SELECT x FROM orders""",
    "sides that do not fit": "SELECT x, y FROM orders UNION ALL SELECT z FROM lines",
    "using what is missing": "SELECT 1 AS one FROM orders JOIN parts USING (k)",
    "hidden keys on both sides": """
        SELECT a.x FROM (SELECT x FROM orders) a JOIN (SELECT z FROM lines) b ON a.x = b.z""",
    "a subquery in ON": """
        SELECT y FROM orders o JOIN lines l ON o.k = l.k AND o.x IN (SELECT w FROM parts)""",
    "a subquery in GROUP BY": "SELECT k FROM orders GROUP BY k, (SELECT max(z) FROM lines)",
    "a subquery of a union": """
        SELECT x FROM orders o WHERE x IN (SELECT z FROM lines l WHERE l.k = o.k UNION ALL
        SELECT w FROM parts p WHERE p.id = o.k)""",
    "a subquery with a CTE": """
        SELECT x FROM orders o WHERE EXISTS (WITH t AS (SELECT k FROM lines)
        SELECT 1 FROM t WHERE t.k = o.k)""",
    "a subquery with a limit": """
        SELECT (SELECT z FROM lines l WHERE l.k = o.k LIMIT 1) AS z FROM orders o""",
    "a limited table of constants": "SELECT n FROM orders JOIN (SELECT 1 AS n LIMIT 1) t ON true",
}
"""Queries that are refused for what running them here does not show."""


def examples(*catalogues: Mapping[str, str], every: int = 1) -> list[Any]:
    """Parameters of a test, with the examples' names as ids.

    Args:
        every: of so many examples a short run has one.
    """
    named = [each for catalogue in catalogues for each in catalogue.items()]
    return [
        pytest.param(text, id=name, marks=long if number % every else ())
        for number, (name, text) in enumerate(named)
    ]
