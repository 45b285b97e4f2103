"""One pipeline in three forms, over rows, over Arrow tables and in SQL: the same tables."""

import pytest
from comparing import as_frames, assert_stages, read_by_delta_rs
from forcing import WAYS, Way, forced, setting
from forms import in_rows, in_rows_and_arrow
from pyspark.sql import SparkSession
from selecting import long
from series import drawn, packed, packed_histories

from deltaproduce import Pipeline, Store
from deltaproduce.testing import Delete, Oracle, strategies

SERIES = 50
VERSIONS = 3


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


@long
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
