"""The oracle, compared with results worked out by hand, rule by rule, and with the laws."""

import datetime
import itertools
import math
from collections import namedtuple
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row

from deltaproduce.errors import InvalidChangesError, NotFoundError, ProducerError
from deltaproduce.pipeline import Pipeline, merge
from deltaproduce.testing import Delete, Oracle, Upsert, plain, plain_rows, sort_key
from deltaproduce.testing.strategies import histories, pipelines
from deltaproduce.types.columns import row_schema


def as_emitted(_, values):
    for value in values:
        yield value.target, value.fruit


def fruit_pipeline():
    """Source key -> (target key, fruit); the stage re-keys by target."""
    pipeline = Pipeline("fruits")
    source = pipeline.source("baskets", key="id bigint", value="target bigint, fruit string")
    fruits = pipeline.producer(source, key="target bigint", value="fruit string", name="fruits")(
        as_emitted
    )

    @pipeline.producer(fruits, key="target bigint", value="names string")
    def menus(target, values):
        yield target, ",".join(value or "-" for value in values)

    return pipeline


def upserts(rows):
    return [Upsert(row[:1], row[1:]) for row in rows]


@pytest.fixture
def oracle():
    """The worked example of the first seed document, at version 1."""
    oracle = Oracle(fruit_pipeline())
    oracle.update({"baskets": upserts([(9, 105, "banana"), (6, 105, "apple"), (4, 108, "mango")])})
    return oracle


def one_stage(function, *, key, value, source_key="k bigint", source_value="n bigint, t string"):
    pipeline = Pipeline("one")
    source = pipeline.source("s", key=source_key, value=source_value)
    pipeline.producer(source, key=key, value=value, name="stage")(function)
    return Oracle(pipeline)


# ---- the worked example


def test_worked_example_first_version(oracle):
    assert oracle.content("baskets") == [
        (4, 108, "mango", 0),
        (6, 105, "apple", 0),
        (9, 105, "banana", 0),
    ]
    assert oracle.content("fruits") == [
        (105, "apple", 6, 0),
        (105, "banana", 9, 0),
        (108, "mango", 4, 0),
    ]
    assert oracle.key_mappings("fruits") == [(4, 108), (6, 105), (9, 105)]
    assert oracle.updates("fruits") == [
        (1, "add", 105, 0, "apple"),
        (1, "update", 105, 1, "banana"),
        (1, "add", 108, 0, "mango"),
    ]
    assert oracle.content("menus") == [(105, "apple,banana", 105, 0), (108, "mango", 108, 0)]


def test_worked_example_update_of_one_source_key_repeats_all_rows_of_its_target(oracle):
    assert oracle.update({"baskets": upserts([(6, 105, "apricot")])}) == 2
    assert oracle.content("fruits") == [
        (105, "apricot", 6, 0),
        (105, "banana", 9, 0),
        (108, "mango", 4, 0),
    ]
    assert oracle.updates("fruits") == [
        (2, "update", 105, 0, "apricot"),
        (2, "update", 105, 1, "banana"),
    ]
    assert oracle.updates("menus") == [(2, "update", 105, 0, "apricot,banana")]


def test_equal_rows_cancel_and_the_rest_is_paired_in_order():
    pipeline = Pipeline("rows")
    pipeline.source("letters", key="k int", value="v string")
    oracle = Oracle(pipeline)
    for letters in ("aba", "ab", "ba", "cbd", "dcb"):
        oracle.update({"letters": [Upsert((1,), (letter,)) for letter in letters]})
    assert oracle.changes("letters", 1, 2) == [(1, "a", "delete", 2)]
    assert oracle.changes("letters", 2, 3) == []  # a new order alone
    assert oracle.changes("letters", 3, 5, "complete") == [
        (1, "a", "update_preimage", 4),
        (1, "c", "update_postimage", 4),
        (1, "d", "insert", 4),
    ]
    assert oracle.changes("letters", 3, 5) == [  # and this, under the last version to touch the key
        (1, "a", "update_preimage", 5),
        (1, "d", "update_postimage", 5),
        (1, "c", "insert", 5),
    ]
    assert oracle.changes("letters", 0, 1) == [(1, v, "insert", 1) for v in "aba"]


def test_column_names(oracle):
    assert oracle.columns("baskets", "content") == ("id", "target", "fruit", "_ordinal")
    assert oracle.columns("fruits", "content") == ("target", "fruit", "_source_id", "_ordinal")
    assert oracle.columns("fruits", "key_mappings") == ("_source_id", "target")
    assert oracle.columns("fruits", "updates") == (
        "_version",
        "_change_type",
        "target",
        "_position",
        "fruit",
    )


# ---- the rules


def test_s1_an_upsert_replaces_all_values_of_its_key_and_no_others(oracle):
    oracle.update({"baskets": upserts([(6, 1, "x"), (4, 1, "z"), (6, 1, "y")])})
    assert oracle.content("baskets") == [
        (4, 1, "z", 0),
        (6, 1, "x", 0),
        (6, 1, "y", 1),
        (9, 105, "banana", 0),
    ]


def test_s2_a_key_with_deletes_and_upserts_is_refused_and_nothing_changes(oracle):
    content = oracle.content("baskets")
    batch = [Delete((4,)), Upsert((6,), (1, "x")), Delete((6,))]
    with pytest.raises(InvalidChangesError) as caught:
        oracle.update({"baskets": batch}, update_id="bad")
    assert (caught.value.source, tuple(caught.value.keys)) == ("baskets", (6,))
    assert (oracle.head, oracle.content("baskets")) == (1, content)
    assert oracle.update({"baskets": [Delete((4,))]}, update_id="bad") == 2


def test_a_change_of_an_unknown_source_is_refused(oracle):
    with pytest.raises(InvalidChangesError) as caught:
        oracle.update({"fruits": [Delete((4,))]})
    assert caught.value.source == "fruits"


def test_s3_deleting_an_unknown_key_changes_nothing_and_a_repeated_delete_is_one(oracle):
    assert oracle.update({"baskets": [Delete((7,)), Delete((7,))]}) == 1
    assert oracle.update({"baskets": [Delete((9,)), Delete((9,))]}) == 2
    assert oracle.updates("baskets") == [(2, "delete", 9, 0, None, None)]


def test_s4_the_function_is_called_for_keys_with_values_only():
    called = []

    def recorded(key, values):
        called.append((key, list(values)))
        return []

    oracle = one_stage(recorded, key="k bigint", value="n bigint", source_value="n bigint")
    oracle.update({"s": [Upsert((1,), (None,)), Upsert((2,), (5,))]})
    assert called == [(1, [None]), (2, [5])]
    called.clear()
    oracle.update({"s": [Delete((1,)), Delete((2,))]})
    assert called == []


def test_s4_what_a_key_no_longer_produces_disappears(oracle):
    oracle.update({"baskets": [Delete((4,))]})
    assert oracle.key_mappings("fruits") == [(6, 105), (9, 105)]
    assert oracle.updates("fruits") == [(2, "delete", 108, 0, None)]
    assert oracle.content("menus") == [(105, "apple,banana", 105, 0)]


def test_s5_and_s6_equal_rows_stay_and_ordinals_count_within_target_and_source_key():
    def twice(key, values):
        for value in values:
            yield value.n, value.t
            yield 0, "all"
            yield value.n, value.t

    oracle = one_stage(twice, key="n bigint", value="t string")
    oracle.update({"s": [Upsert((2,), (7, "b")), Upsert((1,), (7, "a")), Upsert((1,), (8, "c"))]})
    assert oracle.content("stage") == [
        (0, "all", 1, 0),
        (0, "all", 1, 1),
        (0, "all", 2, 0),
        (7, "a", 1, 0),
        (7, "a", 1, 1),
        (7, "b", 2, 0),
        (7, "b", 2, 1),
        (8, "c", 1, 0),
        (8, "c", 1, 1),
    ]
    assert oracle.key_mappings("stage") == [(1, 0), (1, 7), (1, 8), (2, 0), (2, 7)]
    assert [row[3:] for row in oracle.updates("stage") if row[2] == 7] == [
        (0, "a"),
        (1, "a"),
        (2, "b"),
        (3, "b"),
    ]


def test_s7_a_target_key_that_moved_between_source_keys_is_an_update(oracle):
    oracle.update({"baskets": [Delete((4,)), *upserts([(5, 108, "melon")])]})
    assert oracle.updates("fruits") == [(2, "update", 108, 0, "melon")]


def test_s7_a_key_that_comes_back_is_added_again(oracle):
    oracle.update({"baskets": [Delete((4,))]})
    oracle.update({"baskets": upserts([(4, 108, "mango"), (4, 108, "lime")])})
    assert oracle.updates("fruits") == [
        (3, "add", 108, 0, "mango"),
        (3, "update", 108, 1, "lime"),
    ]


def test_s8_if_only_provenance_changed_there_is_no_update_and_the_content_is_new(oracle):
    oracle.update({"baskets": [Delete((4,)), *upserts([(5, 108, "mango")])]})
    assert oracle.updates("fruits") == []
    assert oracle.updates("menus") == []
    assert oracle.content("fruits")[-1] == (108, "mango", 5, 0)
    assert oracle.key_mappings("fruits") == [(5, 108), (6, 105), (9, 105)]


def test_s8_a_new_order_of_equal_values_is_a_change(oracle):
    oracle.update({"baskets": upserts([(6, 105, "banana"), (9, 105, "apple")])})
    assert oracle.updates("fruits") == [
        (2, "update", 105, 0, "banana"),
        (2, "update", 105, 1, "apple"),
    ]


def test_s9_re_sent_rows_change_nothing(oracle):
    assert oracle.update({"baskets": upserts([(6, 105, "apple")])}) == 1
    assert oracle.update({}) == 1
    assert oracle.head == 1


def test_s9_an_update_id_makes_a_version_of_no_changes_and_is_remembered(oracle):
    assert oracle.update({"baskets": upserts([(6, 105, "apple")])}, update_id="a") == 2
    assert [oracle.updates(stage) for stage in ("baskets", "fruits", "menus")] == [[], [], []]
    assert oracle.update({"baskets": [Delete((6,))]}) == 3
    assert oracle.update({"baskets": [Delete((9,))]}, update_id="a") == 2
    assert oracle.head == 3


def test_s9_a_change_of_a_source_that_alters_no_stage_is_a_change():
    oracle = one_stage(lambda key, values: (), key="k bigint", value="n bigint")
    assert oracle.update({"s": [Upsert((1,), (1, "a"))]}) == 1
    assert oracle.updates("s") == [(1, "add", 1, 0, 1, "a")]
    assert oracle.updates("stage") == []


def test_s9_a_failed_update_leaves_no_gap():
    def fragile(key, values):
        yield key, 1 // next(values)

    oracle = one_stage(fragile, key="k bigint", value="n bigint", source_value="n bigint")
    with pytest.raises(ProducerError) as caught:
        oracle.update({"s": [Upsert((3,), (0,))]}, update_id="a")
    assert (caught.value.stage, caught.value.key) == ("stage", 3)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert (oracle.head, oracle.content("s")) == (0, [])
    assert oracle.update({"s": [Upsert((3,), (1,))]}, update_id="a") == 1


def test_s10_merged_and_joined_feeders_take_part_with_all_their_values():
    pipeline = Pipeline("several")
    for name in "ab":
        pipeline.source(name, key="k bigint", value="v string")
    pipeline.producer("b", "a", key="k bigint", value="v string", name="join")(
        lambda k, b, a: [(k, f"{''.join(b)}|{''.join(a)}")]
    )
    pipeline.producer(merge("b", "a"), key="k bigint", value="v string", name="merge")(
        lambda k, values: [(k, "".join(values))]
    )
    oracle = Oracle(pipeline)
    oracle.update({"a": [Upsert((1,), ("x",)), Upsert((2,), ("y",))]})
    oracle.update({"b": [Upsert((2,), ("z",)), Upsert((3,), ("w",))]})
    assert oracle.content("join") == [(1, "|x", 1, 0), (2, "z|y", 2, 0), (3, "w|", 3, 0)]
    oracle.update({"a": [Delete((1,)), Delete((2,))]})
    assert oracle.updates("merge") == [(3, "delete", 1, 0, None), (3, "update", 2, 0, "z")]
    assert oracle.key_mappings("join") == [(2, 2), (3, 3)]


def test_s12_keys_are_numbered_in_order_and_keep_their_numbers_and_none_comes_back():
    pipeline = Pipeline("numbered")
    pipeline.source("a", key="k bigint", value="name string")

    @pipeline.producer("a", key="name string desc", value="id bigint, k bigint", surrogate="id")
    def ids(k, names):
        for name in names:
            yield name, (None, k)

    oracle = Oracle(pipeline)
    oracle.update({"a": [Upsert((1,), ("x",)), Upsert((2,), ("z",)), Upsert((3,), ("z",))]})
    assert oracle.content("ids") == [("z", 1, 2, 2, 0), ("z", 1, 3, 3, 0), ("x", 2, 1, 1, 0)]
    oracle.update({"a": [Delete((1,)), Upsert((2,), ("y",))]})
    assert oracle.content("ids") == [("z", 1, 3, 3, 0), ("y", 3, 2, 2, 0)]
    oracle.update({"a": [Upsert((1,), ("x",))]})
    assert oracle.content("ids")[-1] == ("x", 4, 1, 1, 0)


def test_s12_what_is_preserved_depends_on_what_the_key_had():
    pipeline = Pipeline("preserved")
    pipeline.source("a", key="k bigint", value="name string")

    @pipeline.producer(
        "a", key="name string", value="k bigint", preserve=lambda value, example: example or value
    )
    def first_of(k, names):
        for name in names:
            yield name, k

    oracle = Oracle(pipeline)
    oracle.update({"a": [Upsert((2,), ("x",)), Upsert((3,), ("x",))]})
    assert oracle.content("first_of") == [("x", 2, 2, 0), ("x", 2, 3, 0)]
    oracle.update({"a": [Delete((2,)), Upsert((1,), ("x",))]})
    assert oracle.content("first_of") == [("x", 2, 1, 0), ("x", 2, 3, 0)]


def test_a_load_deletes_keys_without_rows_and_records_what_differs(oracle):
    rows = [(9, 105, "banana"), (4, 108, "lime"), (5, 108, "plum"), (4, 108, "mango")]
    assert oracle.load({"baskets": upserts(rows)}) == 2
    assert oracle.updates("baskets") == [
        (2, "update", 4, 0, 108, "lime"),
        (2, "update", 4, 1, 108, "mango"),
        (2, "add", 5, 0, 108, "plum"),
        (2, "delete", 6, 0, None, None),
    ]
    assert oracle.updates("menus") == [
        (2, "update", 105, 0, "banana"),
        (2, "update", 108, 0, "lime,mango,plum"),
    ]


def test_s9_a_load_of_what_is_there_changes_nothing(oracle):
    rows = upserts([(4, 108, "mango"), (6, 105, "apple"), (9, 105, "banana")])
    assert oracle.load({"baskets": rows}) == 1
    assert oracle.load({"baskets": rows}, "a") == oracle.load({"baskets": []}, "a") == 2


def test_a_load_of_no_rows_deletes_all_and_other_sources_stay():
    pipeline = Pipeline("two")
    for name in "ab":
        pipeline.source(name, key="k bigint", value="v bigint")
    oracle = Oracle(pipeline)
    oracle.update({name: upserts([(1, 1), (None, 2)]) for name in "ab"})
    assert oracle.load({"a": []}) == 2
    assert oracle.content("a") == []
    assert oracle.content("b") == [(None, 2, 0), (1, 1, 0)]
    with pytest.raises(InvalidChangesError):
        oracle.load({"c": []})


def test_s13_null_keys_and_values_are_values(oracle):
    oracle.update({"baskets": upserts([(None, None, None)])})
    assert oracle.content("baskets")[0] == (None, None, None, 0)
    assert oracle.content("fruits")[0] == (None, None, None, 0)
    assert oracle.key_mappings("fruits")[0] == (None, None)
    assert oracle.updates("fruits") == [(2, "add", None, 0, None)]
    assert oracle.content("menus")[0] == (None, "-", None, 0)


def test_s13_a_stage_reads_its_source_keys_in_the_feeders_directions():
    def gathered(key, values):
        for value in values:
            yield 0, value

    pipeline = Pipeline("ranks")
    source = pipeline.source("s", key="k bigint desc", value="t string")
    flat = pipeline.producer(source, key="zero bigint", value="t string", name="flat")(gathered)

    @pipeline.producer(flat, key="t string desc", value="zero bigint")
    def texts(zero, values):
        for value in values:
            yield value, zero

    oracle = Oracle(pipeline)
    oracle.update({"s": [Upsert((k,), (t,)) for k, t in [(None, "n"), (1, "a"), (2, "b")]]})
    assert oracle.content("s") == [(2, "b", 0), (1, "a", 0), (None, "n", 0)]
    assert [row[2] for row in oracle.content("flat")] == [2, 1, None]
    assert oracle.key_mappings("flat") == [(2, 0), (1, 0), (None, 0)]
    assert oracle.key_mappings("texts") == [(0, "n"), (0, "b"), (0, "a")]
    assert [row[2] for row in oracle.updates("texts")] == ["n", "b", "a"]


def test_s14_every_version_stays_readable(oracle):
    oracle.update({"baskets": [Delete((4,)), Delete((6,)), Delete((9,))]})
    assert oracle.content("fruits") == []
    assert len(oracle.content("fruits", 1)) == len(oracle.updates("fruits", 1)) == 3
    for read in (oracle.content, oracle.key_mappings, oracle.updates):
        assert read("fruits", 0) == []


@pytest.mark.parametrize("version", [-1, 2])
def test_unknown_versions_and_tables_are_not_found(oracle, version):
    with pytest.raises(NotFoundError):
        oracle.content("fruits", version)
    with pytest.raises(NotFoundError):
        oracle.updates("fruits", version)
    with pytest.raises(NotFoundError):
        oracle.key_mappings("baskets")


# ---- what functions get and may emit


def test_one_column_is_passed_bare_and_several_as_a_named_tuple():
    seen: list[Any] = []

    def recorded(key, values):
        seen.append((key.b, key[0], list(values)))
        yield tuple(key), 0

    oracle = one_stage(
        recorded,
        source_key="a bigint, b string",
        source_value="n bigint",
        key="x bigint, y string",
        value="n bigint",
    )
    oracle.update({"s": [Upsert((1, "u"), (5,)), Upsert((1, "u"), (None,))]})
    assert seen == [("u", 1, [5, None])]


@dataclass
class Record:
    t: str
    n: int


@dataclass(frozen=True, slots=True)
class SlottedRecord:
    t: str
    n: int


Swapped = namedtuple("Swapped", "t n")
Renamed = namedtuple("Renamed", "u n")


@pytest.mark.parametrize(
    "emitted",
    [
        (1, "a"),
        [1, "a"],
        Swapped("a", 1),
        {"t": "a", "n": 1},
        Record("a", 1),
        SlottedRecord("a", 1),
        Row(t="a", n=1),
    ],
    ids=["tuple", "list", "named tuple", "dict", "dataclass", "slots", "row"],
)
def test_emitted_records_are_read_by_name_if_they_have_names(emitted):
    def keys(key, values):
        yield emitted, "v"

    def values(key, values):
        yield "k", emitted

    by_key = one_stage(keys, key="n bigint, t string", value="v string")
    by_key.update({"s": [Upsert((7,), (0, ""))]})
    assert by_key.content("stage") == [(1, "a", "v", 7, 0)]
    by_value = one_stage(values, key="k string", value="n bigint, t string")
    by_value.update({"s": [Upsert((7,), (0, ""))]})
    assert by_value.content("stage") == [("k", 1, "a", 7, 0)]


@pytest.mark.parametrize(
    "emitted",
    [(1,), (1, "a", 2), {"n": 1}, {"n": 1, "t": "a", "x": 0}, Renamed("a", 1), "ab", 5, None],
)
def test_an_emission_without_the_declared_columns_is_an_error(emitted):
    def constant(key, values):
        yield key, emitted

    oracle = one_stage(constant, key="k bigint", value="n bigint, t string")
    with pytest.raises(ProducerError):
        oracle.update({"s": [Upsert((7,), (0, ""))]})


def test_names_that_are_no_identifiers_are_numbered_and_can_be_passed_on():
    def passed(key, values):
        for value in values:
            yield key, (value._0, value.n)
            yield key, value

    columns = "`a-b` string, n bigint"
    oracle = one_stage(passed, key="k bigint", value=columns, source_value=columns)
    oracle.update({"s": [Upsert((7,), ("x", 1))]})
    assert oracle.content("stage") == [(7, "x", 1, 7, 0), (7, "x", 1, 7, 1)]


def test_a_null_in_a_column_that_is_not_null_is_refused():
    def nulls(key, values):
        yield key, None

    oracle = one_stage(
        nulls, key="k bigint", value="n bigint not null", source_value="n bigint not null"
    )
    with pytest.raises(InvalidChangesError):
        oracle.update({"s": [Upsert((7,), (None,))]})
    with pytest.raises(ProducerError):
        oracle.update({"s": [Upsert((7,), (1,))]})
    assert oracle.head == 0


def test_emitted_values_are_stored_as_their_types_hold_them():
    value = "d decimal(6,2), f float, x double, b binary, s struct<i:int,t:string>, a array<int>"

    def typed(key, values):
        yield key, (1, 0.1, 1, bytearray(b"a"), {"t": "u", "i": 3}, (1, None))

    def texts(key, values):
        for v in values:
            yield key, f"{v.d} {v.f == 0.1} {v.x!r} {v.b!r} {v.s.t} {v.a}"

    pipeline = Pipeline("types")
    source = pipeline.source("s", key="k bigint", value="n bigint")
    stage = pipeline.producer(source, key="k bigint", value=value, name="typed")(typed)
    pipeline.producer(stage, key="k bigint", value="t string", name="texts")(texts)
    oracle = Oracle(pipeline)
    oracle.update({"s": [Upsert((1,), (1,))]})
    assert oracle.content("texts") == [(1, "1.00 False 1.0 b'a' u [1, None]", 1, 0)]
    assert oracle.content("typed")[0][-4:-2] == ((3, "u"), (1, None))


# ---- order and equality


def arrow_stage(function, *, key, value, streaming=False, source="n bigint, t string"):
    pipeline = Pipeline("one")
    feeder = pipeline.source("s", key="k bigint", value=source)
    declare = pipeline.arrow_producer(
        feeder, key=key, value=value, name="stage", streaming=streaming
    )
    declare(function)
    return Oracle(pipeline)


def test_an_arrow_function_gets_a_table_of_each_key_and_its_rows_are_read_by_name():
    def swapped(table):
        assert table.column_names == ["k", "n", "t"]
        assert len(table.column("k").unique()) == 1
        return pa.table(
            {"v": table["k"], "_source_k": table["k"], "t": table["t"], "n": table["n"]}
        )

    oracle = arrow_stage(swapped, key="n bigint, t string", value="v bigint")
    oracle.update({"s": upserts([(2, 5, "a"), (1, 5, "a"), (1, 4, None), (1, 5, "a")])})
    assert oracle.content("stage") == [
        (4, None, 1, 1, 0),
        (5, "a", 1, 1, 0),
        (5, "a", 1, 1, 1),
        (5, "a", 2, 2, 0),
    ]
    assert oracle.key_mappings("stage") == [(1, 4, None), (1, 5, "a"), (2, 5, "a")]


def test_a_streaming_arrow_function_gets_an_iterator_of_batches():
    def counted(batches):
        batch = next(batches)
        assert next(batches, None) is None
        key = batch.column("k").slice(0, 1)
        yield pa.record_batch({"k": key, "_source_k": key, "v": pa.array([batch.num_rows])})

    oracle = arrow_stage(counted, key="k bigint", value="v bigint", streaming=True)
    oracle.update({"s": upserts([(2, 5, "a"), (1, 5, "a"), (1, 4, None)])})
    assert oracle.content("stage") == [(1, 2, 1, 0), (2, 1, 2, 0)]


NESTED = "moment timestamp, s struct<a: int, `b-c`: array<struct<d: date>>>, m map<string, int>"


def test_values_of_all_kinds_pass_through_arrow():
    def unchanged(table):
        return table.append_column("_source_k", table["k"])

    oracle = arrow_stage(unchanged, key="k bigint", value=NESTED, source=NESTED)
    moment, day = datetime.datetime(2024, 7, 1, 12), datetime.date(2024, 7, 1)
    values = [(moment, (1, [(day,), None]), {"a": 1, "b": None}), (None, None, None)]
    oracle.update({"s": [Upsert((1,), value) for value in values]})
    assert [row[1:-2] for row in oracle.content("stage")] == plain_rows(values)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda table: table,
        lambda table: table.append_column("_source_k", pa.array([3] * len(table))),
        lambda table: table.append_column("_source_k", table["k"]).drop_columns(["t"]),
        lambda table: table.append_column("_source_k", table["k"]).append_column("x", table["k"]),
        lambda table: table.append_column("_source_k", table["k"]).append_column("t", table["t"]),
        lambda table: None,
        lambda table: 1 / 0,
    ],
)
def test_what_an_arrow_function_may_not_return_is_an_error(spoil):
    oracle = arrow_stage(spoil, key="k bigint", value="n bigint, t string")
    with pytest.raises(ProducerError) as caught:
        oracle.update({"s": upserts([(1, 5, "a")])})
    assert (caught.value.stage, caught.value.key) == ("stage", 1)
    assert oracle.head == 0


def sorted_by(ddl, values):
    columns = row_schema(ddl, "v bigint", stage="s").key
    return sorted(values, key=lambda value: sort_key((value,), columns))


@pytest.mark.parametrize(
    ("data_type", "ordered"),
    [
        ("bigint", [None, -(2**63), -1, 0, 2**63 - 1]),
        ("string", [None, "", "\x00", "A", "a", "a\x00", "aa", "é", "\uff5e", "😀"]),
        ("binary", [None, b"", b"\x00", b"\x7f", b"\x80", b"\x80\x00", b"\xff"]),
        ("boolean", [None, False, True]),
        ("decimal(9,2)", [None, Decimal("-1.50"), Decimal("0.00"), Decimal("0.10"), Decimal(2)]),
        ("date", [None, datetime.date(1, 1, 1), datetime.date(1582, 10, 15)]),
        ("timestamp", [None, datetime.datetime(1, 1, 3), datetime.datetime(1970, 1, 1, 0, 0, 1)]),
    ],
)
def test_values_sort_as_in_spark(data_type, ordered):
    shuffled = ordered[1::2] + ordered[::2]
    assert sorted_by(f"k {data_type}", shuffled) == ordered
    assert sorted_by(f"k {data_type} desc", shuffled) == ordered[::-1]


def test_each_column_has_its_own_direction():
    columns = row_schema("a bigint desc, b string, c bigint desc", "v bigint", stage="s").key
    ordered = [(2, None, 1), (2, "a", 2), (2, "a", 1), (2, "a", None), (1, "b", 0), (None, "a", 9)]
    for shuffled in (list(reversed(ordered)), ordered[3:] + ordered[:3]):
        assert sorted(shuffled, key=lambda key: sort_key(key, columns)) == ordered


def test_nan_and_negative_zero_equal_as_in_spark():
    def copied(key, values):
        for value in values:
            yield key, value

    ddl = "x double, xs array<double>, m map<string,double>"
    oracle = one_stage(copied, key="k bigint", value=ddl, source_value=ddl)
    rows = [(math.nan, [0.0], {"a": math.nan, "b": 1.0})]
    oracle.update({"s": [Upsert((1,), row) for row in rows]})
    equal = (float("nan"), [-0.0], {"b": 1.0, "a": float("nan")})
    assert oracle.update({"s": [Upsert((1,), equal)]}) == 1
    assert oracle.update({"s": [Upsert((1,), (math.nan, [0.0], {"a": 0.0}))]}) == 2


def test_rows_of_spark_are_compared_in_their_normal_form():
    nan = float("nan")
    row = Row(k=1, b=bytearray(b"a"), s=Row(x=nan, l=[Row(y=None)]), m={"n": [nan]})
    assert plain_rows([row]) == [(1, b"a", (math.nan, ((None,),)), {"n": (math.nan,)})]
    assert plain(nan) is math.nan
    assert plain_rows([(nan,)]) != [(None,)]


# ---- the laws, on random pipelines and histories


def with_history(pipeline):
    return histories(pipeline).map(lambda history: (pipeline, history))


runs = pipelines().flatmap(with_history)
forgetful_runs = pipelines(remembering=False).flatmap(with_history)


def values_by_key(oracle, stage, version):
    """A stage's ordered values by key, from its content, without provenance."""
    names = oracle.columns(stage, "updates")
    width = names.index("_position") - 2
    last = len(names) - 3  # key and values
    found: dict[Any, list[Any]] = {}
    for row in oracle.content(stage, version):
        found.setdefault(row[:width], []).append(row[width:last])
    return found


def folded_updates(oracle, stage, version):
    """The same from the updates of versions 1 to `version`."""
    width = oracle.columns(stage, "updates").index("_position") - 2
    folded: dict[Any, list[Any]] = {}
    for number in range(1, version + 1):
        changed: dict[Any, list[Any]] = {}
        for number_in_row, change_type, *rest in oracle.updates(stage, number):
            assert number_in_row == number
            key, position, value = tuple(rest[:width]), rest[width], tuple(rest[width + 1 :])
            rows = changed.setdefault(key, [])
            if change_type == "delete":
                assert key in folded
                assert (position, rows) == (0, [])
            else:
                assert position == len(rows)
                assert change_type == ("update" if key in folded or rows else "add")
                rows.append(value)
        folded.update(changed)
        folded = {key: rows for key, rows in folded.items() if rows}
    return folded


def stages_of(pipeline):
    return [stage.name for stage in pipeline.stages]


def sources_as_changes(oracle, pipeline):
    """The current rows of all sources, as one batch."""
    return {
        source.name: [
            Upsert(row[: len(source.schema.key)], row[len(source.schema.key) : -1])
            for row in oracle.content(source.name)
        ]
        for source in pipeline.graph().sources
    }


@settings(deadline=None)
@given(runs)
def test_law_folding_the_updates_gives_the_content(run):
    pipeline, history = run
    oracle = Oracle(pipeline)
    for batch in history:
        oracle.update(batch)
    for stage in stages_of(pipeline):
        for version in range(oracle.head + 1):
            expected = values_by_key(oracle, stage, version)
            assert folded_updates(oracle, stage, version) == expected


def applied(rows, changes):
    """A multiset of rows, without those that went and with those that came."""
    rows = list(rows)
    for *row, change_type, _ in changes:
        if change_type in ("delete", "update_preimage"):
            rows.remove(tuple(row))
    return rows + [
        tuple(row) for *row, kind, _ in changes if kind in ("insert", "update_postimage")
    ]


def equal_multisets(rows, others):
    rest = list(others)
    for row in rows:
        if row not in rest:
            return False
        rest.remove(row)
    return not rest


@settings(deadline=None)
@given(runs, st.data())
def test_law_the_changes_of_a_range_lead_from_its_first_version_to_its_last(run, data):
    pipeline, history = run
    oracle = Oracle(pipeline)
    for batch in history:
        oracle.update(batch)
    since = data.draw(st.integers(0, oracle.head))
    until = data.draw(st.integers(since, oracle.head))
    for stage in stages_of(pipeline):
        start, *steps = [
            [(*key, *value) for key, values in found.items() for value in values]
            for found in (values_by_key(oracle, stage, n) for n in range(since, until + 1))
        ]
        net = oracle.changes(stage, since, until)
        end = steps[-1] if steps else start
        assert equal_multisets(applied(start, net), end)
        gone = [row[:-2] for row in net if row[-2] in ("delete", "update_preimage")]
        came = [row[:-2] for row in net if row[-2] in ("insert", "update_postimage")]
        assert not any(row in came for row in gone)
        complete = oracle.changes(stage, since, until, "complete")
        for number, expected in enumerate(steps, since + 1):
            start = applied(start, [row for row in complete if row[-1] == number])
            assert equal_multisets(start, expected)


@settings(deadline=None)
@given(runs, st.data())
def test_law_a_rollback_is_equal_to_the_version_and_can_be_rolled_back(run, data):
    pipeline, history = run
    oracle = Oracle(pipeline)
    for batch in history:
        oracle.update(batch)
    head = oracle.head
    version = data.draw(st.integers(0, head))
    back = oracle.rollback(version)
    assert oracle.rollback(version) == back
    for stage in stages_of(pipeline):
        assert oracle.content(stage) == oracle.content(stage, version)
        assert folded_updates(oracle, stage, back) == values_by_key(oracle, stage, back)
    assert oracle.rollback(head) == (head if back == head else back + 1)
    assert all(oracle.content(s) == oracle.content(s, head) for s in stages_of(pipeline))


@settings(deadline=None)
@given(runs)
def test_law_re_sending_the_current_state_is_a_no_op(run):
    pipeline, history = run
    oracle = Oracle(pipeline)
    for batch in history:
        number = oracle.update(batch)
        assert oracle.update(batch) == number
        assert oracle.update(sources_as_changes(oracle, pipeline)) == number


@settings(deadline=None)
@given(forgetful_runs)
def test_law_one_load_of_the_final_sources_gives_the_same_content_and_mappings(run):
    pipeline, history = run
    oracle, loaded = Oracle(pipeline), Oracle(pipeline)
    for batch in history:
        oracle.update(batch)
    loaded.update(sources_as_changes(oracle, pipeline))
    for stage in pipeline.stages:
        assert loaded.content(stage.name) == oracle.content(stage.name)
        if stage.source_key:
            assert loaded.key_mappings(stage.name) == oracle.key_mappings(stage.name)


@settings(deadline=None)
@given(runs, st.data())
def test_law_rows_come_in_the_order_of_their_tables(run, data):
    pipeline, history = run
    oracle = Oracle(pipeline)
    for batch in history:
        oracle.update(batch)
    stage = data.draw(st.sampled_from(pipeline.stages))
    key = [column for column in stage.schema.key if not column.is_hidden]
    for rows, start in ((oracle.content(stage.name), 0), (oracle.updates(stage.name), 2)):
        ranks = [sort_key(row[start : start + len(key)], key) for row in rows]
        assert all(not after < before for before, after in itertools.pairwise(ranks))


def test_a_stage_with_a_hook_is_made_anew_by_another_function():
    """The hook gets each row, of source keys that did not change too."""

    def made(skipped: int) -> Pipeline:
        pipeline = Pipeline("hooked")
        source = pipeline.source("source", key="k bigint", value="n bigint")

        @pipeline.producer(
            source,
            key="k bigint",
            value="n bigint",
            name="first",
            preserve=lambda new, old: new if old is None else old,
        )
        def first(k, values):
            for n in [*values][skipped:]:
                yield k, n

        return pipeline

    oracle = Oracle(made(0))
    oracle.update({"source": [Upsert((1,), (5,)), Upsert((1,), (6,))]})
    for skipped, expected in ((1, [(1, 5, 1, 0)]), (0, [(1, 5, 1, 0), (1, 5, 1, 1)])):
        oracle._graph = made(skipped).graph()
        oracle.update({}, f"edited to skip {skipped}")
        assert oracle.content("first") == expected


def test_nan_equals_itself_and_comes_behind_all_numbers():
    """In views it is one group, joins itself, is greater than numbers, and comes last."""
    pipeline = Pipeline("floats")
    pipeline.source("f", key="k bigint", value="x double")
    pipeline.sql("groups", "SELECT x, count(*) AS n, max(k) AS k FROM f GROUP BY x")
    pipeline.sql("pairs", "SELECT a.k, b.k AS other FROM f a JOIN f b ON a.x = b.x AND a.k < b.k")
    pipeline.sql("more", "SELECT k FROM f WHERE x > (SELECT max(x) FROM f WHERE k = 2)")
    pipeline.sql("first", "SELECT x FROM f ORDER BY x DESC LIMIT 3")
    oracle = Oracle(pipeline)
    values = [(1, math.nan), (2, 2.0), (3, float("nan")), (4, -0.0), (5, 0.0)]
    oracle.update({"f": upserts(values)})
    assert oracle.content("groups") == [(0.0, 2, 5, 0), (2.0, 1, 2, 1), (math.nan, 2, 3, 2)]
    assert oracle.content("pairs") == [(1, 3, 0), (4, 5, 0)]
    assert oracle.content("more") == [(1, 0), (3, 0)]
    assert oracle.content("first") == [(math.nan, 0), (math.nan, 1), (2.0, 2)]
