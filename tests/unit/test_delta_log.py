"""The newest commits of a log, read from its files."""

import json
import os
from pathlib import Path

import pytest

from deltaproduce import CommitUnknownError
from deltaproduce.engines.delta.log import (
    commit_file,
    is_committed,
    is_logged_alike,
    newest_commits,
)
from deltaproduce.engines.delta.tables import UNTOLD, LoggedCommit
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.file_systems.this_machine import ThisMachine
from deltaproduce.storage.attempts import Attempt, Commit
from deltaproduce.storage.decisions.recovery import landed

US, OTHER = Attempt("us", 4), Attempt("other", 4)


def write(table: Path, number: int, attempt: Attempt | None = None, **info: object) -> None:
    said = {"operation": "WRITE", **info}
    if attempt is not None:
        said["userMetadata"] = attempt.metadata("t/content")
    lines = [{"protocol": {}}, {"commitInfo": said}, {"add": {"path": '"commitInfo"'}}]
    path = table / commit_file(number)
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(map(json.dumps, lines)))
    os.utime(path, ns=(0, (1_000 + number) * 1_000_000))


def test_commits_are_told_newest_first(tmp_path: Path) -> None:
    for number in range(6):
        write(tmp_path, number, (None, US, OTHER)[number % 3])
    write(tmp_path, 6, None, operation="OPTIMIZE", inCommitTimestamp=77)
    (tmp_path / "_delta_log" / "00000000000000000006.checkpoint.parquet").touch()
    found = newest_commits(Directory(ThisMachine(), str(tmp_path)), 3)
    assert found == (
        LoggedCommit(6, None, "OPTIMIZE", 77_000),
        LoggedCommit(5, OTHER.metadata("t/content"), "WRITE", 1_005_000),
        LoggedCommit(4, US.metadata("t/content"), "WRITE", 1_004_000),
        LoggedCommit(3, None, "WRITE", 1_003_000),
    )
    assert newest_commits(Directory(ThisMachine(), str(tmp_path))) == found[:3]
    assert newest_commits(Directory(ThisMachine(), str(tmp_path)), 6) == found[:3]
    assert len(newest_commits(Directory(ThisMachine(), str(tmp_path)), 0) or ()) == 7


def test_paths_that_are_written_in_two_ways() -> None:
    assert is_logged_alike("p=a%20b/part-0.parquet")
    assert is_logged_alike("p=a%2520b/x=1:2/part-0.parquet")
    assert not is_logged_alike("p=é/part-0.parquet")
    assert not is_logged_alike("p=a+b%2Bc/part-0.parquet")


def test_whether_an_attempts_commit_is_there_is_read_or_unknown(tmp_path: Path) -> None:
    """No error of reading counts as a commit that is not there."""
    here = Directory(ThisMachine(), str(tmp_path))
    for number in range(2):
        write(tmp_path, number, US)
    (tmp_path / commit_file(2)).mkdir()
    assert is_committed(here, 0, US.id)
    assert not is_committed(here, 0, OTHER.id)
    assert not is_committed(here, 2, US.id)
    with pytest.raises(CommitUnknownError):
        is_committed(here, 1, US.id)


def test_a_log_that_begins_with_a_checkpoint_has_the_commits_since(tmp_path: Path) -> None:
    """Or some before it, as long as one removes them; none may be missing in between."""
    here, log = Directory(ThisMachine(), str(tmp_path)), tmp_path / "_delta_log"
    for number in range(8):
        write(tmp_path, number, US)
    (log / f"{5:020}.checkpoint.parquet").touch()
    for gone in range(5):
        (tmp_path / commit_file(gone)).unlink()
        for since in (0, 4, 5):
            found = newest_commits(here, since) or ()
            assert [c.delta_version for c in found] == [*range(7, max(gone, since - 1), -1)]
    assert [c.delta_version for c in newest_commits(here) or ()] == [7, 6, 5]
    assert [c.delta_version for c in newest_commits(here, 7) or ()] == [7, 6, 5]
    (tmp_path / commit_file(5)).unlink()
    assert [c.delta_version for c in newest_commits(here, 0) or ()] == [7, 6]
    (tmp_path / commit_file(6)).unlink()
    assert newest_commits(here) is None


def test_of_no_table_there_are_none(tmp_path: Path) -> None:
    assert newest_commits(Directory(ThisMachine(), str(tmp_path))) == ()


@pytest.mark.parametrize("said", [None, {}, {"timestamp": 5}, {"operation": None}])
def test_a_commit_need_not_say_what_it_did(tmp_path: Path, said: dict[str, object] | None) -> None:
    """Then it is somebody else's, and may have done anything."""
    for number in range(4):
        write(tmp_path, number, US)
    lines = [{"add": {"path": "a"}}, *([] if said is None else [{"commitInfo": said}])]
    (tmp_path / commit_file(2)).write_text("\n".join(map(json.dumps, lines)) + "\n")
    found = newest_commits(Directory(ThisMachine(), str(tmp_path)))
    assert [commit.operation for commit in found or ()] == ["WRITE", UNTOLD, "WRITE"]
    assert [commit.metadata is None for commit in found or ()] == [False, True, False]


@pytest.mark.parametrize("damage", ["gap", "empty", "no json", "no action", "a list", "no commit"])
def test_a_log_that_is_not_whole_is_not_read(tmp_path: Path, damage: str) -> None:
    for number in range(4):
        write(tmp_path, number, US)
    newest = tmp_path / commit_file(3)
    match damage:
        case "gap":
            (tmp_path / commit_file(0)).unlink()
        case "empty":
            newest.write_text("")
        case "no json":
            newest.write_text('{"commitInfo"')
        case "no action":
            newest.write_text('"protocol"')
        case "a list":
            newest.write_text('["commitInfo"]')
        case "no commit":
            for number in range(4):
                (tmp_path / commit_file(number)).unlink()
    assert newest_commits(Directory(ThisMachine(), str(tmp_path))) is None


PINNED = Commit(5, Attempt("before", 3))
FOLD = Attempt("fold", 3, 5)


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ([US], 6),
        ([(None, "OPTIMIZE"), US], 7),
        ([FOLD, US], 7),
        (
            [US, (US, "OPTIMIZE")],
            6,
        ),  # Delta compacts right behind a commit, and repeats what it says
        ([US, OTHER], 6),
        ([OTHER, US], None),
        ([US, US], None),
        ([(None, "WRITE"), US], None),
        ([OTHER], None),
        ([], None),
    ],
)
def test_an_attempts_commit_is_known_by_what_it_carries(
    later: list[Attempt | tuple[Attempt | None, str]], expected: int | None
) -> None:
    made = [Commit(n, *(f if isinstance(f, tuple) else (f,))) for n, f in enumerate(later, 6)]
    commits = [*reversed(made), PINNED, Commit(4, US)]
    found = landed(US, 5, commits)
    assert (found and found.delta_version) == expected


def test_a_commit_that_was_the_base_is_not_taken_for_the_next_one() -> None:
    assert landed(US, 6, [Commit(6, US, "RESTORE"), PINNED]) is None
