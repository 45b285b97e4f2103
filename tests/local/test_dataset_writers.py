"""Writers of data sets: files, commits and checkpoints, wherever a writer stops."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from described import (
    FORMS,
    Row,
    check_sorted,
    crashed,
    crashing,
    files_of,
    found_in,
    killed,
    left_over,
    made,
    partition_of,
    rows_from,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import deltaproduce as dp
from deltaproduce.datasets.writing.pending import Pending
from deltaproduce.storage import failpoints


class Event(NamedTuple):
    id: int
    day: date | None
    kind: str | None


def as_table(rows: list[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    types = pa.int64(), pa.date32(), pa.string()
    arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
    return pa.table(arrays, names=["id", "day", "kind"])


WAYS: dict[str, Callable[[list[Row]], Iterator[object]]] = {
    "tuples": lambda rows: iter(rows),
    "dicts": lambda rows: (dict(zip(Event._fields, row, strict=True)) for row in rows),
    "named tuples": lambda rows: (Event(*row) for row in rows),
    "a list": lambda rows: iter([list(rows)]),
    "a table": lambda rows: iter([as_table(rows)]),
    "batches": lambda rows: iter(as_table(rows).to_batches(max_chunksize=5)),
    "a reader": lambda rows: iter([as_table(rows).to_reader(max_chunksize=3)]),
    "a frame": lambda rows: iter([as_table(rows).select(["kind", "id", "day"]).to_pandas()]),
}
"""How rows are given to a writer."""


def commits(dataset: dp.Dataset) -> int:
    return int(DeltaTable(dataset.location).version())


@settings(max_examples=settings.default.max_examples // 2)
@given(
    form=st.sampled_from(sorted(FORMS)),
    way=st.sampled_from(["tuples", "dicts", "a list", "a table", "batches", "a reader"]),
    count=st.integers(0, 50),
    roll_rows=st.none() | st.integers(1, 12),
    open_files=st.integers(1, 4),
)
def test_a_block_is_one_commit_of_sorted_files_of_whole_partitions(
    tmp_path_factory: pytest.TempPathFactory, form, way, count, roll_rows, open_files
):
    """A writer makes ceil(rows / roll_rows) files of a partition, however its rows are given."""
    dataset = made(tmp_path_factory.mktemp("d") / "d", form)
    rows = rows_from(0, count)
    with dataset.writer(roll_rows=roll_rows, open_files=open_files) as writer:
        for part in WAYS[way](rows):
            writer.write(part)
        assert commits(dataset) == 0
        assert writer.resume_from is None
    assert found_in(dataset) == Counter(rows)
    assert len(dataset.files()) == files_of(form, rows, roll_rows)
    assert commits(dataset) == (1 if rows else 0)
    assert not left_over(dataset)
    check_sorted(dataset)


@pytest.mark.parametrize("way", WAYS)
def test_rows_are_taken_in_each_form(tmp_path: Path, way: str):
    dataset, rows = made(tmp_path / "d", "by day and kind"), rows_from(0, 30)
    with dataset.writer(checkpoint=True, roll_rows=3) as writer:
        for part in WAYS[way](rows):
            writer.write(part)
    assert (found_in(dataset), writer.resume_from) == (Counter(rows), 30)


def test_a_frame_of_pandas_has_whole_numbers_dates_and_an_index(tmp_path: Path):
    dataset = dp.Dataset.create(None, tmp_path / "d", schema="id bigint, day date, n int")
    frame = pd.DataFrame(
        {
            "id": [1, 2],
            "day": pd.to_datetime(["2026-01-31", None]),
            "n": [3, None],
        },
        index=["a", "b"],
    )
    with dataset.writer() as writer:
        writer.write(frame)
        with pytest.raises(dp.InvalidChangesError) as refused:
            writer.write(frame.assign(n=[1.0, 1.5]))
        assert refused.value.column == "n"
    assert dataset.read().to_pylist() == [
        {"id": 1, "day": date(2026, 1, 31), "n": 3},
        {"id": 2, "day": None, "n": None},
    ]


def test_rows_that_are_changed_later_are_written_as_they_were(tmp_path: Path):
    dataset = made(tmp_path / "d")
    row: dict[str, Any] = {"id": 1, "day": None, "kind": "a"}
    with dataset.writer() as writer:
        for row["id"] in range(3):
            writer.write(row)
    assert found_in(dataset) == Counter((n, None, "a") for n in range(3))


TYPES = (
    "b boolean, i8 tinyint, i16 smallint, i32 int, i64 bigint, f float, d double, "
    "n decimal(20,3), s string NOT NULL, x binary, t timestamp, u timestamp_ntz, y date, "
    "a array<int>, m map<string, bigint>, r struct<p: int NOT NULL, q: string>"
)


def test_rows_of_all_types_come_back(tmp_path: Path):
    dataset = dp.Dataset.create(
        None, tmp_path / "d", schema=TYPES, partition="b, i8, n, s, y", order="u, x desc, t"
    )
    rows = [
        dict.fromkeys(dataset.read().column_names) | {"s": "only"},
        {
            "b": True,
            "i8": -128,
            "i16": 1,
            "i32": 2,
            "i64": -(2**63),
            "f": 0.5,
            "d": 1e300,
            "n": Decimal("-12345678901234567.125"),
            "s": "é/#?",
            "x": b"\0\xff",
            "t": None,
            "u": None,
            "y": date(1, 1, 1),
            "a": [1, None],
            "m": {"k": 3},
            "r": (1, "q"),
        },
    ]
    with dataset.writer() as writer:
        writer.write(rows)
    found = sorted(dataset.read().to_pylist(), key=lambda row: row["s"])
    assert found[0] == rows[0]
    assert found[1] == rows[1] | {"m": [("k", 3)], "r": {"p": 1, "q": "q"}}
    again = dataset.copy(tmp_path / "copy")
    assert sorted(again.read().to_pylist(), key=lambda row: row["s"]) == found


WRONG_ROWS: dict[str, tuple[object, str | None]] = {
    "a type": (("x", None, None), "id"),
    "a null": ((None, None, None), "id"),
    "too large": ((2**63, None, None), "id"),
    "a datetime for a date": ((1, "2026-01-31", None), "day"),
    "too few": ((1, None), None),
    "no column": ({"id": 1, "day": None, "sort": "a"}, "kind"),
    "half a character": ((1, None, "\ud800"), "kind"),
}


@pytest.mark.parametrize("what", WRONG_ROWS)
def test_a_wrong_row_is_told_by_number_and_column_where_it_is_given(tmp_path: Path, what: str):
    dataset = made(tmp_path / "d", "sorted")
    row, column = WRONG_ROWS[what]
    with dataset.writer() as writer:
        writer.write(rows_from(0, 4))
        with pytest.raises(dp.InvalidChangesError) as refused:
            writer.write(row)
        assert (refused.value.column, refused.value.source) == (column, dataset.location)
        assert refused.value.row == 4
        assert "row 4 (from 0)" in str(refused.value)
        assert refused.value.resume_from is None
        writer.write(rows_from(4, 1))
    assert found_in(dataset) == Counter(rows_from(0, 5))


@pytest.mark.parametrize("form", ["sorted", "by day and kind"])
def test_a_list_with_a_wrong_row_is_refused_and_nothing_of_it_is_taken(tmp_path: Path, form: str):
    dataset = made(tmp_path / "d", form)
    rows = rows_from(0, 4)
    for wrong in (("x", None, None), (7, None, "\ud800")):
        with dataset.writer() as writer:
            writer.write(rows[:2])
            with pytest.raises(dp.InvalidChangesError) as refused:
                writer.write([rows[2], wrong, rows[3]])
            assert refused.value.row == 3
            writer.write(rows[2:])
    assert found_in(dataset) == Counter(rows * 2)


def test_a_reader_with_a_wrong_table_ends_the_writer_unless_it_is_the_first(tmp_path: Path):
    """Who catches the error does not get half of a reader's rows."""
    good, wrong = (pa.table({"id": [id], "day": [None], "kind": ["a"]}) for id in (1, None))
    for tables, goes_on in (([wrong, good], True), ([good, wrong], False)):
        dataset = made(tmp_path / str(goes_on))
        schema = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("kind", pa.string())])
        batches = [batch for table in tables for batch in table.cast(schema).to_batches()]
        with contextlib.suppress(dp.ClosedError), dataset.writer() as writer:
            with pytest.raises(dp.InvalidChangesError):
                writer.write(pa.RecordBatchReader.from_batches(schema, batches))
            writer.write((5, None, "b"))
        assert found_in(dataset) == Counter([(5, None, "b")] if goes_on else [])


WRONG_TABLES = {
    "a type": (pa.table({"id": [0, 1], "day": ["x", "y"], "kind": ["a", "b"]}), "day", 4),
    "a null": (pa.table({"id": [0, None], "day": [None, None], "kind": ["a", "b"]}), "id", 5),
    "too large": (
        pa.table({"id": pa.array([0, 2**63], pa.uint64()), "day": [None] * 2, "kind": ["a", "b"]}),
        *("id", 5),
    ),
    "a column missing": (pa.table({"id": [0], "day": [None]}), "kind", 4),
    "a column too much": (pa.table({"id": [0], "day": [None], "kind": ["a"], "z": [1]}), "z", 4),
    "a column twice": (
        pa.table([[0], [1], [None], ["a"]], ["id", "ID", "day", "kind"]),
        "ID",
        4,
    ),
}


@pytest.mark.parametrize("what", WRONG_TABLES)
def test_a_wrong_table_is_refused_and_nothing_of_it_is_taken(tmp_path: Path, what: str):
    dataset = made(tmp_path / "d")
    table, column, number = WRONG_TABLES[what]
    with dataset.writer(checkpoint=True, roll_rows=4) as writer:
        writer.write(rows_from(0, 4))
        with pytest.raises(dp.InvalidChangesError) as refused:
            writer.write(table)
        assert refused.value.column.lower() == column.lower()
        assert refused.value.resume_from == 4
        assert refused.value.row == number
    assert found_in(dataset) == Counter(rows_from(0, 4))


@pytest.mark.parametrize("given_rows", [3, "text", None, {1, 2}, object(), [[1, 2]]])
def test_what_is_no_row_is_refused(tmp_path: Path, given_rows):
    dataset = made(tmp_path / "d")
    with dataset.writer() as writer, pytest.raises(dp.InvalidChangesError):
        writer.write(given_rows)


def test_an_empty_text_cannot_be_a_partition(tmp_path: Path):
    dataset = made(tmp_path / "d", "by day and kind")
    with dataset.writer() as writer:
        for rows in ((1, None, ""), as_table([(0, None, "a"), (1, None, "")])):
            with pytest.raises(dp.InvalidChangesError) as refused:
                writer.write(rows)
            assert refused.value.column == "kind"


def test_a_partition_that_cannot_be_computed_is_told(tmp_path: Path):
    dataset = dp.Dataset.create(
        None, tmp_path / "d", schema="id bigint, s string", partition="CAST(s AS int) AS n"
    )
    with dataset.writer() as writer:
        writer.write(pa.table({"id": [1, 2], "s": ["3", None]}))
        for rows in ((3, "x"), pa.table({"id": [3], "s": ["x"]})):
            with pytest.raises(dp.InvalidChangesError) as refused:
                writer.write(rows)
            assert refused.value.row == 2


@pytest.mark.parametrize(
    "told",
    [
        {"roll_rows": 0},
        {"roll_rows": True},
        {"checkpoint": 1},
        {"checkpoint": ""},
        {"open_files": 0},
        {"partitioned": 1},
        {"partitioned": True},
    ],
)
def test_a_wrong_argument_of_a_writer_is_refused(tmp_path: Path, told):
    with pytest.raises(dp.InvalidArgumentError) as refused:
        made(tmp_path / "d").writer(**told)
    assert [refused.value.argument] == list(told)


def test_a_writer_may_be_partitioned_by_nothing_and_always_is_by_columns(tmp_path: Path):
    for form in ("by nothing", "by day and kind"):
        dataset = made(tmp_path / form.replace(" ", "-"), form)
        with dataset.writer(partitioned=True) as one, dataset.writer() as other:
            one.write(rows_from(0, 9))
            other.write(rows_from(0, 9))
        assert len(dataset.files()) == 2 * files_of(form, rows_from(0, 9), None)


def test_a_writer_writes_in_its_block_only(tmp_path: Path):
    dataset = made(tmp_path / "d")
    writer = dataset.writer()
    with pytest.raises(dp.ClosedError):
        writer.write(rows_from(0, 1))
    with writer:
        writer.write(rows_from(0, 1))
    for late in (lambda: writer.write(rows_from(0, 1)), writer.__enter__):
        with pytest.raises(dp.ClosedError):
            late()
    assert found_in(dataset) == Counter(rows_from(0, 1))


@pytest.mark.parametrize("roll_rows", [None, 3])
def test_an_exception_commits_nothing_and_leaves_nothing(tmp_path: Path, roll_rows):
    dataset = made(tmp_path / "d", "by day and kind")
    with pytest.raises(KeyError), dataset.writer(roll_rows=roll_rows) as writer:
        stopped(writer, rows_from(0, 20))
    assert (commits(dataset), dataset.files(), left_over(dataset)) == (0, [], set())


def stopped(writer: dp.DatasetWriter, rows: list[Row]) -> None:
    writer.write(rows)
    raise KeyError


def test_writers_at_once_all_commit(tmp_path: Path):
    dataset = made(tmp_path / "d")
    writers = [dataset.writer() for _ in range(5)]
    for number, writer in enumerate(writers):
        writer.__enter__()
        writer.write(rows_from(10 * number, 10))
    for writer in writers:
        writer.__exit__(None, None, None)
    assert found_in(dataset) == Counter(rows_from(0, 50))


@settings(max_examples=settings.default.max_examples // 2)
@given(
    form=st.sampled_from(sorted(FORMS)),
    stops=st.lists(st.integers(0, 25), max_size=4),
    way=st.sampled_from(["tuples", "a table", "batches"]),
    roll_rows=st.none() | st.integers(1, 9),
    open_files=st.integers(1, 3),
)
def test_with_a_checkpoint_each_row_is_there_once_wherever_writers_stop(
    tmp_path_factory: pytest.TempPathFactory, form, stops, way, roll_rows, open_files
):
    """A file is committed with its last row, and says before which row all are durable."""
    dataset, rows = made(tmp_path_factory.mktemp("d") / "d", form), rows_from(0, 60)
    durable = Counter[Row]()
    for stop in [*stops, None]:
        writer = dataset.writer(checkpoint=True, roll_rows=roll_rows, open_files=open_files)
        begin = writer.resume_from
        assert begin is not None
        end = len(rows) if stop is None else min(begin + stop, len(rows))
        try:
            with writer:
                for part in WAYS[way](rows[begin:end]):
                    writer.write(part)
                if stop is not None:
                    raise KeyError
        except KeyError:
            pass
        found = found_in(dataset)
        assert durable <= found <= Counter(rows)
        durable = found
        assert found >= Counter(rows[: writer.resume_from])
        waiting = [row for row in rows[:end] if row not in found]
        assert writer.resume_from == (min(rows.index(r) for r in waiting) if waiting else end)
        if roll_rows is not None and stop is not None:
            of_partitions = Counter(partition_of(form, row) for row in waiting)
            assert all(count < roll_rows for count in of_partitions.values())
    assert durable == Counter(rows)


def test_inputs_are_kept_apart_by_the_names_of_their_checkpoints(tmp_path: Path):
    dataset = made(tmp_path / "d", "by day and kind")
    part = dataset.partition(day=None)
    for place, name in ((dataset, "a"), (dataset, "b"), (dataset, True), (part, True)):
        rows = [row for row in rows_from(0, 20) if place is dataset or row[1] is None]
        with place.writer(checkpoint=name) as writer:
            assert writer.resume_from == 0
            writer.write(rows)
        assert place.writer(checkpoint=name).resume_from == len(rows)
    with dataset.writer(checkpoint="a") as writer:
        writer.write(rows_from(20, 5))
    assert dataset.writer(checkpoint="a").resume_from == 25
    assert found_in(dataset).total() == 65 + sum(r[1] is None for r in rows_from(0, 20))


def test_rows_that_are_taken_back_leave_the_checkpoint_and_another_one_writes_them(tmp_path: Path):
    dataset, rows = made(tmp_path / "d"), rows_from(0, 5)
    written(dataset, rows, {"checkpoint": "a"})
    DeltaTable(dataset.location).restore(0)
    assert dataset.writer(checkpoint="a").resume_from == 5
    written(dataset, rows, {"checkpoint": "b"})
    assert found_in(dataset) == Counter(rows)


@pytest.mark.parametrize("rows", [1, 5])
def test_of_two_writers_of_one_checkpoint_one_is_refused(tmp_path: Path, rows: int):
    dataset = made(tmp_path / "d", "by day and kind")
    late = dataset.writer(checkpoint="a", roll_rows=1)
    with dataset.writer(checkpoint="a", roll_rows=1) as writer:
        writer.write(rows_from(0, rows))
    with pytest.raises(dp.ConflictError) as refused, late:
        late.write(rows_from(0, rows))
    assert refused.value.resume_from == late.resume_from == 0
    assert (found_in(dataset), left_over(dataset)) == (Counter(rows_from(0, rows)), set())
    assert dataset.writer(checkpoint="a").resume_from == rows


@pytest.mark.parametrize("checkpoint", [False, True])
def test_rows_are_there_although_what_follows_their_commit_fails(tmp_path: Path, checkpoint: bool):
    """Such as the checkpoint of every fiftieth commit, on a full disk; else they came twice."""
    dataset, rows = made(tmp_path / "d"), rows_from(0, 8)
    table = DeltaTable(dataset.location)
    table.alter.set_table_properties({"delta.checkpointInterval": "1"})
    for version in (2, 3):
        log = Path(dataset.location) / "_delta_log"
        (log / f"{version:020}.checkpoint.parquet").mkdir()
    with dataset.writer(roll_rows=4, checkpoint=checkpoint) as writer:
        writer.write(rows)
    assert found_in(dataset) == Counter(rows)
    assert writer.resume_from == (8 if checkpoint else None)
    assert not left_over(dataset)


def test_a_commit_that_fails_and_cannot_be_read_back_is_unknown(tmp_path: Path):
    """It is not said that nothing is visible, and no file is deleted: a commit may name it."""
    dataset, rows = made(tmp_path / "d"), rows_from(0, 8)
    commit = Path(dataset.location) / "_delta_log" / f"{1:020}.json"

    def unreadable(when: str, name: str, table: str) -> None:
        if (when, name) == ("before", "commit"):
            commit.mkdir()

    writer = dataset.writer()
    with failpoints.armed(unreadable), pytest.raises(dp.CommitUnknownError), writer:
        writer.write(rows)
    commit.rmdir()
    assert left_over(dataset)


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_writer_that_failed_does_not_go_on(tmp_path: Path, checkpoint: bool):
    """Who catches its error inside of the block gets none of the rows that were lost with it."""

    def full(when: str, name: str, table: str) -> None:
        if (when, name) == ("before", "write"):
            raise OSError("No space left on device")

    def write() -> None:
        with dataset.writer(roll_rows=4, checkpoint=checkpoint) as writer:
            writer.write(as_table(rows[:5]))
            with failpoints.armed(full), pytest.raises(dp.StorageError):
                writer.write(as_table(rows[5:8]))
            with pytest.raises(dp.ClosedError):
                writer.write(rows[8:])

    dataset = made(tmp_path / "d")
    rows = rows_from(0, 10)
    with pytest.raises(dp.ClosedError):
        write()
    assert found_in(dataset) == Counter(rows[:4] if checkpoint else [])
    assert not left_over(dataset)


def test_open_partitions_are_bounded_and_least_recently_used_ones_go_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    aside = list[object]()
    put_aside = Pending._put_aside

    def watched(self: Pending, partition: Any) -> None:
        aside.append(partition[0])
        assert len(self._open) <= 3
        put_aside(self, partition)

    monkeypatch.setattr(Pending, "_put_aside", watched)
    dataset = dp.Dataset.create(None, tmp_path / "d", schema="k int, v int", partition="k")
    with dataset.writer(open_files=2) as writer:
        for number, key in enumerate((0, 1, 0, 2, 1)):
            writer.write(pa.table({"k": pa.array([key], pa.int32()), "v": [number]}))
    assert aside == ["1", "0"]
    assert len(dataset.files()) == 3


ACTIONS = {
    "plain": {},
    "rolling": {"roll_rows": 4},
    "with a checkpoint": {"checkpoint": True},
    "rolling with a checkpoint": {"checkpoint": "a", "roll_rows": 4},
}
LAST = "rolling with a checkpoint"


CRASHES = [
    pytest.param(form, how, marks=() if (form == "plain") != (how == LAST) else pytest.mark.long)
    for form in ("plain", "by day and kind")
    for how in ACTIONS
]


@pytest.mark.parametrize(("form", "how"), CRASHES)
def test_a_crash_at_any_effect_loses_and_doubles_nothing(tmp_path: Path, form: str, how: str):
    """Without a checkpoint all rows are there or none; with one it goes on, exactly once."""
    rows, at, outcomes = rows_from(0, 18), 0, set[int]()
    while True:
        dataset = made(tmp_path / str(at), form)

        def write(dataset: dp.Dataset = dataset) -> None:
            written(dataset, rows, ACTIONS[how])

        if not crashed(write, at):
            break
        found = found_in(dataset)
        outcomes.add(found.total())
        if "checkpoint" not in ACTIONS[how]:
            assert found in (Counter(), Counter(rows))
        assert found <= Counter(rows)
        if "checkpoint" in ACTIONS[how] or not found:
            written(dataset, rows, ACTIONS[how])
        assert found_in(dataset) == Counter(rows)
        at += 1
    assert found_in(dataset) == Counter(rows)
    assert {0, len(rows)} <= outcomes
    assert at >= 4


def written(dataset: dp.Dataset, rows: list[Row], how: dict[str, Any]) -> None:
    with dataset.writer(**how) as writer:
        writer.write(rows[writer.resume_from or 0 :])


KILLS = [
    pytest.param(
        form, how, marks=() if (form, how) == ("by day and kind", LAST) else pytest.mark.long
    )
    for form in ("plain", "by day and kind")
    for how in ACTIONS
]


@pytest.mark.parametrize(("form", "how"), KILLS)
def test_a_killed_process_loses_and_doubles_nothing(
    tmp_path: Path, form: str, how: str, long_run: bool
):
    """At each effect; a short run has a kill between two commits."""
    rows, more = rows_from(0, 18), ACTIONS[how]
    whole = made(tmp_path / "whole", form)
    with crashing(None) as reached:
        written(whole, rows, more)
    outcomes = set[int]()
    for at in range(len(reached)) if long_run else [reached.index(("after", "commit"))]:
        dataset = made(tmp_path / str(at), form)
        assert killed(
            f"w = dp.Dataset.find(None, {dataset.location!r}).writer(**{more!r})\n"
            "    with w: w.write(rows_from(0, 18))",
            at,
        )
        found = found_in(dataset)
        outcomes.add(found.total())
        assert found <= Counter(rows)
        if "checkpoint" in more or not found:
            written(dataset, rows, more)
        assert found_in(dataset) == Counter(rows)
    assert not long_run or {0, len(rows)} <= outcomes


def test_crashes_are_at_effects(tmp_path: Path):
    dataset = made(tmp_path / "d")
    with crashing(None) as reached:
        written(dataset, rows_from(0, 3), {})
    assert reached == [
        ("before", "write"),
        ("after", "write"),
        ("before", "commit"),
        ("after", "commit"),
    ]
