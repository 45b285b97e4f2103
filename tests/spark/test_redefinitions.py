"""S15: a changed definition is noticed, and its stage and the stages after it are remade."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from comparing import as_frames, read_by_delta_rs
from forcing import WAYS, Way, forced
from limiting import limited
from pyspark.sql import SparkSession
from selecting import chosen, long
from series import drawn, packed, packed_histories

import deltaproduce as dp
from deltaproduce.testing import Oracle, plain_rows, strategies
from deltaproduce.testing.strategies.functions import by_text, rekeyed, unchanged

ROWS: Any = {"key": "k bigint", "value": "n bigint, t string"}
BY_TEXT: Any = {"key": "t string", "value": "n bigint"}


def first() -> dp.Pipeline:
    pipeline = dp.Pipeline("first")
    source = pipeline.source("source", **ROWS)
    other = pipeline.source("other", **ROWS)
    middle = pipeline.producer(source, **ROWS, name="middle")(unchanged)
    pipeline.producer(middle, **BY_TEXT, name="texts")(by_text)
    pipeline.producer(middle, **ROWS, name="leaf")(rekeyed)
    pipeline.producer(other, **ROWS, name="removed")(unchanged)
    return pipeline


def second() -> dp.Pipeline:
    """Another value, another key, other feeders, one stage fewer and one more."""

    def with_length(k: int, values: Iterator[Any]) -> Iterator[Any]:
        for value in values:
            yield k, (value.n, value.t, len(value.t or ""))

    def by_text_and_key(k: int, values: Iterator[Any]) -> Iterator[Any]:
        for value in values:
            yield (value.t, k), value.n

    def numbers(key: Any, values: Iterator[Any]) -> Iterator[Any]:
        for n in values:
            yield key.k, n

    pipeline = dp.Pipeline("second")
    source = pipeline.source("source", **ROWS)
    other = pipeline.source("other", **ROWS)
    wide = {"key": "k bigint", "value": "n bigint, t string, length bigint"}
    middle = pipeline.producer(source, **wide, name="middle")(with_length)
    made = {"key": "t string, k bigint desc", "value": "n bigint"}
    texts = pipeline.producer(middle, **made, name="texts")(by_text_and_key)
    pipeline.producer(dp.merge(other, source), **ROWS, name="leaf")(rekeyed)
    pipeline.producer(texts, key="k bigint", value="n bigint", name="added")(numbers)
    return pipeline


@long
@pytest.mark.parametrize("way", [WAYS[7]], ids=lambda way: way.name)
def test_tables_are_those_of_the_new_definition_and_old_versions_stay(
    spark: SparkSession, location: str, way: Way
) -> None:
    exact = strategies.histories(first(), min_versions=3, max_versions=3)
    batches = packed_histories(drawn(exact, 8, WAYS.index(way)))
    old, new = packed(first()), packed(second())
    before, after = Oracle(old), Oracle(new)
    with forced(way):
        store = dp.Store(spark, location, old, table_type=way.table_type)
        for batch in batches[:1]:
            store.update(as_frames(spark, old, batch))
            before.update(batch)
            after.update(batch)
        store = dp.Store(spark, location, new, table_type=way.table_type)
        found = {step.stage.name: (step.how, step.redefined) for step in store.plan()}
        assert found == {
            "middle": ("full", True),
            "texts": ("full", True),
            "leaf": ("full", True),
            "added": ("full", False),
        }
        for batch in batches[1:]:
            version = store.update(as_frames(spark, new, batch))
            after.update(batch)
            assert_content(store, after, new.stages, version.number, after.head)
        assert_content(store, before, [s for s in old.stages if s.name != "removed"], 1, 1)


def assert_content(
    store: dp.Store, oracle: Oracle, stages: Sequence[Any], version: int, number: int
) -> None:
    """Content and key mappings of some stages at a version are the oracle's of another number."""
    store = read_by_delta_rs(store)
    for stage in stages:
        content = store.content(stage.name, version, ordered=True)
        assert tuple(content.columns) == oracle.columns(stage.name, "content")
        assert plain_rows(content.collect()) == oracle.content(stage.name, number)
        if stage.feeders:
            found = store.key_mappings(stage.name, version, ordered=True).collect()
            assert plain_rows(found) == oracle.key_mappings(stage.name, number)


def visits(spark: SparkSession, *rows: tuple[Any, ...]) -> dict[str, Any]:
    return {"visits": spark.createDataFrame(rows, "visit bigint, name string, day int")}


def days(value: str = "day int", key: str = "name string") -> dp.Pipeline:
    pipeline = dp.Pipeline("days")
    pipeline.source("visits", key="visit bigint", value="name string, day int")

    def columns(visit: int, values: Iterator[Any]) -> Iterator[Any]:
        for found in values:
            day = found.day if value == "day int" else (found.day, visit)
            yield found.name if key == "name string" else (found.name, visit), day

    pipeline.producer("visits", key=key, value=value, name="persons")(columns)
    return pipeline


@long
def test_updates_say_what_changed_between_the_definitions(
    spark: SparkSession, location: str
) -> None:
    store = dp.Store(spark, location, days())
    store.update(visits(spark, (1, "a", 5), (2, "a", 4), (3, "b", 9)))
    wide = dp.Store(spark, location, days("day int, visit bigint"))
    version = wide.update(visits(spark, (3, "c", 9)))
    assert (version.number, version.stages["persons"].mode) == (2, "full")
    found = wide.updates("persons", ordered=True).drop("_version").collect()
    assert plain_rows(found) == [
        ("update", "a", 0, 5, 1),
        ("update", "a", 1, 4, 2),
        ("delete", "b", 0, None, None),
        ("add", "c", 0, 9, 3),
    ]
    assert wide.updates("persons", 1).columns == store.updates("persons", 1).columns
    assert wide.updates("persons", 1).count() == 3
    with pytest.raises(dp.NotFoundError):
        wide.changes("persons", 1)
    keyed = dp.Store(spark, location, days("day int, visit bigint", "name string, seen bigint"))
    assert keyed.update({}).stages["persons"].changed_keys == 3
    kinds = {row["_change_type"] for row in keyed.updates("persons").collect()}
    assert kinds == {"add"}
    assert keyed.update({}) == keyed.head
    back = dp.Store(spark, location, days())
    assert back.update({}).number == 4
    assert back.content("persons", 2).columns == wide.content("persons", 2).columns


def test_a_strict_store_refuses_and_an_edited_function_of_one_revision_is_none(
    spark: SparkSession, location: str
) -> None:
    def pipeline(plus: int, revision: str | None) -> dp.Pipeline:
        found = dp.Pipeline("revised")
        found.source("visits", key="visit bigint", value="name string, day int")

        @found.producer("visits", key="name string", value="day int", revision=revision)
        def persons(visit: int, values: Iterator[Any]) -> Iterator[Any]:
            for value in values:
                yield value.name, value.day + plus

        return found

    dp.Store(spark, location, pipeline(0, "one")).update(visits(spark, (1, "a", 5)))
    same = dp.Store(spark, location, pipeline(1, "one"), policy="strict")
    assert same.plan() == ()
    assert same.update({}).number == 1
    for other in (pipeline(0, "two"), pipeline(0, None)):
        strict = dp.Store(spark, location, other, policy="strict")
        for refused in (strict.plan, lambda store=strict: store.update(visits(spark, (2, "b", 1)))):
            with pytest.raises(dp.DefinitionError) as caught:
                refused()
            assert caught.value.stage == "persons"
    assert strict.head.number == 1
    assert dp.Store(spark, location, pipeline(1, "two")).update({}).number == 2


def test_a_stage_of_which_nearly_all_changes_is_produced_in_full_if_the_policy_lets_it(
    spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(monkeypatch, full_rows=600)

    def days(plus: int, begin: int, end: int) -> dict[str, Any]:
        rows = spark.range(begin, end).selectExpr("id AS visit", f"int(id % 7 + {plus}) AS day")
        return {"visits": rows}

    pipeline = dp.Pipeline("many")
    pipeline.source("visits", key="visit bigint", value="day int")

    @pipeline.producer("visits", key="person bigint", value="day int")
    def persons(visit: int, values: Iterator[int]) -> Iterator[Any]:
        for day in values:
            yield visit // 3, day

    every = 600
    store = dp.Store(spark, location, pipeline)
    store.update(days(0, 0, every))
    full = store.update(days(10, 0, every - 50)).stages["persons"]
    assert full.mode == "full"
    assert full.reason == "reached through visits, 550 of 600 rows are of changed keys"
    feed = store.updates("persons").where("_version = 2")
    assert feed.select("person").distinct().count() == -(-(every - 50) // 3)
    found = store.content("persons").select("person", "_source_visit", "day").collect()
    expected = [(v // 3, v, v % 7 + (10 if v < every - 50 else 0)) for v in range(every)]
    assert list(map(tuple, found)) == expected
    careful = dp.Store(spark, location, pipeline, policy="incremental")
    assert careful.update(days(20, 0, every)).stages["persons"].mode != "full"


@long
def test_columns_that_tables_are_looked_up_by_may_have_other_names(
    spark: SparkSession, location: str
) -> None:
    def pipeline(name: str) -> dp.Pipeline:
        found = dp.Pipeline("names")
        found.source("visits", key="visit bigint", value="name string, day int")

        @found.producer("visits", key=f"{name} string", value="day int")
        def persons(visit: int, values: Iterator[Any]) -> Iterator[Any]:
            for value in values:
                yield value.name, value.day

        @found.producer(persons, key="day int", value="times bigint")
        def days(person: str, found: Iterator[int]) -> Iterator[Any]:
            for day in found:
                yield day, 1

        return found

    first = dp.Store(spark, location, pipeline("name"))
    first.update(visits(spark, (1, "a", 5), (2, "b", 5)))
    store = dp.Store(spark, location, pipeline("person"))
    assert store.update(visits(spark, (3, "c", 6))).number == 2
    store.update(visits(spark, (2, "b", 6)))
    assert "_source_person" in store.content("days").columns
    found = store.key_mappings("days", ordered=True)
    assert plain_rows(found.collect()) == [("a", 5), ("b", 6), ("c", 6)]
    assert store.content("persons", 1).columns[0] == "name"
    assert store.content("persons", 1).count() == 2
    history = spark.sql(f"DESCRIBE HISTORY delta.`{location}/persons/content`").collect()
    assert len(history) == 3


def test_a_source_with_other_columns_takes_a_load(spark: SparkSession, location: str) -> None:
    def pipeline(value: str) -> dp.Pipeline:
        found = dp.Pipeline("columns")
        found.source("a", key="k bigint", value=value)

        @found.producer("a", key="k bigint", value="n bigint")
        def counted(k: int, values: Iterator[Any]) -> Iterator[Any]:
            yield k, len(list(values))

        return found

    store = dp.Store(spark, location, pipeline("v int"))
    store.update({"a": spark.sql("SELECT id AS k, 1 AS v FROM range(3)")})
    wide = dp.Store(spark, location, pipeline("v int, w string NOT NULL"))
    rows = spark.sql("SELECT id AS k, 1 AS v, 'x' AS w FROM range(1, 4)")
    with pytest.raises(dp.DefinitionError) as caught:
        wide.update({"a": rows})
    assert caught.value.stage == "a"
    version = wide.load({"a": rows})
    assert version.stages["a"].changed_keys == 4
    kinds = wide.updates("a", ordered=True).select("k", "_change_type", "w").collect()
    assert plain_rows(kinds) == [
        (0, "delete", None), (1, "update", "x"), (2, "update", "x"), (3, "add", "x"),
    ]  # fmt: skip
    assert version.stages["counted"].changed_keys == 2
    assert wide.content("a", 1).columns == ["k", "v", "_ordinal"]
    with pytest.raises(dp.DefinitionError):
        wide.rollback(1)


def test_a_surrogate_that_is_declared_later_starts_at_one(
    spark: SparkSession, location: str
) -> None:
    def pipeline(surrogate: str | None) -> dp.Pipeline:
        found = dp.Pipeline("ids")
        found.source("visits", key="visit bigint", value="name string, day int")

        @found.producer("visits", key="name string", value="id bigint", surrogate=surrogate)
        def persons(visit: int, values: Iterator[Any]) -> Iterator[Any]:
            for value in values:
                yield value.name, None if surrogate else value.day

        return found

    dp.Store(spark, location, pipeline(None)).update(visits(spark, (1, "a", 5), (2, "b", 7)))
    store = dp.Store(spark, location, pipeline("id"))
    store.update(visits(spark, (3, "c", 1)))
    found = store.content("persons", ordered=True).select("name", "id").collect()
    assert plain_rows(found) == [("a", 1), ("b", 2), ("c", 3)]


def widened(value: str) -> dp.Pipeline:
    pipeline = dp.Pipeline("widened")
    rows = pipeline.source("rows", key="id bigint", value=value)

    def texts(key: int, values: Iterator[Any]) -> Iterator[Any]:
        for value in values:
            yield key % 3, str(value)  # depends on columns that it does not name

    pipeline.producer(rows, key="part bigint", value="text string", name="texts")(texts)
    ends = {"n": dp.agg.sum("n"), "most": dp.agg.max("n")}
    pipeline.aggregate("sums", rows, key="t", values=ends)
    pipeline.sql("small", "SELECT id, n + 1 AS more FROM rows WHERE n < 5", key="id")
    return pipeline


@long
@pytest.mark.parametrize("way", chosen(WAYS[4:8], WAYS[5].name), ids=lambda way: way.name)
def test_rows_stay_in_columns_that_hold_them(
    spark: SparkSession, location: str, way: Way, long_run: bool
) -> None:
    """In Spark, too: all is as of one load of the final rows, and updates fold to it.

    A short run goes from the first columns to the last ones at once, and leaves the recomputation
    to `tests/local/test_local_widening.py`.
    """
    wide = "n bigint, t string, c string, s struct<x: int>"
    declared = ("n int NOT NULL, t string", "t string, n int, c string", wide)
    values = {
        "n": range(9),
        "t": "xyz" * 3,
        "c": [None, "new", ""] * 3,
        "s": [None, (1,), None] * 3,
    }
    with forced(way):
        for number, value in enumerate(declared):
            if number == 1 and not long_run:
                continue
            pipeline = widened(value)
            columns = f"id bigint, {value.replace(' NOT NULL', '')}"
            store = dp.Store(spark, location, pipeline, table_type=way.table_type)
            names = pipeline.stages[0].schema.value.names
            each = zip(*(values[name] for name in names), strict=True)
            rows = [(id + 3 * number, *row) for id, row in enumerate(each)]
            store.update({} if number == 1 else {"rows": spark.createDataFrame(rows, columns)})
        if long_run:
            assert store.verify(recompute=True) == ()
    found = plain_rows(store.content("rows", ordered=True).drop("_ordinal").collect())
    assert found[:2] == [(0, 0, "x", None, None), (1, 1, "y", None, None)]
    assert len(found) == 15
    once = dp.Store(spark, f"{location}_once", widened(declared[-1]))
    once.load({"rows": store.content("rows").drop("_ordinal")})
    for stage in ("texts", "sums", "small"):
        one, other = (
            plain_rows(read_by_delta_rs(each).content(stage, ordered=True).collect())
            for each in (store, once)
        )
        assert one == other
