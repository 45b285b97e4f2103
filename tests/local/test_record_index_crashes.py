"""A crash before or after any effect of a record index leaves it and its table correct.

The tests name the cases of Hudi's design of its record index: data and index change together or not
at all, no reader sees a partial change, and the next writer continues.
"""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from copy import copy
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from records import KEY, Records

from deltaproduce.record_index import table, view
from deltaproduce.storage import failpoints

OPERATIONS = {
    "build": lambda records, _: records.index.build(),
    "upsert": lambda records, batch: records.index.upsert(batch),
    "delete": lambda records, batch: records.index.delete(
        [{name: row[name] for name in KEY} for row in batch]
    ),
    "compact": lambda records, _: records.index.compact(),
    "rebuild": lambda records, _: records.index.rebuild(5),
}


class CrashError(Exception):
    """The process ends here."""


def prepared(place, seed=7):
    """A table with runs, tombstones, and a commit that the index has not seen."""
    records = Records(place, seed=seed)
    records.upsert([records.row(key) for key in list(records.rows)[:5]])
    records.delete(list(records.rows)[5:8])
    records.foreign_append([records.fresh_key() for _ in range(4)])
    keys = [*list(records.rows)[:6], (999, "new")]
    return records, [{**records.row(key), "v": "after"} for key in keys]


def after(operation, rows, batch):
    """The rows that there are when an operation is done."""
    changed = {tuple(row[name] for name in KEY): row for row in batch}
    if operation == "upsert":
        return {**rows, **changed}
    if operation == "delete":
        return {key: row for key, row in rows.items() if key not in changed}
    return rows


def set_back(records, origin):
    """The table and its index as they were prepared, at the same place, from a copy of them."""
    place = Path(records.table).parent
    shutil.rmtree(place)
    shutil.copytree(origin, place)
    found = copy(records)
    found.rows, found.index = {**records.rows}, records.opened()
    return found


def effects(records, batch, operation):
    """The effects of an operation, in order."""
    reached = []
    with failpoints.armed(lambda when, name, table: reached.append((when, name))):
        OPERATIONS[operation](records, batch)
    return reached


@pytest.mark.parametrize(
    ("operation", "run_bytes"),
    [
        *((operation, None) for operation in OPERATIONS),
        ("upsert", 1),
        pytest.param("compact", 1, marks=pytest.mark.long),
    ],
)
def test_a_crash_at_any_effect_leaves_table_and_index_right(
    tmp_path, monkeypatch, operation, run_bytes, long_run
):
    """Also where an index catches up file by file, and stores what it has.

    In a short run a writer goes on behind each other crash.
    """
    if run_bytes is not None:
        monkeypatch.setattr(view, "_RUN_BYTES", run_bytes)
        monkeypatch.setattr(view, "_RUN_SHARE", 0)
    place, origin = tmp_path / "records", tmp_path / "origin"
    whole, batch = prepared(place)
    shutil.copytree(place, origin)
    points = effects(set_back(whole, origin), batch, operation)
    assert {name for _, name in points} >= {"write", "index"}
    firsts = sorted({point: place for place, point in reversed([*enumerate(points)])}.values())
    for turn, point in enumerate(firsts):
        records = set_back(whole, origin)
        reached = iter(range(len(points) + 1))

        def crash(when, name, table, reached=reached, point=point):
            if next(reached) >= point:
                raise CrashError

        with failpoints.armed(crash), suppress(CrashError):
            OPERATIONS[operation](records, batch)
        is_done = points[: point + 1].count(("after", "commit")) > 0
        records.rows = after(operation, records.rows, batch) if is_done else records.rows
        records.index = records.opened(buckets=None)
        records.check()
        if long_run or turn % 2:
            records.upsert(batch)
            records.index.compact()
            records.check()


BETWEEN = {
    "nothing": lambda records: None,
    "an append": lambda records: records.foreign_append([records.fresh_key()]),
    "a delete": lambda records: records.foreign_delete([*records.rows][-1][0]),
    "optimized": lambda records: records.foreign_optimize(),
    "overwritten": lambda records: records.foreign_overwrite(),
    "restored": lambda records: records.foreign_restore(4),
}
"""What others do while an index has some of the new files."""


@pytest.mark.parametrize("between", BETWEEN)
def test_an_index_that_stopped_while_it_caught_up_goes_on(tmp_path, monkeypatch, between):
    """It stores each part of the new files with the files that wait, and reads no file again."""
    monkeypatch.setattr(view, "_RUN_BYTES", 1)
    monkeypatch.setattr(view, "_RUN_SHARE", 0)
    records = Records(tmp_path)
    for _ in range(6):
        records.foreign_append([records.fresh_key()])
    left, read, rows = [3], [], table.TableSnapshot.rows

    def crash(when, name, table):
        left[0] -= (when, name) == ("before", "index")
        if left[0] < 0:
            raise CrashError

    def counted(self, path, columns):
        read.append(path)
        return rows(self, path, columns)

    monkeypatch.setattr(table.TableSnapshot, "rows", counted)
    stored = DeltaTable(records.location).version()
    with failpoints.armed(crash), pytest.raises(CrashError):
        records.index.compact()
    assert (len(read), DeltaTable(records.location).version()) == (4, stored + 3)
    records.index = records.opened(buckets=None)
    BETWEEN[between](records)
    records.check()
    before, stored = [*read], DeltaTable(records.location).version()
    read.clear()
    records.index.compact()
    if between == "nothing":
        assert len(read) == len({*read}) == 3
        assert not {*read} & {*before[:3]}
    assert DeltaTable(records.location).version() > stored
    records.check()
    stats = records.index.stats()
    assert (stats.tombstones, stats.records) == (0, len(records.rows))


def test_an_index_whose_build_crashes_is_not_there(tmp_path):
    records = Records(tmp_path)
    log = Path(records.location) / "_delta_log"
    versions = len([*log.iterdir()])

    def crash(when, name, table):
        if (when, name) == ("before", "index"):
            raise CrashError

    with failpoints.armed(crash), pytest.raises(CrashError):
        records.index.build()
    assert len([*log.iterdir()]) == versions


@pytest.mark.parametrize("at", [("after", "write"), ("before", "index"), ("after", "index")])
@pytest.mark.parametrize("operation", ["build", "compact", "rebuild"])
def test_an_interrupt_leaves_no_files_that_the_index_does_not_have(tmp_path, operation, at):
    """And deletes none that it has: it may come when the commit is there."""
    records, batch = prepared(tmp_path)

    def interrupt(when, name, table):
        if (when, name) == at and table == records.location:
            raise KeyboardInterrupt

    before = {path.name for path in Path(records.location).glob("*.parquet")}
    with failpoints.armed(interrupt), pytest.raises(KeyboardInterrupt):
        OPERATIONS[operation](records, batch)
    there = {path.name for path in Path(records.location).glob("*.parquet")}
    assert (there == before) == (at != ("after", "index"))
    named = pa.table(DeltaTable(records.location).get_add_actions()).column("path").to_pylist()
    assert there - before <= {*named}
    records.index = records.opened(buckets=None)
    records.check()


def test_a_first_build_that_is_interrupted_leaves_nothing(tmp_path):
    records = Records(tmp_path)
    records.location = str(tmp_path / "other")

    def interrupt(when, name, table):
        if (when, name) == ("before", "index"):
            raise KeyboardInterrupt

    with failpoints.armed(interrupt), pytest.raises(KeyboardInterrupt):
        records.opened().build()
    assert not Path(records.location).exists()


def test_a_table_that_moved_on_without_its_index_is_caught_up_with(tmp_path):
    """The commit to the table is the commit point: the index follows, whoever opens it."""
    records, batch = prepared(tmp_path)

    def crash(when, name, table):
        if (when, name) == ("before", "index"):
            raise CrashError

    with failpoints.armed(crash), pytest.raises(CrashError):
        records.index.upsert(batch)
    records.rows = after("upsert", records.rows, batch)
    stored = DeltaTable(records.location).version()
    records.check()
    assert DeltaTable(records.location).version() == stored
    assert records.index.upsert(batch).ignored == len(batch)
    assert DeltaTable(records.location).version() == stored + 1


SCRIPT = """
import os, signal, sys
sys.path[:0] = sys.argv[1].split(os.pathsep)
from pathlib import Path
from deltaproduce.storage import failpoints
import test_record_index_crashes as tests
records, batch = tests.prepared(Path(sys.argv[2]))
left = [int(sys.argv[4])]
def kill(when, name, table):
    left[0] -= 1
    if left[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
with failpoints.armed(kill):
    tests.OPERATIONS[sys.argv[3]](records, batch)
"""


@pytest.mark.parametrize(
    "operation",
    [pytest.param(o, marks=() if o == "upsert" else pytest.mark.long) for o in OPERATIONS],
)
def test_a_process_that_is_killed_leaves_table_and_index_right(tmp_path, operation, long_run):
    """At each effect; a short run has a kill of an upsert after its commit to the table."""
    points = effects(*prepared(tmp_path / "first"), operation)
    search = os.pathsep.join([str(Path(__file__).parent), os.getcwd()])
    for point in range(len(points)) if long_run else [points.index(("after", "commit"))]:
        place = tmp_path / str(point)
        command = [sys.executable, "-c", SCRIPT, search, str(place), operation, str(point)]
        ended = subprocess.run(command, capture_output=True, text=True)
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        records, batch = prepared(tmp_path / f"{point} whole")
        is_done = points[: point + 1].count(("after", "commit")) > 0
        records.rows = after(operation, records.rows, batch) if is_done else records.rows
        records.table, records.location = str(place / "table"), str(place / "index")
        records.index = records.opened(buckets=None)
        records.check()
        records.upsert(batch)
        records.index.compact()
        records.check()
