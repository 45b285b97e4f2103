"""The limits of a step follow from the available memory."""

import resource
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from deltaproduce import Limits
from deltaproduce.engines.choice import Engines
from deltaproduce.engines.local.large import spilling
from deltaproduce.engines.local.large.spilling import spilled
from deltaproduce.model import memory


@pytest.fixture
def containers(tmp_path, monkeypatch):
    """The files in which Linux says what a container may have."""
    files = tmp_path / "memory.max", tmp_path / "memory.limit_in_bytes"
    monkeypatch.setattr(memory, "_CONTROL_GROUPS", files)
    memory.memory_bytes.cache_clear()
    yield files
    memory.memory_bytes.cache_clear()


def test_a_container_has_less_than_the_machine(containers):
    machine = memory.memory_bytes()
    assert machine >= 1 << 28
    for file, text, expected in (
        (containers[0], "max\n", machine),
        (containers[1], f"{1 << 62}\n", machine),
        (containers[0], f"{1 << 27}\n", 1 << 27),
        (containers[1], f"{1 << 26}\n", 1 << 26),
    ):
        file.write_text(text)
        memory.memory_bytes.cache_clear()
        assert memory.memory_bytes() == expected
    limits = Limits()
    assert limits.local_bytes == (1 << 26) // 48
    assert limits.local_rows == (1 << 26) // 1_500


def test_a_process_may_have_a_bound(containers, monkeypatch):
    bound = 3 << 26
    monkeypatch.setattr(resource, "getrlimit", lambda _: (bound, resource.RLIM_INFINITY))
    assert memory.memory_bytes() == bound


def test_where_nobody_says_it(containers, monkeypatch):
    """Nor is there the module that knows the process's bounds, as on Windows."""
    monkeypatch.setattr(memory, "os", SimpleNamespace(name="nt"))
    monkeypatch.setitem(sys.modules, "resource", None)
    assert memory.memory_bytes() == 8 << 30


class Session:
    """What is asked of a session that a store is opened with."""

    def __init__(self, master):
        self.sparkContext = self
        self.master = master


@pytest.mark.parametrize("master", ["yarn", "spark://a:7077", "local-cluster[2,1,1024]", None])
def test_little_is_fetched_from_a_cluster(master):
    limits = Engines.opened(Session(master), Limits(seek_keys=7)).limits
    most = 64 << 20
    assert limits == Limits(local_rows=100_000, local_bytes=most, written_bytes=most, seek_keys=7)
    fewer = Limits(local_rows=5, local_bytes=6, written_bytes=7)
    assert Engines.opened(Session(master), fewer).limits == fewer


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local[2,3]"])
def test_one_machine_has_what_it_has(master):
    for session in (Session(master), None):
        assert Engines.opened(session, Limits()).limits == Limits()


def test_large_rows_are_kept_in_a_file_without_a_name(tmp_path, monkeypatch):
    monkeypatch.setattr(spilling.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(spilling, "LARGE_BYTES", 1_000)
    rows = pa.table({"n": np.arange(1_000), "t": [f"a{n}" for n in range(1_000)]})
    before = pa.total_allocated_bytes()
    kept = spilled(rows)
    assert pa.total_allocated_bytes() - before < 1_000
    assert kept.equals(rows)
    assert [*tmp_path.iterdir()] == []
    few = rows.slice(0, 3)
    assert spilled(few) is few
    monkeypatch.setattr(spilling.tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError):
        spilled(rows)
