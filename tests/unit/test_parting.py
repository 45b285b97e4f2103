"""Rows processed in parts: each row is in one part, in order, and the result is the same."""

import os
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.local.engine import LocalEngine
from deltaproduce.engines.local.large.out_of_core import OutOfCoreEngine
from deltaproduce.engines.local.large.parting import (
    THREAD_ROWS,
    by_ranges,
    by_slices,
    slices,
)
from deltaproduce.engines.local.large.spilling import Spill
from deltaproduce.engines.marks import ALIVE
from deltaproduce.model.layouts import Layout, sources_of
from deltaproduce.model.limits import Limits
from deltaproduce.types.columns import row_schema

LIMITS = Limits(local_rows=20, local_bytes=1 << 20)
CHANGES = ("one", "order", "provenance", "fewer", "nothing", "all", "gone")
LAYOUT = Layout(
    row_schema("k string, n int desc", "v bigint, t string", stage="made"),
    sources_of(row_schema("s int", "x int", stage="feeder").key),
)


def content(seed: int, rows: int, *, sort: bool = False) -> pa.Table:
    """Rows with nulls in their keys, and with many rows of one key."""
    chance = np.random.default_rng(seed)
    key = chance.integers(0, 12, rows)
    found = pa.table(
        {
            "k": pa.array([None if k == 3 else "abcd"[k % 4] for k in key], pa.string()),
            "n": pa.array([None if k == 5 else int(k) // 4 for k in key], pa.int32()),
            "_source_s": pa.array(chance.integers(0, 9, rows), pa.int32()),
            "_ordinal": pa.array(chance.permutation(rows)),
            "v": pa.array(chance.integers(0, 3, rows)),
            "t": pa.array(["xy"[v] for v in chance.integers(0, 2, rows)]),
        }
    )
    return (
        LocalEngine().write_layout(found, rows, LAYOUT.key, LAYOUT.order("content"))
        if sort
        else found
    )


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("sort", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_ranges_have_all_rows_of_their_keys_in_order(seed: int, sort: bool, threads: int) -> None:
    """Also where some rows come in the key's order, and others after them in no order."""
    one, other = content(seed, 150, sort=sort), content(seed + 9, 70)
    one = pa.concat_tables([one, content(seed + 20, 30)])
    parts = [*by_ranges([one, other], LAYOUT.key, LIMITS, threads=threads)]
    assert len(parts) > 5
    for number, whole in enumerate((one, other)):
        together = pa.concat_tables([part[number] for part in parts])
        assert sorted(map(repr, together.to_pylist())) == sorted(map(repr, whole.to_pylist()))
        for key in {(row["k"], row["n"]) for row in whole.to_pylist()}:
            of_key = [r for r in whole.to_pylist() if (r["k"], r["n"]) == key]
            assert [r for r in together.to_pylist() if (r["k"], r["n"]) == key] == of_key
    seen = [{(r["k"], r["n"]) for side in part for r in side.to_pylist()} for part in parts]
    assert sum(map(len, seen)) == len(set.union(*seen))
    in_order = [key for keys in seen for key in sorted(keys, key=_place)]
    assert in_order == sorted(in_order, key=_place)


def _place(key: tuple[str | None, int | None]) -> tuple[bool, str, bool, int]:
    """Nulls come first in what ascends, and last in what descends."""
    return key[0] is not None, key[0] or "", key[1] is None, -(key[1] or 0)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_compared_in_parts_is_the_same(seed: int) -> None:
    before, new = content(seed, 120), content(seed + 50, 90)
    gone = pa.table({"_source_s": pa.array(range(seed, seed + 4), pa.int32())})
    here, parts = LocalEngine(), OutOfCoreEngine(LIMITS)
    for going in (None, gone, pa.concat_tables([gone] * 10)):
        one, other = (engine.compare(before, going, new, LAYOUT) for engine in (here, parts))
        assert one.rows.to_pylist() == other.rows.to_pylist()
        names = ("bytes",)  # bits are counted in bytes, part by part
        counts = [{n: v for n, v in _told(each) if n not in names} for each in (one, other)]
        assert counts[0] == counts[1]
        updates = [e.updates(c.rows, LAYOUT).to_pylist() for e, c in ((here, one), (parts, other))]
        assert updates[0] == updates[1] != []


PLAIN = Layout(row_schema("k string, n int desc", "v bigint, t string", stage="made"))


def plain(seed: int, rows: int, *, repeated: bool = False) -> pa.Table:
    """Rows in key order, one a key or, if repeated, two of one key in the middle."""
    keys = [None, *(f"{number:06}" for number in range(rows // 2 - 1))]
    pairs = [(key, n) for key in keys for n in (seed + 1, None)]
    if repeated:
        pairs[rows // 2] = pairs[rows // 2 + 1]
    texts = [None if number % 7 == 0 else "xyz"[number % 3] for number in range(rows)]
    return pa.table(
        {
            "k": pa.array([key for key, _ in pairs], pa.string()),
            "n": pa.array([n for _, n in pairs], pa.int32()),
            "_ordinal": pa.array(range(rows)),
            "v": pa.array(range(rows)),
            "t": pa.array(texts),
        }
    )


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("given", ["in order", "repeated", "mixed", "mixed at the end"])
@pytest.mark.parametrize("seed", range(2))
def test_a_first_load_in_key_order_is_not_copied(seed: int, given: str, held: bool) -> None:
    """What it leaves is that of any other first load."""
    rows = plain(seed, 130, repeated=given == "repeated")
    places = np.arange(130)
    if given == "mixed":
        places = np.random.default_rng(seed).permutation(places)
    elif given == "mixed at the end":
        places[[-1, -2]] = places[[-2, -1]]
    if given.startswith("mixed"):
        rows = rows.take(pa.array(places))
    here, parts = LocalEngine(), OutOfCoreEngine(LIMITS)
    one, other = (engine.first(rows, 130, PLAIN, held=held) for engine in (here, parts))
    assert other.rows.schema == one.rows.schema
    assert one.rows.to_pylist() == other.rows.to_pylist()
    counts = [{n: v for n, v in _told(each) if n != "bytes"} for each in (one, other)]
    assert counts[0] == counts[1]
    contents = [
        engine.select(c.rows, PLAIN.content, ALIVE) for engine, c in ((here, one), (parts, other))
    ]
    updates = [engine.updates(c.rows, PLAIN) for engine, c in ((here, one), (parts, other))]
    for order, (expected, made) in (
        (PLAIN.order("content"), contents),
        (PLAIN.order("updates"), updates),
    ):
        assert expected.schema == made.schema
        laid_out = parts.write_layout(made, 130, PLAIN.key, order)
        assert here.write_layout(expected, 130, PLAIN.key, order).equals(laid_out)
        if given != "repeated":  # where only the rows of one range are compared
            is_same = _places_of(laid_out) <= _places_of(rows)
            assert is_same == (held and given == "in order")


@pytest.mark.parametrize("alternate", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_blocks_in_order_are_moved_and_not_copied(seed: int, alternate: bool) -> None:
    """As a query of several threads gives them. Rows that alternate are sorted."""
    count, chance = 100_000, np.random.default_rng(seed)
    rows = plain(seed, count)
    blocks = [rows.slice(start, 10_000) for start in range(0, count, 10_000)]
    given = pa.concat_tables([blocks[place] for place in chance.permutation(len(blocks))])
    if alternate:
        places = np.arange(count)
        given = rows.take(pa.array(np.append(places[::2], places[1::2])))
    here, parts = LocalEngine(), OutOfCoreEngine(Limits(local_rows=40_000))
    one, other = (engine.first(given, count, PLAIN, held=True) for engine in (here, parts))
    assert one.rows.equals(other.rows)
    assert (_places_of(other.rows) <= _places_of(given)) != alternate


def _places_of(rows: pa.Table) -> set[int]:
    """Where in memory the values of rows are."""
    chunks = [chunk for name in ("k", "n", "v", "t") for chunk in rows.column(name).chunks]
    return {buffer.address for chunk in chunks for buffer in chunk.buffers() if buffer}


def _told(compared: object) -> list[tuple[str, int]]:
    counts = compared.counts  # type: ignore[attr-defined]
    return [(name, getattr(counts, name)) for name in counts.__slots__]


def test_a_spill_keeps_the_order_and_leaves_no_file(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spill = Spill(most_rows=10)
    places = [spill.add(pa.table({"n": [number] * 4})) for number in range(9)]
    table = spill.table()
    assert os.listdir(tmp_path) == []
    assert table.column("n").to_pylist() == [n for n in range(9) for _ in range(4)]
    assert spill.of([*places[7], *places[2]]).column("n").to_pylist() == [7] * 4 + [2] * 4
    del spill
    assert table.column("n").to_pylist()[-1] == 8


def test_a_spill_takes_tables_with_dictionaries_of_their_own() -> None:
    """As the batches of a user's reader have them."""
    texts = ["a", "b"], ["c", None, "a"], ["b"] * 4
    spill = Spill(most_rows=3)
    for some in texts:
        spill.add(pa.table({"t": pa.array(some).dictionary_encode()}))
    assert spill.table().column("t").to_pylist() == [text for some in texts for text in some]


def test_rows_that_are_many_for_one_core_are_worked_on_by_all_of_them() -> None:
    """Though they fit in memory; what is made is the same, in the same order."""
    count, chance = 2 * THREAD_ROWS, np.random.default_rng(1)
    ids = np.arange(count)
    before = pa.table(
        {
            "k": pa.array(np.sort(chance.integers(0, 500, count)).astype(str)),
            "n": pa.array(chance.integers(0, 50, count), pa.int32()),
            "_source_s": pa.array(ids, pa.int32()),
            "_ordinal": pa.array(np.zeros(count, np.int64)),
            "v": pa.array(chance.integers(0, 3, count)),
            "t": pa.array(np.full(count, "x")),
        }
    )
    new = before.take(pa.array(chance.permutation(count)[:2_000]))
    gone = new.select(["_source_s"])
    new = new.set_column(4, "v", pa.array(chance.integers(0, 3, len(new))))
    engines = Engines(None, Limits(local_rows=4 * count, local_bytes=1 << 30))
    here, parts = engines.of(new), engines.of(before, gone, new)
    assert [type(here), type(parts)] == [LocalEngine, OutOfCoreEngine]
    one, other = (engine.compare(before, gone, new, LAYOUT) for engine in (here, parts))
    assert one.rows.equals(other.rows)
    assert one.rows.num_rows == 2 * count
    kept = [e.anti_join(before, LAYOUT.content, gone, LAYOUT.sources) for e in (here, parts)]
    assert kept[0].equals(kept[1])
    after = pa.concat_tables([kept[0], new.select(kept[0].column_names)])
    order = LAYOUT.order("content")
    assert here.write_layout(after, count, LAYOUT.key, order).equals(
        parts.write_layout(after, count, LAYOUT.key, order)
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("threads", [1, 2])
def test_parts_fit_even_where_rows_are_large(seed: int, threads: int) -> None:
    """A fortieth of the rows, of adjacent keys, has nearly all bytes."""
    limits, chance = Limits(local_rows=1_000, local_bytes=10_000), np.random.default_rng(seed)
    keys = np.sort(chance.integers(0, 200, 800))
    is_large = (keys >= 90) & (keys < 95)
    rows = pa.table({"k": keys, "t": np.where(is_large, "x" * 2_000, "x").tolist()})
    mixed = rows.take(pa.array(chance.permutation(len(rows))))
    (key,) = row_schema("k bigint", "t string", stage="made").key
    for given in (rows, mixed):
        cut = [*slices(given, limits, threads)]
        assert max(part.nbytes for part in cut) <= 20_000
        assert pa.concat_tables(cut).equals(given)
        ranges = [part for (part,) in by_ranges([given], [key], limits, threads=threads)]
        assert all(part.nbytes <= 20_000 or len(part["k"].unique()) == 1 for part in ranges)
        together = pa.concat_tables(ranges)
        assert together.sort_by("k")["k"].to_pylist() == keys.tolist()
        seen = [set(part["k"].to_pylist()) for part in ranges if len(part)]
        assert [max(one) < min(other) for one, other in pairwise(seen)] == [True] * (len(seen) - 1)


def test_no_rows_are_one_part() -> None:
    nothing = content(0, 0)
    assert [len(part) for part in slices(nothing, LIMITS)] == [0]
    assert by_slices(nothing, lambda rows: rows.select(["v"]), LIMITS).column_names == ["v"]
    assert [[len(side) for side in part] for part in by_ranges([nothing], LAYOUT.key, LIMITS)] == [
        [0]
    ]


@pytest.mark.parametrize(
    "change", ["one", "order", "provenance", "fewer", "nothing", "all", "gone"]
)
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2))])
def test_a_key_of_many_rows_is_compared_in_ranges_of_its_pairs(seed: int, change: str) -> None:
    """Rows before and after lie range by range; each side of a key is in order."""
    before = content(seed, 400)
    large = pa.array(np.random.default_rng(seed).random(400) < 0.7)
    key = {"k": pa.array(["b"] * 400), "n": pa.array([1] * 400, pa.int32())}
    for name, values in key.items():
        place = before.schema.get_field_index(name)
        mixed = pa.compute.if_else(large, values, before.column(name))
        before = before.set_column(place, name, mixed)
    if change == "provenance":  # the values of all rows are equal, whoever emits them
        before = before.set_column(4, "v", pa.array([1] * 400)).set_column(5, "t", ["x"] * 400)
    source = pa.table({"_source_s": pa.array([4], pa.int32())})
    mine = pa.compute.equal(before.column("_source_s"), 4)
    new, gone = before.filter(mine), source
    if change == "one":
        new = new.set_column(4, "v", pa.array([9, *new.column("v").to_pylist()[1:]]))
    elif change == "order":
        new = new.set_column(3, "_ordinal", pa.array(range(len(new), 0, -1)))
    elif change == "provenance":
        new = new.set_column(2, "_source_s", pa.array([20] * len(new), pa.int32()))
    elif change == "fewer":
        new = new.slice(3)
    elif change == "gone":
        new, gone = new.slice(0, 0), pa.table({"_source_s": pa.array(range(9), pa.int32())})
    here, parts = LocalEngine(), OutOfCoreEngine(LIMITS)
    going = None if change == "all" else gone
    one, other = (engine.compare(before, going, new, LAYOUT) for engine in (here, parts))
    found = [sorted(c.rows.to_pylist(), key=_key_and_side) for c in (one, other)]
    assert found[0] == found[1]
    counts = [{n: v for n, v in _told(each) if n != "bytes"} for each in (one, other)]
    assert counts[0] == counts[1]
    assert here.updates(one.rows, LAYOUT).equals(parts.updates(other.rows, LAYOUT))
    changed = [c.rows.filter(c.rows.column("_key_differs")).num_rows for c in (one, other)]
    assert (changed[0] == 0) == (change in ("nothing", "provenance"))


def _key_and_side(row: dict[str, object]) -> tuple[object, ...]:
    return (*_place((row["k"], row["n"])), row["_side"])  # type: ignore[arg-type]
