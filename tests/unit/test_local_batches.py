"""Small batches are checked, numbered and digested in Arrow, without touching a session."""

import datetime as dt
import math
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaproduce import InvalidChangesError, Limits, Pipeline
from deltaproduce.engines.choice import Engines
from deltaproduce.engines.local.digests import digest
from deltaproduce.engines.selections import Selection
from deltaproduce.model.layouts import Layout
from deltaproduce.stages import batches as batches_module
from deltaproduce.stages.batches import Batch
from deltaproduce.stages.sources.given.contents import DELETES, IGNORED, UPSERTS
from deltaproduce.stages.sources.given.kind import Given
from deltaproduce.stages.sources.given.required import unchecked
from deltaproduce.types.atoms import arrow_type


class NoSession:
    """Whoever asks anything of it fails."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"a local batch asks the session for {name}")


@dataclass(frozen=True)
class Here(Engines):
    @property
    def time_zone(self) -> str:
        return "Europe/Berlin"


ENGINES = Here(NoSession(), Limits())  # type: ignore[arg-type]


def source(key="id bigint", value="n int"):
    return Pipeline("p").source("orders", key=key, value=value)


def taken(changes, made=None, **more) -> Batch:
    return Given().taken(changes, made or source(), ENGINES, **more)


def refused(changes, made=None) -> InvalidChangesError:
    with pytest.raises(InvalidChangesError) as caught:
        taken(changes, made)
    assert caught.value.source == "orders"
    return caught.value


def by_key(batch: Batch) -> dict[Any, list[Any]]:
    """The values of each key in their order; None is a delete."""
    found = defaultdict(list)
    for row in sorted(batch.rows.to_pylist(), key=lambda row: row["_ordinal"]):
        found[row["id"]].append(None if row["_is_delete"] else row["n"])
    return dict(found)


# ---- no session


ROWS = [{"id": 1, "n": 1}, {"id": 2, "n": None}, {"id": 1, "n": 2}, {"id": None, "n": 0}]
FORMS = {
    "list": lambda: ROWS,
    "table": lambda: pa.Table.from_pylist(ROWS),
    "reader": lambda: pa.Table.from_pylist(ROWS).to_reader(),
    "polars": lambda: pl.DataFrame(ROWS),
    "pandas": lambda: pd.DataFrame(ROWS),
}


@pytest.mark.parametrize("form", FORMS)
def test_few_rows_touch_no_session(form):
    batch = taken(FORMS[form]())
    assert by_key(batch) == {1: [1, 2], 2: [None], None: [0]}
    assert batch.count == 4
    assert batch.rows.column_names == [c.name for c in Batch.columns(source())]
    assert len(batch.keys().keys) == 3
    assert len(batch.upserts()) == 4
    assert batch.digest() == taken(ROWS).digest()
    assert taken(FORMS[form](), is_snapshot=True).digest() != batch.digest()


def test_what_is_done_with_keys_touches_no_session():
    made = source()
    keys = taken(ROWS).keys()
    one = Selection.one(1, made.schema.key, ENGINES)
    assert len(keys.anti_join(one).keys) == 2
    assert len(keys.union(one).keys) == 3
    content = taken(ROWS).upserts()
    assert len(one.semi_join(content, made.schema.key.columns)) == 2
    assert len(one.exactly(content)) == 2
    assert one.holds(content).sum() == 2
    gone = Batch.deleting(one, made)
    assert by_key(gone) == {1: [None]}
    replaced = Batch.replacing(keys, one.exactly(content), made)
    assert by_key(replaced) == {1: [1, 2], 2: [None], None: [None]}
    assert by_key(Batch.snapshot(content, made, ENGINES)) == by_key(taken(ROWS))
    assert len({b.digest() for b in (gone, replaced)}) == 2


def test_no_rows_are_a_batch():
    nested = source(value="m map<string,array<int>>, s struct<a:int>")
    for batch in (taken([]), taken([], nested), taken(pa.table({"id": [], "n": []}))):
        assert batch.count == len(batch.rows) == 0
        assert batch.digest() == Batch.snapshot(
            batch.upserts(), batch.source, ENGINES
        ).digest().replace("snapshot", "changes")


def test_many_rows_are_for_spark():
    rows = pa.table({"id": range(11), "n": range(11)})
    engines = Here(NoSession(), Limits(local_rows=5, local_parts=2))  # type: ignore[arg-type]
    with pytest.raises(InvalidChangesError, match="asks the session"):
        Given().taken(rows, source(), engines)
    assert Given().taken(rows.slice(1), source(), engines).count == 10


# ---- what is refused


def test_unknown_change_types():
    rows = [{"id": i, "n": i, "_change_type": kind} for i, kind in enumerate(["upsert", "put"])]
    error = refused([*rows, {"id": 7, "n": 1, "_change_type": None}, {**rows[1], "id": 9}])
    assert error.keys == (1, 7, 9)
    assert error.column == "_change_type"
    assert "is ['put', None] in 3 rows; known: upsert, add, " in str(error)


def test_nulls():
    made = source(key="id bigint NOT NULL, at timestamp", value="n int NOT NULL, t string")
    noon = dt.datetime(2025, 7, 1, 12, tzinfo=dt.UTC)
    row = {"id": 1, "at": noon, "n": 1, "t": None}
    error = refused([row, {**row, "n": None}, {**row, "n": None, "id": 2}], made)
    assert error.columns == ("n",)
    assert error.keys == ((1, dt.datetime(2025, 7, 1, 14)), (2, dt.datetime(2025, 7, 1, 14)))
    assert error.keys[0].at == noon.astimezone(ZoneInfo("Europe/Berlin")).replace(tzinfo=None)
    assert "is NOT NULL, and null in 2 rows, of keys (Row(" in str(error)
    assert refused([{**row, "id": None, "_change_type": "delete"}], made).columns == ("id",)
    deleted = {**row, "n": None, "_change_type": "delete"}
    assert taken([deleted], made).count == 1
    assert refused([deleted, {**row, "id": 2, "n": None}], made).keys[0].id == 2


PARTS = (
    "s struct<n: int NOT NULL, t: string>, p array<struct<x: struct<y: int NOT NULL>>>, "
    "m map<string, array<struct<z: int NOT NULL>>>"
)
SOME = st.none() | st.integers(0, 1)


def lists(item):
    return st.none() | st.lists(st.none() | item, max_size=3)


NESTED = {
    "s": st.none() | st.fixed_dictionaries({"n": SOME, "t": st.none() | st.just("t")}),
    "p": lists(st.fixed_dictionaries({"x": st.none() | st.fixed_dictionaries({"y": SOME})})),
    "m": st.none()
    | st.dictionaries(st.sampled_from("ab"), lists(st.fixed_dictionaries({"z": SOME}))),
}


def lacks(row) -> dict[str, tuple[str, bool]]:
    """The columns that have a part that is NOT NULL -> the part, and whether it is null."""
    s, p, m = row["s"], row["p"] or [], row["m"] or {}
    structs = [struct for items in m.values() for struct in items or [] if struct]
    return {
        "s": ("n", s is not None and s["n"] is None),
        "p": ("element.x.y", any(e and e["x"] and e["x"]["y"] is None for e in p)),
        "m": ("value.element.z", any(struct["z"] is None for struct in structs)),
    }


@given(
    rows=st.lists(st.fixed_dictionaries({**NESTED, "is_gone": st.booleans()}), max_size=4),
    in_arrow=st.booleans(),
)
def test_nulls_in_parts_that_take_none(rows, in_arrow):
    """As in a column that takes none: the first wrong column is told, with the keys."""
    made = source(value=PARTS)
    changes = [
        {"id": i, **{name: row[name] for name in NESTED}, "_change_type": kind}
        for i, row in enumerate(rows)
        for kind in ["delete" if row["is_gone"] else "add"]
    ]
    changes.append({"id": -1, "s": None, "p": None, "m": None, "_change_type": "add"})
    wrong = {
        name: [row["id"] for row in changes if row["_change_type"] == "add" and lacks(row)[name][1]]
        for name in NESTED
    }
    given_rows = changes
    if in_arrow:
        types = [(c.name, arrow_type(c.data_type)) for c in unchecked(made.schema.value)]
        types = [("id", pa.int64()), *types, ("_change_type", pa.string())]
        pairs = [{**row, "m": row["m"] and [*row["m"].items()]} for row in changes]
        given_rows = pa.Table.from_pylist(pairs, pa.schema(types))
    first = next((name for name, keys in wrong.items() if keys), None)
    if first is None:
        batch = taken(given_rows, made)
        stored = {row["id"]: row for row in batch.rows.to_pylist()}
        for row in changes:
            if row["_change_type"] == "add":
                assert stored[row["id"]]["s"] == row["s"]
                assert stored[row["id"]]["p"] == row["p"]
                assert dict(stored[row["id"]]["m"] or []) == (row["m"] or {})
        assert batch.rows.schema.field("s").type == arrow_type(
            made.schema.value.columns[0].data_type
        )
        return
    error = refused(given_rows, made)
    assert (error.columns, set(error.keys)) == ((first,), set(wrong[first]))
    part = lacks(changes[0])[first][0]
    assert f"is NOT NULL in '{part}', and null there in {len(wrong[first])} rows" in str(error)


def test_deletes_and_upserts_of_a_key():
    rows = [{"id": i % 20, "n": i, "_change_type": "delete"} for i in range(40)]
    error = refused([*rows, *({"id": i, "n": 0} for i in range(15, 25))])
    assert error.keys == (15, 16, 17, 18, 19)
    assert "have both deletes and upserts for keys (15, 16, 17, 18, 19): " in str(error)


def test_a_key_that_python_has_no_value_for_is_refused_by_its_text():
    far = pa.array([2**62], pa.timestamp("us", "UTC"))
    table = pa.table({"id": far, "n": pa.nulls(1, pa.int32())})
    assert refused(table, source(key="id timestamp", value="n int NOT NULL")).keys == (
        "+148108-07-06T14:00:27.387904+00:00",
    )


# ---- the law: what is taken is what plain Python says


@st.composite
def batches(draw):
    ordered, typed = draw(st.booleans()), draw(st.booleans())
    row = {"id": st.none() | st.integers(0, 3), "n": st.none() | st.integers(0, 9)}
    kinds = draw(st.sampled_from([UPSERTS, (*UPSERTS, *IGNORED, *DELETES), ("delete", "x", None)]))
    if typed:
        row["_change_type"] = st.sampled_from(kinds)
    if ordered:
        row["_ordinal"] = st.none() | st.integers(-2, 2)
    return draw(st.lists(st.fixed_dictionaries(row), max_size=12))


@given(rows=batches())
def test_a_batch_is_taken_as_it_is_said(rows):
    kept = [row for row in rows if row.get("_change_type", "upsert") not in IGNORED]
    kinds = [row.get("_change_type", "upsert") for row in kept]
    unknown = [row for row, kind in zip(kept, kinds, strict=True) if kind not in UPSERTS + DELETES]
    mixed = {r["id"] for r, k in zip(kept, kinds, strict=True) if k in UPSERTS} & {
        r["id"] for r, k in zip(kept, kinds, strict=True) if k in DELETES
    }
    if unknown or mixed:
        error = refused(rows)
        assert error.column == ("_change_type" if unknown else None)
        assert set(error.keys) == ({row["id"] for row in unknown} if unknown else mixed)
        return
    expected = defaultdict(list)
    for row in sorted(kept, key=lambda row: -9 if (o := row.get("_ordinal")) is None else o):
        expected[row["id"]].append(None if row.get("_change_type") in DELETES else row["n"])
    assert by_key(taken(rows)) == expected


@given(rows=batches(), data=st.data())
def test_a_digest_is_that_of_each_key_s_rows_in_order(rows, data):
    rows = [{"id": row["id"], "n": row["n"]} for row in rows]
    other = data.draw(st.permutations(rows))
    same = by_key(taken(rows)) == by_key(taken(other))
    assert (taken(rows).digest() == taken(other).digest()) == same


# ---- digests

DIFFERENT = [
    (pa.int8(), [[1], [None], [1, None], [None, 1], [0], []]),
    (pa.string(), [["ab", "c"], ["a", "bc"], ["", "abc"], [None, "abc"], ["\0", ""]]),
    (pa.binary(), [[b""], [None], [b"\0"], [b"", b""]]),
    (pa.bool_(), [[True], [False], [None], [True, False]]),
    (pa.float64(), [[0.0], [math.nan], [math.inf], [None], [5e-324]]),
    (pa.float32(), [[0.0], [math.nan], [None]]),
    (pa.decimal128(38, 10), [[Decimal(1)], [Decimal(-1)], [None], [Decimal(0)]]),
    (pa.date32(), [[dt.date(1, 1, 1)], [dt.date(9999, 12, 31)], [None]]),
    (pa.timestamp("us", "UTC"), [[0], [1], [2**63 - 1], [-(2**63)], [None]]),
    (pa.list_(pa.int32()), [[[1], []], [[], [1]], [[1]], [None, [1]], [[None]], [None], [[]]]),
    (pa.list_(pa.list_(pa.string())), [[[["a"], []]], [[["a"]], []], [[["a"]]], [[]]]),
    (pa.map_(pa.string(), pa.int8()), [[[("a", 1)]], [[("a", None)]], [[]], [None], [[], []]]),
    (pa.struct([("a", pa.int8()), ("b", pa.int8())]), [[{"a": 1}], [{"b": 1}], [{}], [None]]),
]


@pytest.mark.parametrize(("arrow", "made"), DIFFERENT, ids=lambda value: str(value)[:30])
def test_different_values_have_different_digests(arrow, made):
    tables = [pa.table({"v": pa.array(values, arrow)}) for values in made]
    assert len({digest([table]) for table in tables}) == len(made)
    for table in tables:
        cut = pa.concat_tables([table, table, table]).slice(len(table), len(table))
        parts = [cut.slice(0, 1), cut.slice(1, 0), cut.slice(1)]
        chunks = pa.concat_tables(parts)
        assert digest([cut]) == digest([chunks]) == digest(parts) == digest([table])


def test_equal_values_have_equal_digests():
    bits = np.array([0x7FF8000000000000, 0x7FF8000000000001, -0x8000000000000000, 0], np.int64)
    floats = pa.array(bits.view(np.float64))
    one, other = floats.take(pa.array([0, 2])), floats.take(pa.array([1, 3]))
    assert digest([pa.table({"v": one})]) == digest([pa.table({"v": other})])
    key = pa.struct([("f", pa.float64()), ("l", pa.list_(pa.int8()))])
    arrow = pa.map_(key, pa.list_(pa.map_(pa.int8(), pa.float32())))
    zero = ({"f": 0.0, "l": [2, None]}, [[(1, 0.0), (2, math.nan)], None])
    negative = ({"f": -0.0, "l": [2, None]}, [[(2, math.nan), (1, -0.0)], None])
    rest = [({"f": None, "l": None}, None), ({"f": -0.0, "l": []}, [])]
    tables = [
        pa.table({"v": pa.array([None, [], entries], arrow)})
        for entries in ([zero, *rest], [*rest, negative], [rest[1], negative, rest[0]])
    ]
    assert len({digest([table]) for table in tables}) == 1


def test_what_is_kept_under_a_null_does_not_count():
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 2, 3], pa.int32()), pa.array([1, 2, 3]), mask=pa.array([True, False])
    )
    assert digest([pa.table({"v": hidden})]) == digest([pa.table({"v": pa.array([None, [3]])})])


def test_a_batch_is_digested_in_parts_that_fit_in_memory(monkeypatch):
    """So no array has all of its text, which may be more than one holds."""
    numbers = np.random.default_rng(0).integers(0, 80, 400)
    texts = pa.array([str(n) * (n % 5) for n in numbers.tolist()])
    batch = taken(pa.table({"id": numbers, "t": texts}), source(value="t string"))
    whole, sorted_rows, in_order = batch.digest(), list[int](), batches_module.in_order

    def counted(rows, columns):
        sorted_rows.append(len(rows))
        return in_order(rows, columns)

    monkeypatch.setattr(batches_module, "in_order", counted)
    assert replace(batch, engines=Here(None, Limits(local_rows=50))).digest() == whole
    assert sum(sorted_rows) == 400
    assert max(sorted_rows) < 200


def test_a_hundred_thousand_rows_are_told_in_no_time():
    size = 100_000
    made = source("id bigint, t string", "n int, x double, m map<string,int>, a array<string>")
    table = pa.table(
        {
            "id": np.random.default_rng(0).permutation(size),
            "t": [str(i % 7) for i in range(size)],
            "n": pa.array(range(size), pa.int32()),
            "x": np.random.default_rng(0).random(size),
            "m": pa.array([[("b", i), ("a", 1)] for i in range(size)], pa.map_("string", "int32")),
            "a": [[str(i), None] for i in range(size)],
        }
    )
    began = time.perf_counter()
    batch = taken(table, made)
    took = time.perf_counter() - began
    began = time.perf_counter()
    assert batch.digest() == taken(table.take(pa.array(range(size)[::-1])), made).digest()
    assert took + time.perf_counter() - began < 10
    assert [c.name for c in Layout.of(made).content] == batch.rows.column_names[:-1]
