"""Functions that search for text in text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from deltaproduce.stages.sql.expressions.functions.rules import Rule, signature, taken, text, whole
from deltaproduce.stages.sql.expressions.kernels.rows import row_kernel
from deltaproduce.stages.sql.expressions.terms import Call, Constant, Term
from deltaproduce.types.data_types import BooleanType, IntegerType, StringType


def _place(value: str, part: str, start: int) -> int:
    """Return the first place of a part from a start on, from 1; 0 if there is none."""
    if start < 1:
        return 0
    return value.find(part, start - 1) + 1 if part else 1


def _located(wanted: pa.DataType, part: pa.Array, value: pa.Array, start: pa.Array) -> pa.Array:
    """Return a place, which is 0 if the start is null."""
    rows = zip(part.to_pylist(), value.to_pylist(), start.to_pylist(), strict=True)
    positions = [
        0 if s is None else (None if p is None or v is None else _place(v, p, s))
        for p, v, s in rows
    ]
    return pa.array(positions, wanted)


def _locate(arguments: Sequence[Term], zone: str) -> Term | None:
    """Return ``locate(part, text, start)``; Spark computes the start first."""
    given = [*arguments, Constant(IntegerType(), 1)][:3]
    terms = taken(given, (text, text, whole), zone) if len(arguments) > 1 else None
    if terms is None or any(term.may_fail for term in terms[:2]):
        return None
    return Call(IntegerType(), _located, terms, is_strict=False)


def _before(value: str, delimiter: str, count: int) -> str:
    """Return what is before a delimiter, or after one that is counted from the end.

    Delimiters may overlap.
    """
    if not delimiter or not count:
        return ""
    if count > 0:
        place = -1
        for _ in range(count):
            place = value.find(delimiter, place + 1)
            if place < 0:
                return value
        return value[:place]
    place = len(value) - len(delimiter) + 1
    for _ in range(-count):
        place = value.rfind(delimiter, 0, place - 1 + len(delimiter)) if place > 0 else -1
        if place < 0:
            return value
    return value[place + len(delimiter) :]


SEARCHING: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "startswith": signature(row_kernel(str.startswith), BooleanType(), text, text),
        "endswith": signature(row_kernel(str.endswith), BooleanType(), text, text),
        "contains": signature(row_kernel(str.__contains__), BooleanType(), text, text),
        "instr": signature(
            row_kernel(lambda value, part: _place(value, part, 1)), IntegerType(), text, text
        ),
        **dict.fromkeys(("locate", "position"), _locate),
        "substring_index": signature(row_kernel(_before), StringType(), text, text, whole),
    }
)
