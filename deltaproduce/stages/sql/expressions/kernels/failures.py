"""The error for a value that cannot be computed."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


class EvaluationError(ArithmeticError):
    """A value cannot be computed.

    Attributes:
        condition: Spark's name for it; empty if Spark has none.
    """

    def __init__(self, condition: str, message: str) -> None:
        super().__init__(f"[{condition}] {message}" if condition else message)
        self.condition = condition


def refuse(wrong: pa.Array, condition: str, message: str) -> None:
    """Raise an EvaluationError if any mark is true; null is not true."""
    if pc.any(wrong).as_py():
        raise EvaluationError(condition, message)
