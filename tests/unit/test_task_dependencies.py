"""Dependencies: the partitions that a query can read, found from its text."""

import random
from datetime import UTC, datetime
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from deltaproduce import DefinitionError
from deltaproduce.stages.partitioned.conditions import Read
from deltaproduce.stages.partitioned.links import Links
from deltaproduce.stages.partitioned.query import TaskQuery, read_query
from deltaproduce.stages.sql.algebra.usage import columns_used
from deltaproduce.stages.sql.operators.computing import Computing
from deltaproduce.stages.sql.operators.evaluation import rows_of
from deltaproduce.stages.sql.resolve import for_spark, resolved
from deltaproduce.stages.sql.scopes.clauses import Scope, Scopes
from deltaproduce.types.columns import row_schema

SCOPES = Scopes.read(
    "FOR t IN timeseries('1 day', 2), LET partition_day = date_format(t, 'yyyy-MM-dd'), LET k = 2"
)
SCOPED = SCOPES.of(datetime(2022, 3, 31, tzinfo=UTC))
SCOPE: Scope = SCOPED[0]
DAYS = [f"2022-03-{day}" for day in (28, 29, 30, 31)]
STORES = ["Detroit", "Paris"]
NAMES = ("n", "day")


STAGES = {
    "sales": row_schema("day string, store string, n bigint", "v bigint", stage="sales"),
    "stock": row_schema("day string, m bigint", "n bigint, w bigint", stage="stock"),
}
PARTITIONED = {"sales": ("day", "store"), "stock": ("day",)}
PARTITIONS = {
    "sales": pa.table({"day": [day for day in DAYS for _ in STORES], "store": STORES * len(DAYS)}),
    "stock": pa.table({"day": DAYS}),
}


def read(text: str) -> TaskQuery:
    return read_query(text, STAGES, PARTITIONED, SCOPE)


def held(query: TaskQuery, name: str) -> set[tuple[str, ...]]:
    """The partitions of a feeder that a query depends on."""
    found = set[tuple[str, ...]]()
    for one in query.reads:
        if one.feeder == name:
            rows = PARTITIONS[name].take(pa.array(read_of([one], PARTITIONS[name])))
            found |= {tuple(row.values()) for row in rows.to_pylist()}
    return found


def read_of(reads: list[Read], partitions: pa.Table) -> Any:
    """The places of the partitions that one task reads."""
    return Links.of(reads, SCOPED.taken(np.array([0])), with_nulls(partitions)).partitions(0)


def with_nulls(partitions: pa.Table) -> pa.Table:
    return partitions.append_column("_", pa.nulls(len(partitions)))


def days(text: str, name: str = "stock") -> list[str]:
    return sorted({values[0][-2:] for values in held(read(text), name)})


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("day = partition_day", ["31"]),
        (
            "stock.day BETWEEN date_sub(partition_day, 3) AND partition_day",
            ["28", "29", "30", "31"],
        ),
        ("stock.day BETWEEN date_sub(partition_day, 1) AND partition_day", ["30", "31"]),
        ("day IN (partition_day, '2022-03-28') AND n > 3", ["28", "31"]),
        ("day = partition_day OR n > 3", ["28", "29", "30", "31"]),
        ("NOT (day = partition_day OR n > 3)", ["28", "29", "30"]),
        ("NOT (day = partition_day AND n > 3)", ["28", "29", "30", "31"]),
        ("NOT NOT day = partition_day", ["31"]),
        ("day <> partition_day", ["28", "29", "30"]),
        ("day NOT IN ('2022-03-28', NULL)", []),
        ("day IS NULL", []),
        ("substring(day, 9, 2) = '29' AND (n IS NULL OR day = '2022-03-29')", ["29"]),
        ("CASE WHEN day < partition_day THEN TRUE ELSE FALSE END", ["28", "29", "30"]),
        ("soundex(day) = '1'", ["28", "29", "30", "31"]),
        ("day = (SELECT max(day) FROM sales)", ["28", "29", "30", "31"]),
        ("day = date_format(date_sub(t, 2), 'yyyy-MM-dd')", ["29"]),
        ("length(day) = k", []),
        ("day LIKE '2022-03-2%'", ["28", "29"]),
        ("day NOT LIKE '2022-03-2_'", ["30", "31"]),
        ("NOT day LIKE '%2%' OR day LIKE partition_day", ["31"]),
        ("(day = partition_day) IS NOT TRUE", ["28", "29", "30"]),
        ("(day > '2022-03-29') IS FALSE", ["28", "29"]),
        ("(day = NULL) IS TRUE", []),
        ("(day = partition_day AND n = 1) IS TRUE", ["28", "29", "30", "31"]),
        ("day LIKE '2022/%' ESCAPE '/'", []),
        ("day NOT LIKE '2022/--/_3%' ESCAPE '/'", ["28", "29", "30", "31"]),  # Spark refuses it
        ("day LIKE '2022--03--3_' ESCAPE '-'", ["30", "31"]),
        ("day LIKE '2022-03-3_' ESCAPE '!'", ["30", "31"]),
        ("day ILIKE '2022-03-3_'", ["28", "29", "30", "31"]),  # left to Spark
    ],
)
def test_conditions(where: str, wanted: list[str]) -> None:
    assert days(f"SELECT m FROM stock WHERE {where}") == wanted


ON = "s.n = a.n AND s.day = '2022-03-30'"


@pytest.mark.parametrize(
    ("from_", "wanted"),
    [
        (f"sales a JOIN stock s ON {ON}", ["30"]),
        (f"sales a LEFT JOIN stock s ON {ON}", ["30"]),
        (f"sales a RIGHT JOIN stock s ON {ON}", ["28", "29", "30", "31"]),
        (f"sales a FULL JOIN stock s ON {ON}", ["28", "29", "30", "31"]),
        (f"sales a LEFT SEMI JOIN stock s ON {ON}", ["30"]),
        (f"sales a LEFT ANTI JOIN stock s ON {ON}", ["30"]),
        (f"stock s LEFT JOIN sales a ON {ON}", ["28", "29", "30", "31"]),
        ("stock s, sales a WHERE s.day = '2022-03-30'", ["30"]),
        ("sales a LEFT JOIN stock s ON a.n = s.n WHERE s.day = '2022-03-30'", ["30"]),
        (
            "sales a LEFT JOIN stock s ON a.n = s.n WHERE s.day = '2022-03-30' OR s.day IS NULL",
            ["28", "29", "30", "31"],
        ),
        (
            "sales a LEFT JOIN stock s ON a.n = s.n WHERE coalesce(s.day, '9') > '1'",
            ["28", "29", "30", "31"],
        ),
        ("(SELECT * FROM stock) s WHERE s.day = '2022-03-30'", ["28", "29", "30", "31"]),
        ("(SELECT * FROM stock WHERE day = partition_day) s", ["31"]),
        ("stock a JOIN stock s ON a.day = '2022-03-29' AND s.day = '2022-03-30'", ["29", "30"]),
        (
            "sales a JOIN (stock s JOIN stock x ON x.day = '2022-03-28') ON s.day = '2022-03-29'",
            ["28", "29"],
        ),
        ("sales a JOIN stock s USING (day) WHERE day = partition_day", ["31"]),
        ("sales a FULL JOIN stock s USING (day, n) WHERE day = partition_day", ["31"]),
        ("sales NATURAL LEFT JOIN stock WHERE day = partition_day", ["31"]),
        ("sales a LEFT ANTI JOIN stock s ON a.n = s.n WHERE day = '1'", ["28", "29", "30", "31"]),
        ("stock AS s(m, day, n, w) WHERE day = partition_day", ["28", "29", "30", "31"]),
        ("stock AS s(x, y, n, w) WHERE x = partition_day", ["31"]),
        ("stock PIVOT (max(n) FOR day IN ('a' AS b)) WHERE m = 1", ["28", "29", "30", "31"]),
    ],
)
def test_joins(from_: str, wanted: list[str]) -> None:
    assert days(f"SELECT 1 AS one FROM {from_}") == wanted


def test_a_column_goes_before_a_name_of_the_scope() -> None:
    found = read("SELECT m FROM stock WHERE n = k AND m = 1")
    assert "CAST('2' AS int)" in found.sql({"stock": "v"}, SCOPE)
    named = Scopes.read("LET n = 7").sample
    found = read_query("SELECT m FROM stock WHERE n = 7", STAGES, PARTITIONED, named).resolved
    assert found.constants == ()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "SELECT m FROM (stock s JOIN sales a ON a.day = partition_day)",
            "(`v` s JOIN `w` a ON a.day = '2022-03-31')",
        ),
        (
            "SELECT s.m FROM sales a JOIN (stock s JOIN stock x ON x.n = k) ON a.n = k",
            "(`v` s JOIN `v` x ON x.n = CAST('2' AS int)) ON a.n = CAST('2' AS int)",
        ),
        ("SELECT id FROM range(k), stock", "FROM range(CAST('2' AS int)), `v`"),
        ("SELECT x FROM VALUES (k) AS t(x), stock", "FROM VALUES (CAST('2' AS int)) AS t(x)"),
        (
            "SELECT x FROM stock, LATERAL (SELECT v AS x FROM sales WHERE v = k)",
            "LATERAL (SELECT v AS x FROM `w` AS sales WHERE v = CAST('2' AS int))",
        ),
        ("SELECT k FROM stock GROUP BY k", "SELECT CAST('2' AS int) AS `k` FROM"),
        (
            "SELECT m AS k FROM stock WHERE k = 2 ORDER BY k",
            "WHERE CAST('2' AS int) = 2 ORDER BY k",
        ),
        ("SELECT count(*) AS k FROM stock HAVING k > 1", "HAVING k > 1"),
        (
            "SELECT m AS k, (SELECT max(v) FROM sales WHERE n = k) AS x FROM stock",
            "WHERE n = CAST('2' AS int))",
        ),
        ("SELECT k + 1 AS k, k + 2 AS x FROM stock", "CAST('2' AS int) + 1 AS k, k + 2 AS x"),
    ],
)
def test_names_of_the_scope_are_found_wherever_they_stand(text: str, wanted: str) -> None:
    """And are not taken for what the SELECT calls so, where Spark knows that."""
    assert wanted in read(text).sql({"stock": "v", "sales": "w"}, SCOPE)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT transform(array(m), x -> x + k) AS y FROM stock", "x -> x + CAST('2' AS int)"),
        ("SELECT f(x => k) AS y FROM stock", "f(x => CAST('2' AS int))"),
        (
            "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY w + k) AS y FROM stock",
            "ORDER BY w + CAST('2' AS int))",
        ),
        ("SELECT sum(w + k) AS y FROM stock GROUP BY ROLLUP (m)", "sum(w + CAST('2' AS int))"),
        ("SELECT m FROM stock LIMIT k", "LIMIT CAST('2' AS int)"),
        ("SELECT m FROM stock SORT BY m + k", "SORT BY m + CAST('2' AS int)"),
        ("(SELECT m FROM stock) ORDER BY k LIMIT 2", "ORDER BY CAST('2' AS int) LIMIT 2"),
        ("SELECT col FROM stock LATERAL VIEW explode(array(k)) e", "explode(array(CAST('2' AS"),
        ("SELECT x FROM stock, LATERAL explode(array(k)) AS e(x)", "explode(array(CAST('2' AS"),
        ("SELECT x FROM own_function(k), stock", "own_function(CAST('2' AS int))"),
        (
            "SELECT y FROM (SELECT * FROM stock PIVOT (max(n) FOR day IN ('a' AS y))) WHERE y = k",
            "WHERE y = CAST('2' AS int)",
        ),
        ("SELECT m FROM stock ORDER BY w LIMIT 2", "ORDER BY w , 1 ASC NULLS FIRST LIMIT 2"),
        ("SELECT collect_list(m + k) AS y FROM stock", "collect_list(m + CAST('2' AS int))"),
    ],
)
def test_what_only_spark_computes_is_read(text: str, wanted: str) -> None:
    assert wanted in read(text).sql({"stock": "v", "sales": "w"}, SCOPE)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT m AS a FROM stock WHERE w = 1", {"stock": "m w"}),
        ("SELECT * EXCEPT (w) FROM stock", {"stock": "day m n"}),
        ("SELECT s.* FROM stock s JOIN sales a ON a.n = s.n", {"stock": "day m n w", "sales": "n"}),
        ("SELECT v FROM sales FULL JOIN stock USING (day)", {"sales": "day v", "stock": "day"}),
        ("SELECT transform(array(1), x -> x + m) AS y FROM stock", {"stock": "m"}),
        ("SELECT sum(w) AS y FROM stock GROUP BY CUBE (m)", {"stock": "m w"}),
        ("WITH c AS (SELECT v FROM sales) SELECT m FROM stock", {"sales": "v", "stock": "m"}),
        (
            "SELECT m FROM stock s WHERE EXISTS (SELECT 1 FROM sales WHERE v = s.w)",
            {"stock": "m w", "sales": "v"},
        ),
        (
            "SELECT m, x FROM stock s, LATERAL (SELECT v AS x FROM sales WHERE n = s.w)",
            {"stock": "m w", "sales": "n v"},
        ),
        ("SELECT b FROM stock PIVOT (max(n) FOR day IN ('a' AS b))", {"stock": "day m n w"}),
    ],
)
def test_the_columns_that_a_query_names(text: str, wanted: dict[str, str]) -> None:
    found = columns_used(for_spark(text, STAGES).relations)
    assert {name: " ".join(sorted(used)) for name, used in found.items()} == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT * FROM sales a LEFT SEMI JOIN stock s ON a.n = s.n", "day store n v"),
        ("SELECT * FROM sales JOIN stock USING (n, day)", "n day store v m w"),
        ("SELECT * FROM sales NATURAL RIGHT JOIN stock", "day n store v m w"),
        ("SELECT * EXCEPT (day, w) FROM stock", "m n"),
        ("SELECT s.* EXCEPT (day), a.v FROM sales a FULL JOIN stock s USING (n)", "m n w v"),
        ("SELECT * FROM stock LATERAL VIEW explode(array(1)) e AS x", "day m n w x"),
    ],
)
def test_a_star_stands_for_the_columns_that_spark_finds(text: str, wanted: str) -> None:
    assert [name for name, _ in read(text).outputs] == wanted.split()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT v FROM sales, stock WHERE day = partition_day",
        "SELECT m FROM stock WHERE m",
        "SELECT m FROM stock WHERE m = DATE '2022-03-31'",
        "SELECT m FROM stock WHERE t IN (1, 2)",
        "SELECT sum(t) AS x FROM stock",
        "SELECT m * (day = '1') AS x FROM stock",
        "SELECT max(m) AS x FROM stock HAVING max(m)",
        "SELECT m FROM stock TABLESAMPLE (5 ROWS)",
        "SELECT m FROM stock WHERE day = :partition_day",
        "SELECT m FROM stock VERSION AS OF 3",
        "SELECT * FROM stock PIVOT (max(n) FOR day IN ('a'))",
        "SELECT nope FROM stock",
        "SELECT s.nope FROM stock s",
        "SELECT m FROM nope",
        "SELECT now() AS x FROM stock",
        "SELECT rand() AS x FROM stock",
        "SELECT m, m FROM stock",
        "SELECT m + 1 FROM stock",
        "SELECT 1 AS x",
        "SELECT FROM stock",
        "DELETE FROM stock",
    ],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(DefinitionError):
        read(text)


class Queries:
    """Random queries over both feeders, in the SQL that DuckDB has in common with Spark."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def one_of(self, *options: str) -> str:
        return self.chance.choice(options)

    def leaf(self, *aliases: str) -> str:
        alias = self.one_of(*aliases)
        day = self.one_of(*(f"'{day}'" for day in DAYS), "partition_day")
        store = self.one_of("'Detroit'", "'Paris'")
        return self.one_of(
            f"{alias}.day {self.one_of('=', '<', '>=', '<>')} {day}",
            f"{alias}.day IN ({day}, {day})",
            f"{alias}.day BETWEEN {day} AND {day}",
            f"{alias}.day IS NULL",
            f"{alias}.n {self.one_of('=', '<')} {self.one_of('1', '2', 'NULL')}",
            f"coalesce({alias}.day, {day}) = {day}",
            f"{alias}.day {self.one_of('', 'NOT ')}LIKE '{self.one_of('%-3_', '2022%', '%1')}'",
            f"({alias}.day < {day}) IS {self.one_of('', 'NOT ')}{self.one_of('TRUE', 'FALSE')}",
            f"({alias}.n = 1) IS {self.one_of('', 'NOT ')}TRUE",
            *([f"a.store = {store}"] if "a" in aliases else []),
            *(
                f"{one}.{name} = {aliases[0]}.{name}"
                for one in aliases[1:]
                for name in ("n", "day")
            ),
        )

    def condition(self, depth: int, *aliases: str) -> str:
        if depth == 0 or self.chance.random() < 0.3:
            return self.leaf(*aliases)
        left, right = (self.condition(depth - 1, *aliases) for _ in range(2))
        return self.one_of(f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})")

    def select(self) -> str:
        join = self.one_of("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN")
        on = f"a.n = s.n AND {self.condition(2, 'a', 's')}"
        if join == "FULL JOIN":  # DuckDB takes no other conditions
            on = "a.n = s.n"
        visible = ("a",) if join in {"SEMI JOIN", "ANTI JOIN"} else ("a", "s")
        columns = ", ".join(
            f"{alias}.day AS {alias}_day, {alias}.n AS {alias}_n" for alias in visible
        )
        nested = self.one_of(
            "stock", "stock", f"(SELECT * FROM stock s WHERE {self.condition(1, 's')})"
        )
        from_ = self.one_of(
            f"sales a {join} {nested} AS s ON {on}",
            f"sales a {join} {nested} AS s ON {on}",
            f"sales a {join} (stock s LEFT JOIN stock x ON {self.condition(1, 's', 'x')}) ON {on}",
            f"(stock x RIGHT JOIN sales a ON {self.condition(1, 'a', 'x')}) {join} stock s ON {on}",
            f"sales a {join} {nested} AS s USING (day, n)",
        )
        where = self.condition(2, *visible)
        if "USING" in from_:
            where += f" {self.one_of('AND', 'OR')} day {self.one_of('=', '<>')} partition_day"
        exists = f"EXISTS (SELECT 1 FROM stock s WHERE s.n = a.n AND {self.condition(1, 's')})"
        also = self.one_of("", "", f" AND {exists}")
        return f"SELECT {columns} FROM {from_} WHERE ({where}){also}"


MERGED = (84, 264)
"""Queries in which a merged column has a value where one side has no row, or none where it has."""


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(n, marks=[pytest.mark.long] if n >= 25 and n not in MERGED else [])
        for n in range(400)
    ],
)
def test_a_query_gives_the_same_over_its_dependencies_alone(seed: int) -> None:
    """Rows of other partitions than those found make no difference."""
    chance = random.Random(seed)
    sales = [
        (chance.choice([*DAYS, None]), chance.choice(STORES), chance.choice([1, 2, 3, None]))
        for _ in range(12)
    ]
    stock = [(chance.choice([*DAYS, None]), chance.choice([1, 2, 3, None])) for _ in range(8)]
    tables = {
        "sales": pa.table(
            {
                **{
                    n: pa.array([r[i] for r in sales], pa.string())
                    for i, n in ((0, "day"), (1, "store"))
                },
                "n": pa.array([row[2] for row in sales], pa.int64()),
            }
        ),
        "stock": pa.table(
            {
                "day": pa.array([row[0] for row in stock], pa.string()),
                "n": pa.array([row[1] for row in stock], pa.int64()),
            }
        ),
    }
    query = read(Queries(chance).select())
    some = dict[str, pa.Table]()
    for name, rows in tables.items():
        partition = rows.select(PARTITIONS[name].column_names)
        reads = [one for one in query.reads if one.feeder == name]
        some[name] = rows.take(pa.array(read_of(reads, partition)))
    text = query.sql({name: name for name in tables}, SCOPE).replace("`", '"')
    wanted = answer(text, tables)
    assert answer(text, some) == wanted
    assert on_driver(query, some) == wanted


def on_driver(query: TaskQuery, tables: dict[str, pa.Table]) -> list[str]:
    """The rows of a query without Spark."""
    schemas = {
        name: row_schema("day string", value, stage=name)
        for name, value in (("sales", "store string, n bigint"), ("stock", "n bigint"))
    }
    found = resolved(query.text, schemas, SCOPE)
    assert found.only_in_spark is None
    assert [*found.types.items()] == [*query.outputs]
    rows = rows_of(found.relation, tables, Computing("UTC"))
    columns = [rows.column(one.field.id).to_pylist() for one in found.columns]
    return sorted(map(repr, zip(*columns, strict=True)))


def answer(text: str, tables: dict[str, pa.Table]) -> list[str]:
    with duckdb.connect() as connection:
        for name, rows in tables.items():
            connection.register(name, rows)
        return sorted(map(repr, connection.execute(text).fetchall()))


LEAVES = (
    "sales.day = d",
    "d = sales.day",
    "sales.store = s",
    "sales.day BETWEEN date_sub(d, 1) AND d",
    "sales.day = date_format(date_sub(t, k), 'yyyy-MM-dd')",
    "sales.day < d",
    "sales.store <> s",
    "sales.day IN (d, '2022-03-28')",
    "sales.store IN (s, 'Paris')",
    "sales.store LIKE s",
    "sales.day NOT LIKE '%-3_'",
    "(sales.day < d) IS NOT TRUE",
    "coalesce(sales.day, d) = d",
    "1 DIV (k - 2) = 1",
    "sales.n = 1",
    "k = 2",
    "s = 'Paris'",
    "sales.day IS NULL",
)


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[pytest.mark.long] if n >= 15 else []) for n in range(300)]
)
def test_all_tasks_at_once_are_linked_as_each_by_itself(seed: int) -> None:
    """And the sums of what their partitions have are those of the links of each."""
    chance = random.Random(seed)

    def condition(depth: int) -> str:
        if depth == 0 or chance.random() < 0.3:
            return chance.choice(LEAVES)
        left, right = condition(depth - 1), condition(depth - 1)
        return chance.choice([f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})"])

    scoped = Scopes.read(
        "FOR t IN timeseries('1 day', 3), LET d = date_format(t, 'yyyy-MM-dd'), "
        "FOR k IN array(1, 2), FOR s IN array('Detroit', 'Paris')"
    ).of(datetime(2022, 3, 31, tzinfo=UTC))
    from_ = chance.choice(["sales", "stock LEFT JOIN sales ON stock.n = sales.n"])
    text = f"SELECT sales.n AS n FROM {from_} WHERE {condition(3)}"
    if chance.random() < 0.3:
        text = f"{text} UNION ALL SELECT n FROM sales WHERE {condition(1)}"
    reads = [
        read
        for read in read_query(text, STAGES, PARTITIONED, scoped[0]).reads
        if read.feeder == "sales"
    ]
    some = [*PARTITIONS["sales"].to_pylist(), {"day": None, "store": "Paris"}]
    chosen = chance.sample(some, chance.randrange(1, 10))
    partitions = with_nulls(pa.Table.from_pylist(chosen, PARTITIONS["sales"].schema))
    links = Links.of(reads, scoped, partitions)
    numbers = np.arange(1, len(partitions) + 1).astype(np.uint64) ** np.uint64(3)
    sums = links.sums([numbers])[0]
    for task in range(len(scoped)):
        alone = Links.of(reads, scoped.taken(np.array([task])), partitions).partitions(0)
        one_by_one = [
            place
            for place in range(len(partitions))
            if len(
                Links.of(
                    reads, scoped.taken(np.array([task])), partitions.take(pa.array([place]))
                ).partitions(0)
            )
        ]
        assert links.partitions(task).tolist() == alone.tolist() == one_by_one
        assert sums[task] == numbers[alone].sum()


def test_tests_that_only_spark_computes_are_booleans() -> None:
    found = read("SELECT day RLIKE 'x' AS f, NOT (day ILIKE 'y') AS g, m FROM stock").outputs
    assert [kind.simpleString() for _, kind in found] == ["boolean", "boolean", "bigint"]
