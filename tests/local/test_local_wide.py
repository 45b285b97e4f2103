"""Wide tables: the work of a version grows with the number of columns, not with its square."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType

import pyarrow as pa
import pytest
from selecting import long

import deltaproduce as dp

ROWS = 20


def steps(run: Callable[[], object]) -> int:
    """Return how many functions of Python, comprehensions and generators' steps a call takes."""
    count = 0

    def counted(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(counted)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


def rows(ids: Sequence[int], columns: int, value: int) -> pa.Table:
    one = pa.array([value + n for n in ids], pa.int64())
    more = {f"c{n}": one for n in range(columns)}
    return pa.table({"id": pa.array(ids, pa.int64()), "g": pa.array([n % 3 for n in ids]), **more})


def wide(columns: int, kind: str) -> dp.Pipeline:
    made = dp.Pipeline("wide")
    names = [f"c{n}" for n in range(columns)]
    value = ", ".join(f"{name} bigint" for name in names)
    given = made.source("given", key="id bigint", value=f"g bigint, {value}")
    if kind == "sums":
        values = {f"s{name}": dp.agg.sum(name) for name in names}
        made.aggregate("found", given, key="g", values=values)
    elif kind == "ordered":
        values = {f"s{name}": dp.agg.max(name) for name in names}
        made.aggregate("found", given, key="g", values=values)
    elif kind == "producer":

        @made.producer(given, key="id bigint", value=value, name="found")
        def found(key, values):  # type: ignore[no-untyped-def]
            for one in values:
                yield key, one[1:]

    return made


def work(place: Path, columns: int, kind: str) -> dict[str, int]:
    """Return the steps of opening a store, of updates, of reading and of verification."""
    pipeline, found = wide(columns, kind), dict[str, int]()
    stores = list[dp.Store]()
    found["open"] = steps(lambda: stores.append(dp.Store(None, str(place), pipeline)))
    with stores[0] as store:
        for name, batch in {
            "load": rows(range(ROWS), columns, 0),
            "change": rows([3], columns, 7),
            "nothing": rows([3], columns, 7),
        }.items():
            found[name] = steps(lambda batch=batch: store.update({"given": batch}))  # type: ignore[misc]
        assert store.head.number == 2
        for name, read in READINGS.items():
            found[name] = steps(lambda read=read: read(store))  # type: ignore[misc]
    return found


READINGS: Mapping[str, Callable[[dp.Store], object]] = {
    "content": lambda store: store.content("given", ordered=True),
    "updates": lambda store: store.updates("given", 2),
    "changes": lambda store: store.changes("given", 0),
    "diff": lambda store: store.diff(1),
    "look-up": lambda store: store.lookup("given", [{"id": 3}]),
    "verify": lambda store: store.verify(),
}


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        *(("source", 200), ("producer", 60), ("sums", 50), ("ordered", 10)),
        *(pytest.param(kind, 600, marks=long) for kind in ("source", "producer", "sums")),
    ],
)
def test_twice_the_columns_take_twice_the_work(tmp_path: Path, kind: str, columns: int) -> None:
    """The square would be four times it."""
    once = work(tmp_path / "once", columns, kind)
    twice = work(tmp_path / "twice", 2 * columns, kind)
    for name, count in once.items():
        assert twice[name] < 2.5 * count, (name, count, twice[name])


def test_files_of_many_columns_are_written_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The time that delta-rs's own writer takes grows with the square of their number."""
    from deltaproduce.engines.local.delta import writes

    written = list[int]()
    whole = writes.write_deltalake

    def counted(table: object, data: pa.Table, **more: object) -> None:
        written.append(data.num_columns)
        whole(table, data, **more)  # type: ignore[arg-type, call-overload]

    monkeypatch.setattr(writes, "write_deltalake", counted)
    with dp.Store(None, str(tmp_path / "s"), wide(400, "sums")) as store:
        store.update({"given": rows(range(ROWS), 400, 0)})
        store.update({"given": rows([3], 400, 7)})
        assert all(count <= 256 for count in written)
        assert store.verify() == ()
        assert store.content("found").num_rows == 3
