"""What is raised where a value cannot be computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

Kernel: TypeAlias = Callable[..., pa.Array]
"""From the type of the result and the arguments to the result."""


class EvaluationError(ArithmeticError):
    """A value cannot be computed.

    Attributes:
        condition: what Spark calls it.
    """

    def __init__(self, condition: str, message: str) -> None:
        super().__init__(f"[{condition}] {message}")
        self.condition = condition
