"""Ordered aggregates in Spark and on both engines in turn: the same laws as in `tests/local`."""

import pytest
from comparing import as_frames, assert_same
from forcing import WAYS, Way, forced
from local_stores import as_rows, assert_refreshed
from pyspark.sql import Row, SparkSession
from selecting import long
from test_local_ordered import COLUMNS, OTHERS, history, site, values

import deltaproduce as dp
from deltaproduce import agg
from deltaproduce.stages.sql.states.agg import AggregateCall
from deltaproduce.testing import Oracle, plain_rows

VERSIONS = 3
SOME = {
    "least": agg.min("n"),
    "last_x": agg.max_by("x", "at"),
    "half": agg.median("price"),
    "days": agg.count_distinct("day"),
}


@long
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_versions_equal_the_oracle(spark: SparkSession, location: str, way: Way) -> None:
    """The multisets too are what a refresh makes; older versions stay."""
    pipeline = site(["n"], SOME)
    oracle = Oracle(pipeline)
    with forced(way):
        store = dp.Store(spark, location, pipeline, table_type=way.table_type)
        for batch in history(100 + WAYS.index(way))[:VERSIONS]:
            version = store.update(as_frames(spark, pipeline, batch))
            assert version.number == oracle.update(batch)
            assert_same(store, oracle, pipeline, version.number)
        assert_refreshed(store, ("by_g", "by_two", "by_rows"))
        assert_same(store, oracle, pipeline, 1)
        assert store.verify(recompute=True) == ()


def test_a_value_is_named_as_a_column_of_the_multiset(spark: SparkSession, location: str) -> None:
    """Which has a column ``all``, if an aggregate has no key; `tests/local` has it, too."""
    (way,) = (way for way in WAYS if way.name == "in Spark, joined")
    pipeline = dp.Pipeline("pipeline")
    source = pipeline.source("orders", key="id bigint", value="n int")
    pipeline.aggregate("over_all", source, key="", values={"all": agg.max("n")})
    with forced(way):
        store = dp.Store(spark, location, pipeline, table_type=way.table_type)
        store.update({"orders": spark.createDataFrame([(1, 5), (2, 3)], "id bigint, n int")})
        assert [row["all"] for row in store.content("over_all").collect()] == [5]


@long
def test_content_is_what_group_by_gives(spark: SparkSession, location: str) -> None:
    """Values and types, of all functions and all types.

    Where Spark leaves open which value it gives, it is asked for the one that is told; the mode of
    floats is left out, as Spark counts 0.0 and -0.0 apart there.
    """
    columns = [*COLUMNS, "g"]
    given = {
        name: call
        for name, call in {**values(columns), **OTHERS}.items()
        if (call.function, *call.arguments) not in {("mode", "x"), ("mode", "y")}
    }
    pipeline = dp.Pipeline("all")
    value = "g string, " + ", ".join(f"{name} {ddl}" for name, (ddl, _) in COLUMNS.items())
    events = pipeline.source("events", key="id bigint", value=value)
    pipeline.aggregate("by_g", events, key="g", values=given)
    store = dp.Store(None, location, pipeline)
    for batch in history(7):
        changes = batch.get("events") or batch["more"]
        store.update(as_rows(pipeline, {"events": changes}))
    store.update({"events": [{"id": -1, "g": "of nulls", **dict.fromkeys(COLUMNS)}]})
    store = dp.Store(spark, location, pipeline)
    store.content("events").createOrReplaceTempView("ordered_events")
    found = store.content("by_g").drop("_ordinal")
    rows = sorted(found.collect(), key=group)
    for is_distinct in (True, False):  # Spark does not plan listagg beside DISTINCT
        some = {n: c for n, c in given.items() if (c.function == "count_distinct") == is_distinct}
        calls = ", ".join(f"{in_sql(call)} AS {name}" for name, call in some.items())
        expected = spark.sql(f"SELECT g, {calls} FROM ordered_events GROUP BY g")
        assert found.select("g", *some).dtypes == expected.dtypes
        wanted = sorted(expected.collect(), key=group)
        assert len(rows) == len(wanted) > 1
        for row, other in zip(rows, wanted, strict=True):
            for name in ("g", *some):
                assert plain_rows([[row[name]]]) == plain_rows([[other[name]]]), name
    spark.catalog.dropTempView("ordered_events")


def group(row: Row) -> str:
    return str(row["g"])


def in_sql(call: AggregateCall) -> str:
    """A call as Spark has it."""
    first, *others = call.arguments
    match call.function, call.parameters:
        case "count_distinct", _:
            return f"count(DISTINCT {first})"
        case "top_k", (k,):
            return f"slice(sort_array(collect_list({first}), false), 1, {k})"
        case "array_sorted", _:
            return f"array_sort(collect_list({first}))"
        case "mode", _:
            return f"mode({first}, true)"
        case "listagg", (delimiter,):
            return f"listagg({first}, '{delimiter}') WITHIN GROUP (ORDER BY {first})"
        case "percentile", (tuple(several),):
            return f"percentile({first}, array({', '.join(f'{p}D' for p in several)}))"
        case "percentile", (p,):
            return f"percentile({first}, {p}D)"
        case "min_by", _:
            (by,) = others
            least = f"min(struct({by}, {first})) FILTER (WHERE {by} IS NOT NULL)"
            return f"({least}).{first}"
        case "max_by", _:
            (by,) = others
            pairs = f"collect_list(struct({by} AS b, {first} AS v)) FILTER (WHERE {by} IS NOT NULL)"
            last = f"array_max(transform({pairs}, p -> p.b))"
            return f"get(array_sort(filter({pairs}, p -> p.b = {last})), 0).v"
    return f"{call.function}({first})"
