"""Key-local queries: which are accepted, and how they are edited. tests/spark checks Spark.

DuckDB runs the SQL that it shares with Spark, to test the law here.
"""

import functools
import pickle
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import FrozenInstanceError
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from query_catalogue import (
    ACCEPTED,
    ACCEPTED_BY_SPARK,
    ALL_STAGES,
    KEYS,
    ORDERED,
    REFUSED,
    REFUSED_UNRUN,
    STAGES,
    Row,
    examples,
    of_key,
    rows,
)
from query_strategies import queries

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.queries import Query, key_local
from deltaproduce.stages.queries.query import keyed
from deltaproduce.stages.sql.functions import AGGREGATES, ORDER_DEPENDENT, PHYSICAL, VOLATILE
from deltaproduce.stages.sql.operators.computing import Computing
from deltaproduce.stages.sql.operators.evaluation import rows_of
from deltaproduce.stages.sql.resolve import resolved
from deltaproduce.types.columns import row_schema

NAMED = {name: name for name in ALL_STAGES}


@functools.cache
def duck_of(seed: int) -> "Duck":
    return Duck(rows(seed))


def query(text: str) -> Query:
    return key_local(text, ALL_STAGES, stage="the stage")


def sql(text: str) -> str:
    return query(text).sql({name: f"_{name}" for name in ALL_STAGES})


# The law


class Duck:
    """The rows of a seed in DuckDB: of all source keys in one schema, of each of them in others."""

    def __init__(self, content: Mapping[str, Sequence[Row]]) -> None:
        self.content = content
        self.keys = [key for keys in KEYS.values() for key in keys]
        self._connection = duckdb.connect()
        for number, part in enumerate([content, *(of_key(content, key) for key in self.keys)]):
            self._connection.execute(f"CREATE SCHEMA part{number}")
            for stage, schema in STAGES.items():
                columns = ", ".join(f"{name} int" for name in schema.names)
                self._connection.execute(f"CREATE TABLE part{number}.{stage} ({columns})")
                for row in part[stage]:
                    marks = ", ".join("?" * len(row))
                    self._connection.execute(
                        f"INSERT INTO part{number}.{stage} VALUES ({marks})", row
                    )

    def run(self, text: str, part: Row | None = None) -> Counter[Row]:
        """The rows of a query over all rows, or over those of one source key."""
        number = 0 if part is None else 1 + self.keys.index(part)
        self._connection.execute(f"SET schema = 'part{number}'")
        (translated,) = sqlglot.transpile(text, read="spark", write="duckdb")
        return Counter(self._connection.execute(translated).fetchall())

    def run_by_key(self, text: str, width: int) -> dict[Row, Counter[Row]]:
        """The rows of a query over the rows of each source key."""
        return {key: self.run(text, key) for key in KEYS[width]}


@pytest.fixture(scope="module")
def ducks() -> list[Duck]:
    return [duck_of(seed) for seed in range(4)]


def assert_key_local(duck: Duck, found: Query) -> None:
    """Over one source key's rows it gives the rows that say so; without that, the user's rows."""
    width = len(found.sources)
    rewritten = found.sql(NAMED)
    over_all = duck.run(rewritten)
    by_key = duck.run_by_key(rewritten, width)
    for key, of_this_key in by_key.items():
        expected = {row: count for row, count in over_all.items() if row[:width] == key}
        assert of_this_key == expected
    assert over_all.total() == sum(part.total() for part in by_key.values())
    dropped = Counter[Row]()
    for row, count in over_all.items():
        dropped[row[width + len(found.orders) :]] += count
    assert dropped == duck.run(found.text)
    on_driver = rows_on_driver(found, duck.content)
    assert on_driver is None or found.orders or on_driver == over_all


def rows_on_driver(query: Query, content: Mapping[str, Sequence[Row]]) -> Counter[Row] | None:
    """The rows of a query without Spark, with their source keys; None if only Spark has them."""
    _, found = keyed(query.text, ALL_STAGES, stage="the stage")
    assert found.names == (*query.sources, *query.names)
    if found.only_in_spark is not None:
        return None
    tables = {
        name: pa.table(
            [pa.array([row[n] for row in content[name]], pa.int32()) for n in range(len(names))],
            names=names,
        )
        for name, names in ((name, schema.names) for name, schema in ALL_STAGES.items())
    }
    rows = rows_of(found.relation, tables, Computing("UTC"))
    columns = [rows.column(one.field.id).to_pylist() for one in found.columns]
    return Counter(zip(*columns, strict=True))


@pytest.mark.parametrize("text", examples(ACCEPTED))
def test_accepted_queries_are_key_local(ducks: list[Duck], text: str, long_run: bool) -> None:
    for duck in ducks if long_run else ducks[:2]:
        assert_key_local(duck, query(text))


def test_most_examples_are_computed_without_spark(ducks: list[Duck]) -> None:
    """But for windows, and subqueries of which only Spark knows how they are linked."""
    found = [rows_on_driver(query(text), ducks[0].content) for text in ACCEPTED.values()]
    assert len([rows for rows in found if rows is not None]) > len(found) * 0.85


def test_the_examples_have_rows(ducks: list[Duck]) -> None:
    """No law holds for want of rows."""
    for text in ACCEPTED.values():
        assert any(duck.run(text) for duck in ducks), text


@pytest.mark.parametrize("text", examples(REFUSED))
def test_refused_queries_are_not_key_local(ducks: list[Duck], text: str) -> None:
    """For some rows, the query over each source key's rows is not the query over all rows."""
    with pytest.raises(DefinitionError) as caught:
        query(text)
    assert caught.value.stage == "the stage"
    width = 2 if "pairs" in text else 1

    def parts(duck: Duck) -> Counter[Row]:
        return sum(duck.run_by_key(text, width).values(), Counter())

    assert any(parts(duck) != duck.run(text) for duck in ducks)


@pytest.mark.parametrize("text", examples(REFUSED_UNRUN))
def test_refused_queries(text: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        query(text)
    assert caught.value.stage == "the stage"


@given(text=queries(), seed=st.integers(0, 5))
def test_what_is_accepted_of_random_queries_is_key_local(text: str, seed: int) -> None:
    try:
        found = query(text)
    except DefinitionError:
        return
    assert_key_local(duck_of(seed), found)


# What a query becomes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "SELECT * FROM orders",
            "SELECT `orders`.`k` AS `_source_k`, * FROM `_orders` AS orders",
            id="one stage",
        ),
        pytest.param(
            "select  distinct\n y,k -- both\nfrom Orders o where y>=1 ; -- end",
            "select  distinct\n `o`.`k` AS `_source_k`, y,k -- both\nfrom `_orders` o where y>=1",
            id="as it was written",
        ),
        pytest.param(
            "SELECT /*+ COALESCE(3) */ ALL x FROM orders",
            "SELECT /*+ COALESCE(3) */ ALL `orders`.`k` AS `_source_k`, x FROM `_orders` AS orders",
            id="a hint",
        ),
        pytest.param(
            "SELECT y, k + 0 AS z, count(*) AS n FROM orders GROUP BY 1, k, 2",
            "SELECT `orders`.`k` AS `_source_k`, y, k + 0 AS z, count(*) AS n"
            " FROM `_orders` AS orders GROUP BY 2, k, 3",
            id="numbers in GROUP BY",
        ),
        pytest.param(
            "SELECT w FROM pairs RIGHT JOIN more m ON a = p AND b = q",
            "SELECT `m`.`p` AS `_source_a`, `m`.`q` AS `_source_b`, w"
            " FROM `_pairs` AS pairs RIGHT JOIN `_more` m ON a = p AND b = q",
            id="keys of other names",
        ),
        pytest.param(
            "SELECT z FROM orders o FULL JOIN lines l ON o.k = l.k",
            "SELECT coalesce(`o`.`k`, `l`.`k`) AS `_source_k`, z"
            " FROM `_orders` o FULL JOIN `_lines` l ON o.k = l.k",
            id="a full join",
        ),
        pytest.param(
            "SELECT k FROM orders FULL JOIN lines USING (k)",
            "SELECT `k` AS `_source_k`, k"
            " FROM `_orders` AS orders FULL JOIN `_lines` AS lines USING (k)",
            id="a full join with USING",
        ),
        pytest.param(
            "SELECT b.k, b.s FROM (SELECT k, sum(x) AS s FROM orders GROUP BY k) b",
            "SELECT `b`.`k` AS `_source_k`, b.k, b.s"
            " FROM (SELECT k, sum(x) AS s FROM `_orders` AS orders GROUP BY k) b",
            id="a subquery that shows the key",
        ),
        pytest.param(
            "SELECT *, struct(t.* EXCEPT (n)) AS j FROM (SELECT y, x FROM orders) t(m, n)",
            "SELECT `t`.`_key_51_0` AS `_source_k`, * EXCEPT (`t`.`_key_51_0`),"
            " struct(t.* EXCEPT (`t`.`_key_51_0`, n)) AS j"
            " FROM (SELECT `orders`.`k` AS `_key_51_0`, y, x FROM `_orders` AS orders)"
            " t(`_key_51_0`, m, n)",
            id="a subquery that leaves the key out",
        ),
        pytest.param(
            "SELECT x FROM orders UNION ALL SELECT w FROM parts",
            "SELECT `orders`.`k` AS `_source_k`, x FROM `_orders` AS orders"
            " UNION ALL SELECT `parts`.`id` AS `_source_k`, w FROM `_parts` AS parts",
            id="a union",
        ),
        pytest.param(
            "SELECT `a``b` AS `c.d` FROM `Odd Stage`",
            "SELECT `Odd Stage`.`K.1` AS `_source_K.1`, `a``b` AS `c.d`"
            " FROM `_odd stage` AS `Odd Stage`",
            id="odd names",
        ),
    ],
)
def test_what_a_query_becomes(text: str, expected: str) -> None:
    assert sql(text) == expected


@pytest.mark.parametrize("text", examples(ACCEPTED, ACCEPTED_BY_SPARK, ORDERED))
def test_only_insertions(text: str) -> None:
    """Taking the insertions out again gives the user's text, up to ORDER BY and numbers."""
    found = query(text)
    for edit in found.edits:
        old = text[edit.start : edit.end]
        taken_off = old.upper().startswith("ORDER BY") or edit.start >= len(text.rstrip(" ;\n"))
        assert (
            not old
            or edit.feeder == old.strip("`").lower()
            or old.isdigit()
            or taken_off
            or (old.lstrip(" \n;").startswith("--") and edit.end == len(text))
        )


@pytest.mark.parametrize("text", examples(ACCEPTED, ACCEPTED_BY_SPARK, ORDERED))
def test_what_a_query_becomes_is_a_query_again(text: str) -> None:
    """It can be read, and has the columns that it says."""
    found = query(text)
    tree = sqlglot.parse_one(found.sql(NAMED), dialect="spark")
    assert isinstance(tree, sqlglot.exp.Query)
    hidden = (*found.sources, *found.orders)
    assert tuple(tree.named_selects[: len(hidden)]) == hidden
    assert all(name.startswith("_") for name in hidden)
    assert not any(name.startswith("_") for name in found.names)
    assert len({name.lower() for name in found.names}) == len(found.names)


def test_a_query_says_what_it_reads_and_returns() -> None:
    found = query("SELECT p.w, O.X AS Xs FROM parts p LEFT JOIN Orders o ON id = k ORDER BY z")
    assert found.feeders == ("parts", "orders")
    assert found.sources == ("_source_id",)
    assert found.orders == ("_order_0",)
    assert found.names == ("w", "Xs")
    assert found.order == "`_order_0` ASC NULLS FIRST"


@pytest.mark.parametrize(
    ("text", "feeders"),
    [
        ("WITH t AS (SELECT x FROM lines) SELECT x, y FROM orders", ("lines", "orders")),
        ("SELECT (SELECT max(z) FROM lines l WHERE l.k = o.k) AS m FROM orders o",
         ("lines", "orders")),
        ("SELECT a.x FROM orders a JOIN orders b USING (k)", ("orders",)),
        ("WITH lines AS (SELECT k FROM orders) SELECT k FROM lines", ("orders",)),
    ],
)  # fmt: skip
def test_feeders_are_in_the_order_of_the_text(text: str, feeders: tuple[str, ...]) -> None:
    assert query(text).feeders == feeders


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT K, o.X, (y) FROM orders o", ("K", "X", "y")),
        ("SELECT * FROM orders JOIN lines USING (X, K)", ("x", "k", "y", "z")),
        ("SELECT * FROM orders RIGHT JOIN lines USING (k, x)", ("k", "x", "y", "z")),
        ("SELECT l.*, o.y FROM orders o JOIN lines l USING (k)", ("k", "x", "z", "y")),
        ("SELECT * FROM orders LEFT ANTI JOIN lines USING (x, k)", ("x", "k", "y")),
        ("SELECT * EXCEPT (o.k, X) FROM orders o", ("y",)),
        ("SELECT * FROM orders LATERAL VIEW posexplode(array(x)) t AS p, e",
         ("k", "x", "y", "p", "e")),
        ("SELECT o.*, c + k AS d FROM orders o(k, b, c)", ("k", "b", "c", "d")),
        ("SELECT stack(1, x, y) AS (a, b), k FROM orders", ("a", "b", "k")),
        ("SELECT s.u, o.s.v AS w FROM (SELECT k, struct(x AS u, y AS v) AS s FROM orders) o",
         ("u", "w")),
        ("SELECT k, 1 AS a FROM orders UNION ALL SELECT k, z FROM lines", ("k", "a")),
        ("SELECT k, n FROM orders JOIN (VALUES (1, 2)) v ON col1 = x JOIN range(2) r(n) ON n = x",
         ("k", "n")),
    ],
)  # fmt: skip
def test_names(text: str, names: tuple[str, ...]) -> None:
    assert query(text).names == names


@pytest.mark.parametrize(
    ("clause", "order"),
    [
        ("x", "x ASC NULLS FIRST"),
        ("X desc", "X DESC NULLS LAST"),
        ("n ASC NULLS LAST, 2 DESC NULLS FIRST", "n ASC NULLS LAST, `n` DESC NULLS FIRST"),
        ("`n`", "`n` ASC NULLS FIRST"),
        ("o.x", "`x` ASC NULLS FIRST"),
        ("abs( x ) -- up\n , 3 + n", "abs( x ) ASC NULLS FIRST, 3 + n ASC NULLS FIRST"),
        ("y", "`_order_0` ASC NULLS FIRST"),
        ("x, y DESC, o.y + 1", "x ASC NULLS FIRST, `_order_0` DESC NULLS LAST,"
         " `_order_1` ASC NULLS FIRST"),
    ],
)  # fmt: skip
def test_orders(clause: str, order: str) -> None:
    found = query(f"SELECT x, k AS n FROM orders o ORDER BY {clause}")
    assert found.order == order
    assert found.sql(NAMED).endswith("x, k AS n FROM `orders` o ")


def test_a_query_without_an_order() -> None:
    found = query("SELECT x FROM orders")
    assert (found.order, found.orders) == (None, ())


def test_every_feeder_needs_a_view() -> None:
    with pytest.raises(KeyError):
        query("SELECT x FROM orders").sql({"lines": "v"})


def test_queries_are_values() -> None:
    text = "WITH t AS (SELECT x FROM orders) SELECT * FROM t ORDER BY x"
    assert query(text) == query(text)
    assert hash(query(text)) == hash(query(text))
    assert pickle.loads(pickle.dumps(query(text))) == query(text)
    assert query(text).text == text
    with pytest.raises(FrozenInstanceError):
        query(text).order = None  # type: ignore[misc]


def test_stages_are_not_changed() -> None:
    stages = {"orders": row_schema("k int", "x int", stage="orders")}
    key_local("SELECT x FROM orders", stages, stage="s")
    assert stages == {"orders": row_schema("k int", "x int", stage="orders")}


# Functions


@pytest.mark.parametrize("name", sorted(AGGREGATES))
def test_no_aggregate_slips_through(name: str) -> None:
    for call in (f"{name}(x)", f"{name.upper()}(DISTINCT x)", f"1 + `{name}`(x, y)"):
        with pytest.raises(DefinitionError):
            query(f"SELECT {call} AS a FROM orders")


@pytest.mark.parametrize("name", sorted(ORDER_DEPENDENT))
def test_what_depends_on_order_is_refused(name: str) -> None:
    with pytest.raises(DefinitionError):
        query(f"SELECT k, concat({name}(x)) AS a FROM orders GROUP BY k")
    assert query(f"SELECT {name}(x) OVER (PARTITION BY k ORDER BY x) AS a FROM orders")


@pytest.mark.parametrize("name", sorted(VOLATILE | PHYSICAL))
def test_what_differs_from_run_to_run_is_refused(name: str) -> None:
    for call in [f"{name}()", f"{name}(1, 2)", f"`{name}`(x)", name]:
        with pytest.raises(DefinitionError):
            query(f"SELECT x FROM orders WHERE {call} IS NOT NULL")
        if name in VOLATILE:
            assert query(f"SELECT {call} AS a FROM orders")
        else:
            with pytest.raises(DefinitionError):
                query(f"SELECT {call} AS a FROM orders")


def test_a_column_is_no_function() -> None:
    stages = {"people": row_schema("now int", "user string, first int", stage="people")}
    text = "SELECT user, first FROM people WHERE user = 'ann' AND now > first"
    assert key_local(text, stages, stage="s").names == ("user", "first")


@pytest.mark.parametrize("name", ["my_function", "upper", "aggregate", "db.my_function", "size"])
def test_other_functions_pass(name: str) -> None:
    assert query(f"SELECT {name}(x, y) AS a FROM orders WHERE {name}(x) > 1")


# The documentation


def test_the_page_on_sql_is_right() -> None:
    """The queries that it shows are key-local, but for those that it shows as views, or refused."""
    page = Path(__file__).parents[2] / "docs" / "sql.md"
    stages = {
        "orders": row_schema(
            "order_id bigint",
            "customer_id bigint, amount bigint, ordered_at timestamp, tags array<string>",
            stage="orders",
        ),
        "payments": row_schema("order_id bigint", "paid bigint, paid_at timestamp", stage="p"),
        "shipments": row_schema("id bigint", "carrier string, shipped_at timestamp", stage="s"),
        "customer_orders": row_schema(
            "customer_id bigint", "order_id bigint, amount int", stage="c"
        ),
    }
    blocks = re.findall(r'```sql(?: title="(\w+)")?\n(.*?)```', page.read_text(), re.DOTALL)
    assert len(blocks) > 10
    for title, text in blocks:
        if not title:
            assert key_local(text, stages, stage="shown")
            continue
        with pytest.raises(DefinitionError):
            key_local(text, stages, stage="shown")
        if title == "view":
            assert resolved(text, stages)
        else:
            with pytest.raises(DefinitionError):
                resolved(text, stages)
