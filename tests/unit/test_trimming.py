"""The files that a log can do without, and logs that begin with a checkpoint."""

import shutil
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, TableFeatures, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from deltaproduce.engines.delta.log import (
    LogFiles,
    beginning,
    checkpoint_of,
    log_files,
    newest_commits,
    removed_in_turn,
)
from deltaproduce.engines.file_systems.directory import Directory, Entry
from deltaproduce.engines.file_systems.this_machine import ThisMachine
from deltaproduce.engines.local.delta.reads import may_lose_commits
from deltaproduce.engines.local.files import remove_log_files, steps_of_removal, unneeded
from deltaproduce.engines.local.marked.log_actions import agrees
from deltaproduce.storage.decisions.trimming import trim

SINCE = datetime(2026, 1, 1, tzinfo=UTC)
LATER = datetime(2100, 1, 1, tzinfo=UTC)
OLD, YOUNG = (int(SINCE.timestamp() + hours * 3600) * 10**9 for hours in (-1, 1))
DERIVED = ("crc", "checkpoint.parquet", f"checkpoint.{1:010}.{1:010}.parquet")


def named(number: int, kind: str = "json") -> str:
    return f"{number:020}.{kind}"


def entry(name: str, modified_ns: int = OLD, *, folder: bool = False, link: bool = False) -> Entry:
    return Entry(name, folder, link, 7, modified_ns)


def commits(names: Iterable[str]) -> set[int]:
    return {int(name[:20]) for name in names if name[20:] == ".json"}


def readable(names: Collection[str]) -> set[int]:
    """The delta versions that a reader of Delta finds, by the protocol, in a log of such files."""
    found, present = set(), commits(names)
    for version in present:
        begins = [-1, *(c for c in map(checkpoint_of, names) if c is not None and c <= version)]
        found |= {version} & {version for c in begins if present >= {*range(c + 1, version + 1)}}
    return found


@st.composite
def logs(draw: st.DrawFn) -> LogFiles:
    """Logs of several versions, some with files derived from them; some were trimmed before."""
    count = draw(st.integers(1, 12))
    some = st.sets(st.integers(0, count - 1))
    names = [named(n) for n in range(count)]
    names += [named(n, kind) for kind in DERIVED for n in draw(some)]
    young = draw(st.integers(0, count))
    for x, y in draw(st.sets(st.tuples(st.integers(0, 5), st.integers(6, 11)), max_size=2)):
        names.append(named(x, f"{y:020}.compacted.json"))
    checkpoints = [found for found in map(checkpoint_of, names) if found is not None]
    first = draw(st.sampled_from([0, *checkpoints]))
    stays = [name for name in names if int(name[:20]) >= first]
    times = [YOUNG if int(name[:20]) >= young else OLD for name in stays]
    beside = [entry(".hidden.crc"), entry("_last_checkpoint"), entry(f".{named(0)}.crc", YOUNG)]
    last = draw(st.sampled_from([None, *checkpoints])) if checkpoints else None
    return LogFiles((*map(entry, stays, times), *beside), last)


@given(logs(), st.integers(0, 12))
def test_what_is_needed_can_be_read_at_any_moment(log: LogFiles, needed: int) -> None:
    """And nothing goes that is young, or that the checkpoint is not after."""
    names = {found.name for found in log.entries}
    wanted = {version for version in readable(names) if version >= needed}
    found = trim(log, needed, SINCE)
    told = log.last_checkpoint
    for gone in () if found is None else found.files:
        assert int(gone.name[:20]) < found.checkpoint <= needed
        assert gone.modified_ns == OLD
        names.remove(gone.name)
        assert readable(names) >= wanted
        assert told is None or found.checkpoint <= told
    usable = [
        c
        for c in map(checkpoint_of, names)
        if c is not None
        and c <= min(needed, needed if told is None else told)
        and all(
            e.modified_ns == OLD
            for e in log.entries
            if e.name[0].isdigit() and int(e.name[:20]) < c
        )
    ]
    if usable:  # all that is before the last of them is gone
        assert min(int(name[:20]) for name in names if name[0].isdigit()) >= max(usable)


@pytest.mark.parametrize(
    "strange",
    [
        entry("_sidecars", folder=True),
        entry("_staged_commits", folder=True),
        entry(named(2, "checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json")),
        entry(named(2, "checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet")),
        entry(named(9, "new")),
        entry(named(0), link=True),
    ],
    ids=lambda entry: entry.name,
)
def test_a_log_with_unknown_files_stays(strange: Entry) -> None:
    known = [entry(named(n)) for n in range(1, 5)]
    known.append(entry(named(3, "checkpoint.parquet")))
    found = trim(LogFiles((entry(named(0)), *known), 3), 4, SINCE)
    assert found is not None
    assert found.names == tuple(map(named, range(3)))
    assert found.bytes == 3 * 7
    rest = () if strange.name == named(0) else (entry(named(0)),)
    assert trim(LogFiles((*rest, *known, strange), 3), 4, SINCE) is None


def test_a_log_with_a_gap_stays() -> None:
    names = [*map(named, (0, 1, 3, 4)), named(3, "checkpoint.parquet")]
    assert beginning(names) is None
    assert trim(LogFiles((*map(entry, names),), 3), 4, SINCE) is None


@given(logs())
def test_a_log_is_removed_such_that_the_rest_can_be_read(log: LogFiles) -> None:
    names = {found.name for found in log.entries}
    first = beginning(names)
    assert first is not None
    for name in removed_in_turn(names):
        names.remove(name)
        assert first in readable(names)
    assert {int(name.lstrip(".")[:20]) for name in names} == {first}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of nine versions, with checkpoints of three; every third replaces all rows."""
    table = tmp_path_factory.mktemp("original") / "table"
    for number in range(9):
        write_deltalake(
            table,
            pa.table({"n": [number]}),
            mode="overwrite" if number % 3 == 2 else "append",
            configuration={
                "delta.checkpointInterval": "3",
                "delta.logRetentionDuration": "interval 36500 days",
                "delta.deletedFileRetentionDuration": "interval 36500 days",
            },
            commit_properties=CommitProperties({"userMetadata": f"{number}"}),
        )
    return table


@pytest.fixture
def table(original: Path, tmp_path: Path) -> Directory:
    return Directory(ThisMachine(), str(shutil.copytree(original, tmp_path / "table")))


def rows(table: Directory, version: int | None = None) -> list[int]:
    return sorted(DeltaTable(table.path, version).to_pyarrow_table().column("n").to_pylist())


def test_a_table_is_the_same_while_its_log_gets_shorter(table: Directory) -> None:
    """Delta-rs reads each later version, and the same files are needed by them, after each step."""
    left = f"{table.path}/left.parquet"
    Path(left).write_bytes(b"of no commit")

    def seen() -> object:
        files = [unneeded(table, (v,), LATER).column("path").to_pylist() for v in (5, 6, 8)]
        assert all(f"file:{left}" in found for found in files)
        newest = newest_commits(table)
        assert [found.metadata for found in newest or ()] == ["8", "7", "6"]
        return [rows(table, v) for v in (5, 6, 7, 8, None)], [sorted(found) for found in files]

    before, found = seen(), trim(log_files(table), 7, LATER)
    assert found is not None
    assert found.checkpoint == 5
    assert len(found.files) == 6
    assert (before, [agrees(table, c) for c in (2, 5, 8)]) == (seen(), [True] * 3)
    for name in found.names:
        remove_log_files(table, [name])
        assert seen() == before
        assert agrees(table, 5)
        assert agrees(table, 8)
    assert trim(log_files(table), 7, LATER) is None
    assert [c.delta_version for c in newest_commits(table, 0) or ()] == [8, 7, 6, 5]
    young = unneeded(table, (4,), LATER).column("path").to_pylist()  # its files are unknown
    assert f"file:{left}" not in young
    DeltaTable(table.path).restore(5)
    assert rows(table) == [5]
    for step in steps_of_removal(table):
        assert DeltaTable(table.path).version() >= 5
        step.remove()
    assert not table.is_there


def test_a_checkpoint_that_is_not_of_its_commits_is_known(table: Directory) -> None:
    names = [f"{table.path}/_delta_log/{named(n, 'checkpoint.parquet')}" for n in (2, 5)]
    shutil.copy(*names)
    assert not agrees(table, 5)
    Path(names[1]).write_bytes(b"PAR1")
    assert not agrees(table, 5)
    assert agrees(table, 2)


def test_a_table_with_a_feature_that_is_not_known_keeps_its_log(table: Directory) -> None:
    assert may_lose_commits(table)
    DeltaTable(table.path).alter.add_feature(
        TableFeatures.DeletionVectors, allow_protocol_versions_increase=True
    )
    assert may_lose_commits(table)
    DeltaTable(table.path).alter.add_feature(TableFeatures.V2Checkpoint)
    assert not may_lose_commits(table)
