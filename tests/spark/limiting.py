"""Stores that do small things as if they were large: the limits that they are opened with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deltaproduce import Store
from deltaproduce.model.limits import Limits


def limit(**limits: int) -> None:
    """Have every store of this process that is opened from now on go by other limits."""
    _defaults()["limits"] = replace(_limits(), **limits)


def limited(patch: pytest.MonkeyPatch, **limits: int) -> None:
    """The same, until the patch is undone."""
    patch.setitem(_defaults(), "limits", replace(_limits(), **limits))


def _limits() -> Limits:
    found = _defaults()["limits"]
    assert isinstance(found, Limits)
    return found


def _defaults() -> dict[str, object]:
    found = Store.__init__.__kwdefaults__
    assert found is not None
    return found
