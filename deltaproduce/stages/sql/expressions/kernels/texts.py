"""Casts of text to decimals, doubles and booleans, by the grammars of Java and Spark."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.stages.sql.expressions.kernels.casting import TRIMMED, Cast
from deltaproduce.stages.sql.expressions.kernels.rows import by_row

_INVALID: Final = "CAST_INVALID_INPUT"
_BLANKS: Final = "".join(map(chr, range(33)))
"""What Java trims from the text of a number."""
_DIGIT: Final = r"[^\D\U00010000-\U0010ffff]"
"""A digit of any script, as far as Java finds it in one `char`."""
_DECIMAL: Final = re.compile(
    rf"[+-]?(?:{_DIGIT}+\.?(?P<fraction>{_DIGIT}*)|\.(?P<alone>{_DIGIT}+))"
    rf"(?:[eE](?P<exponent>[+-]?{_DIGIT}+))?"
)
_DOUBLE: Final = re.compile(
    r"([+-]?(?:NaN|Infinity))|([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?"
)
_HEXADECIMAL: Final = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?"
)
_SPECIAL: Final = {
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), float("inf")),
    **dict.fromkeys(("-inf", "-infinity"), float("-inf")),
    "nan": float("nan"),
}
"""What Spark takes for a double besides Java's texts, in letters of any case."""
_TRUE: Final = ("t", "true", "y", "yes", "1")
_FALSE: Final = ("f", "false", "n", "no", "0")
_MOST_DIGITS: Final = 38
_EXPONENTS: Final = range(-(2**31), 2**31)
_WIDE: Final = Context(prec=2 * _MOST_DIGITS)
"""Holds all decimals of which Spark makes one of a type."""


def _number(text: str) -> Decimal | None:
    """Parse a decimal number as Java does, exactly."""
    trimmed = text.strip(_BLANKS)
    match = _DECIMAL.fullmatch(trimmed)
    if match is None:
        return None
    exponent = Decimal(match["exponent"] or 0)
    places = len(match["fraction"] or match["alone"] or "") - exponent
    if not all(_EXPONENTS[0] <= one <= _EXPONENTS[-1] for one in (exponent, places)):
        return None
    return Decimal(trimmed)


def _is_beyond(number: Decimal) -> bool:
    """Return whether a number has more digits before the point than any decimal type."""
    return number.adjusted() + 1 > _MOST_DIGITS


def _text_to_decimal(wanted: pa.DataType, value: pa.Array) -> pa.Array:
    """Parse decimal numbers, rounding half up."""
    unit, most = Decimal((0, (1,), -wanted.scale)), Decimal(10) ** (wanted.precision - wanted.scale)

    def fitting(text: str) -> Decimal | None:
        number = _number(text)
        if number is None or _is_beyond(number):
            return None
        rounded = number.quantize(unit, ROUND_HALF_UP, _WIDE)
        return rounded if abs(rounded) < most else None

    return pa.array(by_row(fitting, value), wanted)


def _misfit_of_decimal(text: str) -> str:
    number = _number(text)
    if number is None:
        return _INVALID
    return "NUMERIC_OUT_OF_SUPPORTED_RANGE" if _is_beyond(number) else "NUMERIC_VALUE_OUT_OF_RANGE"


def _text_to_double(wanted: pa.DataType, value: pa.Array) -> pa.Array:
    """Parse doubles, rounded once."""
    return pa.array(by_row(_double, value), wanted)


def _double(text: str) -> float | None:
    trimmed = text.strip(_BLANKS)
    if match := _DOUBLE.fullmatch(trimmed):
        return float(match[1] or match[2])
    if match := _HEXADECIMAL.fullmatch(trimmed):
        try:
            return float.fromhex(match[1])
        except OverflowError:
            return float("-inf" if trimmed.startswith("-") else "inf")
    return _SPECIAL.get(trimmed.lower())


def _text_to_boolean(_: pa.DataType, value: pa.Array) -> pa.Array:
    word = pc.utf8_lower(pc.utf8_trim(value, characters=TRIMMED))
    is_true, is_false = (pc.is_in(word, pa.array(words)) for words in (_TRUE, _FALSE))
    return pc.if_else(pc.or_(is_true, is_false), is_true, pa.scalar(None, pa.bool_()))


text_to_decimal: Final = Cast(_text_to_decimal, _misfit_of_decimal)
text_to_double: Final = Cast(_text_to_double, _INVALID)
text_to_boolean: Final = Cast(_text_to_boolean, _INVALID)
