"""Stages, random rows of these (nulls, duplicates, none at all), and a query for each operator."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from random import Random

import pyarrow as pa

from deltaproduce.stages.sql.resolve import Resolved
from deltaproduce.stages.sql.text import edited
from deltaproduce.types.columns import row_schema

STAGES = {
    "t": row_schema("k bigint", "a int, b int, s string", stage="t"),
    "u": row_schema("k bigint", "n int, a int", stage="u"),
    "f": row_schema("k bigint", "x double, a int", stage="f"),
}
_NUMBERS = (None, 0, 1, 2, 3)
_VALUES = {"s": (None, "", "x", "y"), "x": (None, nan, -0.0, 0.0, 0.5, 1.0, 2.0)}
_TYPES = {"k": pa.int64(), "s": pa.string(), "x": pa.float64()}


def random_value(random: Random, column: str) -> object:
    """A value of a column of a stage."""
    return random.choice(_VALUES.get(column, _NUMBERS))


def contents(random: Random) -> dict[str, list[dict[str, object]]]:
    """Random rows of the stages."""
    return {
        name: [
            {c: random_value(random, c) for c in schema.names}
            for _ in range(random.choice((0, 1, 4, 8)))
        ]
        for name, schema in STAGES.items()
    }


def tables(rows: dict[str, list[dict[str, object]]]) -> dict[str, pa.Table]:
    """The rows as the driver has them."""
    return {
        name: pa.Table.from_pylist(
            rows.get(name, []), pa.schema([(c, _TYPES.get(c, pa.int32())) for c in schema.names])
        )
        for name, schema in STAGES.items()
    }


def unedited(query: Resolved, views: Mapping[str, str]) -> str:
    """What the user wrote, without what the library adds to the text for Spark.

    Args:
        views: what stands in place of stages.
    """
    return edited(query.text, (one for one in query.edits if one.feeder is not None), views)


EXAMPLES = (
    "SELECT a, max_by(s, b) AS s, min_by(b, s) AS b, mode(b) AS m FROM t GROUP BY a",
    "SELECT a, max_by(s, b) FILTER (WHERE k > 1) AS s, median(b) AS m FROM t GROUP BY a",
    "SELECT a, sort_array(collect_list(b)) AS l, size(collect_list(s)) AS n FROM t GROUP BY a",
    "SELECT max_by(s, b) AS s, mode(b) AS m, size(collect_list(b)) AS n FROM t WHERE k > 2",
    "SELECT a, sum(b) AS s, count(*) AS c, min(s) AS m, max(b) AS x, avg(b) AS v FROM t "
    "GROUP BY a HAVING count(*) > 1",
    "SELECT count(*) AS n, sum(a) AS s, max(s) AS m FROM t",
    "SELECT a, count(*) FILTER (WHERE b > 1) AS f, sum(DISTINCT b) AS d FROM t GROUP BY a",
    "SELECT a + 1 AS x, count(*) AS c FROM t GROUP BY a + 1",
    "SELECT t.k, t.a, u.n FROM t LEFT JOIN u ON t.k = u.k AND t.a < u.n",
    "SELECT t.k, t.a, u.n FROM t FULL JOIN u ON t.k = u.k AND t.a < u.n",
    "SELECT k, n, b FROM t FULL JOIN u USING (k)",
    "SELECT t.k, u.n FROM t, u WHERE t.a = u.a AND u.k IN (SELECT b FROM t GROUP BY b HAVING "
    "count(*) > 1) AND u.n > 0 AND t.b / u.n > 0",
    "SELECT t.a, u.a AS ua FROM t, u WHERE t.k < u.k OR t.a IS NULL",
    "SELECT x.k, y.n, z.b FROM t x, u y, t z WHERE x.k = y.k AND z.b = y.n AND x.a < z.a",
    "SELECT x.k, z.b FROM t x, t z, u y WHERE (x.k = y.k AND z.b = y.n AND x.a = 1) "
    "OR (x.k = y.k AND z.b = y.n AND z.a = 2)",
    "SELECT k, a FROM t WHERE a NOT IN (SELECT n FROM u)",
    "SELECT k, a FROM t WHERE a NOT IN (SELECT n FROM u WHERE u.k = t.k)",
    "SELECT k, a FROM t WHERE NOT (a IN (SELECT n FROM u WHERE u.n IS NOT NULL) AND b = 1)",
    "SELECT k, a FROM t WHERE (a, b) IN (SELECT n, a FROM u)",
    "SELECT a, count(*) AS n FROM t GROUP BY a HAVING (a, count(*)) IN (SELECT n, k FROM u)",
    "SELECT k, (SELECT sum(n) FROM u WHERE u.k = t.k) AS m FROM t",
    "SELECT k, (SELECT count(*) FROM u WHERE u.k = t.k) AS c FROM t",
    "SELECT k, (SELECT count(*) FROM u WHERE u.k = t.k GROUP BY u.k) AS c FROM t",
    "SELECT t.k, x.n FROM t, LATERAL (SELECT count(*) AS n FROM u WHERE u.k = t.k GROUP BY u.k) x",
    "SELECT t.k, x.n FROM t, LATERAL (SELECT a, count(*) AS n FROM u WHERE u.k = t.k AND u.k = t.a "
    "GROUP BY a) x",
    "SELECT k FROM t WHERE EXISTS (SELECT count(*) FROM u WHERE u.k = t.k GROUP BY u.k)",
    "SELECT k FROM t WHERE a IN (SELECT max(n) FROM u WHERE u.k = t.k GROUP BY u.k)",
    "SELECT k FROM t WHERE b > (SELECT avg(n) FROM u)",
    "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k > t.k - (SELECT min(a) FROM t))",
    "SELECT a FROM t EXCEPT ALL SELECT n FROM u",
    "SELECT a FROM t INTERSECT ALL SELECT n FROM u",
    "SELECT a FROM t UNION SELECT n FROM u INTERSECT SELECT k FROM t",
    "WITH c AS (SELECT a, count(*) AS n FROM t GROUP BY a) "
    "SELECT x.a, x.n, y.n AS m FROM c x JOIN c y ON x.a = y.n",
    "SELECT a, b FROM t ORDER BY a DESC NULLS LAST, b NULLS FIRST LIMIT 4 OFFSET 1",
    "SELECT k, a, row_number() OVER w AS r, lag(b, 2, 0) OVER w AS l, lead(s) OVER (w) AS m, "
    "first_value(b) OVER w AS f, last_value(b) OVER w AS g, nth_value(b, 2) OVER w AS n, "
    "ntile(3) OVER w AS q FROM t WINDOW w AS (PARTITION BY k ORDER BY a DESC NULLS LAST)",
    "SELECT k, rank() OVER w AS r, dense_rank() OVER w AS d, percent_rank() OVER w AS p, "
    "cume_dist() OVER w AS c, sum(b) OVER w AS s1, avg(b) OVER w AS v, count(b) OVER w AS n, "
    "min(s) OVER w AS m, max(b) OVER w AS x FROM t WINDOW w AS "
    "(PARTITION BY k ORDER BY a NULLS FIRST)",
    "SELECT k, sum(b) OVER (PARTITION BY k ORDER BY a NULLS FIRST ROWS BETWEEN 1 PRECEDING AND "
    "1 FOLLOWING) AS s1, max(b) OVER (PARTITION BY k ORDER BY a NULLS FIRST ROWS BETWEEN "
    "2 FOLLOWING AND UNBOUNDED FOLLOWING) AS m FROM t",
    "SELECT k, sum(b) OVER (PARTITION BY k ORDER BY a NULLS FIRST RANGE BETWEEN 1 PRECEDING AND "
    "1 FOLLOWING) AS s1, count(*) OVER (PARTITION BY k ORDER BY a DESC NULLS LAST RANGE BETWEEN "
    "2 PRECEDING AND 1 PRECEDING) AS m FROM t",
    "SELECT k, lag(b, 1) IGNORE NULLS OVER w AS p, lead(b, 2, 7) IGNORE NULLS OVER w AS n, "
    "last_value(b) IGNORE NULLS OVER w AS v, first_value(b) IGNORE NULLS OVER w AS f "
    "FROM t WINDOW w AS (PARTITION BY k ORDER BY a NULLS FIRST)",
    "SELECT k, b FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY k NULLS FIRST) < 2",
    "SELECT k, b, s FROM t QUALIFY row_number() OVER (PARTITION BY a, s ORDER BY b DESC NULLS "
    "LAST) = 1",
    "SELECT * FROM (SELECT k, a, b, row_number() OVER w AS n, rank() OVER w AS r FROM t WHERE k > "
    "1 WINDOW w AS (PARTITION BY b ORDER BY a NULLS FIRST, k DESC NULLS LAST)) WHERE 3 >= n AND "
    "r < 3",
    "SELECT a, k FROM t QUALIFY row_number() OVER (ORDER BY b DESC NULLS FIRST) BETWEEN 2 AND 4",
    "SELECT a, k FROM t QUALIFY row_number() OVER (PARTITION BY b ORDER BY a * -2 DESC NULLS "
    "LAST, s NULLS FIRST, k + 1 NULLS FIRST) < 3",
    "SELECT u.k, x.b FROM u JOIN (SELECT a, b, row_number() OVER (PARTITION BY a ORDER BY b NULLS "
    "FIRST) AS n FROM t) x ON u.n = x.a WHERE x.n <= 2",
    "SELECT a, sum(b) AS s FROM (SELECT a, b FROM t QUALIFY row_number() OVER (PARTITION BY a "
    "ORDER BY b DESC NULLS LAST) <= 2) GROUP BY a",
    "SELECT a, count(*) AS n, row_number() OVER (PARTITION BY max(b) ORDER BY count(*) "
    "NULLS FIRST) AS r, sum(sum(b)) OVER (PARTITION BY max(b)) AS q FROM t GROUP BY a "
    "HAVING count(*) < 4",
    "SELECT t.k, row_number() OVER (PARTITION BY t.k ORDER BY n NULLS FIRST) AS r "
    "FROM t JOIN u USING (k)",
    "SELECT a, b, sum(k) AS s1, count(*) AS n, grouping(a) AS g, grouping_id(a, b) AS i FROM t "
    "GROUP BY ROLLUP (a, b)",
    "SELECT k, a, max(s) AS m FROM t GROUP BY k, GROUPING SETS ((a), (b), (a)) HAVING count(*) > 1",
    "SELECT a, b, k, count(*) AS n FROM t GROUP BY GROUPING SETS ((a, b), k), ROLLUP (s)",
    "SELECT a + 1 AS x, count(DISTINCT b) AS n FROM t GROUP BY CUBE (a + 1, (k, b))",
    "SELECT a AS x, count(*) AS n, rank() OVER (PARTITION BY grouping(a) ORDER BY count(*) "
    "NULLS FIRST) AS r FROM t GROUP BY ROLLUP (1, b)",
    "SELECT sum(b) FILTER (WHERE a > 1) OVER (PARTITION BY s ORDER BY b NULLS FIRST ROWS "
    "1 PRECEDING) AS x, sum(b) OVER (PARTITION BY k) AS y FROM t",
)
"""A query for each operator, also in company of others."""

OF_SPARK = (
    "SELECT k, a FROM t WHERE b > 0 AND ((b, a) IN (SELECT n, k FROM u WHERE u.a = t.a) AND a > 0)",
    "SELECT * FROM t UNPIVOT (v FOR w IN (a, b AS bee))",
    "SELECT w, v, k FROM (SELECT k, a, CAST(b AS bigint) AS b, s FROM t) UNPIVOT INCLUDE NULLS "
    "(v FOR w IN (b, a)) AS x WHERE k > 1",
    "SELECT w, sum(v) AS s, count(x) AS c FROM t UNPIVOT ((v, x) FOR w IN ((a, b) AS ab, (b, a))) "
    "GROUP BY w",
    "SELECT t.k, x.n FROM t, LATERAL (SELECT n FROM u WHERE u.a = t.a ORDER BY n DESC LIMIT 2) x",
    "SELECT t.k, x.n, x.k AS j FROM t LEFT JOIN LATERAL (SELECT n, k FROM u WHERE u.a = t.a AND "
    "u.n >= t.b ORDER BY n NULLS LAST LIMIT 1 OFFSET 1) x",
    "SELECT t.k, x.n FROM t, LATERAL (SELECT n FROM u WHERE u.n < t.b ORDER BY n DESC LIMIT 1) x",
    "SELECT t.k, x.c FROM t, LATERAL (SELECT n, count(*) AS c FROM u WHERE u.a = t.a GROUP BY n "
    "ORDER BY c DESC LIMIT 1) x",
    "SELECT a, b, sum(a) AS n, grouping_id() AS i FROM t GROUP BY a, b WITH CUBE",
    "SELECT a, row_number() OVER (PARTITION BY a ORDER BY count(*)) AS z FROM t GROUP BY "
    "a, b WITH ROLLUP",
    "SELECT k, e FROM t LATERAL VIEW explode(array(a, b, 5)) x AS e",
    "SELECT k, p, e FROM t LATERAL VIEW OUTER posexplode(array(a, b)) x AS p, e WHERE e > 1",
    "SELECT k, explode(array(a, b)) AS e FROM t",
    "SELECT k, posexplode(array(a, k)) AS (p, e) FROM t",
    "SELECT k, stack(2, 'x', a, s, b) AS (w, n) FROM t",
    "SELECT e, count(*) AS n FROM t LATERAL VIEW explode(array(a, b)) x AS e GROUP BY e",
    "SELECT t.a, x.n, x.c FROM t, LATERAL (SELECT max(n) AS n, count(*) AS c FROM u "
    "WHERE u.k = t.k) x",
    "SELECT t.a, x.n FROM t LEFT JOIN LATERAL (SELECT n FROM u WHERE u.k = t.k AND u.a > t.a) x "
    "ON true",
    "SELECT t.a, x.n FROM t JOIN LATERAL (SELECT n, count(*) AS c FROM u WHERE u.k = t.k "
    "GROUP BY n) x WHERE x.c > 1",
    "SELECT t.k, x.p, x.e FROM t, LATERAL posexplode(array(a, b)) AS x(p, e)",
    "SELECT * FROM (SELECT k, a, b FROM t) PIVOT (sum(b) AS s, max(b) AS m FOR a IN "
    "(1, 2 AS two, 3))",
    "SELECT * FROM (SELECT k, a, b FROM t) PIVOT (count(*) FOR a IN (1, 2 AS two, 3)) AS p",
    "SELECT * FROM (SELECT k, a, s FROM t) PIVOT (max(s) AS s, count(s) AS c FOR (a, k) IN "
    "((1, 2) AS one, (0, 1) AS two))",
    "SELECT * FROM (SELECT a, b FROM t) PIVOT (count(b) FILTER (WHERE b > 1) AS c, min(b) AS m "
    "FOR a IN (1, 2))",
)
"""Queries that DuckDB does not have."""

SHADOWED = {
    "SELECT -a AS k, b FROM t QUALIFY row_number() OVER (PARTITION BY b ORDER BY k) = 1 OR k > 1": (
        "SELECT -a AS z, b FROM t QUALIFY row_number() OVER (PARTITION BY b ORDER BY t.k) = 1 OR "
        "t.k > 1"
    ),
    "SELECT -a AS k, rank() OVER (ORDER BY b) AS r FROM t QUALIFY k < -1": (
        "SELECT -a AS z, rank() OVER (ORDER BY b) AS r FROM t QUALIFY z < -1"
    ),
    "SELECT k AS z, -max(a) AS k FROM t GROUP BY k QUALIFY rank() OVER (ORDER BY k) = 1": (
        "SELECT k AS z, -max(a) AS m FROM t GROUP BY k QUALIFY rank() OVER (ORDER BY z) = 1"
    ),
    "SELECT -max(a) AS k, rank() OVER (ORDER BY max(b)) AS r FROM t GROUP BY k QUALIFY k < -1": (
        "SELECT -max(a) AS m, rank() OVER (ORDER BY max(b)) AS r FROM t GROUP BY k QUALIFY m < -1"
    ),
    "SELECT k AS z, -max(a) AS k FROM t GROUP BY k HAVING k > 1": (
        "SELECT k AS z, -max(a) AS m FROM t GROUP BY k HAVING z > 1"
    ),
    "SELECT k + 1 AS z, -max(a) AS k FROM t GROUP BY k + 1 HAVING k + 1 > 2": (
        "SELECT k + 1 AS z, -max(a) AS m FROM t GROUP BY k + 1 HAVING z > 2"
    ),
    "SELECT k AS z, -max(a) AS b FROM t GROUP BY k HAVING b < -1": (
        "SELECT k AS z, -max(a) AS m FROM t GROUP BY k HAVING m < -1"
    ),
    "SELECT k AS z, -max(a) AS k FROM t GROUP BY k ORDER BY k, z LIMIT 2": (
        "SELECT k AS z, -max(a) AS m FROM t GROUP BY k ORDER BY m, z LIMIT 2"
    ),
    "SELECT k AS z, -max(a) AS k FROM t GROUP BY t.k ORDER BY t.k LIMIT 2": (
        "SELECT k AS z, -max(a) AS m FROM t GROUP BY k ORDER BY z LIMIT 2"
    ),
}
"""Queries in which a name is that of a column of FROM and of one of SELECT -> what they mean."""
