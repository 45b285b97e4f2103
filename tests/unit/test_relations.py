"""Queries as relations: what names mean, types without Spark, and the rows of each operator.

DuckDB runs the SQL that it shares with Spark, and the oracle interprets the algebra row by row.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import duckdb
import pytest
from random_queries import Queries
from sqlglot import exp
from view_queries import EXAMPLES, OF_SPARK, SHADOWED, STAGES, contents, tables

from deltaproduce.engines.local.kernels.shared_sides import SharedSides
from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.algebra.scalars import Field, Scalar
from deltaproduce.stages.sql.operators.computing import Computing, QueryError
from deltaproduce.stages.sql.operators.evaluation import Stream, rows_of
from deltaproduce.stages.sql.resolve import Resolved, resolved
from deltaproduce.testing import plain_rows
from deltaproduce.testing.oracle.relations import interpreted
from deltaproduce.types.columns import row_schema
from deltaproduce.types.data_types import LongType, NullType

UNLIKE_DUCKDB = (
    *(" OR NOT EXISTS", " OR EXISTS", "CASE WHEN EXISTS", "CASE WHEN NOT EXISTS"),
    *("min_by(", "max_by(", "mode(", "collect_list("),
    *("PIVOT", "LATERAL VIEW", "explode(", "stack("),
)
"""It has null for the first where a condition inside is null, and any of equal ends for others.

It has other words for generators and pivots.
"""
SETS = ("ROLLUP", "CUBE", "GROUPING SETS")
"""It has a total of nothing."""
Rows = dict[str, list[dict[str, object]]]


def computed(query: Resolved, rows: Rows) -> Counter[Any]:
    """The rows that the operators return."""
    made = rows_of(query.relation, tables(rows), Computing("UTC"))
    columns = [made.column(field).to_pylist() for field in query.fields.values()]
    return Counter(plain_rows(zip(*columns, strict=True)))


def in_parts(query: Resolved, rows: Rows, random: Random) -> Counter[Any] | None:
    """The rows that parts of some stage make, each beside all rows of the others.

    None if no stage makes rows of the query one by one.
    """
    stream = Stream.of(query.relation, {name: random.random() for name in STAGES})
    if stream is None:
        return None
    whole, computing, made = tables(rows), Computing("UTC"), Counter[Any]()
    beside = {id(one): rows_of(one, whole, computing) for one in stream.beside}
    left = whole[stream.scan.feeder]
    if len(left) % 2:
        computing = replace(computing, shared=SharedSides(beside.values()))
    while True:
        size = random.randint(0, max(len(left), 1))
        part = stream.rows(left.slice(0, size), beside, computing)
        columns = [part.column(field).to_pylist() for field in query.fields.values()]
        made += Counter(plain_rows(zip(*columns, strict=True)))
        left = left.slice(size)
        if not len(left):
            return made


def by_oracle(query: Resolved, rows: Rows) -> Counter[Any]:
    found = interpreted(query.relation, rows)
    fields = query.fields.values()
    return Counter(plain_rows(tuple(row[field] for field in fields) for row in found))


@cache
def duck() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def by_duckdb(query: Resolved, rows: Rows) -> Counter[Any]:
    for name, table in tables(rows).items():
        duck().register(f"_{name}", table)
    text = query.sql({name: f"_{name}" for name in STAGES}).replace("`", '"')
    for word in ("SEMI", "ANTI"):
        text = text.replace(f"LEFT {word}", word)
    text = text.replace(") IGNORE NULLS", " IGNORE NULLS)").replace("<=>", "IS NOT DISTINCT FROM")
    return Counter(plain_rows(duck().execute(text).fetchall()))


def check(text: str, random: Random, times: int, *, is_of_spark: bool = False) -> None:
    query = resolved(text, STAGES)
    assert query.only_in_spark is None, text
    for _ in range(times):
        rows = contents(random)
        found = computed(query, rows)
        assert found == by_oracle(query, rows), text
        assert in_parts(query, rows, random) in (None, found), text
        is_of_nothing = any(word in text for word in SETS) and not (text in EXAMPLES and rows["t"])
        if is_of_spark or is_of_nothing:
            continue
        if not any(part in text for part in UNLIKE_DUCKDB):
            known = without_nan(rows)
            assert computed(query, known) == by_duckdb(query, known), text


def without_nan(rows: Rows) -> Rows:
    """NaN does not join NaN in DuckDB, but it groups with it; and its IN (2, 0) has no -0.0."""
    return {
        name: [{c: _known(v) for c, v in row.items()} for row in found]
        for name, found in rows.items()
    }


def _known(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isnan(value) else value + 0.0
    return value


@pytest.mark.parametrize("part", range(4))
def test_random_queries_return_what_duckdb_and_the_oracle_return(part: int, long_run: bool) -> None:
    """A query's rows are those of the same text elsewhere, and of the algebra row by row."""
    for seed in range(1250 if long_run else 30):
        random = Random(f"{part}-{seed}")
        check(Queries(random, depth=1 + seed % 2).query(), random, 2)


@pytest.mark.parametrize("text", [*EXAMPLES, *OF_SPARK])
def test_an_example_of_each_operator(text: str) -> None:
    """NOT IN beside nulls, in particular; conditions of more than two tables."""
    check(text, Random(text), 12, is_of_spark=text in OF_SPARK)


STREAMS = {
    "SELECT a + 1 AS x FROM t WHERE b > 1": "t",
    "SELECT t.k, u.n FROM t JOIN u ON t.k = u.k": "u",
    "SELECT t.k, u.n FROM t LEFT JOIN u ON t.k = u.k": "t",
    "SELECT u.k, t.a FROM t RIGHT JOIN u ON t.k = u.k": "u",
    "SELECT k FROM t WHERE a NOT IN (SELECT n FROM u)": "t",
    "SELECT k, (SELECT sum(n) FROM u) AS m FROM t": "t",
    "SELECT x.k FROM u x JOIN u y ON x.k = y.n": "u",
    "SELECT k FROM t LATERAL VIEW explode(array(a, b)) x AS e": "t",
    "SELECT t.k FROM t FULL JOIN u ON t.k = u.k": None,
    "SELECT k FROM t UNION ALL SELECT k FROM u": None,
    "SELECT DISTINCT k FROM t": None,
    "SELECT k FROM t ORDER BY a LIMIT 3": None,
    "WITH c AS (SELECT k, n FROM u WHERE n > 1) SELECT x.k FROM c x JOIN c y ON x.k = y.n": None,
}
"""Query -> the stage whose parts make its rows, where ``u`` has more rows than ``t``."""


@pytest.mark.parametrize("text", STREAMS)
def test_the_largest_stage_makes_rows_in_parts(text: str) -> None:
    stream = Stream.of(resolved(text, STAGES).relation, {"t": 1, "u": 2, "f": 3})
    assert (stream and stream.scan.feeder) == STREAMS[text]


REFUSED = {
    "SELECT q FROM u": "is not a column here",
    "SELECT n FROM t, u WHERE a = 1": "may mean several columns",
    "SELECT v FROM t UNPIVOT (v FOR w IN ((a, b), k))": "2 columns for 1 values",
    "SELECT v FROM t UNPIVOT (v FOR w IN (a, b + 1))": "what is no column",
    "SELECT v FROM t UNPIVOT (v FOR w IN (a, q))": "is not a column here",
    "SELECT k FROM w": "is not a stage that comes before",
    "SELECT k FROM t LIMIT 3": "without ORDER BY takes rows at random",
    "SELECT k FROM t ORDER BY k LIMIT 1 + 1": "needs a whole number",
    "SELECT first(n) AS f FROM u": "depends on the order of rows",
    "SELECT any_value(n) AS f FROM u GROUP BY k": "depends on the order of rows",
    "SELECT collect_list(n) AS f FROM u GROUP BY k": "depends on the order of rows",
    "SELECT rand() AS r FROM u": "differs from run to run",
    "SELECT n FROM u WHERE n > current_date()": "differs from run to run",
    "SELECT current_date AS d FROM u": "differs from run to run",
    "SELECT input_file_name() AS f FROM u": "depends on how rows are stored",
    "SELECT n + 1 FROM u": "without a name",
    "SELECT n, a AS n FROM u": "there are two columns 'n'",
    "SELECT n FROM u TABLESAMPLE (10 PERCENT)": "takes rows at random",
    "WITH RECURSIVE r AS (SELECT 1 AS n) SELECT n FROM r, u": "is recursive",
    "SELECT b FROM t GROUP BY a": "neither grouped by nor in an aggregate",
    "SELECT sum(count(*)) AS s FROM t": "is an aggregate inside of another one",
    "SELECT a FROM t WHERE sum(b) > 1": "use HAVING",
    "SELECT a FROM t WHERE a": "a condition is boolean",
    "SELECT a, b FROM t UNION SELECT n FROM u": "sides with 2 and 1 columns",
    "SELECT a FROM t WHERE a IN (SELECT n, a FROM u)": "compares 1 columns with 2",
    "SELECT (SELECT n, a FROM u) AS x FROM t": "has 2 columns; a value has one",
    "SELECT 1 AS x": "reads no stage",
    "SELECT a FROM t ORDER BY 2 LIMIT 1": "is the number of no column",
    "SELECT DISTINCT a FROM t ORDER BY b LIMIT 1": "is not a column of the result",
    "SELECT a FROM t CLUSTER BY a": "places rows in tasks",
    "SELECT :day AS d FROM t": "is a parameter",
    "SELECT * FROM t JOIN u USING (b)": "once on each side",
    "SELECT z.* FROM t": "has no table 'z'",
    "SELECT a, row_number() OVER (PARTITION BY b) AS n FROM t": "write ORDER BY",
    "SELECT a, rank() OVER (PARTITION BY b) AS n FROM t": "write ORDER BY",
    "SELECT a, first_value(b) OVER (PARTITION BY k) AS n FROM t": "write ORDER BY",
    "SELECT a, any_value(b) OVER (PARTITION BY k) AS n FROM t": "write ORDER BY",
    "SELECT a, collect_list(b) OVER (PARTITION BY k) AS n FROM t": "write ORDER BY",
    "SELECT a, sum(b) OVER (PARTITION BY a ROWS 2 PRECEDING) AS n FROM t": "write ORDER BY",
    "SELECT a, sum(b) OVER w AS n FROM t WINDOW w AS (PARTITION BY a ROWS 2 PRECEDING)": (
        "write ORDER BY"
    ),
    "SELECT a, count(DISTINCT b) OVER (PARTITION BY k) AS n FROM t": "has DISTINCT",
    "SELECT a, row_number() FILTER (WHERE a > 1) OVER (ORDER BY b) AS n FROM t": "has a FILTER",
    "SELECT a, rank() OVER (ORDER BY b ROWS CURRENT ROW) AS n FROM t": "does not take",
    "SELECT a, sum(b) OVER (ORDER BY b, a RANGE 1 PRECEDING) AS n FROM t": "needs one column",
    "SELECT a, sum(b) OVER (ORDER BY b ROWS BETWEEN 1 FOLLOWING AND CURRENT ROW) AS n FROM t": (
        "ends before it begins"
    ),
    "SELECT a, first_value(b) OVER (ORDER BY a RANGE 1 PRECEDING) AS n FROM t": "write ROWS",
    "SELECT * EXCEPT (z) FROM t": "leaves out 'z'",
    "FROM t |> SELECT a": "not supported",
    "SELECT TRANSFORM(a) USING 'cat' AS x FROM t": "runs a program",
    "SELECT t.a, (TRANSFORM(t.a) USING 'cat') AS x FROM t JOIN u ON t.k = u.n": "runs a program",
    "SELECT IDENTIFIER('a') AS a FROM t": "write the name itself",
    "SELECT a FROM IDENTIFIER('t')": "may read tables",
    "SELECT k, INTERVAL '3' DAY AS d, count(*) AS n FROM t GROUP BY k": "'d' is an interval",
    "SELECT max(CAST(s AS date) - DATE '2026-01-01') * 2 AS d FROM t": "'d' is an interval",
    "SELECT CASE WHEN k > 1 THEN CAST(s AS timestamp) - CAST(s AS date) END AS d FROM t": (
        "'d' is an interval"
    ),
    "SELECT d FROM (SELECT make_interval(k) AS d FROM t UNION ALL SELECT nvl(make_interval(1)) "
    "FROM u) v": "datediff",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused_names_the_clause(text: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        resolved(text, STAGES)
    assert REFUSED[text] in str(caught.value), str(caught.value)


def test_an_interval_that_no_column_has_is_computed() -> None:
    text = "SELECT DATE '2026-01-01' + (CAST(s AS date) - DATE '2025-01-01') AS d FROM t"
    assert resolved(text, STAGES).names == ("d",)


TYPES = {
    "SELECT a, k, a + k AS s FROM t": "int, bigint, bigint",
    "SELECT sum(a) AS s, avg(a) AS v, count(*) AS n, max(s) AS m FROM t": (
        "bigint, double, bigint, string"
    ),
    "SELECT a FROM t UNION ALL SELECT k FROM u": "bigint",
    "SELECT a, NULL AS x FROM t UNION ALL SELECT n, s FROM u JOIN t USING (k)": "int, string",
    "SELECT EXISTS (SELECT 1 FROM u) AS e, a IN (SELECT n FROM u) AS i FROM t": "boolean, boolean",
    "SELECT (SELECT max(k) FROM u) AS m FROM t": "bigint",
    "SELECT v.x FROM VALUES (1), (2L) AS v(x) CROSS JOIN t": "bigint",
    "SELECT * EXCEPT (a) FROM t FULL JOIN u USING (k)": "bigint, int, string, int",
    "SELECT a + 1 AS b, b * 2L AS c FROM t": "int, bigint",
    "SELECT rank() OVER w AS r, cume_dist() OVER w AS c, lag(s) OVER w AS l, sum(a) OVER w AS t "
    "FROM t WINDOW w AS (PARTITION BY k ORDER BY b)": "int, double, string, bigint",
}


@pytest.mark.parametrize("text", TYPES)
def test_types_are_known_without_spark(text: str) -> None:
    found = resolved(text, STAGES)
    assert found.only_in_spark is None
    assert ", ".join(kind.simpleString() for kind in found.types.values()) == TYPES[text]


IN_SPARK = {
    "SELECT xxhash64(a) AS h FROM t": "xxhash64(a)",
    "SELECT a, skewness(b) OVER (PARTITION BY a) AS r FROM t": "skewness(b) OVER",
    "SELECT a, lag(b, a) OVER (PARTITION BY a ORDER BY b) AS r FROM t": "lag(b, a) OVER",
    "SELECT e FROM t LATERAL VIEW explode(split(s, ',')) x AS e": "LATERAL VIEW",
    "SELECT a, skewness(b) AS s FROM t GROUP BY a WITH ROLLUP": "skewness",
    "SELECT a FROM t WHERE (a, b) NOT IN (SELECT n, a FROM u)": "(a, b) IN",
    "SELECT a FROM t WHERE k = 1 OR (a, b) IN (SELECT n, a FROM u)": "(a, b) IN",
    "SELECT (a, b) IN (SELECT n, a FROM u) AS i FROM t": "(a, b) IN",
    "SELECT kurtosis(a) AS m FROM t": "kurtosis(a)",
    "SELECT a FROM t WHERE EXISTS (SELECT max(n) FROM u WHERE u.k = t.k)": "EXISTS",
    "SELECT a FROM t WHERE a NOT IN (SELECT max(n) FROM u WHERE u.k = t.k)": "IN",
    "SELECT (SELECT count(*) FROM u WHERE u.k = t.k HAVING count(*) > 1) AS c FROM t": "count",
    "SELECT a FROM t WHERE EXISTS (SELECT n FROM u WHERE u.k = t.k UNION SELECT k FROM u)": "UNION",
    "SELECT s LIKE '\\\\_x' AS l FROM t": "LIKE",
    "SELECT a, count(DISTINCT *) AS n FROM t GROUP BY a": "DISTINCT *",
    "SELECT a, count(t.*) AS n FROM t GROUP BY a": "t.*",
    "SELECT a FROM t GROUP BY a QUALIFY kurtosis(a) OVER (ORDER BY a) < 2": "kurtosis(a) OVER",
    "SELECT t.a FROM t JOIN t x ON t.k = x.k AND t.b IN (SELECT n FROM u)": "SELECT n FROM u",
}


@pytest.mark.parametrize("text", IN_SPARK)
def test_what_only_spark_computes_is_told_by_its_text(text: str) -> None:
    found = resolved(text, STAGES).only_in_spark
    assert found is not None
    assert IN_SPARK[text].lower() in found.lower()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT t.a FROM t JOIN t AS x ON t.k = x.k AND t.b IN (SELECT n FROM u)",
        "SELECT a FROM t WHERE a LIKE ANY (SELECT n FROM u)",
        "SELECT NOT (a IN (SELECT n FROM u)) OR b IS NULL AS c FROM t",
    ],
)
def test_spark_reads_views_in_place_of_stages_in_every_subquery(text: str) -> None:
    query = resolved(text, STAGES)
    assert sorted(query.feeders) == ["t", "u"]
    assert "FROM `w` AS u)" in query.sql({"t": "v", "u": "w"})


@pytest.mark.parametrize("text", SHADOWED)
def test_a_name_of_two_columns_means_what_it_means_in_spark(text: str) -> None:
    """Keys come before columns of SELECT in HAVING, and columns of FROM in QUALIFY.

    In QUALIFY those of SELECT come first if this has a window function, and always in ORDER BY.
    """
    random, found = Random(text), Counter[Any]()
    for _ in range(12):
        rows = contents(random)
        found += computed(resolved(text, STAGES), rows)
        assert computed(resolved(text, STAGES), rows) == computed(
            resolved(SHADOWED[text], STAGES), rows
        )
    assert found


UNTOLD = (
    "FROM (SELECT -a AS x, a AS x, b AS y, k AS z, s FROM t) QUALIFY row_number() OVER "
    "(PARTITION BY y ORDER BY y) = 1"
)


def test_a_text_that_does_not_tell_spark_which_of_equal_rows_comes_first_is_known() -> None:
    """Spark then runs the operators; it cannot if there is a part that only Spark computes."""
    told = resolved(
        "SELECT k FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) = 1", STAGES
    )
    assert told.is_told
    untold = resolved(f"SELECT y, z {UNTOLD}", STAGES)
    assert not untold.is_told
    with pytest.raises(DefinitionError, match="name the columns of its FROM apart") as raised:
        resolved(f"SELECT y, xxhash64(z) AS z {UNTOLD}", STAGES)
    assert raised.value.line == 1


def test_having_chooses_groups_before_window_functions_see_them() -> None:
    text = "SELECT a, rank() OVER (ORDER BY count(*)) AS r FROM t GROUP BY a HAVING a > 1"
    names = [type(one).__name__ for one in resolved(text, STAGES).relation.walk()]
    assert names == [
        *("Scan", "AggregateRelation", "Filter", "WindowRelation", "ProjectRelation"),
    ]


def test_an_order_may_be_by_an_expression_over_the_columns_of_a_result() -> None:
    """Of UNION and DISTINCT, too."""
    rows: Rows = {"t": [{"k": k, "a": a, "b": 1, "s": "x"} for k, a in ((3, 1), (1, 2), (2, 5))]}
    rows["u"] = []
    for text in ("SELECT k FROM t UNION SELECT n FROM u", "SELECT DISTINCT k FROM t"):
        query = resolved(f"{text} ORDER BY abs(k - 2), k LIMIT 2", STAGES)
        assert computed(query, rows) == Counter([(2,), (1,)])


def test_of_rows_that_are_equal_in_an_order_the_least_come_first() -> None:
    """By all columns, from left to right, nulls first; the text for Spark says so, too."""
    rows: Rows = {"t": [{"k": k, "a": 1, "b": b, "s": "x"} for k, b in ((3, 1), (1, 2), (2, None))]}
    rows["u"] = []
    query = resolved("SELECT a, b, k FROM t ORDER BY a DESC LIMIT 2", STAGES)
    assert computed(query, rows) == Counter([(1, None, 2), (1, 1, 3)])
    text = query.sql({"t": "t"})
    assert text.endswith(
        "ORDER BY a DESC , 1 ASC NULLS FIRST, 2 ASC NULLS FIRST, 3 ASC NULLS FIRST LIMIT 2"
    )


def test_a_scalar_subquery_of_several_rows_is_an_error() -> None:
    query = resolved("SELECT (SELECT n FROM u) AS x FROM t", STAGES)
    rows: Rows = {"t": [], "u": [{"k": 1, "n": n, "a": 1} for n in (1, 2)]}
    with pytest.raises(QueryError, match="TOO_MANY_ROWS"):
        computed(query, rows)


def test_a_condition_is_computed_for_pairs_that_are_equal_only() -> None:
    """What is written first guards what may fail."""
    text = "SELECT t.k FROM t JOIN u ON t.k = u.k AND t.a / u.n > 0"
    rows: Rows = {
        "t": [{"k": 1, "a": 1, "b": 1, "s": ""}],
        "u": [{"k": 1, "n": 1, "a": 1}, {"k": 2, "n": 0, "a": 1}],
    }
    assert computed(resolved(text, STAGES), rows) == Counter([(1,)])
    with pytest.raises(QueryError, match="DIVIDE_BY_ZERO"):
        computed(resolved(text, STAGES), {**rows, "t": [{"k": 2, "a": 1, "b": 1, "s": ""}]})


def test_a_stage_with_other_types_has_other_columns() -> None:
    wide = {**STAGES, "t": row_schema("k bigint", "a decimal(10,2), b int, s string", stage="t")}
    assert resolved("SELECT sum(a) AS s FROM t", wide).types["s"].simpleString() == "decimal(20,2)"


WIDE = 200


def written(text: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many expressions are written as text to resolve a query over a wide stage."""
    value = ", ".join(f"c{n} bigint" for n in range(WIDE))
    stage, calls, sql = (
        row_schema("id bigint", value, stage="wide"),
        Counter[str](),
        exp.Expression.sql,
    )

    def counted(tree: exp.Expr, *arguments: Any, **options: Any) -> str:
        calls["sql"] += 1
        return sql(tree, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(exp.Expression, "sql", counted)
        assert len(resolved(text, {"wide": stage}).columns) == WIDE + 1
    return calls["sql"]


def test_columns_of_a_star_cost_no_text_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """sqlglot needs longer to write a column than all else that is done for it."""
    both = "WITH a AS (SELECT * FROM wide), b AS (SELECT * FROM a) SELECT * FROM b"
    assert written(f"{both} UNION ALL SELECT * FROM wide", monkeypatch) < WIDE


@pytest.mark.parametrize("name", ["amount#1", "ü#2", "a.b#3", "select#4", "A-b#5"])
def test_a_field_alone_is_written_as_sqlglot_writes_it(name: str) -> None:
    for kind in (LongType(), NullType(), None):
        field = Field(name, kind)
        scalar, other = Scalar.of_field(field), Scalar.of(exp.Paren(this=field.tree), [field])
        assert scalar.expression.text == field.tree.sql("spark")
        assert (scalar.data_type, scalar.is_plain, scalar.may_fail, scalar.text) == (
            other.data_type,
            other.is_plain,
            other.may_fail,
            other.text.strip("()"),
        )
