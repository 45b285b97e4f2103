"""Random queries over two stages, and random rows of these: nulls, duplicates, empty stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random

import pyarrow as pa

from deltaproduce.types.columns import row_schema

STAGES = {
    "t": row_schema("k bigint", "a int, b int, s string", stage="t"),
    "u": row_schema("k bigint", "n int, a int", stage="u"),
}
_NUMBERS = (None, 0, 1, 2, 3)
_TEXTS = (None, "", "x", "y")
_TYPES = {"k": pa.int64(), "s": pa.string()}

Column = tuple[str, str]
"""A column as SQL, and whether it is a number (``n``) or text (``s``)."""


def contents(random: Random) -> dict[str, list[dict[str, object]]]:
    """Random rows of the stages."""
    return {
        name: [
            {c: random.choice(_TEXTS if c == "s" else _NUMBERS) for c in schema.names}
            for _ in range(random.choice((0, 1, 4, 8)))
        ]
        for name, schema in STAGES.items()
    }


def tables(rows: dict[str, list[dict[str, object]]]) -> dict[str, pa.Table]:
    """The rows as the driver has them."""
    return {
        name: pa.Table.from_pylist(
            rows[name], pa.schema([(c, _TYPES.get(c, pa.int32())) for c in schema.names])
        )
        for name, schema in STAGES.items()
    }


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
    "SELECT t.a, u.a AS ua FROM t, u WHERE t.k < u.k OR t.a IS NULL",
    "SELECT x.k, y.n, z.b FROM t x, u y, t z WHERE x.k = y.k AND z.b = y.n AND x.a < z.a",
    "SELECT x.k, z.b FROM t x, t z, u y WHERE (x.k = y.k AND z.b = y.n AND x.a = 1) "
    "OR (x.k = y.k AND z.b = y.n AND z.a = 2)",
    "SELECT k, a FROM t WHERE a NOT IN (SELECT n FROM u)",
    "SELECT k, a FROM t WHERE a NOT IN (SELECT n FROM u WHERE u.k = t.k)",
    "SELECT k, a FROM t WHERE NOT (a IN (SELECT n FROM u WHERE u.n IS NOT NULL) AND b = 1)",
    "SELECT k, (SELECT sum(n) FROM u WHERE u.k = t.k) AS m FROM t",
    "SELECT k, (SELECT count(*) FROM u WHERE u.k = t.k) AS c FROM t",
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


@dataclass
class Queries:
    """Writes queries; each column of one has a name of its own."""

    random: Random
    depth: int = 2
    _numbers: count = field(default_factory=count)
    _linked: list[str] = field(default_factory=list)

    def query(self) -> str:
        """A query."""
        text, columns = self._query(self.depth)
        if self.random.random() < 0.3:
            cte = self._name("w")
            more, _ = self._select(f"{cte} AS v", [(f"v.{n}", t) for n, t in columns], 0)
            return f"WITH {cte} AS ({text}) {more}"
        return text

    def _query(self, depth: int) -> tuple[str, list[Column]]:
        if depth and self.random.random() < 0.25:
            return self._set_operation(depth - 1)
        source, columns = self._from(depth)
        return self._select(source, columns, depth)

    def _set_operation(self, depth: int) -> tuple[str, list[Column]]:
        left, columns = self._query(depth)
        wanted = [t for _, t in columns]
        source, found = self._from(0)
        chosen = [self._of(found, t) for t in wanted]
        right = f"SELECT {', '.join(chosen)} FROM {source}"
        word = self.random.choice(["UNION", "INTERSECT", "EXCEPT"])
        every = self.random.choice(["", " ALL"])
        name = self._name("q")
        named = [(self._name("c"), t) for t in wanted]
        alias = ", ".join(n for n, _ in named)
        both = f"({left}) {word}{every} {right}"
        return f"SELECT {alias} FROM ({both}) AS {name}({alias})", named

    def _from(self, depth: int) -> tuple[str, list[Column]]:
        source, columns = self._item(depth)
        if depth and self.random.random() < 0.6:
            other, more = self._item(depth - 1)
            kind = self.random.choice(
                ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]
            )
            equal = f"{self._of(columns, 'n')} = {self._of(more, 'n')}"
            if self.random.random() < 0.2:
                self._linked.append(equal)
                return f"{source}, {other}", [*columns, *more]
            rest = f" AND {self._compared([*columns, *more])}" if self.random.random() < 0.4 else ""
            if kind == "FULL JOIN":
                rest = ""
            source = f"{source} {kind} {other} ON {equal}{rest}"
            if "SEMI" not in kind and "ANTI" not in kind:
                columns = [*columns, *more]
        return source, columns

    def _item(self, depth: int) -> tuple[str, list[Column]]:
        alias = self._name("r")
        if depth and self.random.random() < 0.3:
            text, columns = self._query(depth - 1)
            return f"({text}) AS {alias}", [(f"{alias}.{n}", t) for n, t in columns]
        stage = self.random.choice(["t", "u"])
        names = STAGES[stage].names
        return f"{stage} AS {alias}", [(f"{alias}.{n}", "s" if n == "s" else "n") for n in names]

    def _select(self, source: str, columns: list[Column], depth: int) -> tuple[str, list[Column]]:
        where = self._where(columns, depth)
        if self.random.random() < 0.4:
            text, named = self._grouped(source, columns, where)
        else:
            chosen = [self._value(columns, depth) for _ in range(self.random.choice([1, 2, 3]))]
            named = [(self._name("c"), t) for _, t in chosen]
            items = ", ".join(f"{e} AS {n}" for (e, _), (n, _) in zip(chosen, named, strict=True))
            if self.random.random() < 0.3:
                return self._windowed(items, named, columns, f" FROM {source}{where}")
            distinct = "DISTINCT " if self.random.random() < 0.2 else ""
            text = f"SELECT {distinct}{items} FROM {source}{where}"
        if self.random.random() < 0.25:
            keys = self.random.sample(named, self.random.choice([1, len(named)]))
            order = ", ".join(f"{n} {self._direction()}" for n, _ in keys)
            text += f" ORDER BY {order} LIMIT {self.random.choice([0, 1, 3])}"
            text += self.random.choice(["", " OFFSET 1"])
        return text, named

    def _grouped(self, source: str, columns: list[Column], where: str) -> tuple[str, list[Column]]:
        keys = [self.random.choice(columns) for _ in range(self.random.choice([0, 1, 1, 2]))]
        keys = list(dict.fromkeys(keys))
        calls = [self._call(columns) for _ in range(self.random.choice([1, 2]))]
        chosen = [*keys, *calls]
        named = [(self._name("c"), t) for _, t in chosen]
        items = ", ".join(f"{e} AS {n}" for (e, _), (n, _) in zip(chosen, named, strict=True))
        text = f"SELECT {items} FROM {source}{where}"
        if keys:
            text += f" GROUP BY {', '.join(e for e, _ in keys)}"
        if self.random.random() < 0.4:
            text += f" HAVING count(*) {self.random.choice(['>', '<', '<>'])} 1"
        return text, named

    def _windowed(
        self, items: str, named: list[Column], columns: list[Column], rest: str
    ) -> tuple[str, list[Column]]:
        """A SELECT with window functions, and perhaps a QUALIFY."""
        for _ in range(self.random.choice([1, 2])):
            call, kind = self._over(columns)
            name = self._name("c")
            items, named = f"{items}, {call} AS {name}", [*named, (name, kind)]
        if self.random.random() < 0.3:
            rest += f" QUALIFY {self._over(columns, is_number=True)[0]} < 3"
        return f"SELECT {items}{rest}", named

    def _over(self, columns: list[Column], *, is_number: bool = False) -> Column:
        """A window function; where rows are equal, DuckDB gets the order of the text for Spark."""
        number, (other, kind) = self._of(columns, "n"), self.random.choice(columns)
        by = self.random.sample(columns, min(len(columns), self.random.choice([1, 1, 2])))
        partition = f"PARTITION BY {', '.join(e for e, _ in by)}"
        if self.random.random() < 0.1:
            partition = ""
        keys = self.random.sample(columns, min(len(columns), self.random.choice([1, 2])))
        order = f"ORDER BY {', '.join(f'{e} {self._direction()}' for e, _ in keys)}"
        ignoring = self.random.choice(["", " IGNORE NULLS"])
        places = [
            ("row_number()", "n"),
            ("rank()", "n"),
            ("dense_rank()", "n"),
            (f"ntile({self.random.choice([1, 2, 5])})", "n"),
            *([] if is_number else [(f"lag({other}){ignoring}", kind)]),
            (f"lead({number}, {self.random.choice([1, 2])}, -1){ignoring}", "n"),
        ]
        framed = [
            ("count(*)", "n"),
            (f"sum({number})", "n"),
            *([] if is_number else [(f"min({other})", kind), (f"max({other})", kind)]),
            (f"count({other}) FILTER (WHERE {self._compared(columns)})", "n"),
        ]
        ends = [(f"{word}({number}){ignoring}", "n") for word in ("first_value", "last_value")] + [
            (f"nth_value({number}, 2)", "n")
        ]
        match self.random.choice(["place", "place", "rows", "range", "values", "whole"]):
            case "place":
                call, frame = self.random.choice(places), ""
            case "rows":
                call, frame = self.random.choice([*framed, *ends]), f" ROWS {self._frame()}"
            case "range":
                call = self.random.choice([*framed, *ends])
                frame = self.random.choice(["", " RANGE BETWEEN CURRENT ROW AND CURRENT ROW"])
            case "values":
                call, frame = self.random.choice(framed), f" RANGE {self._frame()}"
                order = f"ORDER BY {number} {self._direction()}"
            case _:
                call, frame, order = self.random.choice(framed), "", ""
        window = " ".join(part for part in (partition, order) if part)
        return f"{call[0]} OVER ({window}{frame})", call[1]

    def _frame(self) -> str:
        start = self.random.choice(["UNBOUNDED PRECEDING", "2 PRECEDING", "CURRENT ROW"])
        end = self.random.choice(["CURRENT ROW", "1 FOLLOWING", "UNBOUNDED FOLLOWING"])
        if self.random.random() < 0.2:
            start, end = self.random.choice(
                [("2 PRECEDING", "1 PRECEDING"), ("1 FOLLOWING", "3 FOLLOWING")]
            )
        return f"BETWEEN {start} AND {end}"

    def _call(self, columns: list[Column]) -> Column:
        number, text = self._of(columns, "n"), self.random.choice(columns)
        return self.random.choice(
            [
                ("count(*)", "n"),
                (f"count({text[0]})", "n"),
                (f"count(DISTINCT {text[0]})", "n"),
                (f"sum({number})", "n"),
                (f"sum(DISTINCT {number})", "n"),
                (f"min({text[0]})", text[1]),
                (f"max({text[0]})", text[1]),
                (f"min_by({text[0]}, {number})", text[1]),
                (f"max_by({number}, {text[0]})", "n"),
                (f"mode({text[0]})", text[1]),
                (f"count(*) FILTER (WHERE {self._compared(columns)})", "n"),
                (f"sum({number}) FILTER (WHERE {self._compared(columns)})", "n"),
            ]
        )

    def _where(self, columns: list[Column], depth: int) -> str:
        parts = []
        if self.random.random() < 0.4:
            parts.append(self._compared(columns))
        if depth and self.random.random() < 0.4:
            parts.append(self._subquery(columns))
        condition = self.random.choice([" AND ", " OR "]).join(parts)
        linked = [self._linked.pop()] if self._linked else []
        both = " AND ".join([*linked, *([f"({condition})"] if condition else [])])
        return f" WHERE {both}" if both else ""

    def _subquery(self, columns: list[Column]) -> str:
        inner, value = self._name("x"), self._of(columns, "n")
        linked = self.random.choice(["", f" WHERE {inner}.k = {self._of(columns, 'n')}"])
        if linked and self.random.random() < 0.4:
            linked += f" AND {inner}.n <> {self._of(columns, 'n')}"
        return self.random.choice(
            [
                f"{value} IN (SELECT {inner}.n FROM u AS {inner}{linked})",
                f"{value} NOT IN (SELECT {inner}.n FROM u AS {inner}{linked})",
                f"EXISTS (SELECT 1 FROM u AS {inner}{linked})",
                f"NOT EXISTS (SELECT 1 FROM u AS {inner}{linked})",
                f"{value} > {self._scalar(columns)}",
            ]
        )

    def _scalar(self, columns: list[Column]) -> str:
        inner = self._name("x")
        call = self.random.choice([f"max({inner}.n)", "count(*)", f"sum({inner}.a)"])
        linked = self.random.choice(["", f" WHERE {inner}.k = {self._of(columns, 'n')}"])
        return f"(SELECT {call} FROM u AS {inner}{linked})"

    def _value(self, columns: list[Column], depth: int) -> Column:
        if depth and self.random.random() < 0.15:
            return self._scalar(columns), "n"
        number = self._of(columns, "n")
        return self.random.choice(
            [
                self.random.choice(columns),
                (number, "n"),
                (f"{number} + 1", "n"),
                (f"coalesce({number}, {self._of(columns, 'n')})", "n"),
                (f"CASE WHEN {self._compared(columns)} THEN {number} ELSE 7 END", "n"),
            ]
        )

    def _compared(self, columns: list[Column]) -> str:
        one, kind = self.random.choice(columns)
        other = self.random.choice([self._of(columns, kind), "'x'" if kind == "s" else "2"])
        word = self.random.choice(["=", "<>", "<", ">="])
        return self.random.choice([f"{one} {word} {other}", f"{one} IS NULL"])

    def _of(self, columns: Sequence[Column], kind: str) -> str:
        found = [e for e, t in columns if t == kind]
        return self.random.choice(found) if found else ("'x'" if kind == "s" else "1")

    def _direction(self) -> str:
        words = self.random.choice(["ASC", "DESC"]), self.random.choice(["FIRST", "LAST"])
        return f"{words[0]} NULLS {words[1]}"

    def _name(self, letter: str) -> str:
        return f"{letter}{next(self._numbers)}"
