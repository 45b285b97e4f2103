"""Functions of text, which is a sequence of code points, as in Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.stages.sql.expressions.functions.rules import (
    Parameter,
    Rule,
    by_count,
    signature,
    taken,
    text,
    whole,
)
from deltaproduce.stages.sql.expressions.kernels.rows import row_kernel
from deltaproduce.stages.sql.expressions.terms import Call, Constant, Term
from deltaproduce.types.data_types import ArrayType, IntegerType, StringType

_TEXT: Final = StringType()
_MOST: Final = 2**31 - 1


def _joined(_: pa.DataType, *parts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "", null_handling="emit_null")


def _joined_by(wanted: pa.DataType, separator: pa.Array, *parts: pa.Array) -> pa.Array:
    """Join what is not null; Arrow leaves out rows where all is."""
    rows = zip(separator.to_pylist(), *(part.to_pylist() for part in parts), strict=True)
    texts = [
        None if between is None else between.join(part for part in row if part is not None)
        for between, *row in rows
    ]
    return pa.array(texts, wanted)


def _concat(arguments: Sequence[Term], zone: str) -> Term | None:
    terms = taken(arguments, [text] * len(arguments), zone)
    return Call(_TEXT, _joined, terms, is_strict=False) if terms else None


def _concat_ws(arguments: Sequence[Term], zone: str) -> Term | None:
    if any(isinstance(argument.data_type, ArrayType) for argument in arguments):
        return None
    terms = taken(arguments, [text] * len(arguments), zone)
    return Call(_TEXT, _joined_by, terms, is_strict=False) if terms and terms[1:] else None


def _part_of(value: str, start: int, length: int) -> str:
    """Return a part, from a place that counts from 1, or from the end if it is negative."""
    first = start - 1 if start > 0 else (len(value) + start if start < 0 else 0)
    end = min(first + length, _MOST)
    return value[max(first, 0) : end] if end > first else ""


def _slice(_: pa.DataType, value: pa.Array, start: pa.Array, length: pa.Array) -> pa.Array:
    """Return `_part_of` for one place after the beginning and one length, for all rows."""
    if not len(value):
        return value
    first = start[0].as_py() - 1
    return pc.utf8_slice_codeunits(value, first, first + length[0].as_py())


def _substring(arguments: Sequence[Term], zone: str) -> Term | None:
    given = [*arguments, Constant(IntegerType(), _MOST)][:3]
    terms = taken(given, (text, whole, whole), zone)
    match terms:
        case (_, Constant(value=int(start)), Constant(value=int(length))) if (
            start > 0 and 0 <= length <= _MOST - start
        ):
            return Call(_TEXT, _slice, terms)
    return None if terms is None else Call(_TEXT, row_kernel(_part_of), terms)


def _right(value: str, length: int) -> str:
    return _part_of(value, -length, _MOST) if length > 0 else ""


def _padding(value: str, length: int, pad: str) -> str | None:
    """Return what is added to text; None if it is long enough."""
    missing = length - len(value)
    return (pad * (missing // len(pad) + 1))[:missing] if missing > 0 and pad else None


def _lpad(value: str, length: int, pad: str) -> str:
    padding = _padding(value, length, pad)
    return value[: max(length, 0)] if padding is None else padding + value


def _rpad(value: str, length: int, pad: str) -> str:
    padding = _padding(value, length, pad)
    return value[: max(length, 0)] if padding is None else value + padding


def _replaced(value: str, old: str, new: str) -> str:
    return value.replace(old, new) if old else value


def _translated(value: str, old: str, new: str) -> str:
    """Replace characters one by one; a NUL is left out."""
    table = dict[int, str | None]()
    for place, character in enumerate(old):
        other = new[place] if place < len(new) else "\0"
        table.setdefault(ord(character), None if other == "\0" else other)
    return value.translate(table)


def _repeated(value: str, times: int) -> str:
    return value * max(times, 0)


def _trimmed(trim: Callable[..., str], in_arrow: Callable[..., pa.Array]) -> Rule:
    """Return the rule of a function that trims blanks, or characters that come before the text."""
    chosen = signature(row_kernel(lambda characters, value: trim(value, characters)), _TEXT, *_TWO)
    blanks = signature(lambda _, value: in_arrow(value, characters=" "), _TEXT, text)
    return by_count({1: blanks, 2: chosen})


def _first_point(value: str) -> int:
    return ord(value[0]) if value else 0


def _in_rows(
    compute: Callable[..., Any], *others: Parameter, defaults: Sequence[Constant] = ()
) -> Rule:
    return signature(row_kernel(compute), _TEXT, text, *others, defaults=defaults)


_TWO: Final = (text, text)
_BLANK: Final = (Constant(_TEXT, " "),)
_EMPTY: Final = (Constant(_TEXT, ""),)

TEXT: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "concat": _concat,
        "concat_ws": _concat_ws,
        **dict.fromkeys(
            ("length", "char_length", "character_length", "len"),
            signature(lambda wanted, v: pc.utf8_length(v).cast(wanted), IntegerType(), text),
        ),
        "octet_length": signature(
            lambda wanted, v: pc.binary_length(v).cast(wanted), IntegerType(), text
        ),
        "ascii": signature(row_kernel(_first_point), IntegerType(), text),
        "trim": _trimmed(str.strip, pc.utf8_trim),
        "ltrim": _trimmed(str.lstrip, pc.utf8_ltrim),
        "rtrim": _trimmed(str.rstrip, pc.utf8_rtrim),
        **dict.fromkeys(("substring", "substr"), by_count({2: _substring, 3: _substring})),
        "left": _in_rows(lambda value, length: _part_of(value, 1, length), whole),
        "right": _in_rows(_right, whole),
        "lpad": _in_rows(_lpad, whole, text, defaults=_BLANK),
        "rpad": _in_rows(_rpad, whole, text, defaults=_BLANK),
        "replace": _in_rows(_replaced, text, text, defaults=_EMPTY),
        "reverse": _in_rows(lambda value: value[::-1]),
        "repeat": _in_rows(_repeated, whole),
        "translate": _in_rows(_translated, text, text),
    }
)
