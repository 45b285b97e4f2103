"""Every method of a store refuses values of wrong types before anything is written.

The cases share a store of one version, which is unchanged after all of them.
"""

import inspect
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from deltaproduce import (
    CorruptStoreError,
    DefinitionError,
    DeltaProduceError,
    InvalidArgumentError,
    InvalidChangesError,
    NotFoundError,
    Pipeline,
    Store,
)
from deltaproduce.model.limits import Limits

ORDERS = "id bigint, customer int"


def shop(customer: str = "customer int") -> Pipeline:
    pipeline = Pipeline("shop")
    orders = pipeline.source("orders", key="id bigint", value=customer)

    @pipeline.producer(orders, key=customer, value="id bigint")
    def by_customer(id, values):
        for customer in values:
            yield customer, id

    return pipeline


PIPELINE, OTHER = shop(), shop("customer string")


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


WRONG: list[Any] = [
    *(None, -1, 0, 1.5, float("nan"), float("inf"), 10**400, "", "x", "\ud800", b"x", [], {}, ()),
    *(object(), Unshowable(), True, False, ["x"], {"x": 1}, range(3), Pipeline, OTHER.stages[0]),
    *("1", b"orders", datetime(2026, 1, 1), 2**63, -(2**70)),
]

WINDOWS: dict[str, Any] = {"partitions": {}, "as_of": None}
CALLS: dict[str, dict[str, Any]] = {
    "update": {
        "changes": {},
        "update_id": None,
        "snapshots": {},
        **WINDOWS,
        "on_conflict": None,
    },
    "load": {"rows": {}, "update_id": None, **WINDOWS, "on_conflict": None},
    "plan": {"given": ["orders"], "snapshots": [], **WINDOWS},
    "refresh": {"stage": "by_customer"},
    "rollback": {"version": 1, "update_id": None},
    "forget": {"source": "orders", "key": 77},
    "verify": {"recompute": False},
    "repair": {"recompute": False},
    "vacuum": {
        "keep_versions": 1,
        "keep_days": None,
        "unfinished_hours": 24,
        "dry_run": True,
    },
    "content": {"stage": "orders", "version": 1, "ordered": True},
    "dataset": {"stage": "orders", "version": 1},
    "key_mappings": {"stage": "by_customer", "version": 1, "ordered": True},
    "updates": {"stage": "by_customer", "version": 1, "ordered": True},
    "sql_name": {"stage": "orders", "table": "content"},
    "sql": {"stage": "orders", "version": 1, "dialect": "spark", "table": "content"},
    "create_view": {"stage": "orders", "version": 1},
    "changes": {"stage": "orders", "since": 0, "until": 1, "mode": "net"},
    "diff": {"before": 0, "after": 1, "sample": 1},
    "lookup": {
        "stage": "orders",
        "keys": [1],
        "version": 1,
        "strategy": "auto",
        "fetch": False,
        "ordered": True,
    },
    "lineage": {"stage": "orders", "key": 1, "version": 1},
    "report": {"path": "report.html", "version": 1, "samples": 1},
    "emit_openlineage": {"version": 1, "namespace": "shop", "emit": print},
    "tasks": {"as_of": "2026-01-01"},
    "run": {"as_of": "2026-01-01", "max_tasks": 1, "on_conflict": None, "dry_run": True},
    "backfill": {
        "stage": "by_customer",
        "where": {},
        "downstream": "all",
        "atomic": False,
        "dry_run": True,
    },
    "stream_writer": {"source": "orders", "stream": None},
    "explain": {"name": "by_customer"},
}
"""Each method that takes arguments -> good ones, of which one at a time is made wrong."""

WITHOUT = {
    "as_tables",
    "time_zone",
    "head",
    "versions",
    "update_ids",
    "check",
    "compact",
    "wait",
    "close",
}


def is_int(value: Any) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1e300


def is_text(value: Any) -> bool:
    return isinstance(value, str) and value not in ("", "\ud800")


def is_version(value: Any) -> bool:
    return is_int(value) and value in (0, 1)


FITS: dict[str, Callable[[Any], bool]] = {
    "changes": lambda value: isinstance(value, dict) and not value,
    "rows": lambda value: isinstance(value, dict) and not value,
    "update snapshots": lambda value: isinstance(value, dict) and not value,
    "plan snapshots": lambda value: isinstance(value, list | dict | tuple) and not value,
    "given": lambda value: isinstance(value, list | dict | tuple) and not value,
    "partitions": lambda value: isinstance(value, dict) and not value,
    "as_of": lambda value: value is None or isinstance(value, datetime),
    "update_id": lambda value: value is None or is_text(value),
    "on_conflict": lambda value: value is None,
    "tasks as_of": lambda value: isinstance(value, datetime),
    "run as_of": lambda value: isinstance(value, datetime),
    "max_tasks": lambda value: value is None or (type(value) is int and value >= 0),
    "where": lambda value: isinstance(value, dict) or is_text(value),
    "downstream": lambda value: isinstance(value, list | dict | tuple | range),
    "namespace": is_text,
    "emit": lambda value: value is None or callable(value),
    "stream": lambda value: value is None or is_text(value),
    "refresh stage": lambda value: value is None,
    "rollback version": is_version,
    "version": lambda value: value is None or is_version(value),
    "since": is_version,
    "before": is_version,
    "after": lambda value: value is None or is_version(value),
    "keys": lambda value: isinstance(value, list | tuple | range) and all(map(is_int, value)),
    "sample": lambda value: is_int(value) and 0 <= value <= 1_000,
    "samples": lambda value: type(value) is int and value >= 0,
    "path": is_text,
    "until": lambda value: value is None or is_version(value),
    "key": lambda value: value is None or is_int(value),
    "recompute": lambda value: isinstance(value, bool),
    "ordered": lambda value: isinstance(value, bool),
    "fetch": lambda value: value is False,
    "dry_run": lambda value: isinstance(value, bool),
    "atomic": lambda value: isinstance(value, bool),
    "keep_versions": lambda value: type(value) is int and value >= 1,
    "keep_days": lambda value: value is None or is_number(value),
    "unfinished_hours": is_number,
}
"""Values that mean something to an argument, so that the call may do something."""


def fits(method: str, argument: str, value: Any) -> bool:
    known = FITS.get(f"{method} {argument}") or FITS.get(argument)
    return known is not None and known(value)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("calls") / "store"


@pytest.fixture(scope="module")
def store(spark: SparkSession, path: Path) -> Iterator[Store]:
    made = Store(spark, str(path), PIPELINE, views="wrong_calls")
    made.update({"orders": spark.createDataFrame([(1, 10), (2, 20)], ORDERS)})
    yield made
    spark.sql("DROP SCHEMA wrong_calls CASCADE")


def listing(path: Path) -> dict[str, tuple[int, int]]:
    """Every file with size and time."""
    found = (file for file in path.rglob("*") if file.is_file())
    return {str(file): (file.stat().st_size, file.stat().st_mtime_ns) for file in found}


def test_all_methods_and_parameters_are_called() -> None:
    public = {name for name in dir(Store) if not name.startswith("_")}
    assert CALLS.keys() | WITHOUT == public
    for name in public:
        method = getattr(Store, name)
        parameters = (
            [] if isinstance(method, property) else list(inspect.signature(method).parameters)
        )
        assert parameters[1:] == list(CALLS.get(name, {})), name


def refused(call: Callable[..., object], arguments: dict[str, Any]) -> Exception | None:
    """The error that a call meets."""
    try:
        call(**arguments)
    except Exception as error:  # noqa: BLE001 which one it is is what is tested
        return error
    return None


@pytest.mark.parametrize("method", CALLS)
def test_a_wrong_value_is_an_error_of_ours_and_writes_nothing(
    store: Store, path: Path, method: str
) -> None:
    before, tried = listing(path), 0
    for argument in CALLS[method]:
        for value in WRONG:
            if fits(method, argument, value):
                continue
            error = refused(getattr(store, method), CALLS[method] | {argument: value})
            assert isinstance(error, DeltaProduceError), f"{method}({argument}={type(value)})"
            if isinstance(error, InvalidArgumentError):
                assert error.argument == argument
            tried += 1
    assert tried
    assert listing(path) == before
    assert store.head.number == 1


CONSTRUCTOR: dict[str, Any] = {
    "spark": None,  # the session
    "location": None,  # the store's
    "pipeline": PIPELINE,
    "table_type": "merge_on_read",
    "policy": "auto",
    "on_conflict": "raise",
    "limits": Limits(),
    "progress": print,
    "clock": datetime.now,
    "views": None,
    "time_zone": "UTC",
}


def test_a_store_is_opened_with_values_of_their_types(spark: SparkSession, path: Path) -> None:
    assert list(inspect.signature(Store).parameters) == list(CONSTRUCTOR)
    good = CONSTRUCTOR | {"spark": spark, "location": path}
    Store(**good)
    for argument in CONSTRUCTOR:
        for value in WRONG:
            named = argument in ("location", "views") and value in ("x", "1")
            callable_ = argument in ("progress", "clock") and callable(value)
            if (
                named
                or callable_
                or (argument in ("spark", "progress", "views", "time_zone") and value is None)
            ):
                continue
            error = refused(Store, good | {argument: value})
            assert isinstance(error, DefinitionError | InvalidArgumentError), (
                argument,
                type(value),
            )


@pytest.mark.parametrize("told", [None, 1700000000, "2026-01-01", datetime(2026, 1, 1)], ids=repr)
def test_a_clock_gives_times_with_zone(
    spark: SparkSession, store: Store, path: Path, told: Any
) -> None:
    before = listing(path)
    other = Store(spark, path, PIPELINE, clock=lambda: told)
    rows = spark.createDataFrame([(3, 30)], ORDERS)
    for call in (
        lambda: other.update({"orders": rows}),
        lambda: other.rollback(0),
        lambda: other.vacuum(keep_versions=1),
        lambda: other.forget("orders", 1),
    ):
        with pytest.raises(InvalidArgumentError) as caught:
            call()
        assert caught.value.argument == "clock"
    assert listing(path) == before


def test_an_id_that_is_no_text_is_not_taken(spark: SparkSession, store: Store, path: Path) -> None:
    rows = spark.createDataFrame([(5, 50)], ORDERS)
    before = listing(path)
    for given in (5, 5.0, b"5", ["5"], True, ""):
        for method in (store.update, store.load):
            with pytest.raises(InvalidArgumentError) as caught:
                method({"orders": rows}, given)  # type: ignore[operator]
            assert caught.value.argument == "update_id"
    assert listing(path) == before


def test_a_stage_of_another_pipeline_is_none_of_this_store(store: Store) -> None:
    for same in (PIPELINE, shop()):
        assert store.content(same.stages[0]).count() == 2
    for stage in OTHER.stages:
        with pytest.raises(NotFoundError):
            store.content(stage)


def test_a_micro_batch_is_a_dataframe_and_its_number_one(spark: SparkSession, store: Store) -> None:
    writer: Any = store.stream_writer("orders")
    rows = spark.createDataFrame([(1, 10)], ORDERS)
    for given in (None, [{"id": 1, "customer": 10}], rows.toPandas()):
        with pytest.raises(InvalidChangesError) as caught:
            writer(given, 0)
        assert caught.value.source == "orders"
    for number in (None, -1, 1.0, "1", True):
        with pytest.raises(InvalidArgumentError) as refused:
            writer(rows, number)
        assert refused.value.argument == "batch_id"


def test_an_update_s_name_that_looks_like_a_micro_batch_s_is_none(
    spark: SparkSession, location: str
) -> None:
    store = Store(spark, location, PIPELINE)
    rows = spark.createDataFrame([(1, 10)], ORDERS)
    store.update({"orders": rows}, "stream orders: by hand")
    store.stream_writer("orders")(rows, 0)
    assert store.update_ids() == ["stream orders: by hand", "stream orders: 0"]


def test_a_version_log_that_has_junk_is_corrupt(
    spark: SparkSession, location: str, long_run: bool
) -> None:
    store = Store(spark, location, PIPELINE)
    store.update({"orders": spark.createDataFrame([(1, 10)], ORDERS)})
    for junk in ("committed_at = null", "figures = '{\"orders\": 1}'")[not long_run :]:
        spark.sql(f"UPDATE delta.`{location}/_versions` SET {junk}")
        with pytest.raises(CorruptStoreError):
            Store(spark, location, PIPELINE).versions()
    with pytest.raises(CorruptStoreError):
        store.versions()
    assert store.repair().number == 1
    assert store.content("orders").count() == 1
