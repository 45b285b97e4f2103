"""The limits of a step follow from the available memory."""

import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from deltaproduce import Limits, StorageError
from deltaproduce.engines.choice import Engines
from deltaproduce.engines.local.large import spilling
from deltaproduce.engines.local.large.spilling import Spill, spilled
from deltaproduce.engines.spark.executors import costs


class Session:
    """What is asked of a session that a store is opened with."""

    def __init__(self, master, interpreter=sys.executable, **settings):
        self.sparkContext = self
        self.master = master
        self.pythonExec = interpreter
        self.conf = settings
        self._jsc = None
        self.defaultParallelism = 2


CLUSTERS = ["yarn", "spark://a:7077", "local-cluster[2,1,1024]", None]


@pytest.mark.parametrize("master", CLUSTERS)
def test_limits_of_a_cluster_are_caps(master):
    assert Engines.opened(Session(master), Limits(seek_keys=7)).limits == Limits(seek_keys=7)
    fewer = Limits(cluster_rows=5, cluster_bytes=6)
    opened = Engines.opened(Session(master), fewer).limits
    assert (opened.local_rows, opened.local_bytes) == (5, 6)
    more = Limits(local_rows=3, local_bytes=4, cluster_rows=5, cluster_bytes=6)
    assert Engines.opened(Session(master), more).limits == more


def test_a_client_of_spark_connect_takes_few_rows():
    limits = Limits(local_rows=200_000).of_cluster(is_remote=True)
    assert (limits.local_rows, limits.local_bytes) == (100_000, 64 << 20)
    given = Limits(local_rows=200_000, cluster_rows=150_000).of_cluster(is_remote=True)
    assert given.local_rows == 150_000


def test_a_step_on_a_cluster_runs_where_it_is_estimated_to_be_sooner(monkeypatch):
    """Within the limits; a small one measures nothing."""
    measured = []
    monkeypatch.setattr(costs, "_measured", lambda session: measured.append(session) or 0.3)
    monkeypatch.setattr(costs, "cores", lambda: 4)
    session = Session("yarn")
    engines = Engines.opened(session, Limits(local_rows=10_000_000, local_bytes=1 << 40))
    session.defaultParallelism = 400
    assert engines.is_local(10_000, 240_000, in_spark=True)
    assert not measured
    assert engines.is_local(1_000_000, 24_000_000, in_spark=True)
    assert not engines.is_local(10_000_000, 240_000_000, in_spark=True)
    assert engines.reads_groups(1_000, 8_192_000, read_seconds=0.4)
    assert not engines.reads_groups(1_000, 8_192_000, read_seconds=16)
    assert not engines.reads_groups(1_000, 80_000_000, read_seconds=0.1)
    assert measured == [session]
    largest = engines.last_estimate(7, 70)
    assert largest.driver_seconds > largest.spark_seconds > 0
    of_step = engines.last_estimate(7, 70)
    assert 0 < of_step.driver_seconds < of_step.spark_seconds
    assert Engines(None, Limits()).last_estimate(7, 70) is None
    session.defaultParallelism = 2
    assert engines.is_local(10_000_000, 240_000_000, in_spark=True)
    assert not engines.is_local(10_000_001 * 8, 240_000_000, in_spark=True)


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local[2,3]"])
def test_one_machine_has_what_it_has(master):
    for session in (Session(master), None):
        assert Engines.opened(session, Limits()).limits == Limits()


def test_one_machine_has_one_part_if_functions_run_in_spark_s_workers():
    """Their rows would have to go back to Spark."""
    others = (
        Session("local[2]", "/nowhere/python"),
        Session("local[2]", **{"spark.executor.pyspark.memory": "1g"}),
    )
    for session in others:
        assert Engines.opened(session, Limits()).limits == Limits(local_parts=1)


def test_a_step_has_more_parts_on_the_driver_than_it_holds():
    limits = Limits(local_rows=10, local_bytes=100, local_parts=3, seek_keys=2)
    for rows, size in ((30, 300), (10, 300), (30, 100)):
        assert limits.is_local(rows, size)
        assert not limits.is_local(rows, 301)
        assert not limits.is_local(31, size)
        assert limits.keeps_keys(rows, size)
        assert not limits.holds_keys(rows, size)
    assert [limits.rows_of(size) for size in (0, 10, 20)] == [10, 10, 5]
    assert [limits.local_rows_of(size) for size in (0, 10, 20)] == [30, 30, 15]
    assert limits.is_one_part(10, 100)
    assert limits.holds_keys(10, 100)
    assert limits.holds_keys(2, 1_000)
    none = replace(limits, local_rows=0)
    assert not none.is_local(1, 1)
    assert not none.is_one_part(1, 1)


def test_rows_of_files_are_read_in_parts_unless_a_cluster_is_sooner(monkeypatch):
    few = Limits(local_rows=10, local_bytes=1_000)
    for master in ("local[2]", None):
        session = Session(master) if master else None
        assert Engines.opened(session, few).reads_in_parts(1 << 40, 100)
        none = Engines.opened(session, replace(few, local_rows=0))
        assert none.reads_in_parts(1, 1) == (session is None)
    far, near = (Engines.opened(Session("yarn"), few) for _ in range(2))
    far.session.defaultParallelism, near.session.defaultParallelism = 1_000, 1
    monkeypatch.setattr(costs, "_measured", lambda _: 0.3)
    monkeypatch.setattr(costs, "cores", lambda: 4)
    assert [one.reads_in_parts(10, 100) for one in (far, near)] == [True, True]
    assert [one.reads_in_parts(1 << 30, 100) for one in (far, near)] == [False, True]


def test_what_a_table_has_counts_and_not_what_it_was_cut_from():
    engines = Engines(None, Limits(local_bytes=1_000))
    table = pa.table({"n": np.arange(1_000)})
    assert [engines.holds(table.slice(7, rows)) for rows in (125, 126)] == [True, False]
    assert engines.holds(table.slice(0, 100), table.slice(100, 25))
    assert not engines.holds(table.slice(0, 100), table.slice(100, 26))
    assert engines.holds()


def test_large_rows_are_kept_in_a_file_without_a_name(tmp_path, monkeypatch):
    monkeypatch.setattr(spilling.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(spilling, "LARGE_BYTES", 1_000)
    rows = pa.table({"n": np.arange(1_000), "t": [f"a{n}" for n in range(1_000)]})
    before = pa.total_allocated_bytes()
    kept = spilled(rows, rows.nbytes)
    assert pa.total_allocated_bytes() - before < 1_000
    assert kept.equals(rows)
    assert [*tmp_path.iterdir()] == []
    few = rows.slice(0, 3)
    assert spilled(few, few.nbytes) is few
    missing = str(tmp_path / "none")
    monkeypatch.setattr(spilling.tempfile, "tempdir", missing)
    with pytest.raises(StorageError) as caught:
        spilled(rows, rows.nbytes)
    assert f"{missing!r} (No such file or directory)" in str(caught.value)


def test_a_full_disk_is_told_with_its_place(monkeypatch):
    """Whenever it is full: at the first rows, later, or when the last bytes are written."""

    def full(prefix):
        return open("/dev/full", "wb")

    def kept(parts):
        spill = Spill(0)
        for part in parts:
            spill.add(part)
        return spill.table()

    monkeypatch.setattr(spilling.tempfile, "TemporaryFile", full)
    few, many = pa.table({"n": range(3)}), pa.table({"n": range(100_000)})
    for parts in ([few], [few, few, many], [many]):
        with pytest.raises(StorageError, match="No space left on device"):
            kept(parts)
