"""Lowered limits, so that small data takes the paths of large data for a while.

All stores that are opened without limits share one value. `limit` changes it in place, so that open
stores follow it too.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import fields
from typing import Final

import pytest

from deltaproduce import Limits, Store


class _Thawed(MutableMapping[str, int]):
    """The limits that stores have by default, as they are not meant to be: to be changed."""

    def __getitem__(self, name: str) -> int:
        found = getattr(_defaults(), name)
        assert isinstance(found, int)
        return found

    def __setitem__(self, name: str, value: int) -> None:
        assert name in self
        object.__setattr__(_defaults(), name, value)

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"there is always a limit {name!r}")

    def __iter__(self) -> Iterator[str]:
        return (field.name for field in fields(Limits))

    def __len__(self) -> int:
        return len(fields(Limits))


_THAWED: Final = _Thawed()


def limit(**limits: int) -> None:
    """Have the stores of this process go by other limits."""
    _THAWED.update(limits)


def limited(patch: pytest.MonkeyPatch, **limits: int) -> None:
    """The same, until the patch is undone."""
    for name, value in limits.items():
        patch.setitem(_THAWED, name, value)


def _defaults() -> Limits:
    found = (Store.__init__.__kwdefaults__ or {})["limits"]
    assert isinstance(found, Limits)
    return found
