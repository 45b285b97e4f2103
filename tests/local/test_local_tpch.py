"""TPC-H's queries as views without a session: right after changes, and what these read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from tpch import QUERIES, SCHEMAS
from tpch_rows import rows

import deltaproduce as dp
from deltaproduce.stages.sql.operators.computing import Computing
from deltaproduce.stages.sql.operators.evaluation import rows_of
from deltaproduce.stages.sql.resolve import Resolved, resolved
from deltaproduce.types.columns import row_schema

STAGES = {name: row_schema(*columns, stage=name) for name, columns in SCHEMAS.items()}


def tpch() -> dp.Pipeline:
    pipeline = dp.Pipeline("tpch")
    for name, (key, value) in SCHEMAS.items():
        pipeline.source(name, key=key, value=value)
    for name in sorted(QUERIES):
        pipeline.sql(name, QUERIES[name])
    return pipeline


WORDS = {
    "Join": "join",
    "In": "IN",
    "Exists": "EXISTS",
    "Scalar": "scalar subquery",
    "Aggregate": "GROUP BY",
    "Limit": "LIMIT",
}
PAGE = Path(dp.__file__).parent.parent / "docs" / "sql.md"


def test_no_query_recomputes_and_the_page_has_what_each_needs() -> None:
    """A long run of the example compares how many rows the tables have."""
    pipeline, page = tpch(), PAGE.read_text()
    told = dict(re.findall(r"^\| `(q\d\d)` \| (.*) \|$", page, re.MULTILINE))
    assert told.keys() == QUERIES.keys()
    for name in QUERIES:
        operators = pipeline.explain(name).operators
        assert {one.mode for one in operators} == {"incremental"}, name
        words = Counter(WORDS.get(one.operator.split()[0], "") for one in operators)
        counted = ((word, words[word]) for word in words if word)
        wanted = ", ".join(one if n == 1 else f"{n} {several(one)}" for one, n in counted)
        on_page, _, kept = told[name].partition(" |")
        assert on_page == wanted, name
        kinds = [table["kind"] for one in operators for table in one.tables]
        assert re.findall("[a-z]+", kept) == kinds, name


def several(word: str) -> str:
    return f"{word[:-1]}ies" if word.endswith("y") else word if word.isupper() else f"{word}s"


def deleted(rows: list[dict[str, Any]], *key: str) -> list[dict[str, Any]]:
    return [{name: row[name] for name in key} | {"_change_type": "delete"} for row in rows]


def changes(random: Random, data: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """New orders with their lines; the same removed; dimensions; all at once."""
    more = rows(random, customers=45)
    orders = [row for row in more["orders"] if row["o_orderkey"] > 140]
    lines = [row for row in more["lineitem"] if row["l_orderkey"] > 140]
    few = [row for row in data["orders"] if row["o_orderkey"] % 9 == 0]
    of_few = [row for row in data["lineitem"] if row["l_orderkey"] % 9 == 0]
    return [
        {"orders": orders, "lineitem": lines},
        {"customer": more["customer"][20:], "partsupp": more["partsupp"][:30]},
        {
            "orders": deleted(few, "o_orderkey"),
            "lineitem": deleted(of_few, "l_orderkey", "l_linenumber"),
        },
        {
            "orders": few,
            "lineitem": of_few,
            "supplier": more["supplier"][:2],
            "part": more["part"][:7],
            "nation": [{"n_nationkey": 2, "n_name": "FRANCE", "n_regionkey": 0}],
        },
        {"lineitem": deleted(data["lineitem"][:40], "l_orderkey", "l_linenumber")},
        {"orders": deleted(data["orders"], "o_orderkey")},
    ]


def test_queries_follow_their_tables(tmp_path: Path, long_run: bool) -> None:
    """After each version a view is its query over its tables; in a short run after two."""
    random, found, modes = Random(11), 0, Counter[str]()
    queries = {name: resolved(text, STAGES) for name, text in QUERIES.items()}
    data = rows(random)
    with dp.Store(None, str(tmp_path / "store"), tpch(), policy="incremental") as store:
        store.update(data)
        steps = changes(random, data)[: None if long_run else 2]
        for change in steps:
            version = store.update(change)
            contents = {name: store.content(name) for name in SCHEMAS}
            for name, query in queries.items():
                wanted = computed(query, contents)
                assert kept(store, name, query) == wanted, name
                found += bool(wanted)
                modes[version.stages[name].mode if name in version.stages else ""] += 1
        assert not store.verify(recompute=True)
        assert all(one.changed_keys == 0 for one in store.refresh().stages.values())
    assert found > len(steps) * len(queries) / 2  # not all of them are empty
    assert not modes["full"]


def computed(query: Resolved, contents: Mapping[str, pa.Table]) -> Counter[Any]:
    found = rows_of(query.relation, contents, Computing("UTC"))
    columns = [found.column(field).to_pylist() for field in query.fields.values()]
    return Counter(zip(*columns, strict=True))


def kept(store: dp.Store, name: str, query: Resolved) -> Counter[Any]:
    table = store.content(name)
    columns = [table.column(column).to_pylist() for column in query.names]
    return Counter(zip(*columns, strict=True))
