"""User mistakes: each raises its own error, writes nothing, and does no harm.

The cases share a store. Before and after each, the test lists the store's directory with sizes and
times, so that it notices even a hidden file. At the end it makes a correct update.
"""

import os
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from local_stores import plain_table
from pyspark.sql import SparkSession
from selecting import long

from deltaproduce import InvalidChangesError, Limits, Pipeline, ProducerError, Store


def failing():  # noqa: C901 a list of mistakes
    """A pipeline whose functions do what their values say."""
    pipeline = Pipeline("failing")

    class DeedError(Exception):
        """Here, since workers cannot import this file."""

    orders = pipeline.source(
        "orders", key="id bigint NOT NULL", value="deed string, n int NOT NULL"
    )
    lines = pipeline.source("lines", key="k int, t string", value="amount decimal(5,2)")

    @pipeline.producer(orders, key="id bigint NOT NULL", value="n int NOT NULL")
    def deeds(key, values):
        first = next(values)
        emissions = {
            "fine": [(key, first.n)],
            "pair": [(key, first.n, "more")],
            "arity": [(key, (first.n, first.n))],
            "type": [(key, str(first.n))],
            "bool": [(key, True)],
            "null key": [(None, first.n)],
            "null value": [(key, None)],
            "overflow": [(key, 2**31)],
            "far overflow": [(key, 2**70)],
            "late": [*((key, n) for n in range(5_000)), (key, "late")],
        }
        match first.deed:
            case "key error":
                return [(key, {}[first.n])]
            case "own error":
                raise DeedError("deed", first.n)
            case "exit":
                raise SystemExit(3)
            case "death":
                os.kill(os.getpid(), 9)
            case "twice":
                list(values)
                return [(key, len(list(values)))]
            case "none":
                return None
            case "text":
                return "ab"
        return emissions.get(first.deed, [(key, first.n)])

    @pipeline.producer(deeds, key="id bigint", value="n int")
    def thirteens(key, values):
        for n in values:
            if n == 13:
                raise ZeroDivisionError("thirteen")
            yield key, n

    @pipeline.producer(lines, key="k int", value="amount decimal(5,2)")
    def amounts(key, values):
        for amount in values:
            yield key.k, amount * 10

    return pipeline


ORDERS = "id bigint, deed string, n int"
LINES = "k int, t string, amount decimal(5,2)"


WHERE = {"in Spark": 0, "beside the driver": 100_000}


@pytest.fixture(scope="module", params=WHERE.values(), ids=WHERE)
def local_rows(request: pytest.FixtureRequest) -> int:
    """Where functions run."""
    return int(request.param)


mostly_beside_the_driver = pytest.mark.parametrize(
    "local_rows",
    [
        pytest.param(
            rows,
            id=name,
            marks=() if rows else long,
        )
        for name, rows in WHERE.items()
    ],
    indirect=True,
    scope="module",
)
"""In Spark in a long run only: what its workers do then is what they do in other cases."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, local_rows: int) -> Path:
    return tmp_path_factory.mktemp("errors") / "store"


@pytest.fixture(scope="module")
def store(spark: SparkSession, path: Path, local_rows: int) -> Store:
    """A store with one version."""
    made = Store(spark, str(path), failing(), limits=Limits(local_rows=local_rows))
    version = made.update(
        {
            "orders": spark.createDataFrame([(1, "fine", 10), (2, "fine", 20)], ORDERS),
            "lines": spark.createDataFrame([(1, "a", Decimal("1.50"))], LINES),
        }
    )
    assert version.number == 1
    return made


def listing(path):
    """Every file of a store, with size and time."""
    found = (file for file in path.rglob("*") if file.is_file())
    return {str(file): (file.stat().st_size, file.stat().st_mtime_ns) for file in found}


def refused(store, path, changes, error):
    """The error that the changes meet; the store is as before, and so its version log and head."""
    before = listing(path)
    with pytest.raises(error) as caught:
        store.update(changes)
    assert listing(path) == before
    return caught.value


# ---- produce functions


DEEDS: dict[str, type[BaseException] | None] = {
    "key error": KeyError,
    "exit": SystemExit,
    "pair": None,
    "arity": None,
    "type": None,
    "bool": None,
    "null key": None,
    "null value": None,
    "overflow": Exception,
    "far overflow": Exception,
    "late": None,
    "twice": None,
    "none": None,
    "text": None,
}
SHORT_IN_SPARK = ("key error", "late")
"""Beside the driver a short run has all: the rules of what may be emitted are the same."""


def test_a_function_that_fails(spark, store, path, local_rows, long_run):
    for deed in DEEDS if local_rows or long_run else SHORT_IN_SPARK:
        rows = spark.createDataFrame([(1, "fine", 11), (7, deed, 70), (8, "fine", 80)], ORDERS)
        error = refused(store, path, {"orders": rows}, ProducerError)
        assert (error.stage, error.key) == ("deeds", 7), deed
        assert isinstance(error.__cause__, DEEDS[deed] or type(None)), deed


def test_a_worker_that_dies(spark, store, path):
    changes = {"orders": spark.createDataFrame([(1, "death", 5)], "id bigint, deed string, n int")}
    error = refused(store, path, changes, ProducerError)
    assert (error.stage, error.key) == ("deeds", None)
    assert "died" in str(error)


@mostly_beside_the_driver
def test_an_exception_of_the_user_s_own_class_is_told_by_name(spark, store, path):
    rows = spark.createDataFrame([(7, "own error", 70)], ORDERS)
    error = refused(store, path, {"orders": rows}, ProducerError)
    assert (error.stage, error.key) == ("deeds", 7)
    assert type(error.__cause__) is Exception  # the nearest class of Python's own
    assert str(error.__cause__).endswith("DeedError: ('deed', 70)")


def test_a_later_stage_that_fails_leaves_no_trace_of_the_earlier(spark, store, path):
    rows = spark.createDataFrame([(1, "fine", 13)], ORDERS)
    error = refused(store, path, {"orders": rows}, ProducerError)
    assert (error.stage, error.key) == ("thirteens", 1)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert error.__cause__.args == ("thirteen",)


@mostly_beside_the_driver
def test_a_decimal_overflow_under_a_key_of_two_columns(spark, store, path):
    rows = spark.createDataFrame([(5, "it's", Decimal("100.01"))], LINES)
    error = refused(store, path, {"lines": rows}, ProducerError)
    assert error.stage == "amounts"
    assert error.key == (5, "it's")
    assert (error.key.k, error.key.t) == (5, "it's")  # a named tuple, as the function got it


@mostly_beside_the_driver
def test_one_source_is_right_and_the_other_s_stage_fails(spark, store, path):
    changes = {
        "orders": spark.createDataFrame([(3, "fine", 30)], ORDERS),
        "lines": spark.createDataFrame([(5, "x", Decimal("999.99"))], LINES),
    }
    assert refused(store, path, changes, ProducerError).stage == "amounts"


def test_a_first_update_that_fails_makes_no_store(spark, tmp_path):
    path = tmp_path / "never"
    new = Store(spark, str(path), failing())
    with pytest.raises(ProducerError):
        new.update({"orders": spark.createDataFrame([(7, "type", 70)], ORDERS)})
    with pytest.raises(InvalidChangesError):
        new.update({"orders": spark.createDataFrame([(7,)], "id bigint")})
    assert listing(path) == {}
    assert new.head.number == 0


# ---- changes

CHANGE_TYPE = "_change_type string"
INVALID = {
    "missing value column": ([(1, "fine")], "id bigint, deed string", "n"),
    "missing key column": ([("fine", 1)], "deed string, n int", "id"),
    "extra column": ([(1, "fine", 1, 1)], f"{ORDERS}, more int", "more"),
    "reserved extra column": ([(1, "fine", 1, 1)], f"{ORDERS}, _version int", "_version"),
    "wider type": ([(1, "fine", 1)], "id bigint, deed string, n bigint", "n"),
    "text for a number": ([("1", "fine", 1)], "id string, deed string, n int", "id"),
    "fraction for an integer": ([(1, "fine", 1.0)], "id bigint, deed string, n double", "n"),
    "change type that is no text": ([(1, "fine", 1, 1)], f"{ORDERS}, _change_type int", None),
    "ordinal that is no integer": ([(1, "fine", 1, 1.5)], f"{ORDERS}, _ordinal double", None),
}


@pytest.mark.parametrize("case", INVALID)
def test_columns_that_do_not_fit(spark, store, path, case):
    rows, ddl, column = INVALID[case]
    changes = {"orders": spark.createDataFrame(rows, ddl)}
    error = refused(store, path, changes, InvalidChangesError)
    column = column or ddl.split(", ")[-1].split()[0]
    assert (error.source, error.column) == ("orders", column)


@pytest.mark.parametrize("twin", ["n", "N"])
def test_a_repeated_column(spark, store, path, twin):
    rows = spark.createDataFrame([(1, "fine", 1, 1)], f"{ORDERS}, other int")
    renamed = rows.toDF("id", "deed", "n", twin)
    error = refused(store, path, {"orders": renamed}, InvalidChangesError)
    assert (error.source, error.column.lower()) == ("orders", "n")


@pytest.mark.parametrize("word", ["upsret", "", "DELETE", None])
def test_an_unknown_change_type(spark, store, path, word):
    rows = [(1, "fine", 1, "upsert"), (4, "fine", 4, word), (5, "fine", 5, "delete")]
    changes = {"orders": spark.createDataFrame(rows, f"{ORDERS}, {CHANGE_TYPE}")}
    error = refused(store, path, changes, InvalidChangesError)
    assert (error.source, error.column, error.keys) == ("orders", "_change_type", (4,))


def test_null_in_a_not_null_key(spark, store, path):
    rows = [(1, "fine", 1, "upsert"), (None, "fine", 4, "upsert")]
    changes = {"orders": spark.createDataFrame(rows, f"{ORDERS}, {CHANGE_TYPE}")}
    error = refused(store, path, changes, InvalidChangesError)
    assert (error.source, error.column, error.keys) == ("orders", "id", (None,))


def test_null_in_a_not_null_value(spark, store, path):
    rows = [(1, "fine", 1, "upsert"), (4, "fine", None, "upsert"), (5, None, None, "delete")]
    changes = {"orders": spark.createDataFrame(rows, f"{ORDERS}, {CHANGE_TYPE}")}
    error = refused(store, path, changes, InvalidChangesError)
    assert (error.source, error.column) == ("orders", "n")
    assert 4 in error.keys


def test_keys_with_deletes_and_upserts(spark, store, path):
    orders = [
        *((1, "fine", 1, "upsert"), (2, "fine", 2, "upsert"), (3, None, None, "delete")),
        *((1, None, None, "delete"), (2, None, None, "delete"), (3, None, None, "delete")),
    ]
    lines = [
        (1, "a", Decimal(1), "delete"),
        (1, None, Decimal(1), "upsert"),
        (1, None, Decimal(1), "delete"),
    ]
    orders = spark.createDataFrame(orders, f"{ORDERS}, {CHANGE_TYPE}")
    lines = spark.createDataFrame(lines, f"{LINES}, {CHANGE_TYPE}")
    error = refused(store, path, {"orders": orders}, InvalidChangesError)
    assert (error.source, error.column, set(error.keys)) == ("orders", None, {1, 2})
    error = refused(store, path, {"lines": lines}, InvalidChangesError)
    assert (error.source, error.keys) == ("lines", ((1, None),))
    assert error.keys[0].k == 1


def test_long_keys_are_shown_short(spark, store, path):
    rows = [(1, "x" * 10_000, Decimal(1), word) for word in ("upsert", "delete")]
    changes = {"lines": spark.createDataFrame(rows, f"{LINES}, {CHANGE_TYPE}")}
    error = refused(store, path, changes, InvalidChangesError)
    assert error.keys == ((1, "x" * 10_000),)
    assert len(str(error)) < 1_000


def test_a_source_that_is_none(spark, store, path):
    rows = spark.createDataFrame([(1, "fine", 1)], ORDERS)
    for name in ("oders", "ORDERS", "deeds"):  # the last is a stage
        changes = {"orders": rows, name: rows}
        assert refused(store, path, changes, InvalidChangesError).source == name


def test_changes_that_are_no_mapping_of_dataframes(spark, store, path):
    rows = spark.createDataFrame([(1, "fine", 1)], ORDERS)
    for changes in (rows, [("orders", rows)], None, "orders"):
        refused(store, path, changes, InvalidChangesError)
    for given in ([(1, "fine", 1)], None, {"id": [1]}, rows.toPandas()[["id"]]):
        error = refused(store, path, {"orders": given}, InvalidChangesError)
        assert error.source == "orders"


def test_an_arrow_table_that_does_not_fit(store, path):
    columns = {"id": [1], "deed": ["fine"], "n": [2**31]}
    wide = pa.table(columns)  # n is an int64
    error = refused(store, path, {"orders": wide}, InvalidChangesError)
    assert (error.source, error.column) == ("orders", "n")
    unknown = pa.table(columns | {"n": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
    assert refused(store, path, {"orders": unknown}, InvalidChangesError).source == "orders"


def test_a_wrong_source_beside_a_right_one(spark, store, path):
    changes = {
        "lines": spark.createDataFrame([(2, "b", Decimal(2))], LINES),
        "orders": spark.createDataFrame([(1, "fine")], "id bigint, deed string"),
    }
    assert refused(store, path, changes, InvalidChangesError).column == "n"


# ---- after all of them


@mostly_beside_the_driver
def test_the_next_correct_update_works(spark, store, path):
    rows = [(1, "fine", 11, "upsert"), (2, None, None, "delete"), (7, "fine", 70, "upsert")]
    changes = {"orders": spark.createDataFrame(rows, f"{ORDERS}, {CHANGE_TYPE}")}
    assert store.update(changes).number == 2
    assert [version.number for version in store.versions()] == [1, 2]
    reader = Store(None, str(path), failing())  # Spark takes a second a table
    content, updates = (
        plain_table(read("thirteens", ordered=True)) for read in (reader.content, reader.updates)
    )
    assert content == [(1, 11, 1, 0), (7, 70, 7, 0)]
    assert updates == [
        (2, "update", 1, 0, 11),
        (2, "delete", 2, 0, None),
        (2, "add", 7, 0, 70),
    ]
    assert len(DeltaTable(path / "thirteens/content").history()) == 2
