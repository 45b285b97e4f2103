"""Small examples of the meaning of a batch: order, words, repeats, and untouched rows.

One store and few versions suffice: the examples have their own sources or keys.
"""

import pyarrow as pa
import pytest
from local_stores import plain_table
from pyspark.sql import SparkSession

from deltaproduce import Pipeline, Store, Version


def examples():
    pipeline = Pipeline("semantics")
    numbers = pipeline.source("numbers", key="k int", value="n bigint")

    @pipeline.producer(numbers, key="k int", value="square bigint")
    def squares(key, values):
        for n in values:
            yield key, n * n

    @pipeline.producer(squares, key="total bigint", value="k int")
    def totals(key, values):
        yield sum(values), key

    baskets = pipeline.source("baskets", key="basket bigint", value="shelf int, fruit string")

    @pipeline.producer(baskets, key="shelf int", value="fruit string")
    def shelves(basket, values):
        for value in values:
            yield value.shelf, value.fruit

    pipeline.source("feed", key="k int", value="t string")
    return pipeline


def unordered_numbers(spark):
    """Rows of several keys mixed; ``_ordinal`` turns those of key 1 around."""
    rows = [
        *((1, 10, 3), (2, 5, 0), (1, 20, 2), (2, 4, 0), (2, 6, 0), (1, 30, 1)),
        *((3, 7, -5), (3, 8, 0), (3, 9, -(2**40))),
    ]
    assert spark.sparkContext.defaultParallelism == 2
    return spark.createDataFrame(rows, "k int, n bigint, _ordinal bigint")


def arrow_baskets():
    """Chunks without rows between others, as filters leave them, and narrower integers."""
    schema = pa.schema([("basket", pa.int16()), ("shelf", pa.int8()), ("fruit", pa.string())])
    chunks = [
        *([], [(6, 105, "apple"), (6, 105, "apricot")], [], [], [(9, 105, "banana")]),
        *([(4, 108, "mango")], [], [(7, 110, "pear")], []),
    ]
    tables = [
        pa.table([pa.array(column) for column in zip(*rows, strict=True)], schema=schema)
        if rows
        else schema.empty_table()
        for rows in chunks
    ]
    table = pa.concat_tables(tables)
    assert 0 in {len(chunk) for chunk in table.column("fruit").chunks}
    return table


FEED = "k int, t string, _change_type string"
BASKETS = "basket int, shelf int, fruit string, _change_type string"


@pytest.fixture(scope="module")
def versions(store: Store, spark: SparkSession) -> list[Version]:
    """The load, and one batch of changes."""
    loaded = store.update(
        {
            "numbers": unordered_numbers(spark),
            "baskets": arrow_baskets(),
            "feed": spark.createDataFrame(
                [(1, "a", "insert"), (2, "b", "add"), (3, "c", "upsert")], FEED
            ),
        }
    )
    changed = store.update(
        {
            "numbers": spark.createDataFrame([(2, -5), (2, 4), (2, -6)], "k int, n int"),
            "baskets": spark.createDataFrame(
                [(7, None, None, "delete"), (8, 110, "pear", "upsert")], BASKETS
            ),
            "feed": spark.createDataFrame(
                [
                    *((1, "a", "update_preimage"), (1, "A", "update_postimage")),
                    *((2, "not looked at", "delete"), (2, None, "delete"), (99, None, "delete")),
                    *((3, "c", "update_preimage"), (4, "d", "insert"), (4, "e", "update")),
                ],
                FEED,
            ),
        }
    )
    return [loaded, changed]


@pytest.fixture(scope="module")
def location_of_store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("semantics") / "store")


@pytest.fixture(scope="module")
def store(spark: SparkSession, location_of_store: str) -> Store:
    return Store(spark, location_of_store, examples())


@pytest.fixture(scope="module")
def reader(location_of_store: str) -> Store:
    """The store without a session, which reads in milliseconds: Spark takes a second a table."""
    return Store(None, location_of_store, examples())


@pytest.mark.usefixtures("versions")
def test_rows_are_in_the_order_of_ordinal_then_of_the_dataframe(reader):
    assert plain_table(reader.content("numbers", 1, ordered=True)) == [
        *((1, 30, 0), (1, 20, 1), (1, 10, 2)),
        *((2, 5, 0), (2, 4, 1), (2, 6, 2)),
        *((3, 9, 0), (3, 7, 1), (3, 8, 2)),
    ]


@pytest.mark.usefixtures("versions")
def test_an_arrow_table_with_empty_chunks_and_narrow_integers(store, reader):
    assert plain_table(reader.content("shelves", 1, ordered=True)) == [
        *((105, "apple", 6, 0), (105, "apricot", 6, 1), (105, "banana", 9, 0)),
        *((108, "mango", 4, 0), (110, "pear", 7, 0)),
    ]
    assert dict(store.content("shelves", 1).dtypes)["_source_basket"] == "bigint"


@pytest.mark.usefixtures("versions")
def test_the_words_of_change_data_feeds(reader):
    assert plain_table(reader.content("feed", 2, ordered=True)) == [
        *((1, "A", 0), (3, "c", 0), (4, "d", 0), (4, "e", 1))
    ]
    assert plain_table(reader.updates("feed", 2, ordered=True)) == [
        (2, "update", 1, 0, "A"),
        (2, "delete", 2, 0, None),
        (2, "add", 4, 0, "d"),
        (2, "update", 4, 1, "e"),
    ]


def test_equal_values_of_a_middle_stage_do_not_reach_the_next(reader, versions):
    before, after = versions
    assert plain_table(reader.updates("numbers", 2, ordered=True)) == [
        (2, "update", 2, 0, -5),
        (2, "update", 2, 1, 4),
        (2, "update", 2, 2, -6),
    ]
    for stage in ("squares", "totals"):
        assert after.stages[stage].delta_versions == before.stages[stage].delta_versions
        assert not len(reader.updates(stage, 2))
    assert after.stages["squares"].affected_keys == 1
    assert after.stages["squares"].changed_keys == 0
    assert after.stages["totals"].mode == "skipped"
    assert plain_table(reader.content("totals", 2, ordered=True)) == [
        *((77, 2, 2, 0), (194, 3, 3, 0), (1400, 1, 1, 0))
    ]


def test_an_equal_value_from_another_source_key_is_no_update(reader, versions):
    before, after = (version.stages["shelves"].delta_versions for version in versions)
    assert plain_table(reader.content("shelves", 2, ordered=True))[-1] == (110, "pear", 8, 0)
    assert plain_table(reader.key_mappings("shelves", 2, ordered=True)) == [
        *((4, 108), (6, 105), (8, 110), (9, 105))
    ]
    assert not len(reader.updates("shelves", 2))
    assert after["updates"] == before["updates"]
    assert after["content"] == before["content"] + 1
    assert after["key_mappings"] == before["key_mappings"] + 1
    assert plain_table(reader.content("shelves", 1, ordered=True))[-1] == (110, "pear", 7, 0)


@pytest.mark.usefixtures("versions")
def test_a_batch_is_applied_once_under_its_id(store, reader, spark, location_of_store):
    def feed(*rows):
        return {"feed": spark.createDataFrame(rows, FEED)}

    head = store.head.number
    made = store.update(feed((50, "x", "upsert")), update_id="batch-1")
    assert (made.number, made.update_id) == (head + 1, "batch-1")
    again = (feed((51, "y", "upsert")), feed((50, "x", "upsert")), feed((1, "z", "??")), {})
    for changes in again:
        repeated = store.update(changes, update_id="batch-1")
        assert (repeated.number, repeated.update_id) == (made.number, "batch-1")
    assert store.head.number == made.number

    nothing = feed((50, "x", "upsert"), (99, None, "delete"))
    assert store.update(nothing).number == made.number  # no id, no version
    empty = store.update(nothing, update_id="batch-2")
    assert (empty.number, empty.update_id) == (made.number + 1, "batch-2")
    assert {name: found.delta_versions for name, found in empty.stages.items()} == {
        name: found.delta_versions for name, found in made.stages.items()
    }
    assert not len(reader.updates("feed"))
    assert store.update(feed((60, "later", "upsert")), update_id="batch-2").number == empty.number
    assert store.update(feed((60, "new", "upsert"))).number == empty.number + 1
    assert store.update(feed((60, "newer", "upsert")), update_id="batch-1").number == made.number
    found = plain_table(reader.content("feed", ordered=True))
    assert [row for row in found if row[0] >= 50] == [(50, "x", 0), (60, "new", 0)]
    another = Store(spark, location_of_store, examples())
    assert another.update(nothing, update_id="batch-1").number == made.number
