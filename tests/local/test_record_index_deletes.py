"""Deletes with an ordering: a record index remembers them, and they win over older rows."""

import random
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import deltaproduce as dp
from deltaproduce.record_index import index as module
from deltaproduce.record_index.decisions import keying
from deltaproduce.storage import failpoints

SCHEMA = pa.schema([("k", pa.int64()), ("at", pa.int64()), ("p", pa.string()), ("v", pa.string())])


class CrashError(Exception):
    """The process ends here."""


def opened(place: Path) -> dp.RecordIndex:
    return dp.RecordIndex(None, str(place / "t"), "k", str(place / "i"), ordering="at")


def made(place: Path) -> dp.RecordIndex:
    """An index of a table without rows."""
    write_deltalake(str(place / "t"), SCHEMA.empty_table(), partition_by=["p"])
    index = opened(place)
    index.build()
    return index


def row(k: int | None, at: int, v: str = "v", p: str = "a") -> dict[str, object]:
    return {"k": k, "at": at, "p": p, "v": v}


def stored(place: Path) -> dict[object, tuple[object, object]]:
    rows = DeltaTable(str(place / "t")).to_pyarrow_table().to_pylist()
    assert len({r["k"] for r in rows}) == len(rows)
    return {r["k"]: (r["at"], r["v"]) for r in rows}


def runs(place: Path) -> int:
    return DeltaTable(str(place / "i")).version()


def test_a_delete_with_its_ordering_wins_over_older_rows(tmp_path: Path) -> None:
    """Whether they came before or come after; an older delete changes nothing."""
    index = made(tmp_path)
    index.upsert([row(1, 5), row(2, 5), row(3, 5)])
    assert index.delete([{"k": 1, "at": 4}]) == dp.Changed(0, 0, 0, 1, 1, "files")
    deletes = [{"k": 1, "at": 7}, {"k": 2, "at": 5}, {"k": 9, "at": 6}]
    assert index.delete(deletes) == dp.Changed(0, 0, 2, 1, 2, "files")
    late = [row(1, 6), row(2, 4), row(9, 5), row(3, 6)]
    assert index.upsert(late) == dp.Changed(0, 1, 0, 3, 3, "files")
    assert opened(tmp_path).upsert(late).ignored == 4
    assert stored(tmp_path) == {3: (6, "v")}
    assert (index.verify(), index.stats().records, index.stats().remembered > 2) == ((), 1, True)
    assert index.upsert([row(1, 7), row(2, 8), row(9, 6)]).inserted == 3  # an equal one wins
    assert index.upsert([row(1, 6)]).ignored == 1


def test_the_newest_of_a_batch_of_deletes_counts(tmp_path: Path) -> None:
    index = made(tmp_path)
    keys = pa.table({"k": [1, 1, 2], "at": [3, 8, 1], "v": ["x", "y", "z"]})
    assert index.delete(keys).ignored == 3
    version = runs(tmp_path)
    assert index.delete(keys).ignored == 3
    assert runs(tmp_path) == version  # nothing new
    assert DeltaTable(str(tmp_path / "t")).version() == 0
    assert index.upsert([row(1, 7), row(2, 2)]) == dp.Changed(1, 0, 0, 1, 1, "files")


def test_a_delete_without_an_ordering_always_wins_and_forgets(tmp_path: Path) -> None:
    index = made(tmp_path)
    index.upsert([row(1, 5)])
    index.delete([{"k": 1, "at": 9}, {"k": 2, "at": 9}])
    index.upsert([row(1, 10)])
    assert index.delete([1, 2]).deleted == 1
    assert index.upsert([row(1, 1), row(2, 1)]).inserted == 2
    with pytest.raises(dp.InvalidArgumentError) as refused:
        index.delete([{"k": 1, "at": 9}, {"k": 2}])
    assert refused.value.argument == "keys"
    assert stored(tmp_path) == {1: (1, "v"), 2: (1, "v")}


def test_compact_forgets_old_deletes_only_if_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, now = made(tmp_path), datetime.now(UTC)

    class Clock:
        days = 0

        @staticmethod
        def now(zone: object) -> datetime:
            del zone
            return now + timedelta(days=Clock.days)

    monkeypatch.setattr(module, "datetime", Clock)
    index.delete([{"k": 1, "at": 9}])
    Clock.days = 5
    index.upsert([row(2, 5), row(3, 5)])
    index.delete([{"k": 2, "at": 9}])
    index.delete([3])
    index.compact()
    found = index.stats()
    assert (found.tombstones, found.remembered, found.runs, found.records) == (2, 2, 1, 0)
    version = runs(tmp_path)
    for again in (None, "7 days", timedelta(days=6), "1 week"):
        index.compact(tombstones=again)
    assert runs(tmp_path) == version
    index.rebuild(3)
    assert index.upsert([row(1, 8), row(2, 8)]).ignored == 2
    Clock.days = 8
    index.compact(tombstones="7 days")
    assert index.stats().remembered == 1
    assert index.upsert([row(1, 8), row(2, 8)]) == dp.Changed(1, 0, 0, 1, 4, "files")
    Clock.days = 30
    index.compact(tombstones="7 days")
    assert (index.stats().tombstones, index.verify()) == (0, ())
    for wrong in ("7", "-1 days", 7, "soon"):
        with pytest.raises(dp.InvalidArgumentError) as refused:
            index.compact(tombstones=wrong)  # type: ignore[arg-type]
        assert refused.value.argument == "tombstones"


def events(draw: random.Random, keys: int, each: int) -> list[tuple[int | None, int, str | None]]:
    """Events with distinct orderings: key, ordering, and the value; None is a delete."""
    orders = draw.sample(range(1_000), keys * each)
    every = [k for k in [None, *range(keys - 1)] for _ in range(each)]
    return [
        (k, at, None if draw.random() < 0.45 else str(at))
        for k, at in zip(every, orders, strict=True)
    ]


def give(index: dp.RecordIndex, batch: list[tuple[int | None, int, str | None]]) -> None:
    upserts = [row(k, at, v, "ab"[at % 2]) for k, at, v in batch if v is not None]
    deletes = [{"k": k, "at": at} for k, at, v in batch if v is None]
    if deletes:
        index.delete(deletes)
    if upserts:
        index.upsert(upserts)


@pytest.mark.parametrize(
    "seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 30))]
)
def test_events_give_one_table_in_any_order_and_in_any_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """With services, foreign commits and crashes between them: the newest event of a key counts."""
    draw = random.Random(seed)
    if seed % 2:
        monkeypatch.setattr(keying, "_MIXED_ENTRIES", 0)
    index, given = made(tmp_path), events(draw, 8, 5)
    wanted = {k: (at, v) for k, at, v in sorted(given, key=lambda event: event[1])}
    wanted = {k: found for k, found in wanted.items() if found[1] is not None}
    draw.shuffle(given)
    services = [
        index.compact,
        lambda: index.compact(tombstones="7 days"),
        lambda: index.rebuild(draw.randint(1, 4)),
        lambda: DeltaTable(str(tmp_path / "t")).optimize.compact(),
    ]
    while given:
        size = draw.randint(1, 8)
        batch, given = given[:size], given[size:]
        left = [draw.randint(0, 12)]

        def crash(when: str, name: str, place: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise CrashError

        if draw.random() < 0.4:
            with failpoints.armed(crash), suppress(CrashError):
                give(index, batch)
            index = opened(tmp_path)
            if draw.random() < 0.3:
                draw.choice(services)()
        give(index, batch)
        if draw.random() < 0.3:
            draw.choice(services)()
        assert index.verify() == ()
        assert index.stats().records == len(stored(tmp_path))
    assert stored(tmp_path) == wanted


@pytest.mark.parametrize("keys", [[{"k": 1, "at": 7}, {"k": 9, "at": 7}], [1, 9]])
def test_a_crash_at_any_effect_of_a_delete_leaves_what_it_was_or_what_it_is_to_be(
    tmp_path: Path, keys: list[object]
) -> None:
    """The row and what is remembered of it change together: by the commit to the table."""
    for point in range(40):
        place = tmp_path / str(point)
        index = made(place)
        index.upsert([row(1, 5), row(2, 5)])
        index.delete([{"k": 8, "at": 7}] if isinstance(keys[0], dict) else [{"k": 1, "at": 3}])
        reached: list[tuple[str, str]] = []

        def crash(
            when: str,
            name: str,
            _: str,
            reached: list[tuple[str, str]] = reached,
            point: int = point,
        ) -> None:
            reached.append((when, name))
            if len(reached) > point:
                raise CrashError

        with failpoints.armed(crash), suppress(CrashError):
            index.delete(keys)
        is_gone = 1 not in stored(place)
        assert is_gone == (("after", "commit") in reached)
        again = opened(place)
        assert again.verify() == ()
        changed = again.upsert([row(1, 6 if isinstance(keys[0], dict) else 2)])
        if is_gone:
            assert changed.inserted == (not isinstance(keys[0], dict))
        if len(reached) <= point:
            return
    raise AssertionError("there are more effects")


def test_an_index_of_before_remembers_deletes_from_now_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its table and its files have no columns for them yet."""
    write_deltalake(str(tmp_path / "t"), SCHEMA.empty_table(), partition_by=["p"])
    with monkeypatch.context() as before:
        before.setattr(module.runs, "delete_columns", lambda ordering: ())
        opened(tmp_path).build()
        opened(tmp_path).upsert([row(1, 5), row(2, 5)])
    names = {field.name for field in DeltaTable(str(tmp_path / "i")).schema().fields}
    assert "_deleted_at" not in names
    index = opened(tmp_path)
    assert index.upsert([row(1, 4)]).ignored == 1
    assert index.delete([{"k": 1, "at": 7}]).deleted == 1
    assert index.upsert([row(1, 6), row(2, 6)]) == dp.Changed(0, 1, 0, 1, 3, "files")
    index.compact()
    assert index.stats().remembered == 1
    assert index.verify() == ()
    assert index.upsert([row(1, 6)]).ignored == 1
