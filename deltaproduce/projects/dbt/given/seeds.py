"""Columns of seeds: the types that dbt finds in the texts of a CSV file.

Pure. dbt tries number, date, time and boolean, and takes the first that fits all values of a
column. The invariant: a column's type holds each of its values.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Final

from deltaproduce.errors import DefinitionError

_NULLS: Final = frozenset({"", "null"})
_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?")
_LEAST_INT, _MOST_INT = -(2**31), 2**31 - 1


def columns(text: str, delimiter: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the columns of a CSV file, with their types as DDL.

    Args:
        given: the types that the project says, by column.

    Raises:
        DefinitionError: the file has no header, or a row of another length.
    """
    rows = csv.reader(io.StringIO(text.removeprefix("\ufeff")), delimiter=delimiter)
    header = next(rows, None)
    if not header:
        raise DefinitionError("the file is empty; its first line names the columns", line=1)
    values: list[set[str]] = [set() for _ in header]
    for row in rows:
        if row and len(row) != len(header):
            message = f"the line has {len(row)} values, and the header {len(header)}"
            raise DefinitionError(message, line=rows.line_num)
        for seen, value in zip(values, row, strict=False):
            seen.add(value.strip())
    said = {name.lower(): kind for name, kind in given.items()}
    return {
        name: said.get(name.lower()) or _type([one for one in seen if one.lower() not in _NULLS])
        for name, seen in zip(header, values, strict=True)
    }


def _type(values: Iterable[str]) -> str:
    """Return the first type that holds all of the values."""
    texts = list(values)
    if not texts:  # dbt takes a column without values for whole numbers
        return "int"
    for name, fits in _TYPES:
        if all(map(fits, texts)):
            return name
    return "string"


def _is_int(text: str) -> bool:
    number = _number(text)
    return number is not None and _is_whole(number) and _LEAST_INT <= number <= _MOST_INT


def _is_bigint(text: str) -> bool:
    number = _number(text)
    return number is not None and _is_whole(number) and -(2**63) <= number < 2**63


def _is_double(text: str) -> bool:
    return _number(text) is not None


def _number(text: str) -> Decimal | None:
    try:
        number = Decimal(text) if "_" not in text else None
    except InvalidOperation:
        return None
    return number if number is not None and number.is_finite() else None


def _is_whole(number: Decimal) -> bool:
    """Return whether a number is written without digits after the point."""
    exponent = number.as_tuple().exponent
    return isinstance(exponent, int) and exponent >= 0


def _is_date(text: str) -> bool:
    return len(text) == len("2026-01-31") and _parses(date.fromisoformat, text)


def _is_timestamp(text: str) -> bool:
    return _TIME.fullmatch(text) is not None and _parses(datetime.fromisoformat, text)


def _is_boolean(text: str) -> bool:
    return text.lower() in {"true", "false"}


def _parses(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


_TYPES: Final = (
    ("int", _is_int),
    ("bigint", _is_bigint),
    ("double", _is_double),
    ("date", _is_date),
    ("timestamp", _is_timestamp),
    ("boolean", _is_boolean),
)
