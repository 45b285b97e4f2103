"""Reading: the tables of others in a PostgreSQL database, as Arrow.

Rows come as the text of ``COPY … TO STDOUT`` in CSV, which Arrow reads for whole columns. The
invariant: a value is read as its type has it, or the table is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO, RawIOBase
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
from typing_extensions import override

from deltaproduce.postgres.connection import ReadOnly, reading
from deltaproduce.postgres.statements import quoted
from deltaproduce.sync.comparing.tables import OtherColumn, OtherTable, UnreadableTableError
from deltaproduce.types.excerpts import one_line

_INSTANT: Final = "timestamp with time zone"
_TYPES: Final[Mapping[str, pa.DataType]] = MappingProxyType(
    {
        "boolean": pa.bool_(),
        "smallint": pa.int64(),
        "integer": pa.int64(),
        "bigint": pa.int64(),
        "real": pa.float32(),
        "double precision": pa.float64(),
        "bytea": pa.binary(),
        "date": pa.date32(),
        _INSTANT: pa.timestamp("us"),
        "timestamp without time zone": pa.timestamp("us"),
    }
)
"""Those that are read as what they are; a numeric is a decimal, an array a list, others text."""
_NUMERIC: Final = re.compile(r"numeric(?:\((\d+),(-?\d+)\))?$")
_MOST_DIGITS: Final = 76
"""Of Arrow's decimals."""
_NARROW_DIGITS: Final = 38
"""Of its decimals of 128 bits, the widest that it reads from CSV."""
_PART_BYTES: Final = 1 << 24
_COLUMNS: Final = """
SELECT a.attname,
  format_type(coalesce(nullif(t.typbasetype, 0), a.atttypid),
              CASE t.typbasetype WHEN 0 THEN a.atttypmod ELSE t.typtypmod END)
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""
_MEASURES: Final = """
SELECT max(scale({0})), max(length(trunc(abs({0}))::text)),
  bool_or({0}::text IN ('NaN', 'Infinity', '-Infinity'))
FROM {1}
"""

__all__ = ["PostgresTable", "reading"]


@dataclass(frozen=True)
class PostgresTable(OtherTable):
    """A table or view.

    Attributes:
        parts_of_name: schema and name.
    """

    reader: ReadOnly
    parts_of_name: tuple[str, ...]

    @cached_property
    @override
    def columns(self) -> Mapping[str, OtherColumn]:
        columns = self.reader.rows(_COLUMNS, (self._name,))
        if not columns:
            missing = ".".join(self.parts_of_name)
            raise UnreadableTableError(f"there is no table {missing} there")
        return {name: OtherColumn(self._type(name, kind), kind) for name, kind in columns}

    @override
    def parts(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        types = [self.columns[name].type for name in columns]
        terms = (self._term(name) for name in columns)
        statement = f"COPY (SELECT {', '.join(terms)} FROM {self._name}) TO STDOUT (FORMAT csv)"
        with closing(self.reader.copied(statement)) as text:
            first = next(text, None)
            if first is None:
                return
            try:
                reader = pa_csv.open_csv(
                    _Stream(first, text),
                    pa_csv.ReadOptions(block_size=_PART_BYTES, column_names=list(columns)),
                    pa_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
                    _conversion(columns, types),
                )
                for batch in reader:
                    arrays = map(_read, batch.columns, types)
                    yield pa.table([*arrays], list(columns))
            except pa.ArrowException as error:
                raise UnreadableTableError(one_line(error)) from error

    @property
    def _name(self) -> str:
        return ".".join(map(quoted, self.parts_of_name))

    def _type(self, name: str, declared: str) -> pa.DataType:
        """Return the type in which a column is read."""
        if declared.endswith("[]"):
            element = declared.removesuffix("[]")
            decimal = _decimal(element)
            return pa.list_(decimal or _TYPES.get(_bare(element), pa.string()))
        if _NUMERIC.match(declared):
            return _decimal(declared) or self._measured(name)
        return _TYPES.get(_bare(declared), pa.string())

    def _measured(self, name: str) -> pa.DataType:
        """Return a type that has all values of a numeric without a declared scale."""
        statement = _MEASURES.format(quoted(name), self._name)
        ((scale, whole, is_endless),) = self.reader.rows(statement)
        if is_endless or (scale or 0) + (whole or 1) > _MOST_DIGITS:
            return pa.float64()
        return _decimal_of((scale or 0) + (whole or 1), scale or 0)

    def _term(self, name: str) -> str:
        """Return a column as it is selected: as text that Arrow reads."""
        column, name = self.columns[name], quoted(name)
        if pa.types.is_list(column.type):
            return f"CASE WHEN {name} IS NOT NULL THEN to_jsonb({name})::text END"
        if pa.types.is_binary(column.type):
            return f"encode({name}, 'hex')"
        if _bare(column.declared) == _INSTANT:
            return f"{name} AT TIME ZONE 'UTC'"
        return f"{name}::text" if pa.types.is_string(column.type) else name


def _bare(declared: str) -> str:
    """Return a type without its length or precision."""
    return re.sub(r"\([0-9,-]+\)", "", declared)


def _decimal(declared: str) -> pa.DataType | None:
    """Return a numeric with a declared scale as a decimal; None for what is none."""
    matched = _NUMERIC.match(declared)
    if matched is None or matched[1] is None:
        return None
    precision, scale = int(matched[1]), int(matched[2])
    if precision > _MOST_DIGITS or not 0 <= scale <= precision:
        return None
    return _decimal_of(precision, scale)


def _decimal_of(precision: int, scale: int) -> pa.DataType:
    return (pa.decimal128 if precision <= _NARROW_DIGITS else pa.decimal256)(precision, scale)


def _conversion(columns: Sequence[str], types: Sequence[pa.DataType]) -> pa_csv.ConvertOptions:
    return pa_csv.ConvertOptions(
        column_types={
            name: pa.string() if _is_decoded(kind) else kind
            for name, kind in zip(columns, types, strict=True)
        },
        null_values=[""],
        true_values=["t"],
        false_values=["f"],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )


def _is_decoded(kind: pa.DataType) -> bool:
    """Return whether Arrow reads the text of a type from CSV, and not its values."""
    return any(
        is_of(kind) for is_of in (pa.types.is_binary, pa.types.is_list, pa.types.is_decimal256)
    )


def _read(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values of what Arrow has read: bytes of their digits, lists of their JSON."""
    if pa.types.is_binary(kind):
        return _of_digits(array)
    return _of_json(array, kind) if pa.types.is_list(kind) else array.cast(kind)


def _of_digits(array: pa.Array) -> pa.Array:
    array = pa.concat_arrays([array])
    _, offsets, digits = array.buffers()
    ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    text = b"" if digits is None else bytes(digits[int(ends[0]) : int(ends[-1])])
    content = pa.py_buffer(bytes.fromhex(text.decode("ascii")))
    begins = pa.py_buffer(((ends - ends[0]) // 2).astype(np.int32).tobytes())
    valid = array.is_valid()
    values = pa.Array.from_buffers(pa.binary(), len(array), [None, begins, content])
    return pc.if_else(valid, values, pa.scalar(None, pa.binary()))


def _of_json(array: pa.Array, kind: pa.DataType) -> pa.Array:
    lines = pc.binary_join_element_wise('{"v":', array.fill_null("null"), "}", "")
    text = pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), "\n")[0]
    options = pa_json.ParseOptions(explicit_schema=pa.schema([("v", kind)]))
    block = pa_json.ReadOptions(block_size=max(len(text.as_buffer()) + 1, 1 << 20))
    rows = pa_json.read_json(BytesIO(text.as_buffer()), block, options)
    return rows.column("v").combine_chunks()


class _Stream(RawIOBase):
    """Text that comes in pieces, as a file.

    Args:
        first: the first piece.
        rest: the others.
    """

    def __init__(self, first: bytes, rest: Iterator[bytes]) -> None:
        self._left, self._rest = first, rest

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Any) -> int:
        target = memoryview(buffer).cast("B")
        at = 0
        while at < len(target):
            if not self._left:
                piece = next(self._rest, None)
                if piece is None:
                    break
                self._left = piece
            taken = min(len(self._left), len(target) - at)
            target[at : at + taken] = self._left[:taken]
            self._left = self._left[taken:]
            at += taken
        return at
