"""Comparison of the rows of a database with the rows of a store."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from operator import eq
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import sql
from psycopg.types.json import set_json_loads

from deltaproduce import Pipeline, Store
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import (
    ArrayType,
    BinaryType,
    DataType,
    FloatType,
    MapType,
    StructType,
)

_BEYOND = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def rows(address: str, table: str, schema: str = "public") -> list[tuple[Any, ...]]:
    """All rows of a table; times in UTC."""
    with psycopg.connect(address, options="-c timezone=UTC") as connection:
        set_json_loads(partial(json.loads, parse_float=Decimal), connection)
        query = sql.SQL("SELECT * FROM {}").format(sql.Identifier(schema, table))
        return connection.cursor(binary=True).execute(query).fetchall()


def run(address: str, *statements: str) -> None:
    """Do something as someone else."""
    with psycopg.connect(address) as connection:
        for statement in statements:
            connection.execute(statement)


def assert_same(
    store: Store, pipeline: Pipeline, address: str, stages: Collection[str], schema: str = "public"
) -> None:
    """Each table has the rows that the stage has at the head, each as often."""
    for stage in pipeline.stages:
        if stage.name not in stages:
            continue
        columns = [c for c in (*stage.schema.key, *stage.schema.value) if not c.is_hidden]
        content = store.content(stage.name)
        assert isinstance(content, pa.Table)
        expected = Counter(stored(content, columns))
        found = Counter(tuple(map(plain, row)) for row in rows(address, stage.name, schema))
        names = [column.name for column in columns]
        for wrong, others in ((found - expected, expected), (expected - found, found)):
            for row in wrong:
                near = max(others, key=lambda one, row=row: sum(map(eq, one, row)), default=())
                differing = [*zip(names, row, near, strict=True)] if near else row
                assert not wrong, [three for three in differing if not near or three[1] != three[2]]
    positions = {row[0]: row[3] for row in rows(address, "_deltaproduce_sync", schema)}
    assert {positions[name] for name in stages} == {store.head.number}


def stored(content: pa.Table, columns: Iterable[Column]) -> list[tuple[Any, ...]]:
    """Rows of a store as a database should have them."""
    parts = [
        [plain(as_json(value, c.data_type)) for value in content.column(c.name).to_pylist()]
        for c in columns
    ]
    return [*zip(*parts, strict=True)]


def as_json(value: Any, data_type: DataType) -> Any:
    """A value with parts as JSON has it; others as they are."""
    has_parts = isinstance(data_type, ArrayType | MapType | StructType)
    return _part(value, data_type) if has_parts else value


def _part(value: Any, data_type: DataType) -> Any:
    if value is None:
        return None
    match data_type:
        case ArrayType():
            return [_part(one, data_type.elementType) for one in value]
        case MapType():
            return {_name(k): _part(v, data_type.valueType) for k, v in value}
        case StructType():
            return {f.name: _part(value[f.name], f.dataType) for f in data_type.fields}
        case BinaryType():
            return "\\x" + value.hex()
    if isinstance(value, float):
        number = np.float32(value) if isinstance(data_type, FloatType) else value
        return _BEYOND.get(str(value)) or Decimal(str(number))
    return _moment(value) if isinstance(value, date) else value


def _moment(value: date) -> str:
    if not isinstance(value, datetime):
        return value.isoformat()
    text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
    return text + ("Z" if value.tzinfo else "")


def _name(value: Any) -> str:
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, date):
        return _moment(value)
    return value if isinstance(value, str) else str(pa.scalar(value).cast(pa.string()))


def plain(value: Any) -> Any:
    """A value that is equal to its like: NaN to itself, an object to one in another order."""
    if isinstance(value, dict):
        return ("object", *sorted((k, plain(v)) for k, v in value.items()))
    if isinstance(value, list):
        return ("array", *map(plain, value))
    if isinstance(value, float) and value != value:
        return "NaN"
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return value


def without_nul(value: Any) -> Any:
    """A value, or a change, without the character that PostgreSQL has no room for."""
    if isinstance(value, str):
        return value.replace("\0", "\ue000")
    if isinstance(value, dict):
        return {without_nul(k): without_nul(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(without_nul, value))
    return value
