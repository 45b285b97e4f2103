"""The error for a value that cannot be computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

Kernel: TypeAlias = Callable[..., pa.Array]
"""Computes the result from its type and the arguments."""


class EvaluationError(ArithmeticError):
    """A value cannot be computed.

    Attributes:
        condition: Spark's name for it.
    """

    def __init__(self, condition: str, message: str) -> None:
        super().__init__(f"[{condition}] {message}")
        self.condition = condition
