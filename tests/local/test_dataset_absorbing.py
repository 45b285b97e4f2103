"""Absorbing: rows are in one of two data sets, wherever it stops and whoever comes next."""

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
from deltalake import DeltaTable, write_deltalake
from described import (
    FORMS,
    SCHEMA,
    Crash,
    crashed,
    crashing,
    found_in,
    killed,
    left_over,
    made,
    rows_from,
)
from test_dataset_writers import as_table

import deltaproduce as dp
from deltaproduce.datasets.absorbing import _PROPERTY
from deltaproduce.storage import failpoints


def written(dataset: dp.Dataset, first: int, count: int) -> dp.Dataset:
    with dataset.writer(roll_rows=4) as writer:
        writer.write(rows_from(first, count))
    return dataset


def two(place: Path, form: str = "by day and kind") -> tuple[dp.Dataset, dp.Dataset]:
    """Two data sets with rows."""
    return written(made(place / "a", form), 0, 10), written(made(place / "b", form), 10, 12)


def is_marked(dataset: dp.Dataset) -> bool:
    return bool(DeltaTable(dataset.location).metadata().configuration.get(_PROPERTY))


def check_one_of(into: dp.Dataset, other: dp.Dataset) -> bool:
    """The absorbed rows are in one of the two, all of them; whether in the first."""
    ours, theirs, moved = found_in(into), found_in(other), Counter(rows_from(10, 12))
    assert ours + theirs == Counter(rows_from(0, 22))
    assert theirs in (moved, Counter())
    return not theirs


@pytest.mark.parametrize("form", FORMS)
def test_seed_absorb_moves_all_rows_and_copies_none(tmp_path: Path, form: str):
    into, other = two(tmp_path, form)
    inodes = {os.stat(Path(other.location) / path).st_ino for path in other.files()}
    before = set(into.files())
    into.absorb(other)
    assert check_one_of(into, other)
    assert other.files() == []
    there = set(into.files())
    assert {os.stat(Path(into.location) / p).st_ino for p in there - before} == inodes
    assert before <= there
    assert found_in(into, "id > 15") == Counter(rows_from(16, 6))
    assert not is_marked(into)
    assert not is_marked(other)
    written(other, 100, 3)
    written(into, 200, 3)
    assert found_in(other) == Counter(rows_from(100, 3))
    into.absorb(other)
    assert found_in(into) == Counter([*rows_from(0, 22), *rows_from(100, 3), *rows_from(200, 3)])


def test_where_files_cannot_be_linked_they_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refused(*_: object) -> None:
        raise OSError("Invalid cross-device link")

    into, other = two(tmp_path)
    monkeypatch.setattr(os, "link", refused)
    into.absorb(other)
    monkeypatch.undo()
    assert check_one_of(into, other)
    shutil.rmtree(other.location)
    assert found_in(into) == Counter(rows_from(0, 22))


def test_absorbing_an_empty_one_commits_nothing(tmp_path: Path):
    into, other = written(made(tmp_path / "a"), 0, 3), made(tmp_path / "b")
    into.absorb(other)
    assert [DeltaTable(one.location).version() for one in (into, other)] == [1, 0]


def test_itself_is_refused_by_any_spelling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    dataset = written(made(tmp_path / "a"), 0, 3)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for spelled in (tmp_path / "a", "./a", "a/", f"file:{tmp_path}/a", "b/../a", "./link"):
        with pytest.raises(dp.InvalidArgumentError):
            dataset.absorb(dp.Dataset.find(None, spelled))
    with pytest.raises(dp.InvalidArgumentError):
        dataset.absorb(str(tmp_path / "a"))  # type: ignore[arg-type]
    assert DeltaTable(dataset.location).version() == 1


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ("schema", {"schema": "id int, day date, kind string"}),
        ("partition", {"partition": "day"}),
        ("order", {"order": "id desc"}),
        ("compression", {"compression": "zstd"}),
    ],
)
def test_another_descriptor_is_refused_by_both_locations(tmp_path: Path, part: str, told):
    into = made(tmp_path / "a")
    other = dp.Dataset.create(None, tmp_path / "b", **{"schema": SCHEMA, **told})
    with pytest.raises(dp.DescriptorMismatchError) as refused:
        into.absorb(other)
    assert list(refused.value.differences) == [part]
    assert refused.value.location == other.location
    assert into.location in str(refused.value)
    assert other.location in str(refused.value)


def test_a_part_neither_absorbs_nor_is_absorbed(tmp_path: Path):
    into, other = two(tmp_path)
    for one, another in ((into.partition(day=None), other), (into, other.partition(day=None))):
        with pytest.raises(dp.InvalidArgumentError):
            one.absorb(another)


def with_writer_of_first(into: dp.Dataset, other: dp.Dataset) -> None:
    into.writer()


def with_writer_of_second(into: dp.Dataset, other: dp.Dataset) -> None:
    other.writer()


def with_absorb(into: dp.Dataset, other: dp.Dataset) -> None:
    into.absorb(made(Path(into.location).parent / "third", "plain"))


NEXT = [with_writer_of_first, with_writer_of_second, with_absorb]
SOME_NEXT = [
    pytest.param(with_writer_of_first, marks=pytest.mark.long),
    with_writer_of_second,
    pytest.param(with_absorb, marks=pytest.mark.long),
]


def settled(into: dp.Dataset, other: dp.Dataset, was_moved: bool) -> None:
    """Nothing is left of an absorption, and the rows are where they were when it was settled."""
    assert check_one_of(into, other) == was_moved
    assert not is_marked(into)
    assert not is_marked(other)
    assert not left_over(into)


@pytest.mark.parametrize("come_next", SOME_NEXT)
def test_a_crash_at_any_effect_leaves_rows_in_one_and_is_settled(
    tmp_path: Path, come_next: Callable[[dp.Dataset, dp.Dataset], None]
):
    """The commit to the absorbing table is the one point at which rows move."""
    at, outcomes = 0, list[bool]()
    while True:
        into, other = two(tmp_path / str(at), "plain")
        if not crashed(lambda: into.absorb(other), at):  # noqa: B023 it is called at once
            break
        outcomes.append(check_one_of(into, other))
        come_next(into, other)
        assert check_one_of(into, other) == outcomes[-1]
        into.writer()  # of a mark on one of them alone the other does not know
        settled(into, other, outcomes[-1])
        into.absorb(other)
        settled(into, other, was_moved=True)
        at += 1
    assert outcomes == sorted(outcomes)
    assert {True, False} == set(outcomes)


def test_a_crash_while_it_is_settled_is_settled_by_the_next(tmp_path: Path, long_run: bool):
    into, other = two(tmp_path / "whole", "plain")
    with crashing(None) as reached:
        into.absorb(other)
    for first in range(1, len(reached), 1 if long_run else 6):
        second = 0
        while True:
            into, other = two(tmp_path / f"{first}-{second}", "plain")
            assert crashed(lambda: into.absorb(other), first)  # noqa: B023 it is called at once
            was_moved = check_one_of(into, other)
            if not crashed(other.writer, second):
                break
            assert check_one_of(into, other) == was_moved
            into.writer()
            other.writer()
            settled(into, other, was_moved)
            second += 1


def test_an_absorption_that_was_undone_does_not_happen_later(tmp_path: Path):
    """Whoever sleeps before the commit, and is undone, is refused when it wakes up."""
    into, other = two(tmp_path)

    def undone(when: str, name: str, table: str) -> None:
        if (when, name) == ("before", "commit") and not woken:
            woken.append(name)
            into.writer()

    woken = list[str]()
    with failpoints.armed(undone), pytest.raises(dp.ConflictError):
        into.absorb(other)
    assert woken
    settled(into, other, was_moved=False)


def test_a_writer_of_either_that_began_before_goes_on(tmp_path: Path):
    into, other = two(tmp_path)
    with into.writer() as ours, other.writer() as theirs:
        ours.write((500, None, "ours"))
        theirs.write((600, None, "theirs"))
        into.absorb(other)
    assert found_in(into) == Counter([*rows_from(0, 22), (500, None, "ours")])
    assert found_in(other) == Counter([(600, None, "theirs")])


def test_rows_of_someone_else_that_come_meanwhile_stay(tmp_path: Path):
    into, other = two(tmp_path, "plain")

    def added(when: str, name: str, table: str) -> None:
        if (when, name, table) == ("before", "commit", into.location):
            rows = as_table([(900, date(2026, 1, 1), "late")])
            write_deltalake(other.location, rows, mode="append", schema_mode="merge")

    with failpoints.armed(added):
        into.absorb(other)
    assert found_in(into) == Counter(rows_from(0, 22))
    assert found_in(other) == Counter([(900, date(2026, 1, 1), "late")])


def optimized(when: str, name: str, table: str) -> Callable[[str, str, str], None]:
    """A fail point at which someone else stores the rows of a table anew, in one file."""

    def rewritten(now: str, effect: str, place: str) -> None:
        if (now, effect) == (when, name) and not done:
            done.append(place)
            assert DeltaTable(table).optimize.compact()["numFilesAdded"] == 1

    done = list[str]()
    return rewritten


def test_rows_that_someone_else_stores_anew_before_the_commit_move_once(tmp_path: Path):
    into, other = two(tmp_path, "plain")
    with failpoints.armed(optimized("before", "link", other.location)):
        into.absorb(other)
    assert check_one_of(into, other)
    settled(into, other, was_moved=True)


def test_rows_that_someone_else_stores_anew_after_the_commit_have_moved(tmp_path: Path):
    """The log tells which new file has the absorbed rows; one with other rows, too, is told."""
    into, other = two(tmp_path / "a", "plain")
    with failpoints.armed(optimized("after", "commit", other.location)):
        into.absorb(other)
    settled(into, other, was_moved=True)
    into, other = two(tmp_path / "b", "plain")
    with crashing(None) as reached:
        into.absorb(other)
    into, other = two(tmp_path / "c", "plain")
    assert crashed(lambda: into.absorb(other), reached.index(("after", "commit")))
    assert check_one_of(into, other)
    late = [(900, date(2026, 1, 1), "late")]
    write_deltalake(other.location, as_table(late), mode="append", schema_mode="merge")
    assert found_in(other) == Counter(late)
    table = DeltaTable(other.location)
    table.optimize.compact()
    with pytest.raises(dp.CorruptStoreError):
        other.read()
    table.restore(table.version() - 1)
    other.writer()
    assert found_in(other) == Counter(late)
    assert found_in(into) == Counter(rows_from(0, 22))


def test_rows_that_someone_else_removes_before_the_commit_do_not_move(tmp_path: Path):
    def deleted(when: str, name: str, table: str) -> None:
        if (when, name) == ("before", "link") and not done:
            done.append(table)
            DeltaTable(other.location).delete("id < 15")

    done = list[str]()
    into, other = two(tmp_path, "plain")
    with failpoints.armed(deleted):
        into.absorb(other)
    assert found_in(into) == Counter([*rows_from(0, 10), *rows_from(15, 7)])
    assert found_in(other) == Counter()
    assert not left_over(into)


def spelled_by_spark(dataset: dp.Dataset) -> int:
    """Store the files of the newest commit as Spark does, with letters as they are; say how many.

    Spark's tests in `test_described` show that it does.
    """
    place = Path(dataset.location)
    log = max((place / "_delta_log").glob("*.json"))
    actions, moved = [json.loads(line) for line in log.read_text().splitlines()], 0
    for action in actions:
        if "%25C3%25A4" in (add := action.get("add", {})).get("path", ""):
            old = unquote(add["path"])
            new = old.replace("%C3%A4", "ä")
            (place / new).parent.mkdir(exist_ok=True)
            (place / old).rename(place / new)
            add["path"], moved = quote(new, safe="/=").replace("%C3%A4", "ä"), moved + 1
    log.write_text("\n".join(json.dumps(action, ensure_ascii=False) for action in actions))
    return moved


def test_files_that_delta_rs_cannot_remove_do_not_move(tmp_path: Path):
    """It would spell their paths otherwise, and their rows would be in both; a copy moves."""
    into, other = two(tmp_path)
    assert spelled_by_spark(other)
    other = dp.Dataset.find(None, other.location)
    with pytest.raises(dp.InvalidArgumentError) as refused:
        into.absorb(other)
    assert refused.value.argument == "other"
    settled(into, other, was_moved=False)
    into.absorb(other.copy(tmp_path / "copy"))
    assert found_in(into) == Counter(rows_from(0, 22))


def test_files_that_are_rewritten_by_spark_after_the_commit_keep_the_mark(tmp_path: Path):
    """So nobody sees their rows twice; and their table takes no rows before it is restored."""

    def rewritten(when: str, name: str, table: str) -> None:
        if (when, name) == ("after", "commit") and not done:
            done.append(table)
            DeltaTable(other.location).optimize.compact()
            assert spelled_by_spark(other)

    done = list[str]()
    into, other = two(tmp_path)
    with other.writer() as writer:
        writer.write(rows_from(22, 30))
    with failpoints.armed(rewritten), pytest.raises(dp.CorruptStoreError):
        into.absorb(other)
    other = dp.Dataset.find(None, other.location)
    assert found_in(into) == Counter(rows_from(0, 52))
    assert found_in(other) == Counter()
    with pytest.raises(dp.CorruptStoreError):
        other.writer()


def test_old_files_that_are_about_to_move_outlive_a_vacuum_by_someone_else(tmp_path: Path):
    """It removes files that the log does not name, by age, which is not that of their names."""

    def vacuumed(when: str, name: str, table: str) -> None:
        if (when, name) == ("before", "commit"):
            DeltaTable(into.location).vacuum(retention_hours=168, dry_run=False, full=True)

    into, other = two(tmp_path)
    for path in other.files():
        os.utime(Path(other.location) / path, (0, 0))
    with failpoints.armed(vacuumed):
        into.absorb(other)
    settled(into, other, was_moved=True)


def test_an_absorption_is_settled_by_whoever_comes_through_a_link(tmp_path: Path):
    into, other = two(tmp_path / "real", "plain")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with crashing(None) as reached:
        into.absorb(other)
    for at in (3, len(reached) - 3):
        shutil.rmtree(tmp_path / "real")
        into, other = two(tmp_path / "real", "plain")
        assert crashed(lambda: into.absorb(other), at)  # noqa: B023 it is called at once
        linked = [dp.Dataset.find(None, tmp_path / "link" / name) for name in "ab"]
        was_moved = check_one_of(*linked)
        linked[1].writer()
        linked[0].writer()
        settled(*linked, was_moved)


def test_two_that_absorb_each_other_leave_all_rows_in_one_of_them(tmp_path: Path):
    into, other = two(tmp_path)

    def crosswise(when: str, name: str, table: str) -> None:
        if name == "mark" and not begun:
            begun.append(table)
            other.absorb(into)

    begun = list[str]()
    with failpoints.armed(crosswise):
        into.absorb(other)
    assert found_in(into) + found_in(other) == Counter(rows_from(0, 22))
    assert not is_marked(into)
    assert not is_marked(other)


def test_a_data_set_that_was_moved_meanwhile_is_told(tmp_path: Path):
    into, other = two(tmp_path)
    assert crashed(lambda: into.absorb(other), 5)
    shutil.move(into.location, tmp_path / "elsewhere")
    with pytest.raises(dp.CorruptStoreError):
        dp.Dataset.find(None, tmp_path / "elsewhere").writer()
    shutil.move(tmp_path / "elsewhere", into.location)
    other.writer()
    settled(into, other, was_moved=False)


def test_a_killed_process_leaves_rows_in_one(tmp_path: Path, long_run: bool):
    """At each effect; a short run has a kill as soon as they have moved."""
    into, other = two(tmp_path / "whole", "plain")
    with crashing(None) as reached:
        into.absorb(other)
    outcomes = set[bool]()
    for at in range(len(reached)) if long_run else [reached.index(("after", "commit"))]:
        into, other = two(tmp_path / str(at), "plain")
        assert killed(
            f"dp.Dataset.find(None, {into.location!r})"
            f".absorb(dp.Dataset.find(None, {other.location!r}))",
            at,
        )
        outcomes.add(check_one_of(into, other))
        NEXT[at % len(NEXT)](into, other)
        into.writer()
        settled(into, other, not found_in(other))
    assert outcomes == ({True, False} if long_run else {True})


def test_a_crash_is_no_exception():
    assert not issubclass(Crash, Exception)
