"""How much memory, and how many cores, a process may use: never more than its container lets it."""

import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from deltaproduce import Limits
from deltaproduce.engines.local.workers import Workers
from deltaproduce.model.limits import machine


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of control groups, without a limit; this process is in ``a/b``."""
    told = tmp_path / "told"
    told.write_text("4:memory:/a/b\n3:cpuset:/\n1:cpu,cpuacct:/a/b\n0::/a/b\n")
    monkeypatch.setattr(machine, "_GROUPS", tmp_path)
    monkeypatch.setattr(machine, "_OF_PROCESS", told)
    forget()
    yield tmp_path
    forget()


def forget() -> None:
    machine.memory_bytes.cache_clear()
    machine.cores.cache_clear()


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")
    forget()


@pytest.mark.parametrize("inside", ["", "a/", "a/b/"])
def test_a_group_has_less_memory_than_the_machine(groups: Path, inside: str) -> None:
    """The process's own group, or one that it is in: the least limit counts."""
    all_of_it = machine.memory_bytes()
    assert all_of_it >= 1 << 28
    files = groups / inside / "memory.max", groups / "memory" / inside / "memory.limit_in_bytes"
    for file, text, expected in (
        (files[0], "max", all_of_it),
        (files[1], f"{1 << 62}", all_of_it),
        (files[0], f"{1 << 27}", 1 << 27),
        (files[1], f"{1 << 26}", 1 << 26),
    ):
        write(file, text)
        assert machine.memory_bytes() == expected
    limits = Limits()
    assert limits.local_bytes == (1 << 26) // 48
    assert limits.local_rows == (1 << 26) // 1_500


def test_limits_of_other_groups_do_not_count(groups: Path) -> None:
    all_of_it = machine.memory_bytes(), machine.cores()
    for other in ("c", "a/c", "a/b/c"):
        write(groups / other / "memory.max", "1000")
        write(groups / other / "cpu.max", "10000 100000")
    assert (machine.memory_bytes(), machine.cores()) == all_of_it


def test_a_process_may_have_a_bound(groups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bound = 3 << 26
    monkeypatch.setattr(resource, "getrlimit", lambda _: (bound, resource.RLIM_INFINITY))
    assert machine.memory_bytes() == bound


def test_where_nobody_says_it(groups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is there the module that knows the process's bounds, as on Windows."""
    system = SimpleNamespace(name="nt", cpu_count=lambda: None)
    monkeypatch.setattr(machine, "os", system)
    monkeypatch.setitem(sys.modules, "resource", None)
    assert (machine.memory_bytes(), machine.cores()) == (8 << 30, 1)


@pytest.mark.parametrize("inside", ["", "a/", "a/b/"])
def test_a_group_has_fewer_cores_than_the_machine(
    groups: Path, monkeypatch: pytest.MonkeyPatch, inside: str
) -> None:
    """A part of a core counts as one; without a quota all cores of the process do."""
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    forget()
    assert machine.cores() == 16
    new, old = groups / inside / "cpu.max", groups / "cpu" / inside / "cpu.cfs_quota_us"
    write(old.with_name("cpu.cfs_period_us"), "50000")
    for file, text, expected in (
        (new, "max 100000", 16),
        (old, "-1", 16),
        (new, "750000 100000", 8),
        (old, "125000", 3),
        (new, "20000 100000", 1),
    ):
        write(file, text)
        assert machine.cores() == expected
    assert Workers().most == 1


def test_a_process_may_be_bound_to_some_cores(
    groups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 6}, raising=False)
    forget()
    assert machine.cores() == 3
