"""Spark's column lists as text, read and written without Spark.

`struct_from_ddl` is ``StructType.fromDDL`` plus sort directions, for the types that the library
stores, `names_from_list` names without types; `ddl_of`, `sql_of` and `quoted` write text.

Invariant: text is read as Spark reads it, or refused. Only Spark's own type names count. What
`quoted` writes is that name for every reader: of columns, of lists of names, and of expressions.

``StructType.fromDDL`` needs a running session, and a definition must not. General SQL parsers do
not work: they accept more type names than Spark does (sqlglot reads ``int8`` as a tinyint, where a
PostgreSQL user means a bigint), and do not accept keywords such as ``select`` or ``unique`` as
column names. The grammar of a column list fits on a page.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from deltaproduce.errors import DefinitionError
from deltaproduce.types.catalogue import ATOMS
from deltaproduce.types.data_types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
    TimestampType,
)

ATOMIC_TYPES: Final[Mapping[str, DataType]] = MappingProxyType(
    {name: kind() for kind, known in ATOMS.items() for name in known.names}
)
"""The types without parameters, by all their names in Spark."""

DESCENDING: Final = "descending"
"""The metadata key of a field's direction: True for ``DESC``, False for ``ASC``."""


def struct_from_ddl(ddl: str) -> StructType:
    """Read ``name[:] type [NOT NULL] [COMMENT '…'] [ASC | DESC], …``.

    Args:
        ddl: the column list; empty text has no columns.

    Returns:
        The columns, without their comments. A direction is in the field's metadata, under
        `DESCENDING`; a field without a direction has no metadata.

    Raises:
        DefinitionError: the text is no column list or names an unsupported type; with `column`, if
            one had begun.
    """
    return _Reader(ddl).columns()


def names_from_list(text: str) -> list[tuple[str, bool | None]] | None:
    """Read ``name [ASC | DESC], …``: names, and whether each is descending, if it says so.

    A name may be any word, and anything in backticks. None if the text is no such list.
    """
    reader = _Reader(text)
    try:
        return reader.names()
    except DefinitionError:
        return None


def name_from(text: str) -> str | None:
    """Return the name that a text consists of, as `quoted` writes it; None if it is more."""
    names = names_from_list(text)
    return names[0][0] if names and len(names) == 1 and names[0][1] is None else None


def ddl_of(data_type: DataType) -> str:
    """Return a type as text that `struct_from_ddl` reads back."""
    return _text_of(data_type, "timestamp", not_null=" NOT NULL", name=listed)


def sql_of(data_type: DataType) -> str:
    """Return a type as text for a statement, whose parts may be null.

    A session may take the word ``timestamp`` for one without a time zone. And Spark casts nothing
    to a type with a part that is NOT NULL, unless the value's own type says so.
    """
    return _text_of(data_type, "timestamp_ltz", not_null="", name=identifier)


def _text_of(
    data_type: DataType, timestamp: str, *, not_null: str, name: Callable[[str], str]
) -> str:
    def text_of(part: DataType) -> str:
        return _text_of(part, timestamp, not_null=not_null, name=name)

    match data_type:
        case ArrayType():
            return f"array<{text_of(data_type.elementType)}>"
        case MapType():
            return f"map<{text_of(data_type.keyType)}, {text_of(data_type.valueType)}>"
        case StructType():
            fields = (
                f"{name(field.name)}: {text_of(field.dataType)}"
                + ("" if field.nullable else not_null)
                for field in data_type.fields
            )
            return f"struct<{', '.join(fields)}>"
        case TimestampType():
            return timestamp
    return data_type.simpleString()


def quoted(name: str) -> str:
    """Return a name as text that means it anywhere: in backticks unless it is a plain word.

    Words that expressions take for something else are in backticks, too: ``case``, ``null``.
    """
    return identifier(name) if name.lower() in _NO_NAMES else listed(name)


def listed(name: str) -> str:
    """Return a name as it begins a column of a column list, where any word is a name.

    Fingerprints of stages contain such lists.
    """
    return name if _PLAIN.fullmatch(name) else identifier(name)


def identifier(name: str) -> str:
    """Return a name in backticks: exactly that name, wherever Spark expects one."""
    return "`" + name.replace("`", "``") + "`"


WITHOUT_INTERVALS: Final = (
    "Delta stores no intervals; make a number of it, such as datediff(a, b), or "
    "unix_seconds(a) - unix_seconds(b)"
)


def unsupported_type(text: str, *, column: str | None) -> DefinitionError:
    """Return the error for a column whose type the library does not store."""
    if text.startswith(("char", "varchar")):
        advice = "use string"
    elif text.startswith("interval"):
        advice = WITHOUT_INTERVALS
    else:
        advice = f"use one of {', '.join(_CANONICAL_NAMES)}, decimal, array, map and struct"
    message = f"column {column!r} has type {text!r}, which is not supported; {advice}"
    return DefinitionError(message, column=column)


_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_WORDS: Final = """
    all alter and as between case connect_by_root create cross current_date current_timestamp
    current_user distinct drop else except false fetch for from glob grant having ilike inner
    insert intersect interval into join lateral like minus not notnull null on or outer
    partitioned_by qualify regexp returning revoke rlike rollback select serdeproperties
    session_user tablesample then true uncache union using values when where with xor
"""
_NO_NAMES: Final = frozenset(_WORDS.split())
"""The words that an expression, or a part of one, reads as something else than a column."""

_CANONICAL_NAMES: Final = tuple(
    name for name, data_type in ATOMIC_TYPES.items() if data_type.simpleString() == name
)

_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<quoted> `(?:[^`]|``)*` )
    | (?P<text>   '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )
    | (?P<word>   \w+ )
    | (?P<mark>   . )
    )""",
    re.VERBOSE | re.DOTALL,
)


class _Reader:
    """A recursive descent over the tokens of one column list.

    The first token of a column is always its name, so no keyword needs quoting.
    """

    def __init__(self, ddl: str) -> None:
        self._ddl = ddl
        self._tokens = [
            (str(token.lastgroup), token[str(token.lastgroup)])
            for token in _TOKEN.finditer(ddl.rstrip())
        ]
        self._next = 0
        self._column: str | None = None

    def columns(self) -> StructType:
        fields: list[StructField] = []
        while self._next < len(self._tokens):
            if fields:
                self._expect(",")
            self._column = None
            self._column = name = self._name()
            field = self._field(name)
            fields.append(StructField(name, field.dataType, field.nullable, self._direction()))
        return StructType(fields)

    def names(self) -> list[tuple[str, bool | None]]:
        names = [(self._name(), self._direction().get(DESCENDING))]
        while self._next < len(self._tokens):
            self._expect(",")
            names.append((self._name(), self._direction().get(DESCENDING)))
        return names

    def _direction(self) -> dict[str, bool]:
        if self._accept("desc"):
            return {DESCENDING: True}
        return {DESCENDING: False} if self._accept("asc") else {}

    def _name(self) -> str:
        kind, text = self._peek()
        if kind == "quoted":
            self._next += 1
            return text[1:-1].replace("``", "`")
        return self._take("word", "a name")

    def _field(self, name: str) -> StructField:
        """Read what follows the name of a column or of a struct's field."""
        self._accept(":")
        data_type, nullable = self._type(), True
        while True:
            if self._accept("not"):
                self._expect("null")
                nullable = False
            elif self._accept("comment"):
                self._take("text", "a quoted comment")
            else:
                return StructField(name, data_type, nullable)

    def _type(self) -> DataType:
        name = self._take("word", "a type").lower()
        match name:
            case "decimal" | "dec" | "numeric":
                return self._decimal()
            case "array":
                self._expect("<")
                element = self._type()
                self._expect(">")
                return ArrayType(element)
            case "map":
                self._expect("<")
                key = self._type()
                self._expect(",")
                value = self._type()
                self._expect(">")
                return MapType(key, value)
            case "struct":
                return self._struct()
        if name not in ATOMIC_TYPES:
            raise unsupported_type(name, column=self._column)
        return ATOMIC_TYPES[name]

    def _decimal(self) -> DecimalType:
        if not self._accept("("):
            return DecimalType()
        precision, scale = self._number(), 0
        if self._accept(","):
            scale = self._number()
        self._expect(")")
        return DecimalType(precision, scale)

    def _struct(self) -> StructType:
        self._expect("<")
        fields: list[StructField] = []
        while not self._accept(">"):
            if fields:
                self._expect(",")
            fields.append(self._field(self._name()))
        return StructType(fields)

    def _number(self) -> int:
        text = self._peek()[1]
        if not re.fullmatch("[0-9]+", text):
            raise self._unexpected("a number")
        self._next += 1
        return int(text)

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._next] if self._next < len(self._tokens) else ("end", "")

    def _accept(self, expected: str) -> bool:
        kind, text = self._peek()
        accepted = kind in {"word", "mark"} and text.lower() == expected
        self._next += accepted
        return accepted

    def _expect(self, expected: str) -> None:
        if not self._accept(expected):
            raise self._unexpected(repr(expected))

    def _take(self, kind: str, expected: str) -> str:
        actual, text = self._peek()
        if actual != kind:
            raise self._unexpected(expected)
        self._next += 1
        return text

    def _unexpected(self, expected: str) -> DefinitionError:
        kind, text = self._peek()
        got = "the end" if kind == "end" else repr(text)
        message = (
            f"expected {expected} but found {got} in {self._ddl!r}; a column is "
            "name type [NOT NULL] [COMMENT 'text'], and a key column may end in ASC or DESC"
        )
        return DefinitionError(message, column=self._column)
