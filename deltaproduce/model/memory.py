"""How much memory this machine gives to a process: what the limits of steps on it go by."""

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
"""What a container may have, as Linux says it: by control groups of version 2, and of version 1."""


_NOT_TOLD: Final = 8 << 30
"""What is taken for it where Python does not say it, as on Windows."""


@cache
def memory_bytes() -> int:
    """The machine's memory, or what its container or this process may have if that is less."""
    return min(_bounds())


def _bounds() -> Iterator[int]:
    if os.name != "posix":
        yield _NOT_TOLD
        return
    import resource  # which others do not have

    yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _CONTROL_GROUPS:
        with suppress(OSError, ValueError):  # there is none, or it says "max"
            yield int(path.read_text())
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        yield soft
