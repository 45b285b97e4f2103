"""Threads: work beside the caller's, in threads that the process keeps.

To start a thread takes longer than much of what a small version does. The invariants: results come
in the order of the parts; parts are begun at most one per thread ahead of the results; when the
caller goes on, or an error is raised, no part is still at work.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from itertools import chain, islice
from typing import Final, TypeVar

from deltaproduce.model.limits.machine import cores

_MOST: Final = 1 << 16
"""Work may begin other work and wait for it, so there is a thread for each."""
_Part = TypeVar("_Part")
_Result = TypeVar("_Result")


def side_by_side(
    function: Callable[[_Part], _Result], parts: Iterable[_Part], threads: int | None = None
) -> Iterator[_Result]:
    """Yield the results of a function for some parts, in their order.

    The caller's thread takes the parts. A single part, and all parts with one thread, are processed
    in the caller's thread, too.

    Args:
        threads: how many parts are processed in parallel; by default one on each core.
    """
    ahead, count = iter(parts), threads or cores()
    first = [*islice(ahead, count)]
    if len(first) <= 1:
        yield from map(function, chain(first, ahead))
        return
    begun = deque(_begun(function, part) for part in first)
    try:
        while begun:
            result = begun.popleft().result()
            begun.extend(_begun(function, part) for part in islice(ahead, 1))
            yield result
    finally:
        wait([future for future in begun if not future.cancel()])


@contextmanager
def beside(function: Callable[[_Part], _Result], part: _Part) -> Iterator[Future[_Result]]:
    """Call a function in another thread while the block runs; the block's end waits for it."""
    future = _begun(function, part)
    try:
        yield future
    finally:
        wait([future])


def _begun(function: Callable[[_Part], _Result], part: _Part) -> Future[_Result]:
    return _threads(os.getpid()).submit(function, part)


@cache
def _threads(pid: int) -> ThreadPoolExecutor:
    """Return the threads of this process; a forked process has its own."""
    del pid
    return ThreadPoolExecutor(_MOST, "deltaproduce")
