"""Queries of a dbt project: what they want of tables, and what they say in Spark's SQL."""

from collections.abc import Mapping

import pytest
from sqlglot import exp, parse_one

import deltaproduce as dp
from deltaproduce import DefinitionError
from deltaproduce.projects.dbt.sql.naming import column_name
from deltaproduce.projects.dbt.sql.translation import DIALECTS, translated
from deltaproduce.projects.dbt.sql.wanted import WantedColumns, of_all, wanted

DAY = "2024-02-29"


def node_of(table: exp.Table) -> str:
    return table.name


def sql(text: str, dialect: str) -> str:
    return " ".join(translated(text, dialect, node_of, {"t": "t"}, {}, {}).sql.split())


def wants(**queries: str) -> Mapping[str, dict[str, str]]:
    """What queries in BigQuery's SQL want of tables, those that are read first come first."""
    known = {"known": frozenset({"id", "name"})}
    read = {
        name: wanted(parse_one(text, read="bigquery"), node_of, known)  # type: ignore[arg-type]
        for name, text in queries.items()
    }
    return of_all(read, [*read])


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT a, b AS c FROM t WHERE d > 1", {"a": "string", "b": "string", "d": "string"}),
        ("WITH s AS (SELECT * FROM t), r AS (SELECT a FROM s) SELECT * FROM r", {"a": "string"}),
        ("SELECT * EXCEPT (a), upper(b) AS b FROM t", {"b": "string"}),
        ("SELECT x.a FROM (SELECT * FROM t UNION ALL SELECT * FROM t) AS x", {"a": "string"}),
        ("SELECT a + 1 AS b, b * 2 AS c FROM t", {"a": "string"}),
        ("SELECT a FROM t WHERE NOT is_old", {"a": "string", "is_old": "boolean"}),
        ("SELECT u FROM t CROSS JOIN UNNEST(t.list) AS u", {"list": "array<string>"}),
        (
            "SELECT p.q.r, t.p.s FROM t WHERE p.is_new",
            {"p": "struct<is_new: boolean, q: struct<r: string>, s: string>"},
        ),
        ("SELECT name, a FROM known JOIN t USING (id)", {"a": "string", "id": "string"}),
        ("SELECT a FROM t, u", {}),  # it may be of both
    ],
)
def test_queries_want_the_columns_that_they_name(text: str, columns: dict[str, str]) -> None:
    own = wants(model=text).get("t", {})
    assert {name: kind for name, kind in own.items() if name != "name"} == columns


def test_what_readers_want_goes_down_to_the_table() -> None:
    found = wants(
        staged="WITH s AS (SELECT * FROM t) SELECT *, data AS content FROM s",
        filtered="SELECT s.*, content.kind AS kind FROM staged AS s WHERE is_active",
        read="SELECT amount, content FROM filtered WHERE content.is_paid",
    )
    assert found["t"] == {
        "data": "struct<is_paid: boolean, kind: string>",
        "is_active": "boolean",
        "amount": "string",
    }


def test_a_query_that_reads_itself_ends() -> None:
    text = "WITH RECURSIVE r AS (SELECT a FROM t UNION ALL SELECT r.* FROM r) SELECT * FROM r"
    assert isinstance(wanted(parse_one(text), node_of, {}), WantedColumns)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "own"),
    [("a", "a"), ("_a", "a_"), ("__a_b", "a_b__"), ("_5", "5_"), ("_", "_")],
)
def test_columns_do_not_begin_with_an_underscore(name: str, own: str) -> None:
    assert column_name(name) == own


@pytest.mark.parametrize(
    ("dialect", "text", "said"),
    [
        (
            "snowflake",
            "SELECT _a, t._b AS _c FROM t WHERE _a > 1",
            "SELECT a_, t.b_ AS c_ FROM t WHERE a_ > 1",
        ),
        ("duckdb", "SELECT a FROM t LIMIT 3", "SELECT a FROM t ORDER BY 1 LIMIT 3"),
        ("duckdb", "SELECT a FROM t LIMIT 0", "SELECT a FROM t WHERE FALSE"),
        ("duckdb", "SELECT any_value(a) AS b FROM t", "SELECT MIN(a) AS b FROM t"),
        (
            "snowflake",
            "SELECT array_agg(a) AS b FROM t",
            "SELECT SORT_ARRAY(COLLECT_LIST(a)) AS b FROM t",
        ),
        (
            "bigquery",
            "SELECT row_number() OVER (PARTITION BY a) AS n FROM t",
            "SELECT ROW_NUMBER() OVER (PARTITION BY a ORDER BY a NULLS LAST) AS n FROM t",
        ),
        ("postgres", "SELECT current_date AS d FROM t", "SELECT :as_of AS d FROM t"),
        (
            "duckdb",
            "SELECT now() AS d FROM t",
            "SELECT ( CAST(:as_of AS TIMESTAMP) + INTERVAL '12' HOUR ) AS d FROM t",
        ),
        (
            "duckdb",
            "SELECT '8887-06-05 04:03:02+00:00' AS d FROM t",
            "SELECT CAST(:as_of AS STRING) AS d FROM t",
        ),
        (
            "snowflake",
            "SELECT a FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) = 1",
            "SELECT a FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY b NULLS LAST) = 1",
        ),
        (
            "snowflake",
            "SELECT to_number(a) AS b FROM t",
            "SELECT CAST(a AS DECIMAL(38, 0)) AS b FROM t",
        ),
        (
            "bigquery",
            "SELECT safe_cast(a AS numeric) AS b FROM t",
            "SELECT TRY_CAST(a AS DECIMAL(38, 9)) AS b FROM t",
        ),
        (
            "postgres",
            "SELECT a::numeric AS b, a::numeric(5, 2) AS c FROM t",
            "SELECT CAST(a AS DECIMAL(38, 18)) AS b, CAST(a AS DECIMAL(5, 2)) AS c FROM t",
        ),
        (
            "redshift",
            "SELECT a::decimal AS b FROM t",
            "SELECT CAST(a AS DECIMAL(18, 0)) AS b FROM t",
        ),
        (
            "databricks",
            "SELECT CAST(a AS decimal) AS b FROM t",
            "SELECT CAST(a AS DECIMAL) AS b FROM t",
        ),
        (
            "snowflake",
            "SELECT regexp_substr(a, 'x') AS b FROM t",
            "SELECT NULLIF(REGEXP_EXTRACT(a, 'x', 0), '') AS b FROM t",
        ),
        (
            "snowflake",
            "SELECT last_day(a, 'quarter') AS b FROM t",
            "SELECT LAST_DAY(ADD_MONTHS(TRUNC(CAST(a AS DATE), 'QUARTER'), 2)) AS b FROM t",
        ),
    ],
)
def test_what_a_database_may_choose_and_what_it_calls_otherwise(
    dialect: str, text: str, said: str
) -> None:
    assert sql(text, dialect) == said


def test_a_part_of_the_time_of_a_run_is_refused() -> None:
    with pytest.raises(DefinitionError, match="current_date"):
        sql("SELECT a FROM t WHERE b > '8887-05-05'", "duckdb")


QUERIES = (
    "SELECT id, coalesce(name, 'none') AS name, CAST(amount AS decimal(10, 2)) AS amount FROM t",
    "SELECT name, count(*) AS n, sum(amount) AS total FROM t GROUP BY 1 HAVING count(*) > 1",
    "WITH s AS (SELECT * FROM t WHERE amount > 0) SELECT s.id, t.name FROM s JOIN t ON s.id = t.id",
    "SELECT id, row_number() OVER (PARTITION BY name ORDER BY day DESC, id) AS place FROM t",
    "SELECT id, CASE WHEN name LIKE 'a%' THEN upper(name) ELSE trim(name) END AS kind FROM t",
    "SELECT id FROM t WHERE name IN ('a', 'b') UNION ALL SELECT id FROM t WHERE day IS NULL",
    "SELECT id, extract(year FROM day) AS year, date_trunc('month', day) AS month FROM t",
)


@pytest.mark.parametrize("dialect", sorted({*DIALECTS.values()}))
@pytest.mark.parametrize("text", QUERIES)
def test_queries_of_each_dialect_are_views(dialect: str, text: str) -> None:
    if dialect == "bigquery":
        text = text.replace("date_trunc('month', day)", "date_trunc(day, MONTH)")
    pipeline = dp.Pipeline("all")
    pipeline.source("t", key="id int", value="name string, amount double, day date")
    pipeline.sql("view", sql(text, dialect))
    assert pipeline.graph().stage("view").schema.names
