"""Arrow producers in Spark's workers: errors, and stages that become some. See test_forms too."""

import pytest
from pyspark.sql import SparkSession

from deltaproduce import Pipeline, ProducerError, Store
from deltaproduce.testing import plain_rows, strategies

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
    ("rows", "key", "cause"),
    [
        ([(1, "fine"), (7, "fail")], None, ZeroDivisionError),
        ([(7, "fine"), (7, "fail")], 7, ZeroDivisionError),
        ([(1, "fine"), (7, "stray")], 99, None),
        ([(1, "fine"), (7, None)], 7, None),
    ],
)
def test_failures_arrive_with_stage_and_key(
    spark: SparkSession, location: str, rows: list[tuple[int, str]], key: int, cause: type
) -> None:
    store = Store(spark, location, failing())
    with pytest.raises(ProducerError) as caught:
        store.update({"deeds": spark.createDataFrame(rows, "k bigint, deed string")})
    assert (caught.value.stage, caught.value.key) == ("done", key)
    assert type(caught.value.__cause__) is (cause or type(None))
    assert store.head.number == 0


def test_a_stage_that_becomes_one_over_tables_is_produced_in_full(
    spark: SparkSession, location: str
) -> None:
    def pipeline_of(form: str) -> Pipeline:
        pipeline = Pipeline("forms")
        source = pipeline.source("source", **ROWS)
        if form == "rows":
            pipeline.producer(source, **ROWS, name="stage")(strategies.filtered)
        else:
            pipeline.arrow_producer(source, **ROWS, name="stage")(strategies.filtered_table)
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
        (1, 1, 0, 2, "a"),
        (2, 2, 0, 4, "b"),
        (3, 3, 0, 6, "c"),
    ]
