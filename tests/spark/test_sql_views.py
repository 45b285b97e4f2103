"""Views beside Spark: rows and types of their queries are those that Spark returns for the text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from random_queries import Queries
from selecting import long
from view_queries import (
    EXAMPLES,
    OF_SPARK,
    SHADOWED,
    STAGES,
    contents,
    random_value,
    tables,
    unedited,
)

import deltaproduce as dp
from deltaproduce.engines.spark.data_types import frame_struct
from deltaproduce.stages.sql.operators.computing import Computing
from deltaproduce.stages.sql.operators.evaluation import rows_of
from deltaproduce.stages.sql.operators_in_spark import frame_of, has_frame
from deltaproduce.stages.sql.resolve import Resolved, resolved
from deltaproduce.stages.views.in_spark import queried
from deltaproduce.types.columns import RowSchema, row_schema

TYPED = {
    "sales": row_schema(
        "id bigint",
        "customer bigint, amount decimal(12,2), rate double, day date, word string, ok boolean, "
        "small smallint",
        stage="sales",
    ),
    "people": row_schema("customer bigint", "name string, born date", stage="people"),
}
ROWS = {
    "sales": [
        (1, 1, Decimal("10.50"), 0.5, date(2026, 1, 1), "a", True, 1),
        (2, 1, Decimal("-3.25"), -0.0, date(2026, 2, 1), "b", False, -2),
        (3, 2, None, float("nan"), None, None, None, None),
        (4, None, Decimal("7.00"), 0.0, date(2025, 12, 31), "", True, 32767),
        (5, 3, Decimal("10.50"), None, date(2026, 1, 1), "a", False, 1),
    ],
    "people": [(1, "Ann", date(1990, 5, 1)), (2, None, None), (4, "Dan", date(1970, 1, 1))],
}
QUERIES = (
    "SELECT customer, sum(amount) AS s, avg(amount) AS a, count(*) AS n, max(day) AS d, "
    "min(word) AS w, sum(small) AS m, avg(small) AS v FROM sales GROUP BY customer",
    "SELECT sum(amount) AS s, avg(rate) AS a, bool_and(ok) AS b, count_if(ok) AS c, "
    "max(rate) AS r, min(rate) AS l FROM sales",
    "SELECT ok, stddev(small) AS s, var_pop(small) AS v, some(ok) AS o FROM sales GROUP BY ok",
    "SELECT s.id, p.name, s.amount * 2 AS twice FROM sales s LEFT JOIN people p USING (customer)",
    "SELECT * FROM sales NATURAL FULL JOIN people",
    "SELECT customer, name, id FROM sales FULL JOIN people USING (customer)",
    "SELECT people.customer AS c, id FROM sales RIGHT JOIN people USING (customer)",
    "SELECT DISTINCT rate, ok FROM sales",
    "SELECT rate, count(*) AS n FROM sales GROUP BY rate",
    "SELECT small AS x FROM sales UNION ALL SELECT customer FROM people",
    "SELECT small AS x, NULL AS y FROM sales UNION SELECT amount, id FROM sales",
    "SELECT word AS w FROM sales EXCEPT SELECT name FROM people",
    "SELECT id FROM sales WHERE amount > (SELECT avg(amount) FROM sales)",
    "SELECT id, (SELECT max(born) FROM people p WHERE p.customer = s.customer) AS b FROM sales s",
    "SELECT id, (SELECT count(*) FROM people p WHERE p.customer = s.customer) AS n FROM sales s",
    "SELECT id FROM sales WHERE customer NOT IN (SELECT customer FROM people)",
    "SELECT id, customer IN (SELECT customer FROM people WHERE name IS NULL) AS i, "
    "customer NOT IN (SELECT customer FROM people WHERE name IS NULL) AS j FROM sales",
    "SELECT id FROM sales WHERE NOT (customer IN (SELECT customer FROM people) AND ok)",
    "SELECT id FROM sales s WHERE EXISTS (SELECT 1 FROM sales o WHERE o.customer = s.customer AND "
    "o.id <> s.id)",
    "SELECT year(day) AS y, sum(amount) AS s FROM sales GROUP BY year(day) HAVING s > 0",
    "SELECT day, id FROM sales ORDER BY day DESC LIMIT 3",
    "SELECT word, count(*) AS n FROM sales GROUP BY word ORDER BY n DESC, word LIMIT 2 OFFSET 1",
    "SELECT a.id, b.id AS other FROM sales a, sales b WHERE a.amount = b.amount AND a.id < b.id",
    "WITH c AS (SELECT customer, sum(amount) AS s FROM sales GROUP BY customer) "
    "SELECT c.customer, c.s, d.s AS t FROM c JOIN c d ON c.s > d.s",
    "SELECT v.x, count(id) AS n FROM VALUES (1, 'a'), (2L, NULL) AS v(x, y) "
    "LEFT JOIN sales ON word = y GROUP BY v.x",
    "SELECT id, a + 1 AS b FROM (SELECT id, small AS a FROM sales WHERE small < 10) t",
    "SELECT id AS a, a + 1 AS b, b * 2 AS c FROM sales",
    "SELECT s.x.w AS w, s.x.id AS i, s.x.col3 AS c, s.x.day AS d "
    "FROM (SELECT struct(id, word AS w, small + 1, t.day) AS x FROM sales t) s",
    "SELECT id, (array(small, id))[1] AS a, size(array(id)) AS n, map('k', word)['k'] AS m "
    "FROM sales",
    "SELECT id, x, y FROM sales LATERAL VIEW "
    "inline(array(struct(day, word), struct(day, 'z' AS word))) v AS x, y",
    "SELECT customer, count(DISTINCT word, ok) AS n, sum(DISTINCT small) AS s FROM sales "
    "GROUP BY ALL",
    "SELECT s.customer, p.name FROM sales s LEFT ANTI JOIN people p ON s.customer = p.customer "
    "JOIN people p ON true",
    "SELECT id, row_number() OVER w AS n, rank() OVER w AS r, dense_rank() OVER w AS d, "
    "percent_rank() OVER w AS p, cume_dist() OVER w AS c, ntile(2) OVER w AS t, "
    "lag(amount, 1, 2) OVER w AS l, lead(word) OVER w AS e, first_value(rate) OVER w AS f, "
    "last_value(day) OVER w AS g, nth_value(small, 2) OVER w AS v "
    "FROM sales WINDOW w AS (PARTITION BY customer ORDER BY rate DESC)",
    "SELECT id, sum(amount) OVER w AS s, avg(amount) OVER w AS a, sum(small) OVER w AS m, "
    "avg(small) OVER w AS b, stddev(small) OVER w AS d, count_if(ok) OVER w AS c, "
    "min(word) OVER w AS l, max(rate) OVER w AS x, bool_and(ok) OVER w AS o "
    "FROM sales WINDOW w AS (PARTITION BY customer > 1 ORDER BY day)",
    "SELECT id, sum(rate) OVER (PARTITION BY ok ORDER BY id ROWS BETWEEN 1 PRECEDING AND "
    "1 FOLLOWING) AS s, avg(rate) OVER (PARTITION BY ok ORDER BY id ROWS 1 PRECEDING) AS a, "
    "max(rate) OVER (PARTITION BY ok ORDER BY id ROWS 1 PRECEDING) AS x FROM sales",
    "SELECT id, count(*) OVER (ORDER BY day RANGE BETWEEN INTERVAL '31' DAY PRECEDING AND CURRENT "
    "ROW) AS n, count(*) OVER (ORDER BY day DESC RANGE BETWEEN INTERVAL '1' MONTH PRECEDING AND "
    "INTERVAL '1' MONTH FOLLOWING) AS m, count(*) OVER (ORDER BY day RANGE 1 PRECEDING) AS d, "
    "count(*) OVER (ORDER BY rate RANGE BETWEEN 1 PRECEDING AND 0.5 FOLLOWING) AS r, "
    "count(*) OVER (ORDER BY rate DESC NULLS FIRST RANGE BETWEEN 1 PRECEDING AND UNBOUNDED "
    "FOLLOWING) AS q, sum(amount) OVER (ORDER BY amount RANGE BETWEEN 1 FOLLOWING AND "
    "9 FOLLOWING) AS a, count(*) OVER (ORDER BY small RANGE BETWEEN 3 PRECEDING AND CURRENT ROW) "
    "AS t FROM sales",
    "SELECT id, lag(rate) IGNORE NULLS OVER w AS l, lead(amount, 2) IGNORE NULLS OVER w AS e, "
    "last_value(word) IGNORE NULLS OVER w AS f, first_value(small, true) OVER w AS g "
    "FROM sales WINDOW w AS (PARTITION BY ok ORDER BY day, id)",
    "SELECT customer, year(day) AS y, sum(amount) AS s, rank() OVER (ORDER BY sum(amount)) AS r, "
    "row_number() OVER (PARTITION BY year(day) ORDER BY count(*)) AS n FROM sales "
    "GROUP BY customer, year(day) QUALIFY r < 4",
    "SELECT customer, ok, sum(amount) AS s, grouping(customer) AS g, grouping_id() AS i FROM sales "
    "GROUP BY ROLLUP (customer, ok)",
    "SELECT customer AS c, year(day) AS y, count(*) AS n, grouping(year(day)) AS g FROM sales "
    "GROUP BY customer, CUBE (year(day), ok) HAVING count(*) > 0",
    "SELECT ok, word, max(rate) AS r, sum(small) AS m FROM sales GROUP BY ok, word "
    "GROUPING SETS ((ok, word), ok, (ok), ())",
    "SELECT ok, count(*) AS n, row_number() OVER (PARTITION BY ok ORDER BY count(*)) AS r "
    "FROM sales GROUP BY ok, word WITH CUBE",
    "SELECT customer, max(small) AS m FROM sales GROUP BY ROLLUP (customer) QUALIFY row_number() "
    "OVER (PARTITION BY m ORDER BY customer) < 2",
    "SELECT word AS w, count(*) AS n FROM sales GROUP BY CUBE (w, ok) QUALIFY row_number() "
    "OVER (PARTITION BY n ORDER BY n) < 3",
    "SELECT max(id) AS m, row_number() OVER w AS r FROM sales GROUP BY GROUPING SETS ((ok), (ok), "
    "()) WINDOW w AS (PARTITION BY count(*) > 0 ORDER BY max(ok)) QUALIFY row_number() OVER "
    "(PARTITION BY r > 9 ORDER BY r > 9) < 4",
    "SELECT small, sum(small) AS s, count(*) AS n FROM sales WHERE id > 9 GROUP BY ROLLUP (small)",
    "SELECT count(*) AS n FROM sales WHERE id > 9 GROUP BY GROUPING SETS (())",
    "SELECT id, e FROM sales LATERAL VIEW explode(array(small, customer)) x AS e",
    "SELECT id, p, e FROM sales LATERAL VIEW OUTER posexplode(array(word, 'z')) x AS p, e",
    "SELECT id, explode(array(amount, 1.5)) AS e FROM sales",
    "SELECT id, stack(2, 'x', small, word, NULL) AS (w, n) FROM sales",
    "SELECT s.id, name, row_number() OVER (PARTITION BY ok ORDER BY born DESC) AS n FROM sales s "
    "LEFT JOIN people USING (customer) QUALIFY n < 3",
)
ENDS = {
    "ends": row_schema(
        "id bigint",
        "g int, y int, w string, b binary, n bigint, m decimal(12,2), f double, d date, "
        "t timestamp, o boolean",
        stage="ends",
    )
}
VALUES: dict[str, tuple[Any, ...]] = {
    "w": (None, "", "a", "ab", "é", "b"),
    "b": (None, b"", b"\x00", b"\xff"),
    "n": (None, -(2**63), 0, 2**63 - 1),
    "m": (None, Decimal("-1.25"), Decimal("0.00"), Decimal("9.10")),
    "f": (None, float("nan"), float("-inf"), 0.0, 1.5),
    "d": (None, date(1, 1, 1), date(2026, 1, 1), date(9999, 12, 31)),
    "t": (None, datetime(1969, 12, 31, tzinfo=UTC), datetime(2026, 1, 1, 2, 3, 4, 5, tzinfo=UTC)),
    "o": (None, False, True),
}
OF_ENDS = (
    *(f"SELECT g, max_by({c}, y) AS x, min_by({c}, y) AS n FROM ends GROUP BY g" for c in VALUES),
    *(f"SELECT g, max_by(y, {c}) AS x, min_by(y, {c}) AS n FROM ends GROUP BY g" for c in VALUES),
    *(
        f"SELECT g, mode({c}) AS m, sort_array(collect_list({c})) AS l FROM ends GROUP BY g"
        for c in VALUES
        if c not in "bf"
    ),
    "SELECT max_by(w, y) FILTER (WHERE o) AS w, mode(concat(w, ',', w)) AS m FROM ends",
    "SELECT g, MAX_BY( concat( w , '(,' ) , y + 1 ) AS x, max_by(w, y) AS z FROM ends GROUP BY g",
    "SELECT g, median(y) AS m, percentile(n, 0.25) AS p, median(m) AS d, median(f) AS f, "
    "percentile(y, 1) AS q FROM ends GROUP BY g",
    "SELECT g FROM ends GROUP BY g HAVING max_by(n, w) > 0",
    "SELECT g FROM ends GROUP BY g ORDER BY max_by(y, w)",
)
"""Aggregates of ends and orders, of which several values are equal."""


@contextmanager
def viewed(spark: SparkSession, frames: Mapping[str, pa.Table]) -> Iterator[dict[str, str]]:
    """Temporary views of tables."""
    names = {name: f"_test_{name}" for name in frames}
    for name, table in frames.items():
        spark.createDataFrame(table).createOrReplaceTempView(names[name])
    yield names
    for name in names.values():
        spark.catalog.dropTempView(name)


def plain(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if value != value else round(value, 9) + 0.0
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, list):
        return tuple(map(plain, value))
    if isinstance(value, bytearray):
        return bytes(value)
    return value


def bag(rows: Any) -> Counter[Any]:
    return Counter(tuple(plain(value) for value in row) for row in rows)


def check(spark: SparkSession, query: Resolved, frames: Mapping[str, pa.Table], views: Any) -> None:
    """Rows and types are Spark's."""
    answer = spark.sql(query.sql(views))
    assert [field.dataType for field in frame_struct(answer)] == [*query.types.values()], query.text
    made = rows_of(query.relation, frames, Computing("UTC"))
    columns = [made.column(field).to_pylist() for field in query.fields.values()]
    found = bag(zip(*columns, strict=True))
    assert found == bag(map(tuple, answer.collect())), query.text


ASIDE = (
    "SELECT max(a) AS m FROM t GROUP BY ROLLUP (k) QUALIFY row_number() OVER (PARTITION BY max(a) "
    "ORDER BY k) < 3",
    "SELECT k + 1 AS z, max(a) AS m FROM t GROUP BY k + 1 QUALIFY row_number() OVER (PARTITION "
    "BY m ORDER BY m) < 2",
    "SELECT count(*) AS n FROM t GROUP BY CUBE (k) HAVING grouping(k) = 1 OR max(a) > 1",
    "SELECT -k AS b, row_number() OVER (PARTITION BY a ORDER BY k) AS r FROM t QUALIFY b < 0",
    "SELECT -a AS k, row_number() OVER (PARTITION BY a ORDER BY b) AS r FROM (SELECT k, a, b "
    "FROM t) QUALIFY row_number() OVER (PARTITION BY r ORDER BY r) < 3",
    "SELECT y, first_value(z) OVER (PARTITION BY y ORDER BY y) AS f "
    "FROM (SELECT -a AS x, a AS x, b AS y, k AS z FROM t)",
    "SELECT a, b, k FROM t ORDER BY row_number() OVER (PARTITION BY a ORDER BY b), k LIMIT 4",
)
"""Queries whose text Spark refuses, or cannot tell which of equal rows comes first."""


def test_a_query_whose_text_spark_does_not_take_is_run_by_its_operators(
    spark: SparkSession,
) -> None:
    pipeline = dp.Pipeline("aside")
    for name, schema in STAGES.items():
        pipeline.source(name, key=schema.key.ddl, value=schema.value.ddl)
    for n, text in enumerate(ASIDE):
        pipeline.sql(f"v{n}", text)
    random, names = Random(8), STAGES["t"].names
    frames = tables({"t": [{c: random_value(random, c) for c in names} for _ in range(12)]})
    rows = {name: spark.createDataFrame(table) for name, table in frames.items()}
    for n, text in enumerate(ASIDE):
        stage, query = pipeline.graph().stage(f"v{n}"), resolved(text, STAGES)
        made = rows_of(query.relation, frames, Computing("UTC"))
        wanted = bag(map(tuple, _listed(made.select([*query.fields.values()]))))
        with queried(stage, query, rows, spark, {}) as found:  # type: ignore[arg-type]
            assert bag(found.select(*query.names).collect()) == wanted, text
        assert sum(wanted.values()) > 1, text


def test_a_view_that_only_the_driver_computes_is_refused_with_a_session(
    spark: SparkSession, location: str
) -> None:
    """Not when it has too many rows for the driver."""
    pipeline = dp.Pipeline("refused")
    pipeline.source("t", key="k bigint", value="a int")
    text = (
        "SELECT max(a) AS m, count(*) OVER (ORDER BY max(a) RANGE 1 PRECEDING) AS n FROM t "
        "GROUP BY k QUALIFY max(a) > 0"
    )
    pipeline.sql("v", text)
    dp.Store(None, location, pipeline)
    with pytest.raises(dp.DefinitionError, match="Spark refuses its query") as raised:
        dp.Store(spark, location, pipeline)
    assert raised.value.stage == "v"


def test_queries_of_all_types_return_what_spark_returns(spark: SparkSession) -> None:
    frames = {name: typed_table(schema, ROWS[name]) for name, schema in TYPED.items()}
    with viewed(spark, frames) as views:
        for text in QUERIES:
            query = resolved(text, TYPED)
            assert query.only_in_spark is None, (query.only_in_spark, text)
            check(spark, query, frames, views)


def test_of_equal_ends_spark_returns_the_least(spark: SparkSession) -> None:
    """In what order its tasks may see the rows."""
    random = Random(3)
    rows = [
        (
            key,
            random.choice((None, 1, 2, 3)),
            random.choice((None, 1, 2)),
            *(random.choice(values) for values in VALUES.values()),
        )
        for key in range(200)
    ]
    frames = {"ends": typed_table(ENDS["ends"], rows)}
    with viewed(spark, frames) as views:
        for text in OF_ENDS:
            query = resolved(text, ENDS)
            assert query.only_in_spark is None, (query.only_in_spark, text)
            check(spark, query, frames, views)


def test_examples_that_only_spark_has_beside_the_driver_return_what_spark_returns(
    spark: SparkSession, long_run: bool
) -> None:
    """LATERAL, PIVOT, generators, WITH CUBE and names of two columns, also over no rows."""
    random = Random("of Spark")
    full = tables(contents(random))
    nothing = {name: table.slice(0, 0) for name, table in full.items()}
    for frames in (full, nothing, *(tables(contents(random)) for _ in range(9 * long_run))):
        with viewed(spark, frames) as views:
            for text in (*OF_SPARK, *SHADOWED):
                check(spark, resolved(text, STAGES), frames, views)


def test_random_queries_return_what_spark_returns(spark: SparkSession, long_run: bool) -> None:
    """But for queries for which Spark has no plan: it finds no keys of ROLLUP in HAVING, say."""
    checked, seeds = 0, 500 if long_run else 12
    for seed in range(seeds):
        random = Random(seed)
        frames, query = tables(contents(random)), resolved(Queries(random).query(), STAGES)
        with viewed(spark, frames) as views:
            if has_plan(spark, query, views):
                check(spark, query, frames, views)
                checked += 1
    assert checked > seeds * 0.75


def has_plan(spark: SparkSession, query: Resolved, views: Mapping[str, str]) -> bool:
    """Whether Spark can run what the user wrote, apart from what the library adds to it."""
    try:
        spark.sql(unedited(query, views))
    except AnalysisException:
        return False
    return True


def test_each_operator_as_a_frame_returns_what_the_driver_returns(
    spark: SparkSession, long_run: bool
) -> None:
    """Hidden tables are made of them where Spark makes the first rows."""
    random, known = Random("frames"), 0
    texts = [*EXAMPLES, *OF_SPARK]
    for _ in range(4 if long_run else 1):
        frames = tables(contents(random))
        rows = {name: spark.createDataFrame(table) for name, table in frames.items()}
        some = texts if long_run else [*texts[:4], *random.sample(texts[4:], 40)]
        for text in some:
            query = resolved(text, STAGES)
            if not has_frame(query.relation):
                continue
            known += 1
            names = list(query.fields.values())
            made = rows_of(query.relation, frames, Computing("UTC")).select(names)
            found = frame_of(query.relation, rows, spark).select(*(f"`{one}`" for one in names))
            assert bag(found.collect()) == bag(map(tuple, _listed(made))), text
    assert known > 30


def _listed(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


NESTED = {
    "g": row_schema(
        "k bigint", "a array<int>, m map<string,int>, s array<struct<p:int,q:string>>", stage="g"
    )
}
OF_NESTED = pa.table(
    {
        "k": pa.array([1, 2, 3, 4], pa.int64()),
        "a": pa.array([[1, None], [], None, [3]], pa.list_(pa.int32())),
        "m": pa.array(
            [[("x", 1)], [], None, [("y", None), ("z", 2)]], pa.map_(pa.string(), pa.int32())
        ),
        "s": pa.array(
            [[{"p": 1, "q": "u"}], [None], None, []],
            pa.list_(pa.struct([("p", pa.int32()), ("q", pa.string())])),
        ),
    }
)
GENERATORS = (
    "SELECT k, e FROM g LATERAL VIEW explode(a) x AS e",
    "SELECT k, e FROM g LATERAL VIEW OUTER explode(a) x AS e",
    "SELECT k, posexplode_outer(a) AS (p, e) FROM g",
    "SELECT k, explode(m) AS (x, y) FROM g",
    "SELECT k, posexplode_outer(m) AS (p, x, y) FROM g",
    "SELECT k, inline(s) AS (x, y) FROM g",
    "SELECT k, x, y FROM g LATERAL VIEW inline_outer(s) z AS x, y",
    "SELECT k, row_number() OVER (PARTITION BY k > 9 ORDER BY 1 + 1) AS n "
    "FROM (SELECT a, s, k FROM g)",
)


def test_generators_and_orders_of_nested_values_are_those_of_spark(spark: SparkSession) -> None:
    with viewed(spark, {"g": OF_NESTED}) as views:
        for text in GENERATORS:
            check(spark, resolved(text, NESTED), {"g": OF_NESTED}, views)
        first = "SELECT m FROM (SELECT struct(m) AS n, m FROM g) ORDER BY n.m IS NULL LIMIT 2"
        for text in (first, first.replace("SELECT m", "SELECT n, m", 1)):
            rows = spark.sql(resolved(text, NESTED).sql(views)).collect()
            assert [row.m for row in rows] == [{"x": 1}, {"y": None, "z": 2}]  # by their text


def typed_table(schema: RowSchema, rows: list[tuple[Any, ...]]) -> pa.Table:
    from deltaproduce.types.atoms import arrow_schema

    columns = (*schema.key, *schema.value)
    named = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(named, arrow_schema(columns))


def shop() -> dp.Pipeline:
    pipeline = dp.Pipeline("shop")
    for name, schema in TYPED.items():
        pipeline.source(name, key=schema.key.ddl, value=schema.value.ddl)
    pipeline.sql(
        "by_name",
        "SELECT p.name, sum(s.amount) AS total FROM sales s JOIN people p USING (customer) "
        "GROUP BY p.name",
    )
    pipeline.sql(
        "hashed",
        "SELECT s.id, xxhash64(p.name) AS h FROM sales s JOIN people p ON p.customer = s.customer "
        "ORDER BY h DESC LIMIT 2",
    )
    pipeline.sql("words", "SELECT word, explode(array(1, small)) AS n FROM sales", "")
    pipeline.sql("of_views", "SELECT count(*) AS n, max(h) AS h FROM hashed")
    return pipeline


def answered(
    store: dp.Store, spark: SparkSession, pipeline: dp.Pipeline, name: str, as_of: Any = None
) -> DataFrame:
    """What Spark returns for a view's query over the store's contents, at a date."""
    stage = pipeline.graph().stage(name)
    text = stage.kind.definition.text(())
    for feeder in stage.merged:
        seen = [c.name for c in (*feeder.schema.key, *feeder.schema.value) if not c.is_hidden]
        store.content(feeder.name).select(*seen).createOrReplaceTempView(feeder.name)
    kind = "timestamp" if isinstance(as_of, datetime) else "date"
    written = "NULL" if as_of is None else f"'{as_of.isoformat()}'"
    return spark.sql(text.replace(":as_of", f"CAST({written} AS {kind})"))


IN_SPARK = dp.Limits(local_rows=0, local_bytes=0)


@long
@pytest.mark.parametrize("limits", [dp.Limits(), IN_SPARK])
def test_a_store_keeps_views_that_are_what_spark_returns(
    spark: SparkSession, location: str, limits: dp.Limits
) -> None:
    """On the driver, and with all rows in Spark; what lacks a kernel is computed by Spark."""
    pipeline = shop()
    rows = {n: typed_table(schema, ROWS[n]) for n, schema in TYPED.items()}
    with dp.Store(spark, location, pipeline, limits=limits) as store:
        store.update(rows)
        assert store.versions()[-1].stages["by_name"].mode == "full"
        more = [(6, 4, Decimal("1.00"), 1.0, date(2026, 1, 1), "c", True, 3)]
        store.update({"sales": typed_table(TYPED["sales"], more)})
        for name in ("by_name", "hashed", "words", "of_views"):
            wanted = answered(store, spark, pipeline, name)
            found = store.content(name).select(*wanted.columns)
            assert found.schema == wanted.schema or found.dtypes == wanted.dtypes
            assert bag(found.collect()) == bag(wanted.collect()), name
        assert not store.verify()


def test_a_session_that_is_not_ansi_is_refused(spark: SparkSession, location: str) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", "false")
    with pytest.raises(dp.SessionError, match=r"ansi"):
        dp.Store(session, location, shop())


def test_a_view_follows_tables_that_already_have_the_next_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What a join reads of an existing Delta table is what it had before the version."""
    place, pipeline = str(tmp_path / "orders"), dp.Pipeline("foreign")

    def write(*rows: tuple[int, str | None]) -> None:
        columns = dict(zip(("id", "customer"), zip(*rows, strict=True), strict=True))
        write_deltalake(place, pa.table(columns), mode="overwrite")

    write((1, "a"), (2, "a"), (3, "b"), (4, None))
    pipeline.delta_source("orders", table=place, key="id bigint", value="customer string")
    pipeline.source("customers", key="name string", value="city string")
    pipeline.sql("twice", "SELECT a.id, b.id AS other FROM orders a JOIN orders b USING (customer)")
    pipeline.sql("cities", "SELECT id, city FROM orders LEFT JOIN customers ON customer = name")
    pipeline.sql("counts", "SELECT customer, count(*) AS n, min(id) AS m FROM orders GROUP BY 1")
    with dp.Store(spark, str(tmp_path / "store"), pipeline, policy="incremental") as store:
        store.update({"customers": [{"name": "a", "city": "x"}]})
        write((1, "b"), (2, "a"), (4, None), (5, "a"), (6, None))
        version = store.update({"customers": [{"name": "b", "city": "y"}]})
        modes = {version.stages[name].mode for name in ("twice", "cities", "counts")}
        assert "full" not in modes
        assert not store.verify(recompute=True)


KEPT = (
    "SELECT k, a FROM t ORDER BY a DESC NULLS LAST, k LIMIT 2",
    "SELECT a, n FROM (SELECT a % 2 AS a, count(*) AS n FROM t GROUP BY 1) g WHERE n > 1",
    "SELECT k FROM t WHERE a > (SELECT count(n) - 2 FROM u)",
    "SELECT k FROM t WHERE a NOT IN (SELECT n FROM u WHERE n > 0)",
    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.n = t.a)",
    "SELECT v.k, t.a FROM (SELECT k, a + n AS x FROM u) v JOIN t ON t.a = v.x",
    "SELECT n, count(*) AS c FROM (SELECT row_number() OVER (PARTITION BY a ORDER BY b DESC) AS n "
    "FROM t) GROUP BY n HAVING count(*) > 1",
    "SELECT e, count(*) AS n FROM (SELECT explode(array(a, b)) AS e FROM t) GROUP BY e "
    "ORDER BY n DESC, e LIMIT 2",
    "SELECT i, n FROM (SELECT grouping_id() AS i, a, count(*) AS n FROM t GROUP BY CUBE (a, b)) "
    "ORDER BY n DESC, i LIMIT 3",
    "SELECT a, count(*) AS n FROM (SELECT a, b FROM t EXCEPT ALL SELECT n, a FROM u) v GROUP BY a "
    "ORDER BY n, a LIMIT 2",
    "SELECT c, count(*) AS n FROM (SELECT a, count(*) AS c FROM t WHERE b IN (SELECT a FROM u "
    "WHERE u.k = t.k) GROUP BY a) v GROUP BY c HAVING count(*) > 0",
    "SELECT t.k, count(*) AS n, min(u.n) AS m FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.k",
    "SELECT t.b, count(u.n) AS n, sum(u.k) AS k, sum(u.n) AS x, max(t.s) AS s, "
    "count(*) FILTER (WHERE u.n IS NULL) AS m FROM u RIGHT JOIN t ON u.a = t.a AND u.n > 0 "
    "GROUP BY t.b HAVING count(*) > 1",
)


def test_hidden_tables_that_spark_has_made_follow_changes(
    spark: SparkSession, location: str, long_run: bool
) -> None:
    """The first load is in Spark, and later changes are on the driver; then all in Spark again.

    A short run has a few of the queries, and one change.
    """
    queries = KEPT if long_run else (*KEPT[::5], KEPT[-1])
    ways = (IN_SPARK, dp.Limits(), dp.Limits(), IN_SPARK)
    pipeline = dp.Pipeline("kept")
    for name, schema in STAGES.items():
        pipeline.source(name, key=schema.key.ddl, value=schema.value.ddl)
    for n, text in enumerate(queries):
        pipeline.sql(f"v{n}", text, incremental="always")
    random = Random(5)
    for limits in ways if long_run else ways[:2]:
        with dp.Store(spark, location, pipeline, limits=limits) as store:
            rows = {name: table.slice(0, 4) for name, table in tables(contents(random)).items()}
            keyed = {name: _once(table) for name, table in rows.items()}
            store.update(keyed)
            for n, text in enumerate(queries):
                wanted = answered(store, spark, pipeline, f"v{n}")
                found = store.content(f"v{n}").select(*wanted.columns)
                assert bag(found.collect()) == bag(wanted.collect()), text
            assert not long_run or not store.verify(recompute=True)


DATED = (
    "SELECT id FROM sales WHERE day > :as_of - INTERVAL 2 MONTHS AND day <= :as_of",
    "SELECT word, count(*) AS n, max(day) >= :as_of AS late FROM sales GROUP BY word",
    "SELECT id, datediff(:as_of, day) AS days, coalesce(month(:as_of), 0) + small AS m FROM sales",
    "SELECT n, count(*) AS c FROM (SELECT s.customer, count(*) AS n FROM sales s JOIN people p "
    "USING (customer) WHERE s.day <= :as_of OR :as_of IS NULL GROUP BY s.customer) GROUP BY n",
    "SELECT id, day FROM sales WHERE day <= :as_of ORDER BY day DESC LIMIT 2",
    "SELECT id, regexp_replace(CAST(:as_of AS string), '-0', '/') AS s FROM sales",
    "SELECT s.id, p.name FROM sales s LEFT JOIN people p ON p.customer = s.customer AND "
    "p.born + INTERVAL '40' YEAR < :as_of",
)
DATES = (None, date(2026, 1, 1), date(2026, 2, 1), datetime(2026, 1, 1, 12, tzinfo=UTC), None)


def test_views_of_a_date_are_what_spark_returns_for_it(
    spark: SparkSession, location: str, long_run: bool
) -> None:
    """The first load is in Spark; the date moves on the driver, and then in Spark; it ends.

    A short run has a few of the queries, and the date moves on the driver.
    """
    queries, dates = (DATED, DATES) if long_run else (DATED[1::3], DATES[1:3])
    pipeline = dp.Pipeline("dated")
    for name, schema in TYPED.items():
        pipeline.source(name, key=schema.key.ddl, value=schema.value.ddl)
    for n, text in enumerate(queries):
        pipeline.sql(f"v{n}", text)
    rows = {n: typed_table(schema, ROWS[n]) for n, schema in TYPED.items()}
    ways = (IN_SPARK, dp.Limits(), IN_SPARK, dp.Limits(), dp.Limits())
    for as_of, limits in zip(dates, ways, strict=long_run):
        with dp.Store(spark, location, pipeline, limits=limits) as store:
            store.update(rows, as_of=as_of)
            for n, text in enumerate(queries):
                wanted = answered(store, spark, pipeline, f"v{n}", as_of)
                found = store.content(f"v{n}").select(*wanted.columns)
                assert bag(found.collect()) == bag(wanted.collect()), (text, as_of)
            assert not long_run or not store.verify(recompute=True)


def _once(table: pa.Table) -> pa.Table:
    """The rows, with keys of their own."""
    keys = pa.array(range(len(table)), pa.int64())
    return table.set_column(table.schema.get_field_index("k"), "k", keys)
