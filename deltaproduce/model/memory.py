"""The memory that this machine gives a process: the base of the limits of steps on it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

_CONTROL_GROUPS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""The memory limit of a container on Linux, by control groups version 2 and version 1."""


_NOT_TOLD: Final = 8 << 30
"""The assumed memory where Python cannot tell, as on Windows."""


@cache
def memory_bytes() -> int:
    """Return the machine's memory, or the limit of its container or this process if lower."""
    return min(_bounds())


def _bounds() -> Iterator[int]:
    if os.name != "posix":
        yield _NOT_TOLD
        return
    import resource  # other systems do not have it

    yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _CONTROL_GROUPS:
        with suppress(OSError, ValueError):  # there is no such file, or it says "max"
            yield int(path.read_text())
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        yield soft
