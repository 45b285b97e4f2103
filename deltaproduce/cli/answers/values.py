r"""Keys and rows on a command line: text as values of a stage's columns, and values as cells.

Pure. A key of several columns is one argument, with its values separated by commas as in a CSV
line; ``\N`` is null. The invariant: a text is only accepted as a value if the column's type can
hold it.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from deltaproduce.errors import InvalidArgumentError
from deltaproduce.shown.table import LONGEST_CELL, Cell
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import Column, Columns
from deltaproduce.types.excerpts import escaped, shown
from deltaproduce.types.json.plain import plain

_NULL: Final = "\\N"


def key_of(text: str, columns: Columns) -> Any:  # noqa: ANN401 as functions get keys
    """Return a key in the form of `Store.lineage` and `Store.forget`: bare, or a tuple.

    Raises:
        InvalidArgumentError: the text is not a key of these columns.
    """
    values = _csv(text) if len(columns) > 1 else [text]
    if len(values) != len(columns):
        raise InvalidArgumentError(
            f"key {shown(text)} has {len(values)} values, and the key has {len(columns)} columns: "
            f"give {','.join(columns.names)}",
            argument="key",
        )
    key = tuple(value_of(value, column) for value, column in zip(values, columns, strict=True))
    return key if len(key) > 1 else key[0]


def _csv(text: str) -> list[str]:
    """Return the values in a line of CSV.

    Raises:
        InvalidArgumentError: it is not one line.
    """
    try:
        return next(csv.reader([text]))
    except csv.Error as error:
        message = f"key {shown(text)} is not a line of CSV: {error}"
        raise InvalidArgumentError(message, argument="key") from error


def value_of(text: str, column: Column) -> Any:  # noqa: ANN401 of the column's type
    """Return a value of a column.

    Raises:
        InvalidArgumentError: the type cannot hold it.
    """
    if text == _NULL:
        return None
    kind = arrow_type(column.data_type)
    try:
        if pa.types.is_binary(kind):
            return bytes.fromhex(text)
        if pa.types.is_timestamp(kind):
            return datetime.fromisoformat(text)
        return pa.scalar(text, pa.string()).cast(kind).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise InvalidArgumentError(
            f"{shown(text)} is not a value of column {column.name!r}, {column.label}",
            argument="key",
        ) from error


def filters_of(
    texts: Iterable[str], columns: Columns, others: Collection[str] = ()
) -> dict[str, Any]:
    """Return column -> value: from a key, and from ``column=value`` for key columns.

    Args:
        others: the names of the other columns.

    Raises:
        InvalidArgumentError: a text is neither, or there are two keys, or two values of a column.
    """
    filters: dict[str, Any] = {}
    known = {column.name: column for column in columns}
    keys = []
    for text in texts:
        name, equals, value = text.partition("=")
        if equals and name in known:
            _check_once(name, filters)
            filters[name] = value_of(value, known[name])
        elif equals and name in others:
            raise _no_key_column(name, columns)
        else:
            keys.append(text)
    if len(keys) > 1:
        raise InvalidArgumentError(
            f"{shown(keys[1])} is a second key beside {shown(keys[0])}: give one, its values "
            f"separated by commas, or column=value of {', '.join(known)}",
            argument="key",
        )
    for text in keys:
        name, equals, _ = text.partition("=")
        try:
            key = key_of(text, columns)
        except InvalidArgumentError as error:
            if equals and name.isidentifier():
                raise _no_key_column(name, columns) from error
            raise
        for name, part in zip(known, key if len(columns) > 1 else [key], strict=True):
            _check_once(name, filters)
            filters[name] = part
    return filters


def _no_key_column(name: str, columns: Columns) -> InvalidArgumentError:
    names = ", ".join(columns.names)
    message = f"{name!r} is not a key column: rows are found by their key, which is {names}"
    return InvalidArgumentError(message, argument="key")


def _check_once(name: str, given: Collection[str]) -> None:
    if name in given:
        raise InvalidArgumentError(f"column {name!r} has two values; give one", argument="key")


def partitions_of(texts: Iterable[str]) -> dict[str, list[str | None]]:
    r"""Return column -> values, from ``column=value``; a column may have several; ``\N`` is null.

    Raises:
        InvalidArgumentError: a text does not have this form.
    """
    partitions = dict[str, list[str | None]]()
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidArgumentError(
                f"{shown(text)} is not a partition; write column=value", argument="where"
            )
        partitions.setdefault(name, []).append(None if value == _NULL else value)
    return partitions


def cell(value: object) -> Cell:
    """Return a value for a table: lists, maps and structs as JSON; null differs from empty text."""
    match scalar := plain(value):
        case None:
            return "NULL"
        case bool() | list() | dict():
            return escaped(json.dumps(scalar, ensure_ascii=False), limit=LONGEST_CELL)
    return escaped(str(scalar), limit=LONGEST_CELL)
