"""The version log stays small: its files are merged while versions go on."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from crashing import drawn, frames, orders
from deltalake import DeltaTable
from local_stores import assert_same_here

from deltaproduce import ConflictError, Limits, Store
from deltaproduce.storage import failpoints
from deltaproduce.storage.version_log import VersionLog
from deltaproduce.testing import Oracle

EVERY_FIFTH = Limits(compaction_commits=5)


def log_of(location: str) -> DeltaTable:
    return DeltaTable(Path(location, "_versions"))


def test_its_files_are_bounded_and_all_versions_are_there(location: str) -> None:
    oracle = Oracle(orders())
    with Store(None, location, orders(), limits=EVERY_FIFTH) as store:
        for number in range(23):
            store.update(frames(None, drawn(number)), f"batch {number}")
            oracle.update(drawn(number), f"batch {number}")
            assert [version.number for version in store.versions()] == [*range(1, number + 2)]
            store.wait()
            assert len(log_of(location).file_uris()) <= 1 + 5
    operations = [commit["operation"] for commit in log_of(location).history()]
    assert operations.count("OPTIMIZE") == 4
    again = Store(None, location, orders())
    assert again.versions() == store.versions()
    assert again.update_ids() == store.update_ids()
    assert_same_here(again, oracle, orders(), [0, 4, 5, 6, 23])
    again.compact()
    assert len(log_of(location).file_uris()) == 1
    assert again.vacuum(keep_versions=2, unfinished_hours=0).versions == tuple(range(1, 22))
    assert_same_here(Store(None, location, orders()), oracle, orders(), [22, 23])


def test_the_text_of_a_version_is_in_its_file_alone(location: str) -> None:
    """Statistics would repeat it in a commit, twice, and in each checkpoint after that."""
    with Store(None, location, orders()) as store:
        for number in range(3):
            store.update(frames(None, drawn(number)))
        figures = {name for version in store.versions() for name in version.stages}
    commits = sorted(Path(location, "_versions", "_delta_log").glob("*.json"))[1:]
    assert len(commits) == 3
    for commit in commits:
        added = [
            json.loads(line)["add"] for line in commit.read_text().splitlines() if '"add"' in line
        ]
        assert [json.loads(one["stats"])["numRecords"] for one in added] == [1]
        assert not any(name in one["stats"] for one in added for name in figures)


@pytest.mark.parametrize("overtaken", [False, True])
def test_a_writer_publishes_on_top_of_a_compaction_but_not_of_a_version(
    location: str, overtaken: bool
) -> None:
    """The log is compacted between the reading and the publication; and so a version may come."""
    for number in range(3):
        Store(None, location, orders()).update(frames(None, drawn(number)))
    met = []

    def meanwhile(when: failpoints.When, name: str, table: str) -> None:
        if (when, name, table) == ("before", "publish", "_versions") and not met:
            met.append(table)
            if overtaken:
                Store(None, location, orders()).update(frames(None, drawn(9)))
            log_of(location).optimize.compact()

    store = Store(None, location, orders())
    with failpoints.armed(meanwhile):
        if overtaken:
            with pytest.raises(ConflictError):
                store.update(frames(None, drawn(3)))
        else:
            assert store.update(frames(None, drawn(3))).number == 4
    assert met
    assert [version.number for version in Store(None, location, orders()).versions()] == [
        1,
        2,
        3,
        4,
    ]
    assert store.update(frames(None, drawn(4))).number == 5
    assert store.versions() == Store(None, location, orders()).versions()


READINGS: Mapping[str, Callable[[Store], object]] = {
    "content": lambda store: store.content("orders"),
    "updates": lambda store: store.updates("orders", 1),
    "key mappings": lambda store: store.key_mappings("by_customer"),
    "changes": lambda store: store.changes("orders", 0),
    "diff": lambda store: store.diff(1, 2),
    "lookup": lambda store: store.lookup("orders", [{"id": 1}]),
    "lineage": lambda store: store.lineage("orders", 1),
    "sql": lambda store: store.sql("orders"),
    "versions": lambda store: store.versions(),
    "head": lambda store: store.head,
    "report": lambda store: store.report(f"{store._opened.tables.location.address}.html"),
}


@pytest.mark.parametrize("reading", READINGS)
def test_a_reading_reads_the_log_once(
    location: str, reading: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So all of it is of one version, whatever is published meanwhile."""
    with Store(None, location, orders()) as store:
        for number in range(2):
            store.update(frames(None, drawn(number)))
    counted, commits = list[None](), VersionLog._commits

    def counting(log: VersionLog) -> object:
        counted.append(None)
        return commits(log)

    monkeypatch.setattr(VersionLog, "_commits", counting)
    READINGS[reading](store)
    assert len(counted) == 1
