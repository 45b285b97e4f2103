"""Decisions of a record index: hashes, buckets, features, values, comparisons."""

from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from deltaproduce import DescriptorMismatchError, InvalidArgumentError
from deltaproduce.record_index.decisions.buckets import buckets_of, hash_name, sized
from deltaproduce.record_index.decisions.comparing import places, upserting
from deltaproduce.record_index.decisions.descriptor import IndexDescriptor, check
from deltaproduce.record_index.decisions.entries import entries, groups_in, known, newest
from deltaproduce.record_index.decisions.features import (
    Protocol,
    obstacle,
    unreadable,
)
from deltaproduce.record_index.decisions.partition_values import as_text
from deltaproduce.record_index.decisions.xxhash64 import xxhash64
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import IntegerType

INT, TEXT, WIDE = pa.int32(), pa.string(), pa.decimal128(30, 2)
MICROS = 1767323045000006

BY_SPARK = [
    ([("Spark", TEXT)], -4294468057691064905),
    ([("Spark", TEXT), (2, INT)], -3909679912936729532),
    ([(None, TEXT)], 42),
    ([(1, pa.int8())], -6698625589789238999),
    ([(-1, pa.int16())], 2017008487422258757),
    ([(7, INT)], 2786828215451145335),
    ([(-7, pa.int64())], -1663473129717591079),
    ([(True, pa.bool_())], -6698625589789238999),
    ([(False, pa.bool_())], 3614696996920510707),
    ([(date(2026, 1, 2), pa.date32())], -3731820367656469160),
    ([(MICROS, pa.timestamp("us", "UTC"))], -3277820007983118719),
    ([(MICROS, pa.timestamp("us"))], -3277820007983118719),
    ([(Decimal("12.34"), pa.decimal128(12, 2))], -3802813071951760351),
    ([(Decimal("-12.34"), WIDE)], -5902959860576184235),
    ([(Decimal("12345678901234567890123.45"), WIDE)], -7152434883395826761),
    ([(Decimal("0.00"), WIDE)], -8959994473701255385),
    ([(Decimal("-1.28"), WIDE)], -7898411661632158123),
    ([(Decimal("1.28"), WIDE)], 6715097930120473301),
    ([(b"\x00\xff\x10", pa.binary())], 5415089035989094387),
    ([("", TEXT)], -7444071767201028348),
    ([("ab" * 40, TEXT)], 564872144892264770),
    ([("x" * 31, TEXT)], -1716462135722163746),
    ([("x" * 32, TEXT)], 1299777543150008824),
    ([("y" * 37, TEXT)], 4894964876589373996),
    ([("é中🙂", TEXT)], -2803218568203090750),
    ([(1, INT), (None, INT), ("a", TEXT)], 8205864924878002737),
]
"""Values, and what Spark 4.2's ``SELECT xxhash64(…)`` gives for them."""


@pytest.mark.parametrize(("values", "wanted"), BY_SPARK)
def test_the_hash_is_that_of_spark(values, wanted):
    columns = [pa.chunked_array([[None, v], [v]], t).slice(1, 2) for v, t in values]
    found = xxhash64(pa.table(columns, names=[str(n) for n in range(len(columns))]))
    assert found.tolist() == [wanted, wanted]


def test_buckets_are_pmod_of_the_hash():
    keys = pa.table({"k": pa.array(range(-500, 500), pa.int64())})
    found = buckets_of(keys, "xxhash64", 7)
    assert found.tolist() == [h % 7 for h in xxhash64(keys).tolist()]
    assert set(found.tolist()) == set(range(7))


def test_a_bucket_never_changes_with_what_else_is_hashed():
    keys = pa.table({"k": [f"key {n}" for n in range(100)]})
    whole = buckets_of(keys, "xxhash64", 5).tolist()
    assert [int(buckets_of(keys.slice(n, 1), "xxhash64", 5)[0]) for n in range(100)] == whole


def test_an_index_is_sized_with_room_for_a_third_more():
    assert [sized(n) for n in (0, 1, 769_230, 769_232, 10_000_000)] == [1, 1, 1, 2, 13]


def test_own_hash_functions():
    def by_size(keys):
        return pa.array([len(k) for k in keys.column("k").to_pylist()])

    keys = pa.table({"k": ["a", "bb", "ccc"]})
    assert buckets_of(keys, by_size, 2).tolist() == [1, 0, 1]
    assert hash_name(by_size).endswith("by_size")
    for wrong in ("md5", 3, None):
        with pytest.raises(InvalidArgumentError) as refused:
            hash_name(wrong)
        assert refused.value.argument == "hash"
    for answer in ([1, 2], [0.5, 1.0, 2.0], [1, None, 2]):
        with pytest.raises(InvalidArgumentError):
            buckets_of(keys, lambda keys, answer=answer: pa.array(answer), 2)


def test_what_differs_of_a_descriptor_is_told():
    built = IndexDescriptor("/t", ("k",), ("bigint",), "xxhash64", 4, None)
    check(
        built, IndexDescriptor("/t", ("k",), ("bigint",), "xxhash64", 0, None), "/i", buckets=None
    )
    check(built, built, "/i", buckets=4)
    with pytest.raises(DescriptorMismatchError) as refused:
        check(built, IndexDescriptor("/u", ("k",), ("bigint",), "f", 0, "at"), "/i", buckets=5)
    assert refused.value.differences == {
        "table": ("/u", "/t"),
        "hash": ("f", "xxhash64"),
        "ordering": ("at", None),
        "buckets": (5, 4),
    }
    assert IndexDescriptor.read(built.json) == built


def test_the_newest_entry_counts():
    keys = pa.table({"k": [1, 2, None]})
    oldest_first = pa.concat_tables(
        [
            entries(keys, np.array([5, 6, 7])),
            entries(keys.slice(0, 1), np.array([-1])),
            entries(keys.slice(2, 1), np.array([8])),
        ]
    )
    asked = pa.table({"k": [None, 3, 2, 1]})
    assert known(asked, oldest_first).groups.tolist() == [8, -1, 6, -1]
    assert sorted(groups_in(newest(oldest_first, ["k"])).tolist()) == [-1, 6, 8]


def protocol(writers=(), readers=(), properties=None, columns=()):
    return Protocol(readers, writers, properties or {}, columns)


def test_features_that_ask_more_of_a_writer_keep_files_from_being_replaced():
    assert obstacle(protocol(["appendOnly", "invariants", "deletionVectors"])) is None
    assert obstacle(protocol(["checkConstraints", "changeDataFeed", "generatedColumns"])) is None
    assert "rowTracking" in obstacle(protocol(["rowTracking"]))
    for name in ("delta.enableChangeDataFeed", "delta.appendOnly", "delta.constraints.c"):
        assert name in obstacle(protocol(properties={name: "true"}))
    assert obstacle(protocol(properties={"delta.enableChangeDataFeed": "false"})) is None
    for name in ("delta.generationExpression", "delta.invariants", "delta.identity.start"):
        assert name in obstacle(protocol(columns=[{"name": "c", "metadata": {name: "1"}}]))
    length = {"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}
    assert "varchar(3)" in obstacle(protocol(columns=[{"name": "c", "metadata": length}]))


def test_files_with_other_column_names_are_not_read():
    assert unreadable(protocol(readers=["deletionVectors", "columnMapping"])) is None
    assert unreadable(protocol(properties={"delta.columnMapping.mode": "name"})) is not None
    assert "variantType" in unreadable(protocol(readers=["variantType"]))


def test_partition_values_as_text():
    assert [as_text(v) for v in (None, "", "x", 7, True, False)] == [
        *(None, None, "x", "7", "true", "false")
    ]
    assert as_text(Decimal("0.0000001")) == "0.0000001"
    assert as_text(date(2026, 1, 2)) == "2026-01-02"
    assert as_text(datetime(2026, 1, 2, 3)) == "2026-01-02 03:00:00.000000"
    assert as_text(datetime(2026, 1, 2, 3, tzinfo=UTC)) == "2026-01-02T03:00:00.000000Z"


def test_a_smaller_ordering_loses_and_an_equal_one_wins():
    old = pa.table({"k": [1, 2, 3, 4, 5], "at": [None, 5, 5, 5, None], "v": [0, 0, 0, 0, 0]})
    new = pa.table({"k": [5, 4, 3, 2, 1], "at": [None, None, 5, 4, 1], "v": [1, 1, 1, 1, 1]})
    at = places(old, new.select(["k"]))
    assert at.tolist() == [4, 3, 2, 1, 0]
    found = upserting(old, new, at, (), Column("at", IntegerType()))
    assert found.updated.tolist() == [True, False, True, False, True]
    rows = found.rows(old, new)
    assert rows.column("v").to_pylist() == [1, 0, 1, 0, 1]
    assert rows.column("k").to_pylist() == [1, 2, 3, 4, 5]


def test_a_row_of_another_partition_moves_and_an_equal_one_changes_nothing():
    old = pa.table({"k": [1, 2, 3], "p": ["a", None, "a"]})
    new = pa.table({"k": [3, 2, 1], "p": ["a", "a", None]})
    found = upserting(old, new, places(old, new.select(["k"])), ("p",), None)
    assert found.moved.tolist() == [False, True, True]
    assert not found.updated.any()
    assert found.rows(old, new).column("k").to_pylist() == [3]


def test_a_key_that_is_not_in_a_file_is_nowhere():
    old = pa.table({"k": pa.array([1, None], pa.int64())})
    assert places(old, pa.table({"k": pa.array([None, 2], pa.int64())})).tolist() == [1, -1]
