"""What a text is in each type without parts: the one rule of CSV files and of texts in JSON.

The invariant: a text is the value that it writes, exactly, or it is refused. The only rounding is
that of a decimal fraction to the nearest float; a number that is out of a float's range does not
become infinite, and one that is too small does not become zero. Spaces around a value count only in
a string.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, tzinfo
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.cli.inputs.reading.faults import Unfit, no_value
from deltaproduce.cli.inputs.reading.time_forms import DATES, TIMES, TimeForm
from deltaproduce.cli.inputs.reading.times import dates, instants, times
from deltaproduce.types import data_types as t
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.conversions import misfits


@dataclass(frozen=True, slots=True)
class Forms:
    """How the values of a file are written.

    Attributes:
        zone: the time zone of timestamps that are written without one.
        decimal: the character before the fraction of a number.
        dates: the form of dates.
        times: the form of timestamps.
    """

    zone: tzinfo = UTC
    decimal: str = "."
    dates: TimeForm = DATES
    times: TimeForm = TIMES


def converted(texts: pa.StringArray, data_type: t.DataType, forms: Forms) -> pa.Array:
    """Return texts as values of a type without parts; null stays null.

    Raises:
        Unfit: with the first text that is none.
    """
    match data_type:
        case t.StringType():
            return texts
        case t.BinaryType():
            return texts.cast(pa.binary())
    trimmed = pc.utf8_trim(texts, " \t")
    match data_type:
        case t.BooleanType():
            return _booleans(trimmed)
        case t.IntegralType():
            return _integers(trimmed, data_type)
        case t.DecimalType():
            return _decimals(_with_points(trimmed, forms, data_type), data_type)
        case t.FractionalType():
            return _floats(_with_points(trimmed, forms, data_type), data_type)
        case t.DateType():
            return dates(trimmed, forms.dates)
        case t.TimestampNTZType():
            return times(trimmed, forms.times, zoned=False).local()
        case t.TimestampType():
            moments = times(trimmed, forms.times, zoned=True)
            return moments.moments(lambda local: instants(local, forms.zone))
    raise TypeError(f"{data_type.simpleString()!r} has parts")


_TRUE: Final = ("true", "t", "yes", "y", "1")
_FALSE: Final = ("false", "f", "no", "n", "0")
_INTEGER: Final = r"^[+-]?[0-9]+$"
_NUMBER: Final = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_NO_NUMBER: Final = r"^[+-]?(?i:nan|inf|infinity)$"
_NOT_ZERO: Final = r"^[^eE]*[1-9]"
_EXACT: Final = Context(prec=400, traps=[Inexact, InvalidOperation])


def _first(marks: pa.Array) -> int | None:
    """Return the first row that is marked; null is no mark."""
    place = pc.index(marks, True).as_py()
    return None if place < 0 else int(place)


def _check(texts: pa.Array, fits: pa.Array, kind: str, why: str = "") -> None:
    """Refuse the first text that does not fit.

    Raises:
        Unfit: there is one.
    """
    place = _first(pc.invert(fits))
    if place is not None:
        raise Unfit(place, no_value(texts[place].as_py(), kind, why))


def _booleans(texts: pa.Array) -> pa.Array:
    lower = pc.utf8_lower(texts)
    known = pc.is_in(lower, value_set=pa.array((*_TRUE, *_FALSE)))
    _check(texts, pc.if_else(pc.is_valid(texts), known, None), "boolean")
    is_true = pc.is_in(lower, value_set=pa.array(_TRUE))
    return pc.if_else(pc.is_valid(texts), is_true, None)


def _integers(texts: pa.Array, data_type: t.DataType) -> pa.Array:
    kind, wanted = data_type.simpleString(), arrow_type(data_type)
    _check(texts, pc.match_substring_regex(texts, _INTEGER), kind)
    plain = pc.replace_substring_regex(texts, r"^\+", "")
    return _cast(plain, lambda part: part.cast(wanted), f"no {kind}: it is out of range")


def _with_points(texts: pa.Array, forms: Forms, data_type: t.DataType) -> pa.Array:
    """Return numbers with a point before their fraction."""
    if forms.decimal == ".":
        return texts
    why = f"its decimal character is {forms.decimal!r}"
    _check(texts, pc.invert(pc.match_substring(texts, ".")), data_type.simpleString(), why)
    return pc.replace_substring(texts, forms.decimal, ".")


def _decimals(texts: pa.Array, data_type: t.DecimalType) -> pa.Array:
    kind, wanted = data_type.simpleString(), arrow_type(data_type)
    _check(texts, pc.match_substring_regex(texts, _NUMBER), kind)

    # Where Arrow moves the point of a number that is too large, it overflows silently.
    plain = rf"^[+-]?0*[0-9]{{0,{data_type.precision - data_type.scale}}}(\.[0-9]*)?$"

    def cast(part: pa.Array) -> pa.Array:
        if pc.all(pc.match_substring_regex(part, plain)).as_py() is not False:
            with suppress(pa.ArrowException):  # it also refuses zeros beyond 38 digits
                return part.cast(wanted)
        values = [None if text is None else _decimal(text, data_type) for text in part.to_pylist()]
        return pa.array(values, wanted)

    return _cast(texts, cast, f"no {kind}: it has more digits")


def _decimal(text: str, data_type: t.DecimalType) -> Decimal:
    """Return a decimal in its scale.

    Raises:
        DecimalException: it has more digits than its type.
    """
    value = Decimal(text)
    if not value:
        return Decimal(0)
    if value.adjusted() >= data_type.precision - data_type.scale:
        raise InvalidOperation
    return value.quantize(Decimal((0, (1,), -data_type.scale)), context=_EXACT)


def _floats(texts: pa.Array, data_type: t.DataType) -> pa.Array:
    kind, wanted = data_type.simpleString(), arrow_type(data_type)
    is_number = pc.match_substring_regex(texts, _NUMBER)
    _check(texts, pc.or_(is_number, pc.match_substring_regex(texts, _NO_NUMBER)), kind)
    floats = texts.cast(wanted)
    lost = pc.or_(
        pc.and_(pc.is_inf(floats), is_number),
        pc.and_(pc.equal(floats, 0), pc.match_substring_regex(texts, _NOT_ZERO)),
    )
    _check(texts, pc.invert(lost), kind, "it is out of range")
    return floats


def _cast(texts: pa.Array, cast: Callable[[pa.Array], pa.Array], finding: str) -> pa.Array:
    """Return texts as values.

    Raises:
        Unfit: with the first text that is none.
    """

    def fits(start: int, end: int) -> bool:
        try:
            cast(texts.slice(start, end - start))
        except (pa.ArrowException, DecimalException):
            return False
        return True

    try:
        return cast(texts)
    except (pa.ArrowException, DecimalException) as error:
        (place, *_) = misfits(len(texts), fits, 1)
        raise Unfit(place, f"{texts[place].as_py()!r} is {finding}") from error
