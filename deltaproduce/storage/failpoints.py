"""Fail points: named moments just before and just after every effect, at which a test may crash.

An effect is anything that changes what is stored: a data commit, a restore, the log commit, a
clean-up. Each is written as ``with effect(name, table): …``, which is two fail points. Outside of
tests a fail point does nothing.

The invariant: nothing is written outside of an effect. `tests/spark/test_crashes.py` checks it for
Delta's commits: it watches the logs while operations of each writing kind run, and crashes at each
of their effects in turn.

This module has the only module variable that is ever reassigned, because a crash comes from
outside: to pass it down, every layer would have to know of crashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

When = Literal["before", "after"]

Crash: TypeAlias = Callable[[When, str, str], None]
"""Called with the moment, the effect and its table; returns, raises, or ends the process."""

_armed: Crash | None = None


@contextmanager
def effect(name: str, table: str) -> Iterator[None]:
    """Mark an effect with two fail points; a failing effect does not reach the second."""
    _reach("before", name, table)
    yield
    _reach("after", name, table)


@contextmanager
def armed(crash: Crash) -> Iterator[None]:
    """Have a function called at every fail point, of all stores and threads of this process."""
    global _armed
    before, _armed = _armed, crash
    try:
        yield
    finally:
        _armed = before


def _reach(when: When, name: str, table: str) -> None:
    if _armed is not None:
        _armed(when, name, table)
