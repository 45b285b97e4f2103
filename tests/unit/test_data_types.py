"""Types of columns have the texts of Spark's, and become Spark's and come back unchanged."""

import pickle
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as sparks

from deltaproduce import DefinitionError, Pipeline
from deltaproduce.engines.spark.data_types import in_spark
from deltaproduce.types import data_types as ours

PLAIN = (
    *("Null", "Boolean", "Binary", "Variant", "Date", "Timestamp", "TimestampNTZ", "Byte"),
    *("Short", "Integer", "Long", "Float", "Double"),
)


def decimals() -> st.SearchStrategy[tuple[int, int]]:
    return st.integers(1, 38).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))


ATOMS: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([getattr(sparks, f"{name}Type")() for name in PLAIN]),
    st.sampled_from([sparks.StringType(), sparks.StringType("UNICODE"), sparks.VarcharType(3)]),
    st.sampled_from([sparks.CalendarIntervalType(), sparks.TimeType(6)]),
    decimals().map(lambda found: sparks.DecimalType(*found)),
    st.integers(0, 3).flatmap(
        lambda n: st.integers(n, 3).map(lambda last: sparks.DayTimeIntervalType(n, last))
    ),
    st.sampled_from([(0, 0), (0, 1), (1, 1)]).map(lambda x: sparks.YearMonthIntervalType(*x)),
)
METADATA: st.SearchStrategy[Mapping[str, Any]] = st.dictionaries(st.text(max_size=2), st.booleans())


def nested(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fields = st.builds(sparks.StructField, st.text(max_size=3), parts, st.booleans(), METADATA)
    return st.one_of(
        st.builds(sparks.ArrayType, parts, st.booleans()),
        st.builds(sparks.MapType, parts, parts, st.booleans()),
        st.lists(fields, max_size=3).map(sparks.StructType),
    )


TYPES = st.recursive(ATOMS, nested, max_leaves=6)


@given(TYPES)
def test_a_type_of_spark_becomes_ours_and_comes_back(spark: Any) -> None:
    found = ours.type_of(spark)
    assert in_spark(found) == spark
    assert found.simpleString() == spark.simpleString()
    assert ours.type_of(found) is found
    assert pickle.loads(pickle.dumps(found)) == found
    assert hash(ours.type_of(spark)) == hash(found)


@given(st.lists(st.builds(sparks.StructField, st.text(max_size=3), TYPES, st.booleans(), METADATA)))
def test_columns_are_written_as_spark_writes_them(fields: list[sparks.StructField]) -> None:
    """As in the schema of a Delta table; it writes collations beside the types."""
    struct = sparks.StructType(fields)
    found = ours.type_of(struct)
    assert isinstance(found, ours.StructType)
    assert ours.StructType.fromJson(struct.jsonValue()) == found
    assert found.names == struct.names
    if "UNICODE" not in struct.json():
        assert found.json() == struct.json()


@given(TYPES, TYPES)
def test_two_types_are_equal_if_they_are_in_spark(one: Any, other: Any) -> None:
    assert (ours.type_of(one) == ours.type_of(other)) == (one == other)
    assert ours.type_of(one) != one


@pytest.mark.parametrize("given", [sparks.LongType, "bigint", 1, None])
def test_what_is_no_type_is_refused(given: Any) -> None:
    with pytest.raises(TypeError):
        ours.type_of(given)


def test_types_are_shown_as_they_are_made() -> None:
    struct = ours.StructType([ours.StructField("a", ours.ArrayType(ours.LongType()), False)])
    assert repr(struct) == "StructType([StructField('a', ArrayType(LongType(), True), False)])"
    assert struct["a"].dataType == ours.ArrayType(ours.LongType())
    with pytest.raises(KeyError):
        struct["b"]


def test_columns_may_be_given_in_types_of_spark() -> None:
    """With their directions; a type that is not stored is refused by its name."""
    key = sparks.StructType(
        [sparks.StructField("k", sparks.LongType(), False, {"descending": True})]
    )
    value = sparks.StructType([sparks.StructField("v", sparks.StringType())])
    source = Pipeline("p").source("s", key=key, value=value)
    assert (source.schema.key.ddl, source.schema.value.ddl) == (
        "k bigint NOT NULL DESC",
        "v string",
    )
    for refused in (sparks.StringType("UNICODE"), sparks.TimeType(6), sparks.VarcharType(2)):
        with pytest.raises(DefinitionError) as caught:
            Pipeline("p").source("s", key="k int", value=sparks.StructType().add("v", refused))
        assert refused.simpleString() in str(caught.value)
