"""One pipeline written three times, over rows, over Arrow tables and in SQL: the same tables."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from comparing import as_frames, assert_stages, read_by_delta_rs
from forcing import WAYS, Way, forced, setting
from pyspark.sql import SparkSession
from series import drawn, packed, packed_histories

from deltaproduce import Pipeline, Store
from deltaproduce.testing import Delete, Oracle, strategies

ROWS: Any = {"key": "k bigint", "value": "n bigint, t string"}
BY_TEXT: Any = {"key": "t string", "value": "n bigint"}
SERIES = 50
VERSIONS = 3


def in_rows() -> Pipeline:
    """A filter, a re-key and a group as functions over rows."""
    pipeline = Pipeline("forms")
    source = pipeline.source("source", **ROWS)

    @pipeline.producer(source, **ROWS)
    def even(k: int, values: Iterator[Any]) -> Iterator[Any]:
        """In an order that a query can have too."""
        some = [value for value in values if value.n is not None and value.n % 2 == 0]
        for value in sorted(some, key=lambda v: (v.n, v.t is not None, (v.t or "").encode())):
            yield k, value

    by_text = pipeline.producer(even, **BY_TEXT, name="by_text")(strategies.by_text)
    pipeline.producer(by_text, **ROWS, name="totals")(strategies.totals)
    return pipeline


def in_rows_and_arrow() -> Pipeline:
    """Those, and beside them the same stages over tables."""
    pipeline = in_rows()

    @pipeline.arrow_producer("source", **ROWS)
    def even_arrow(table: pa.Table) -> pa.Table:
        order = [("n", "ascending", "at_start"), ("t", "ascending", "at_start")]
        return strategies.filtered_table(table).sort_by(order)

    by_text = pipeline.arrow_producer(even_arrow, **BY_TEXT, name="by_text_arrow")
    by_text = by_text(strategies.by_text_table)
    pipeline.arrow_producer(by_text, **ROWS, name="totals_arrow")(strategies.totals_table)
    return pipeline


def in_all_forms() -> Pipeline:
    """Those in a series, and beside them the same stages as queries."""
    pipeline = packed(in_rows_and_arrow())
    pipeline.sql(
        "even_sql",
        "SELECT series, k, n, t FROM source WHERE pmod(n, 2) = 0 ORDER BY n, t",
        key="series, k",
    )
    pipeline.sql("by_text_sql", "SELECT series, t, n FROM even_sql", key="series, t")
    pipeline.sql(
        "totals_sql",
        "SELECT series, count(*) AS k, pmod(sum(pmod(n, 1000)), 1000) AS n, t FROM by_text_sql "
        "GROUP BY series, t",
        key="series, k",
    )
    return pipeline


@pytest.mark.parametrize("way", [WAYS[7]], ids=lambda way: way.name)
def test_all_forms_make_the_tables_of_the_oracle(
    spark: SparkSession, location: str, way: Way
) -> None:
    exact = strategies.histories(in_rows(), min_versions=VERSIONS, max_versions=VERSIONS)
    batches = packed_histories(drawn(exact, SERIES, 0))
    modelled, pipeline = packed(in_rows()), in_all_forms()
    oracle = Oracle(modelled)
    source, *stages = modelled.stages
    forms = {f"{stage.name}{form}": stage for stage in stages for form in ("", "_arrow", "_sql")}
    cut_keys = setting(spark, "spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    with forced(way), cut_keys:
        store = Store(spark, location, pipeline, table_type=way.table_type)
        for batch in batches:
            assert any(isinstance(change, Delete) for change in batch["source"])
            version = store.update(as_frames(spark, pipeline, batch))
            assert version.number == oracle.update(batch)
            twins = {source.name: source, **forms}
            assert_stages(read_by_delta_rs(store), oracle, twins, version.number)
            for stage in stages:
                of_stage = [version.stages[form] for form, twin in forms.items() if twin is stage]
                (changed,) = {figures.changed_keys for figures in of_stage}
                assert changed > 0
                kinds = {row[1] for row in oracle.updates(stage.name)}
                assert "delete" in kinds or version.number == 1
