"""Every method of a pipeline refuses or accepts values of other types."""

import inspect

import pytest

import deltaproduce as dp
from deltaproduce import DefinitionError, InvalidArgumentError, Pipeline, Source
from deltaproduce.engines.spark.sessions.session import local_session
from deltaproduce.stages.sources.given.kind import Given
from deltaproduce.types.columns import row_schema

WRONG = [
    *(None, -1, 0, 1.5, float("nan"), "", "x", "\ud800", b"x", [], {}, (), object(), True),
    *(["x"], {"x": 1}, range(3), Pipeline, 10**400),
]


def function(key, values):
    yield key, 1


def of_batches(table):
    return table


def of_tasks(rows, task):
    return rows


def calls():
    """Each method -> how to call it with good arguments, of which one is to be wrong."""

    def shop():
        pipeline = Pipeline("shop")
        pipeline.source("orders", key="id bigint", value="n int")
        return pipeline

    columns = {"key": "id bigint", "value": "n int"}
    return {
        "source": (
            lambda **given: shop().source(**given),
            {
                "name": "lines",
                **columns,
                "retain": dp.window("id", last=2),
                "expire": "delete",
                "partition": "id",
                "scopes": None,
                "stored": {"compression": "zstd"},
                "unique": False,
            },
        ),
        "delta_source": (
            lambda **given: shop().delta_source(**given),
            {"name": "lines", "table": "a/b", **columns, "partition": "id", "scopes": None},
        ),
        "partitioned": (
            lambda **given: shop().partitioned(**given),
            {
                "name": "days",
                "query": "SELECT id, n FROM orders",
                "key": "id",
                "partition": "day",
                "scopes": "FOR day IN array('a')",
                "retention": "keep",
                "stored": None,
            },
        ),
        "foreign": (
            lambda **given: shop().foreign(**given)(of_tasks),
            {
                "name": "days",
                "reads": "SELECT id, n FROM orders",
                "schema": "id bigint, m int",
                "key": "id",
                "partition": "day",
                "scopes": "FOR day IN array('a')",
                "retention": "keep",
                "revision": "1",
                "stored": None,
            },
        ),
        "producer": (
            lambda feeders, **given: shop().producer(feeders, **given)(function),
            {
                "feeders": "orders",
                **columns,
                "name": "totals",
                "surrogate": "n",
                "preserve": None,
                "revision": "1",
                "stored": {"order": "n"},
            },
        ),
        "arrow_producer": (
            lambda feeder, **given: shop().arrow_producer(feeder, **given)(of_batches),
            {
                "feeder": "orders",
                **columns,
                "name": "totals",
                "streaming": False,
                "revision": "1",
                "stored": {"partition": ""},
            },
        ),
        "sql": (
            lambda **given: shop().sql(**given),
            {
                "name": "totals",
                "query": "SELECT id, n FROM orders",
                "key": "id",
                "incremental": "auto",
                "stored": None,
            },
        ),
        "check": (
            lambda **given: shop().check(**given),
            {
                "name": "few",
                "query": "SELECT id, n FROM orders WHERE n < 0",
                "severity": "warn",
                "at_most": 3,
            },
        ),
        "limit": (
            lambda **given: shop().limit(**given),
            {
                "stage": "orders",
                "deleted": 0.1,
                "changed": 0.2,
                "rows": (1, None),
                "severity": "error",
            },
        ),
        "index": (
            lambda **given: shop().index(**given),
            {
                "name": "by_n",
                "feeder": "orders",
                "key": "n",
                "include": "n AS m",
                "stored": None,
            },
        ),
        "latest": (
            lambda **given: shop().latest(**given),
            {
                "name": "last",
                "events": "orders",
                "key": "n",
                "sequence": "id",
                "deleted": "n > 1",
                "columns": "id",
                "stored": None,
            },
        ),
        "history": (
            lambda **given: shop().history(**given),
            {
                "name": "all",
                "events": "orders",
                "key": "n",
                "sequence": "id",
                "deleted": "n > 1",
                "columns": "id",
                "track": "id",
                "stored": None,
            },
        ),
        "aggregate": (
            lambda **given: shop().aggregate(**given),
            {
                "name": "totals",
                "feeder": "orders",
                "key": "id",
                "values": {"total": dp.agg.count()},
                "where": "n > 0",
                "window": dp.window("id", last=2),
                "revision": "1",
                "stored": None,
            },
        ),
        "add": (
            lambda stage: shop().add(stage),
            {"stage": Source("lines", row_schema("id bigint", "n int", stage="lines"), Given())},
        ),
        "merge": (
            lambda feeders: shop().producer(dp.merge(feeders), name="t", **columns)(function),
            {"feeders": "orders"},
        ),
        "Pipeline": (lambda name: Pipeline(name), {"name": "shop"}),
    }


STORED = (
    *("source", "partitioned", "foreign", "producer", "arrow_producer", "sql", "index"),
    *("aggregate", "latest", "history"),
)
TAKEN = {
    *(("delta_source", "value", None), ("producer", "name", None), ("producer", "surrogate", None)),
    *(("producer", "preserve", None), ("producer", "revision", None)),
    *(("arrow_producer", "name", None), ("arrow_producer", "revision", None)),
    *(("arrow_producer", "streaming", True), ("aggregate", "revision", None)),
    *(("aggregate", "key", ""), ("aggregate", "where", None)),
    *(("aggregate", "window", None), ("source", "retain", None)),
    *(("limit", one, None) for one in ("deleted", "changed", "rows")),
    *(("check", "at_most", 0), ("limit", "deleted", 0), ("limit", "changed", 0)),
    *(("index", "include", None), ("sql", "key", None), ("sql", "key", "")),
    *((method, name, None) for method in ("latest", "history") for name in ("deleted", "columns")),
    *(("history", "track", None), ("source", "unique", True)),
    *(("source", "partition", None), ("source", "scopes", None), ("partitioned", "key", None)),
    *(("delta_source", "partition", None), ("delta_source", "scopes", None)),
    *(("foreign", "key", None), ("foreign", "name", None), ("foreign", "revision", None)),
    *((method, "stored", None) for method in STORED),
}
"""Values that mean something."""


@pytest.mark.parametrize("method", calls())
def test_a_wrong_value_is_refused_by_name(method):
    call, good = calls()[method]
    call(**good)
    for argument in good:
        for value in WRONG:
            text = isinstance(value, str) and value not in ("", "\ud800")
            if text and argument in ("name", "table", "revision", "key", "value"):
                continue
            if any((method, argument) == taken[:2] and value is taken[2] for taken in TAKEN):
                call(**good | {argument: value})
                continue
            try:
                call(**good | {argument: value})
            except DefinitionError:
                continue
            pytest.fail(f"{method}({argument}={type(value)}) was taken")


def test_all_methods_and_parameters_are_called():
    without = {"as_tables", "explain", "graph"}
    methods = {
        name: getattr(Pipeline, name)
        for name in dir(Pipeline)
        if not name.startswith("_") and callable(getattr(Pipeline, name)) and name not in without
    }
    assert methods.keys() == calls().keys() - {"merge", "Pipeline"}
    for name, method in methods.items():
        parameters = list(inspect.signature(method).parameters)
        assert ["self", *calls()[name][1]] == parameters, name


SESSION = {
    "app_name": [None, 1, "", b"x", [], "\ud800"],
    "cores": [0, -1, 1.0, True, "2", []],
    "memory": [None, 2, "", "2", "2 g", "g", "2gb", "-2g", b"2g", "much"],
    "config": [1, "a=b", ["a"], {1: "x"}, {"a": None}, {"": "x"}, {"a": 1}],
}


def test_arguments_of_a_session_are_checked_before_it_starts():
    assert list(SESSION) == list(inspect.signature(local_session).parameters)
    for argument, values in SESSION.items():
        for value in values:
            with pytest.raises(InvalidArgumentError) as caught:
                local_session(**{argument: value})
            assert caught.value.argument == argument


def test_a_query_that_is_nested_too_deeply_is_refused():
    pipeline = Pipeline("shop")
    pipeline.source("orders", key="id bigint", value="n int")
    parts = (f"SELECT id, n + {number} AS n FROM orders" for number in range(500))
    with pytest.raises(DefinitionError, match="nested too deeply") as refusal:
        pipeline.sql("lines", " UNION ALL ".join(parts), key="id")
    assert refusal.value.stage == "lines"
    assert [stage.name for stage in pipeline.stages] == ["orders"]
