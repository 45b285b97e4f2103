"""Arithmetic that is null where it would fail, though not where an argument fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.stages.sql.expressions.functions.operators import OPERATORS
from deltaproduce.stages.sql.expressions.functions.rules import Rule
from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError
from deltaproduce.stages.sql.expressions.terms import Call, Kernel, Term
from deltaproduce.types.data_types import NumericType


def _null_if_failed(kernel: Kernel) -> Kernel:
    """Return a kernel that parts rows until those that fail are alone."""

    def run(wanted: pa.DataType, *arguments: pa.Array) -> pa.Array:
        try:
            return kernel(wanted, *arguments)
        except EvaluationError:
            count = len(arguments[0])
            if count == 1:
                return pa.nulls(1, wanted)
        half = count // 2
        parts = (slice(0, half), slice(half, count))
        return pa.concat_arrays([run(wanted, *(a[part] for a in arguments)) for part in parts])

    return run


def _without_zeros(kernel: Kernel) -> Kernel:
    """Return the kernel of a division that is null where the divisor is zero."""

    def run(wanted: pa.DataType, divisor: pa.Array, dividend: pa.Array) -> pa.Array:
        zero = Decimal(0) if pa.types.is_decimal(divisor.type) else 0
        is_zero = pc.equal(divisor, pa.scalar(zero, divisor.type))
        null = pa.scalar(None, divisor.type)
        return kernel(wanted, pc.if_else(is_zero, null, divisor), dividend)

    return run


def _tried(sign: str) -> Rule:
    is_division = sign in {"/", "%"}

    def rule(arguments: Sequence[Term], zone: str) -> Term | None:
        if not all(isinstance(argument.data_type, NumericType) for argument in arguments):
            return None
        call = OPERATORS[sign](arguments, zone)
        if not isinstance(call, Call):
            return None
        kernel = _null_if_failed(call.kernel)
        return replace(call, kernel=_without_zeros(kernel) if is_division else kernel, fails=False)

    return rule


TRIED: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "try_add": _tried("+"),
        "try_subtract": _tried("-"),
        "try_multiply": _tried("*"),
        "try_divide": _tried("/"),
        "try_mod": _tried("%"),
    }
)
