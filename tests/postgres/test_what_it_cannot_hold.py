"""What PostgreSQL cannot hold stops a sync while the store has it, and no longer."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from copies import assert_same, rows
from selecting import chosen

from deltaproduce import DefinitionError, Pipeline, Store, SyncError, agg, postgres

DAY = 86_400_000_000
TEXTS = {"a": True, "b": True, None: True, "a\0": False, "\0": False}
DAYS = {0: True, None: True, 2_932_896: True, -719_162: True, 2_932_897: False, -719_163: False}
MOMENTS = {
    **dict.fromkeys((None, 0, 2_932_897 * DAY - 1, -719_162 * DAY), True),
    **dict.fromkeys((2_932_897 * DAY, -719_162 * DAY - 1, 2**63 - 1), False),
}
"""Values, and whether PostgreSQL can hold them: the year 10000 and the year 0 are too far."""

COLUMNS = {
    "id": (pa.int64(), dict.fromkeys(range(6), True)),
    "word": (pa.string(), TEXTS),
    "day": (pa.date32(), DAYS),
    "at": (pa.timestamp("us", "UTC"), MOMENTS),
    "local": (pa.timestamp("us"), MOMENTS),
}


def moving() -> Pipeline:
    """Rows that move between keys, most of which PostgreSQL can hold."""
    pipeline = Pipeline("moves")
    said = pipeline.source("said", key="id bigint", value="word string")
    when = pipeline.source(
        "when", key="id bigint", value="day date, at timestamp, local timestamp_ntz"
    )

    @pipeline.producer(said, key="word string", value="number bigint", surrogate="number")
    def words(_: int, values: Iterator[Any]) -> Iterator[Any]:
        for word in values:
            yield word, None

    pipeline.aggregate("days", when, key="day, at, local", values={"n": agg.count()})
    return pipeline


def array(name: str, values: list[Any]) -> pa.Array:
    kind, _ = COLUMNS[name]
    number = {pa.date32(): pa.int32()}.get(kind, pa.int64())
    return pa.array(values, kind if name == "word" else number).cast(kind)


def fits(store: Store, *stages: str) -> bool:
    """Whether PostgreSQL can hold all rows of these stages."""
    for stage in stages:
        content = store.content(stage)
        for name in set(content.column_names) & {*COLUMNS}:
            kind, known = COLUMNS[name]
            column = content.column(name)
            if name not in ("id", "word"):
                column = column.cast(pa.int32() if kind == pa.date32() else pa.int64())
            if not all(known[value] for value in column.to_pylist()):
                return False
    return True


@pytest.mark.parametrize("number", chosen(range(6), 0))
def test_a_sync_is_refused_exactly_while_the_store_has_such_rows(
    address: str, location: str, number: int, long_run: bool
) -> None:
    """Whatever was there in between: keys that move, that come and go; rollback and refresh."""
    chance, pipeline = random.Random(number), moving()
    stages = [stage.name for stage in pipeline.stages]
    counts = {True: 0, False: 0}
    with Store(None, location, pipeline) as store:
        all_of_it = postgres.Sync(store, address, key_tables=["words"])
        keys = postgres.Sync(store, address, stages=[], key_tables=["words"], schema="keys")
        for _ in range(40 if long_run else 20):
            store.update(
                {"said": batch(chance, "word"), "when": batch(chance, "day", "at", "local")}
            )
            if chance.random() < 0.2:
                store.rollback(chance.randrange(store.head.number + 1))
            if chance.random() < 0.1:
                store.refresh(chance.choice(["words", "days"]))
            for sync, of in ((all_of_it, stages), (keys, ["words"])):
                if fits(store, *of):
                    assert sync.run().version == store.head.number
                    counts[True] += 1
                else:
                    with pytest.raises(SyncError) as caught:
                        sync.run()
                    assert caught.value.stage in of
                    assert caught.value.column in COLUMNS
                    assert caught.value.keys
                    counts[False] += 1
            if fits(store, *stages):
                assert_same(store, pipeline, address, stages)
    assert min(counts.values()) > 5


def batch(chance: random.Random, *names: str) -> pa.Table:
    """Changes of some keys, a part of them with values that PostgreSQL cannot hold."""
    numbers = chance.sample(range(6), 3)
    values = {name: [value(chance, name) for _ in numbers] for name in names}
    return pa.table(
        {
            "id": numbers,
            **{name: array(name, some) for name, some in values.items()},
            "_change_type": [chance.choice(["upsert", "delete"]) for _ in numbers],
        }
    )


def value(chance: random.Random, name: str) -> Any:
    fits = chance.random() > 0.1
    return chance.choice([one for one, fit in COLUMNS[name][1].items() if fit == fits])


NESTED = {
    "array<string>": pa.array([["a", "b\0"]]),
    "map<string,int>": pa.array([[("a\0", 1)]], pa.map_(pa.string(), pa.int32())),
    "struct<a:array<struct<b:string>>>": pa.array([{"a": [None, {"b": "\0"}]}]),
    "array<date>": pa.array([[0, None, 2**31 - 1]], pa.list_(pa.int32())).cast(
        pa.list_(pa.date32())
    ),
    "map<date,array<timestamp>>": pa.array(
        [[(date(2020, 1, 1), [2**63 - 1])]], pa.map_(pa.date32(), pa.list_(pa.int64()))
    ).cast(pa.map_(pa.date32(), pa.list_(pa.timestamp("us", "UTC")))),
    "struct<a:timestamp>": pa.array([{"a": -(2**63)}]).cast(
        pa.struct({"a": pa.timestamp("us", "UTC")})
    ),
}


@pytest.mark.parametrize("kind", NESTED)
def test_parts_of_nested_values_are_refused_too(address: str, location: str, kind: str) -> None:
    """And not written as the text of an error; the row that has them is named, no other."""
    pipeline = Pipeline("nested")
    pipeline.source("given", key="id bigint", value=f"what {kind}")
    wrong = NESTED[kind]
    with Store(None, location, pipeline) as store:
        sync = postgres.Sync(store, address)
        nulls = pa.nulls(2, wrong.type)
        what = pa.chunked_array([nulls, wrong, nulls], wrong.type)
        store.update({"given": pa.table({"id": range(5), "what": what})})
        with pytest.raises(SyncError) as caught:
            sync.run()
        assert caught.value.stage == "given"
        assert caught.value.column == "what"
        assert caught.value.keys == ((2,),)
        store.update({"given": [{"id": 2, "_change_type": "delete"}]})
        sync.run()
        assert_same(store, pipeline, address, ["given"])


def test_numbers_at_the_ends_of_their_types_are_held(address: str, location: str) -> None:
    """Decimals of 38 digits, the least double there is, NaN and infinities, plain and in parts."""
    kinds = {
        "whole decimal(38,0)": [int("9" * 38), -int("9" * 38)],
        "small decimal(38,38)": [0, 0],
        "number double": [5e-324, float("nan")],
        "real float": [float("inf"), -float("inf")],
        "numbers array<double>": [[5e-324, float("nan"), -0.0], [1.7976931348623157e308]],
        "reals map<string,float>": [{"a": float("inf")}, {"a": -1e-45}],
    }
    pipeline = Pipeline("ends")
    pipeline.source("given", key="id bigint", value=", ".join(kinds))
    names = [kind.split()[0] for kind in kinds]
    given = [
        {"id": number, **dict(zip(names, row, strict=True))}
        for number, row in enumerate(zip(*kinds.values(), strict=True))
    ]
    with Store(None, location, pipeline) as store:
        store.update({"given": given})
        postgres.Sync(store, address).run()
        assert_same(store, pipeline, address, ["given"])


def wide(columns: int, kind: str, *, required: bool = False) -> Pipeline:
    pipeline = Pipeline("wide")
    end = " not null" if required else ""
    value = ", ".join(f"c{number} {kind}{end}" for number in range(columns - 1))
    pipeline.source("given", key="id bigint not null" if required else "id bigint", value=value)
    return pipeline


def test_more_columns_than_a_table_can_have(address: str, location: str) -> None:
    """Two of the 1,600 are the sync's own: a first load would work without them, no other."""
    with Store(None, location, wide(1599, "int")) as store:
        with pytest.raises(DefinitionError, match="1598") as caught:
            postgres.Sync(store, address)
        assert caught.value.stage == "given"


def test_as_many_columns_as_a_table_can_have(address: str, location: str) -> None:
    with Store(None, location, wide(1598, "boolean")) as store:
        sync = postgres.Sync(store, address)
        for number in (1, 2):
            row = dict.fromkeys((f"c{n}" for n in range(1597)), number == 1)
            store.update({"given": [{"id": 1, **row}]})
            sync.run()
        assert rows(address, "given") == [(1, *[False] * 1597)]


def test_rows_that_fit_on_no_page_are_refused_before_anything_is_written(
    address: str, location: str
) -> None:
    """1,100 numbers of eight bytes that cannot be null."""
    with Store(None, location, wide(1100, "bigint", required=True)) as store:
        with pytest.raises(DefinitionError, match="in a row") as caught:
            postgres.Sync(store, address)
        assert caught.value.stage == "given"
    assert rows(address, "pg_tables", "pg_catalog")


@pytest.mark.parametrize("first", [True, False])
def test_a_row_that_fits_on_no_page(address: str, location: str, first: bool) -> None:
    """It is named, as a part of a first load and of a later sync; then it goes."""
    texts = {f"c{number}": incompressible(200 + number) for number in range(499)}
    small = [{"id": n, **dict.fromkeys(texts, "y")} for n in range(3)]
    large = {"id": 7, **texts}
    pipeline = wide(500, "string")
    with Store(None, location, pipeline) as store:
        sync = postgres.Sync(store, address)
        if not first:
            store.update({"given": small})
            sync.run()
        store.update({"given": [large, *small]})
        with pytest.raises(SyncError, match="row is too big") as caught:
            sync.run()
        assert caught.value.stage == "given"
        assert caught.value.keys == ((7,),)
        store.update({"given": [{"id": 7, "_change_type": "delete"}]})
        sync.run()
        assert_same(store, pipeline, address, ["given"])


def incompressible(size: int) -> str:
    return "".join(random.Random(size).choices("0123456789abcdefghijklmnopqrstuvwxyz", k=size))


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("keys", [True, False])
def test_a_key_that_fits_in_no_index(address: str, location: str, first: bool, keys: bool) -> None:
    """It is named, and may go; one that PostgreSQL can compress is no reason to stop."""
    pipeline = Pipeline("long")
    given = pipeline.source("given", key="id bigint", value="word string")

    @pipeline.producer(given, key="word string", value="number bigint", surrogate="number")
    def words(_: int, values: Iterator[Any]) -> Iterator[Any]:
        for word in values:
            yield word, None

    fine = [{"id": 1, "word": "a"}, {"id": 2, "word": "b" * 9000}, {"id": 3, "word": None}]
    long = incompressible(8000)
    with Store(None, location, pipeline) as store:
        chosen_ones: Mapping[str, Any] = (
            {"stages": [], "key_tables": ["words"]} if keys else {"stages": ["words"]}
        )
        sync = postgres.Sync(store, address, **chosen_ones)
        if not first:
            store.update({"given": fine})
            sync.run()
        store.update({"given": [*fine, {"id": 4, "word": long}]})
        with pytest.raises(SyncError, match="index row size") as caught:
            sync.run()
        assert caught.value.stage == "words"
        assert caught.value.keys == ((long,),)
        store.update({"given": [{"id": 4, "word": "c"}]})
        sync.run()
        table = "words__keys" if keys else "words"
        assert {row[1 if keys else 0] for row in rows(address, table)} == {
            *("a", "c", "b" * 9000, None)
        }


def test_a_database_of_another_encoding(address: str, location: str) -> None:
    """It holds some texts and no others, and sorts them in its own way."""
    run_alone(address, "DROP DATABASE IF EXISTS latin")
    run_alone(
        address,
        "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0",
    )
    pipeline = moving()
    with Store(None, location, pipeline) as store:
        store.update({"said": [{"id": 1, "word": "a"}]})
        with pytest.raises(SyncError, match="LATIN1"):
            postgres.Sync(store, address.replace("/postgres?", "/latin?")).run()
    run_alone(address, "DROP DATABASE latin")


def run_alone(address: str, statement: str) -> None:
    """Do something that no transaction may."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(statement)
