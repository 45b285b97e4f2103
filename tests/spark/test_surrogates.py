"""Surrogate keys and the preserve hook: S12 by example, in Arrow and in Spark."""

from collections.abc import Iterator
from typing import Any

import pytest
from comparing import read_by_delta_rs
from forcing import Way, forced
from pyspark.sql import DataFrame, SparkSession
from selecting import chosen, long

import deltaproduce as dp
from deltaproduce.testing import plain_rows

HERE = Way("on the driver")
JOINED = Way(
    "in Spark, joined",
    limits={"small_table_rows": 0, "replaced_percent": 900, "local_rows": 0, "seek_keys": 0},
)


def ways(short: Way) -> pytest.MarkDecorator:
    """On the driver and in Spark, one of them in a short run."""
    return pytest.mark.parametrize(
        "way", chosen((HERE, JOINED), short.name), ids=lambda way: way.name
    )


def content(store: dp.Store) -> DataFrame:
    """The persons in order, read from files by delta-rs: Spark takes a second."""
    found: DataFrame = read_by_delta_rs(store).content("persons", ordered=True)
    return found


def people() -> dp.Pipeline:
    pipeline = dp.Pipeline("people")
    pipeline.source("visits", key="visit bigint", value="name string")

    @pipeline.producer(
        "visits", key="name string desc", value="id int, visit bigint", surrogate="id"
    )
    def persons(visit: int, names: Iterator[str]) -> Iterator[Any]:
        for name in names:
            yield name, {"id": None, "visit": visit}

    return pipeline


@long
@ways(JOINED)
def test_numbers_follow_the_key_order_stay_and_never_come_back(
    spark: SparkSession, location: str, way: Way, long_run: bool
) -> None:
    """Whoever made the version before; and in a long run they stay when the stage is made anew."""

    def ids() -> list[Any]:
        return plain_rows(content(store).select("name", "id", "visit").collect())

    def visits(*rows: tuple[int, str | None, str]) -> Any:
        return {
            "visits": spark.createDataFrame(rows, "visit bigint, name string, _change_type string")
        }

    store = dp.Store(spark, location, people(), table_type=way.table_type)
    with forced(way if long_run else HERE):
        store.update(visits(*((n, f"{n % 50:02}", "upsert") for n in range(100))))
        assert [row[1] for row in ids()] == [n for n in range(1, 51) for _ in range(2)]
    with forced(way):
        store.update(visits((0, None, "delete"), (50, "zz", "upsert"), (51, "new", "upsert")))
        found = {name: number for name, number, _ in ids()}
        assert (found["zz"], found["new"], found["49"], found["01"]) == (51, 52, 1, 49)
        assert "00" not in found
        store.update(visits((0, "00", "upsert"), (7, None, "upsert"), (57, "07", "upsert")))
        found = {name: number for name, number, _ in ids()}
        assert (found["00"], found[None], found["07"]) == (53, 54, 43)
        if long_run:
            before = ids()
            store.refresh("persons")
            assert ids() == before
        assert store.head.stages["persons"].numbering.surrogates == 54


@ways(HERE)
def test_many_new_keys_are_numbered_without_gaps_and_in_order(
    spark: SparkSession, location: str, way: Way
) -> None:
    with forced(way):
        store = dp.Store(spark, location, people(), table_type=way.table_type)
        for start, end in ((0, 3_000), (1_500, 6_000)):
            rows = spark.range(start, end).selectExpr(
                "id AS visit", "format_string('%06d', id) AS name"
            )
            store.update({"visits": rows})
        numbered = content(store).selectExpr("int(name) AS name", "id")
        low, high = numbered.where("name < 3000"), numbered.where("name >= 3000")
        assert low.where("name + id <> 3000").count() == 0
        assert high.where("name + id <> 9000").count() == 0
        assert (low.count(), high.count()) == (3_000, 3_000)


@ways(HERE)
def test_the_hook_sees_one_example_a_key_in_the_form_of_values(
    spark: SparkSession, location: str, way: Way
) -> None:
    pipeline = dp.Pipeline("first seen")
    pipeline.source("visits", key="visit bigint", value="name string, day int")

    def preserve(value: Any, example: Any) -> Any:
        return {"first": value.first if example is None else example.first, "visit": value.visit}

    @pipeline.producer(
        "visits", key="name string", value="first int, visit bigint", preserve=preserve
    )
    def persons(visit: int, values: Iterator[Any]) -> Iterator[Any]:
        for value in values:
            yield value.name, (value.day, visit)

    def visits(*rows: tuple[Any, ...]) -> Any:
        return {"visits": spark.createDataFrame(rows, "visit bigint, name string, day int")}

    with forced(way):
        store = dp.Store(spark, location, pipeline, table_type=way.table_type)
        store.update(visits((1, "a", 5), (2, "a", 4), (3, "b", 9)))
        store.update(visits((1, "a", 1), (4, "b", 2), (5, "c", 3)))
        found = content(store).select("name", "first", "visit")
        assert plain_rows(found.collect()) == [
            ("a", 5, 1), ("a", 5, 2), ("b", 9, 3), ("b", 9, 4), ("c", 3, 5),
        ]  # fmt: skip


def counted() -> dp.Pipeline:
    """Values that say how many calls of the hook there were before, in its process."""
    pipeline, calls = dp.Pipeline("counted"), [0]
    pipeline.source("visits", key="visit bigint", value="name string, day int")

    def count(value: Any, example: Any) -> int:
        del value, example
        calls[0] += 1
        return calls[0]

    @pipeline.producer("visits", key="day int, name string desc", value="n int", preserve=count)
    def persons(visit: int, values: Iterator[Any]) -> Iterator[Any]:
        for value in values:
            yield (value.day, value.name), 0

    return pipeline


VISITS = (
    "id AS visit",
    "IF(id % 100 = 0, NULL, format_string('%04d', (id * 7919) % 3000)) AS name",
    "IF(id % 37 = 0, NULL, CAST((id * 31) % 50 AS INT)) AS day",
)


@ways(HERE)
def test_the_hook_is_called_in_key_order_over_the_whole_stage(
    spark: SparkSession, location: str, way: Way
) -> None:
    """In a first load, an update and a refresh; keys of two columns, one descending, and nulls."""
    with forced(way):
        store = dp.Store(spark, location, counted(), table_type=way.table_type)
        store.update({"visits": spark.range(6_000).selectExpr(*VISITS)})
        every = [*range(1, 6_001)]
        assert [row.n for row in content(store).collect()] == every
        store.update({"visits": spark.range(6_000, 10_000).selectExpr(*VISITS)})
        found = content(store).where("_source_visit >= 6000").collect()
        assert [row.n for row in found] == [*range(1, 4_001)]
        store.refresh("persons")
        found = content(store).collect()
        assert [row.n for row in found] == [*range(1, 10_001)]


@long
def test_of_many_rows_each_task_has_the_next_range_of_keys(
    spark: SparkSession, location: str
) -> None:
    with forced(Way("in tasks", limits={"preserved_rows": 2_000, "local_rows": 0})):
        store = dp.Store(spark, location, counted())
        store.update({"visits": spark.range(6_000).selectExpr(*VISITS)})
    numbers = [row.n for row in content(store).collect()]
    starts = [place for place, number in enumerate(numbers) if number == 1]
    assert 1 < len(starts) <= 3
    for start, end in zip(starts, [*starts[1:], len(numbers)], strict=True):
        assert numbers[start:end] == [*range(1, end - start + 1)]


@pytest.mark.parametrize(
    ("result", "cause"),
    [(lambda example: 1 // 0, ZeroDivisionError), (lambda example: "not a number", type(None))],
)
def test_what_goes_wrong_in_the_hook_names_stage_and_key(
    spark: SparkSession, location: str, result: Any, cause: type
) -> None:
    pipeline = dp.Pipeline("failing")
    pipeline.source("visits", key="visit bigint", value="name string")

    @pipeline.producer(
        "visits", key="name string", value="visit bigint",
        preserve=lambda value, example: value if example is None else result(example),
    )  # fmt: skip
    def persons(visit: int, names: Iterator[str]) -> Iterator[Any]:
        for name in names:
            yield name, visit

    store = dp.Store(spark, location, pipeline)
    rows = spark.createDataFrame([(1, "a"), (2, "b"), (3, "b")], "visit bigint, name string")
    with pytest.raises(dp.ProducerError) as caught:
        store.update({"visits": rows})
    assert (caught.value.stage, caught.value.key) == ("persons", "b")
    assert type(caught.value.__cause__) is cause
    assert store.head.number == 0


def test_a_function_leaves_the_surrogate_empty(spark: SparkSession, location: str) -> None:
    pipeline = dp.Pipeline("filled")
    pipeline.source("visits", key="visit bigint", value="name string")

    @pipeline.producer("visits", key="name string", value="id bigint", surrogate="id")
    def persons(visit: int, names: Iterator[str]) -> Iterator[Any]:
        for name in names:
            yield name, visit

    store = dp.Store(spark, location, pipeline)
    with pytest.raises(dp.ProducerError) as caught:
        store.update({"visits": spark.sql("SELECT 1L AS visit, 'a' AS name")})
    assert (caught.value.stage, caught.value.key) == ("persons", 1)
