"""Queries are checked without Spark: what Spark accepts is never refused."""

from __future__ import annotations

import pytest
from query_catalogue import ACCEPTED, ACCEPTED_BY_SPARK, ALL_STAGES

import deltaproduce as dp
from deltaproduce.projects.inference import inferred
from deltaproduce.stages.queries import key_local
from deltaproduce.types.ddl import identifier

QUERIES = {**ACCEPTED, **ACCEPTED_BY_SPARK}


@pytest.mark.parametrize("text", QUERIES.values(), ids=QUERIES.keys())
def test_a_query_that_spark_accepts_is_not_refused(text: str) -> None:
    names = key_local(text, ALL_STAGES, stage="s").names
    if len(names) < 2:
        inner = text.rstrip().rstrip(";")
        text = f"SELECT *, 1 AS one_more FROM (\n{inner}\n) t"
    pipeline = dp.Pipeline("p")
    for name, schema in ALL_STAGES.items():
        pipeline.source(name, key=schema.key.ddl, value=schema.value.ddl)
    pipeline.sql("s", text, key=identifier(names[0]))
    assert inferred(pipeline.stages)[1] == []
