"""Fixtures: the rows that a unit test of dbt gives or expects, as Python values of columns.

dbt casts what is written, which is text in CSV, to the type of the column. Pure. The invariant: a
value is what dbt's cast gives, or it is refused.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from deltaproduce.errors import DefinitionError
from deltaproduce.projects.dbt.sql.naming import column_name
from deltaproduce.projects.dbt.sql.translation import spark_type
from deltaproduce.stages.sql.syntax import reason
from deltaproduce.types import data_types as t
from deltaproduce.types.columns import Column
from deltaproduce.types.ddl import struct_from_ddl
from deltaproduce.types.excerpts import meant, shown

_CONSTANTS_ALONE: Final = (
    "its rows are a query of more than constants: write them as dicts or CSV in dbt"
)
_TRUTHS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("true", "t", "1"), True),
    **dict.fromkeys(("false", "f", "0"), False),
}


def fixture_rows(
    fixture: Mapping[str, Any], columns: Iterable[Column], dialect: str
) -> list[dict[str, Any]]:
    """Return the rows of a fixture, with the columns that it names.

    Args:
        fixture: an entry of `given`, or `expect`, as the manifest has it.
        columns: the columns of the stage that has the rows.

    Raises:
        DefinitionError: its rows are not constants, or do not fit the columns.
    """
    own = {column.name.lower(): column for column in columns}
    return [
        {
            column.name: _in_column(value, column)
            for name, value in row.items()
            for column in (_named(column_name(name), own),)
        }
        for row in _written(fixture, dialect)
    ]


def _named(name: str, columns: Mapping[str, Column]) -> Column:
    if name.lower() not in columns:
        known = meant(name, (column.name for column in columns.values()))
        raise DefinitionError(f"its rows have a column {shown(name)}, which is not there; {known}")
    return columns[name.lower()]


def _written(fixture: Mapping[str, Any], dialect: str) -> list[Mapping[str, Any]]:
    """Return rows as they are written."""
    rows = fixture.get("rows")
    if isinstance(rows, str) and fixture.get("format") == "sql":
        return list(_selected(rows, dialect))
    if isinstance(rows, str):
        lines = csv.DictReader(io.StringIO(rows.strip()), skipinitialspace=True)
        return [{name: value or None for name, value in row.items()} for row in lines]
    if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
        return rows
    raise DefinitionError("the manifest does not have its rows: run dbt parse with a newer dbt")


def _selected(text: str, dialect: str) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a UNION ALL of SELECTs of constants."""
    try:
        selects = list(_selects(parse_one(text, read=dialect)))
    except SqlglotError as error:
        raise DefinitionError(f"its rows are SQL that cannot be read: {reason(error)}") from None
    names = [one.alias_or_name for one in selects[0].selects]
    if not all(names) or any(len(one.selects) != len(names) for one in selects):
        raise DefinitionError("its rows are SQL with columns that have no name; name them with AS")
    for one in selects:
        yield dict(zip(names, (_constant(value, dialect) for value in one.selects), strict=True))


def _selects(tree: exp.Expr) -> Iterator[exp.Select]:
    has = {name for name, value in tree.args.items() if value}
    if isinstance(tree, exp.Union) and has <= {"this", "expression"}:  # all, not distinct
        yield from _selects(tree.this)
        yield from _selects(tree.expression)
    elif isinstance(tree, exp.Subquery) and has == {"this"}:
        yield from _selects(tree.this)
    elif isinstance(tree, exp.Select) and has == {"expressions"}:
        yield tree
    else:
        raise DefinitionError(_CONSTANTS_ALONE)


def _constant(node: exp.Expr, dialect: str) -> object:
    """Return the value of a constant."""
    match node:
        case exp.Alias() | exp.Paren():
            return _constant(node.this, dialect)
        case exp.Null():
            return None
        case exp.Boolean():
            return bool(node.this)
        case exp.Literal():
            return str(node.this) if node.is_string else _number(str(node.this))
        case exp.Neg():
            value = _constant(node.this, dialect)
            if isinstance(value, int | Decimal):
                return -value
        case exp.Cast():
            kind = spark_type(node.to.sql(dialect=dialect), dialect)
            if kind is not None:
                data_type = struct_from_ddl(f"value {kind}").fields[0].dataType
                return _in_column(_constant(node.this, dialect), Column("value", data_type))
    raise DefinitionError(_CONSTANTS_ALONE)


def _number(text: str) -> int | Decimal:
    return int(text) if text.isdecimal() else Decimal(text)


def _in_column(value: object, column: Column) -> Any:  # noqa: ANN401 of the column's type
    """Return a value in the type of a column.

    Raises:
        DefinitionError: it does not fit.
    """
    try:
        return _in_type(value, column.data_type)
    except (ValueError, ArithmeticError):
        kind = column.data_type.simpleString()
        said = f"column {column.name!r} is of type {kind}, and a row has {shown(value)}"
        raise DefinitionError(f"{said}, which is not taken as one") from None


def _in_type(value: object, kind: t.DataType) -> object:
    if value is None:
        return None
    if isinstance(kind, t.ArrayType) and isinstance(value, list):
        return [_in_type(one, kind.elementType) for one in value]
    make = next((make for known, make in _MAKERS if isinstance(kind, known)), None)
    if make is None or isinstance(value, list | dict):
        raise ValueError(kind)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return make(text if isinstance(kind, t.StringType) else text.strip(), kind)


def _whole(text: str, kind: t.DataType) -> int:
    number = Decimal(text)
    if number != number.to_integral_value():
        raise ValueError(kind)
    return int(number)


def _decimal(text: str, kind: t.DataType) -> Decimal:
    scale = kind.scale if isinstance(kind, t.DecimalType) else 0
    number = Decimal(text)
    if number != round(number, scale):
        raise ValueError(kind)
    return round(number, scale)


def _truth(text: str, kind: t.DataType) -> bool:
    if text.lower() not in _TRUTHS:
        raise ValueError(kind)
    return _TRUTHS[text.lower()]


def _date(text: str, kind: t.DataType) -> date:
    del kind
    return datetime.fromisoformat(text).date()


def _time(text: str, kind: t.DataType) -> datetime:
    """Return a time without a zone, which is in UTC here; another zone may be ignored by dbt."""
    moment = datetime.fromisoformat(text)
    if moment.utcoffset():
        raise ValueError(kind)
    return moment.replace(tzinfo=None)


_MAKERS: Final[tuple[tuple[type[t.DataType], Callable[[str, t.DataType], object]], ...]] = (
    (t.StringType, lambda text, _: text),
    (t.BooleanType, _truth),
    (t.IntegralType, _whole),
    (t.DecimalType, _decimal),
    (t.FractionalType, lambda text, _: float(text)),
    (t.DateType, _date),
    (t.TimestampType, _time),
    (t.TimestampNTZType, _time),
)
