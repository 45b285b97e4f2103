"""Arrow producers in workers: errors, and stages that change to Arrow. See test_forms too."""

import pytest
from pyspark.sql import SparkSession

from deltaproduce import Limits, Pipeline, ProducerError, Store
from deltaproduce.testing import plain_rows
from deltaproduce.testing.strategies import functions, tables

ROWS = {"key": "k bigint", "value": "n bigint, t string"}


def failing() -> Pipeline:
    """A stage that does what its values say."""
    pipeline = Pipeline("failing")
    deeds = pipeline.source("deeds", key="k bigint", value="deed string")

    @pipeline.arrow_producer(deeds, key="k bigint", value="deed string NOT NULL")
    def done(table):
        made = table.append_column("_source_k", table["k"])
        said = table["deed"].to_pylist()
        if "fail" in said:
            raise ZeroDivisionError("told to")
        if "stray" in said:
            return made.set_column(2, "_source_k", [[99] * len(made)])
        return made

    return pipeline


@pytest.mark.parametrize(
    ("rows", "keys", "cause"),
    [
        ([(1, "fine"), (7, "fail")], {None, 7}, ZeroDivisionError),  # of one table, or of two
        ([(7, "fine"), (7, "fail")], {7}, ZeroDivisionError),
        ([(1, "fine"), (7, "stray")], {99}, None),
        ([(1, "fine"), (7, None)], {7}, None),
    ],
)
@pytest.mark.parametrize("local_rows", [0, 100], ids=["in Spark", "beside the driver"])
def test_failures_arrive_with_stage_and_key(
    spark: SparkSession,
    location: str,
    rows: list[tuple[int, str]],
    keys: set[int | None],
    cause: type,
    local_rows: int,
) -> None:
    store = Store(spark, location, failing(), limits=Limits(local_rows=local_rows))
    with pytest.raises(ProducerError) as caught:
        store.update({"deeds": spark.createDataFrame(rows, "k bigint, deed string")})
    assert caught.value.stage == "done"
    assert caught.value.key in keys
    assert type(caught.value.__cause__) is (cause or type(None))
    assert store.head.number == 0


def test_a_stage_that_becomes_one_over_tables_is_produced_in_full(
    spark: SparkSession, location: str
) -> None:
    def pipeline_of(form: str) -> Pipeline:
        pipeline = Pipeline("forms")
        source = pipeline.source("source", **ROWS)
        if form == "rows":
            pipeline.producer(source, **ROWS, name="stage")(functions.filtered)
        else:
            pipeline.arrow_producer(source, **ROWS, name="stage")(tables.filtered_table)
        return pipeline

    first = [(1, 2, "a"), (2, 4, "b"), (3, 5, "c")]
    ddl = "k bigint, n bigint, t string"
    store = Store(spark, location, pipeline_of("rows"))
    store.update({"source": spark.createDataFrame(first, ddl)})
    store = Store(spark, location, pipeline_of("tables"))
    version = store.update({"source": spark.createDataFrame([(3, 6, "c")], ddl)})
    assert version.stages["stage"].mode == "full"
    assert version.stages["stage"].changed_keys == 1
    assert plain_rows(store.content("stage", ordered=True).collect()) == [
        (1, 2, "a", 1, 0),
        (2, 4, "b", 2, 0),
        (3, 6, "c", 3, 0),
    ]
