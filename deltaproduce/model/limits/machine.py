"""The machine: how much memory this process may use, and how many of its cores.

Containers, and services such as Slurm or systemd, let a process have less than the machine has, by
control groups of Linux. A group is in another one, and each may have a limit. The invariant: what
is told here is never more than what the process may use, as far as the system says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final

_GROUPS: Final = Path("/sys/fs/cgroup")
_OF_PROCESS: Final = Path("/proc/self/cgroup")
"""A line for each hierarchy: its number, its controllers, and the process's group in it."""

_UNKNOWN_BYTES: Final = 8 << 30
"""The assumed memory where Python cannot tell, as on Windows."""


@cache
def memory_bytes() -> int:
    """Return the machine's memory, or the limit of its container or this process if lower."""
    return min(_memory_bounds())


@cache
def cores() -> int:
    """Return how many of the machine's cores this process may use; at least one."""
    return max(1, min(_core_bounds()))


def _memory_bounds() -> Iterator[int]:
    if os.name != "posix":
        yield _UNKNOWN_BYTES
        return
    import resource  # other systems do not have it

    yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for group in _groups("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):  # there is no such file, or it says "max"
                yield int((group / name).read_text())
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        yield soft


def _core_bounds() -> Iterator[int]:
    yield os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):  # other systems do not have it
        yield len(os.sched_getaffinity(0))
    for group in _groups("cpu"):
        with suppress(OSError, ValueError):  # as above
            quota, period = (group / "cpu.max").read_text().split()
            yield -(-int(quota) // int(period))
        with suppress(OSError, ValueError):
            quota, period = (
                (group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period")
            )
            if int(quota) > 0:
                yield -(-int(quota) // int(period))


def _groups(controller: str) -> Iterator[Path]:
    """Yield the directories of this process's group and of those that it is in.

    With version 2 of control groups there is one hierarchy; with version 1, one for a controller. A
    container sees its own group as the root, whatever its path is called outside.
    """
    roots = _GROUPS, _GROUPS / controller
    yield from roots
    with suppress(OSError, ValueError):
        for line in _OF_PROCESS.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and controller not in controllers.split(","):
                continue
            root = roots[1] if controllers else roots[0]
            inside = PurePosixPath(path.lstrip("/"))
            yield from (root / group for group in (inside, *inside.parents) if group.name)
