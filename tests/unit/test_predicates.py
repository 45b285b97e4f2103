"""The text of predicates, without Spark; tests/spark checks that Spark reads it correctly."""

import re
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaproduce.engines.spark.predicates import (
    HASH,
    hash_sql,
    literal,
    membership,
    of_partitions,
)
from deltaproduce.types import data_types as t
from deltaproduce.types.columns import Column

TEXT = Column("t", t.StringType())
NUMBER = Column("n", t.IntegerType())


def keys(hashes, **columns):
    return pa.table({**columns, HASH: pa.array(hashes, pa.int64())})


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_text_never_reaches_the_sql_lexer(text):
    found = literal(pa.scalar(text, pa.string()), t.StringType())
    assert re.fullmatch(r"CAST\(X'[0-9a-f]*' AS STRING\)", found)
    assert bytes.fromhex(found.split("'")[1]).decode() == text


@given(st.binary(max_size=60))
def test_binary_is_hexadecimal(content):
    assert literal(pa.scalar(content), t.BinaryType()) == f"X'{content.hex()}'"


@pytest.mark.parametrize("data_type", [t.StringType(), t.BinaryType()])
def test_what_is_long_has_no_literal(data_type):
    def of(size):
        content = "x" * size if isinstance(data_type, t.StringType) else b"x" * size
        return literal(pa.scalar(content), data_type)

    assert of(100) is not None
    assert of(5_000) is None


def test_a_timestamp_that_python_lacks_has_no_literal():
    beyond = pa.scalar(2**62, pa.timestamp("us"))
    assert literal(beyond, t.TimestampNTZType()) is None
    last = pa.scalar(datetime.max, pa.timestamp("us"))
    assert "9999-12-31 23:59:59.999999" in literal(last, t.TimestampNTZType())


def test_days_and_instants_are_numbers():
    assert "-719162" in literal(pa.scalar(date.min), t.DateType())
    instant = pa.scalar(-(2**60), pa.timestamp("us", "Europe/Paris"))
    assert str(-(2**60)) in literal(instant, t.TimestampType())


@pytest.mark.parametrize(("day", "has_one"), [(4, True), (5, False), (14, False), (15, True)])
def test_days_that_the_hybrid_calendar_lacks_have_no_literal(day, has_one):
    assert (literal(pa.scalar(date(1582, 10, day)), t.DateType()) is not None) == has_one
    noon = pa.scalar(datetime(1582, 10, day, 12, tzinfo=UTC), pa.timestamp("us", "UTC"))
    assert literal(noon, t.TimestampType()) is None  # it is one of them in some zone


def test_no_keys_are_no_rows():
    none = keys([], t=pa.array([], pa.string()))
    assert membership([TEXT], none) == "FALSE"


def test_one_column_with_literals_needs_no_hash():
    found = membership([NUMBER], keys([5, 6, 5], n=pa.array([1, None, 1], pa.int32())))
    assert "xxhash64" not in found
    assert "IS NULL" in found
    assert found.count("CAST('1' AS int)") == 1


def test_a_value_without_literal_leaves_the_hash_alone():
    found = membership([TEXT], keys([7, -8], t=["a", "x" * 5_000]))
    assert found == f"{hash_sql(['t'])} IN (-8L, 7L)"


def test_several_columns_are_pruned_by_the_first_and_selected_by_hash():
    found = membership([NUMBER, TEXT], keys([7, -8], n=pa.array([1, 2], pa.int32()), t=["a", "b"]))
    pruning, hashed = found.split(" AND ")
    assert pruning.startswith("`n` IN (")
    assert hashed == f"{hash_sql(['n', 't'])} IN (-8L, 7L)"


def test_names_are_quoted():
    assert hash_sql(["a`b", "c.d"]) == "xxhash64(`a``b`, `c.d`)"


def test_partitions_are_told_by_the_text_of_their_values_in_the_log():
    """Exactly, also on days that a predicate over files cannot name."""
    by = (Column("d", t.DateType()), Column("it's", t.StringType()), Column("n", t.ByteType()))
    found = pa.table(
        {
            "d": pa.array([date(1582, 10, 10), None]),
            "it's": ["' OR 1", "ä"],
            "n": pa.array([None, -3], pa.int8()),
        }
    )
    one, other = of_partitions(by, found).split(" OR ")
    assert one == (
        "(`d` = CAST(CAST(X'313538322d31302d3130' AS STRING) AS date)"
        " AND `it's` = CAST(CAST(X'27204f522031' AS STRING) AS string) AND `n` IS NULL)"
    )
    assert other == (
        "(`d` IS NULL AND `it's` = CAST(CAST(X'c3a4' AS STRING) AS string)"
        " AND `n` = CAST(CAST(X'2d33' AS STRING) AS tinyint))"
    )
    assert of_partitions(by, found.slice(0, 0)) == "FALSE"
