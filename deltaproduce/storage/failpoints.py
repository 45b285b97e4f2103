"""Fail points: named moments just before and just after every effect, at which a test may crash.

An effect is anything that changes what is stored: a data commit, a restore, the log commit, a
clean-up. Each is written as ``with effect(name, table): …``, which is two fail points. Outside of
tests a fail point does nothing.

The invariant: nothing is written outside of an effect. `tests/spark/test_crashes.py` holds it for
Delta's commits, by watching the logs while operations of each kind that writes run, and crashes at
each effect of them in turn.

The one variable of a module that is ever assigned is here, because a crash comes from outside: no
caller could hand it down without every layer speaking of crashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

When = Literal["before", "after"]

Crash: TypeAlias = Callable[[When, str, str], None]
"""Called with when, the effect's name and its table; it returns, raises, or ends the process."""

_armed: Crash | None = None


@contextmanager
def effect(name: str, table: str) -> Iterator[None]:
    """Two fail points around an effect; the second is not reached if the effect fails."""
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
