"""TPC-H's queries as views, beside Spark's answers, through changes of orders and their lines."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tpch import QUERIES, SCHEMAS
from tpch_rows import rows

import deltaproduce as dp
from deltaproduce.stages.sql.resolve import resolved
from deltaproduce.types.columns import row_schema

STAGES = {name: row_schema(*columns, stage=name) for name, columns in SCHEMAS.items()}
ON_DRIVER = [name for name, text in QUERIES.items() if not resolved(text, STAGES).only_in_spark]


def test_no_query_needs_a_session() -> None:
    assert len(QUERIES) == 22
    assert [*QUERIES] == ON_DRIVER


def tpch(names: list[str]) -> dp.Pipeline:
    pipeline = dp.Pipeline("tpch")
    for name, (key, value) in SCHEMAS.items():
        pipeline.source(name, key=key, value=value)
    for name in names:
        pipeline.sql(name, QUERIES[name])
    return pipeline


def plain(value: Any) -> Any:
    return value.normalize() if isinstance(value, Decimal) else value


def answers(store: dp.Store, spark: SparkSession, names: list[str]) -> dict[str, Counter[Any]]:
    """What Spark returns for the queries over a store's contents."""
    for name in SCHEMAS:
        content = store.content(name)
        frame = content if not hasattr(content, "to_pylist") else spark.createDataFrame(content)
        frame.createOrReplaceTempView(name)
    return {n: Counter(map(tuple, spark.sql(QUERIES[n]).collect())) for n in names}


def kept(store: dp.Store, name: str) -> Counter[Any]:
    names = resolved(QUERIES[name], STAGES).names
    found = store.content(name).select(*names) if store_has_frames(store, name) else None
    if found is not None:
        return Counter(map(tuple, found.collect()))
    table = store.content(name).select(list(names))
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def store_has_frames(store: dp.Store, name: str) -> bool:
    return hasattr(store.content(name), "collect")


@pytest.mark.long
@pytest.mark.parametrize("with_session", [False, True])
def test_queries_of_tpch_follow_their_tables(
    spark: SparkSession, tmp_path: Path, with_session: bool
) -> None:
    """New orders with their lines, removed ones, and new customers and prices, all at once."""
    random = Random(7)
    names = sorted(QUERIES) if with_session else ON_DRIVER
    session = spark if with_session else None
    found = 0
    with dp.Store(session, str(tmp_path / "store"), tpch(names)) as store:
        data = rows(random)
        store.update(data)
        more = rows(random, customers=45)
        gone = [{"o_orderkey": n, "_change_type": "delete"} for n in range(1, 40)]
        lines = [
            {"l_orderkey": r["l_orderkey"], "l_linenumber": r["l_linenumber"]}
            | {"_change_type": "delete"}
            for r in data["lineitem"]
            if r["l_orderkey"] < 40
        ]
        for changes in (
            {},
            {
                "orders": [r for r in more["orders"] if r["o_orderkey"] > 150],
                "lineitem": [r for r in more["lineitem"] if r["l_orderkey"] > 150],
                "customer": more["customer"][25:],
                "partsupp": more["partsupp"][:30],
            },
            {"orders": gone, "lineitem": lines},
        ):
            store.update(changes)
            for name, wanted in answers(store, spark, names).items():
                assert kept(store, name) == wanted, name
                found += bool(wanted)
    assert found > len(names)  # not all of them are empty
