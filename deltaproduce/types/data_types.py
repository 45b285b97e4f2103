"""The types of columns, with Spark's names, so that no session and no PySpark is needed for them.

Each class has the name, the attributes and the texts of Spark's: who knows those knows these, and
`engines.spark.data_types` turns one into the other. A type is a plain value: two are equal if they
are of one class with equal parts, and they may be keys of dicts.

Invariant: `StructType.json` is what Spark and Delta write for the same columns, and
`StructType.fromJson` reads whatever they write. A type that the library does not have is an
`OtherType`, so that it can be named and refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, ClassVar, Final, Protocol


class TypeLike(Protocol):
    """A type of columns, of this module or of Spark."""

    def jsonValue(self) -> Any: ...  # noqa: ANN401 text or a dict


class DataType:
    """A type of values."""

    __slots__ = ()

    _NAME: ClassVar[str] = ""

    def simpleString(self) -> str:
        """Return the type as text, as in messages of Spark."""
        return self._NAME

    def jsonValue(self) -> Any:  # noqa: ANN401 text or a dict
        """Return the type as Spark and Delta write it in JSON."""
        return self._NAME

    def json(self) -> str:
        """Return the type as JSON text; see `jsonValue`."""
        return json.dumps(self.jsonValue(), separators=(",", ":"), sort_keys=True)

    def _parts(self) -> tuple[Any, ...]:
        return tuple(getattr(self, part.name) for part in fields(self))  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash((type(self), self.simpleString()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._parts()))})"


class AtomicType(DataType):
    """A type without parts."""

    __slots__ = ()


class NumericType(AtomicType):
    """A type of numbers."""

    __slots__ = ()


class IntegralType(NumericType):
    """A type of whole numbers."""

    __slots__ = ()


class FractionalType(NumericType):
    """A type of numbers that may have a fraction."""

    __slots__ = ()


class DatetimeType(AtomicType):
    """A type of dates or times."""

    __slots__ = ()


class AnsiIntervalType(AtomicType):
    """A type of intervals of SQL: of months, or of days and shorter."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NullType(DataType):
    """The type of null, and of a column whose type is not known yet."""

    _NAME = "void"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BooleanType(AtomicType):
    """True and false."""

    _NAME = "boolean"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BinaryType(AtomicType):
    """Bytes."""

    _NAME = "binary"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class VariantType(AtomicType):
    """A value with a type of its own."""

    _NAME = "variant"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DateType(DatetimeType):
    """Days."""

    _NAME = "date"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TimestampType(DatetimeType):
    """Instants, in microseconds."""

    _NAME = "timestamp"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TimestampNTZType(DatetimeType):
    """Dates and times without a time zone, in microseconds."""

    _NAME = "timestamp_ntz"


class _Integral(IntegralType):
    """A type of whole numbers, which has one name in JSON and another in DDL."""

    __slots__ = ()
    _IN_JSON: ClassVar[str] = ""

    def jsonValue(self) -> str:
        return self._IN_JSON


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ByteType(_Integral):
    """Whole numbers of 8 bits."""

    _NAME, _IN_JSON = "tinyint", "byte"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ShortType(_Integral):
    """Whole numbers of 16 bits."""

    _NAME, _IN_JSON = "smallint", "short"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IntegerType(_Integral):
    """Whole numbers of 32 bits."""

    _NAME, _IN_JSON = "int", "integer"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LongType(_Integral):
    """Whole numbers of 64 bits."""

    _NAME, _IN_JSON = "bigint", "long"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FloatType(FractionalType):
    """Floating point numbers of 32 bits."""

    _NAME = "float"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DoubleType(FractionalType):
    """Floating point numbers of 64 bits."""

    _NAME = "double"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DecimalType(FractionalType):
    """Numbers of ``precision`` digits, ``scale`` of which are behind the point."""

    precision: int = 10
    scale: int = 0

    def simpleString(self) -> str:
        return f"decimal({self.precision},{self.scale})"

    def jsonValue(self) -> str:
        return self.simpleString()

    def __repr__(self) -> str:
        return f"DecimalType({self.precision},{self.scale})"


_PLAIN_COLLATION: Final = "UTF8_BINARY"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StringType(AtomicType):
    """Text, which is compared by a collation."""

    collation: str = _PLAIN_COLLATION

    def simpleString(self) -> str:
        plain = self.collation == _PLAIN_COLLATION
        return "string" if plain else f"string collate {self.collation}"

    def jsonValue(self) -> str:
        return self.simpleString()

    def __repr__(self) -> str:
        plain = self.collation == _PLAIN_COLLATION
        return f"StringType({'' if plain else repr(self.collation)})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Interval(AnsiIntervalType):
    """An interval of the units from ``startField`` to ``endField``, by their places."""

    UNITS: ClassVar[tuple[str, ...]] = ()

    startField: int = 0
    endField: int = -1

    def __post_init__(self) -> None:
        if self.endField < 0:
            object.__setattr__(self, "endField", len(self.UNITS) - 1)

    def simpleString(self) -> str:
        first, last = self.UNITS[self.startField], self.UNITS[self.endField]
        return f"interval {first}" if first == last else f"interval {first} to {last}"

    def jsonValue(self) -> str:
        return self.simpleString()


class DayTimeIntervalType(_Interval):
    """Intervals of days, hours, minutes and seconds."""

    __slots__ = ()
    UNITS = "day", "hour", "minute", "second"


class YearMonthIntervalType(_Interval):
    """Intervals of years and months."""

    __slots__ = ()
    UNITS = "year", "month"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OtherType(DataType):
    """A type that Spark has and columns of stages do not, known by its text alone."""

    text: str

    def simpleString(self) -> str:
        return self.text

    def jsonValue(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ArrayType(DataType):
    """Lists of values of one type."""

    elementType: DataType
    containsNull: bool = True

    def simpleString(self) -> str:
        return f"array<{self.elementType.simpleString()}>"

    def jsonValue(self) -> dict[str, Any]:
        return {
            "type": "array",
            "elementType": self.elementType.jsonValue(),
            "containsNull": self.containsNull,
        }


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MapType(DataType):
    """Keys of one type with values of one type."""

    keyType: DataType
    valueType: DataType
    valueContainsNull: bool = True

    def simpleString(self) -> str:
        return f"map<{self.keyType.simpleString()},{self.valueType.simpleString()}>"

    def jsonValue(self) -> dict[str, Any]:
        return {
            "type": "map",
            "keyType": self.keyType.jsonValue(),
            "valueType": self.valueType.jsonValue(),
            "valueContainsNull": self.valueContainsNull,
        }


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StructField(DataType):
    """A named value of a struct, or a column."""

    name: str
    dataType: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.metadata is None:  # as Spark's may be given
            object.__setattr__(self, "metadata", {})

    def simpleString(self) -> str:
        return f"{self.name}:{self.dataType.simpleString()}"

    def jsonValue(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.dataType.jsonValue(),
            "nullable": self.nullable,
            "metadata": dict(self.metadata),
        }

    def __repr__(self) -> str:
        return f"StructField({self.name!r}, {self.dataType!r}, {self.nullable!r})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StructType(DataType):
    """Values with names, in order: the type of a struct, or of rows."""

    fields: Sequence[StructField] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))

    @property
    def names(self) -> list[str]:
        """The fields' names, in order."""
        return [one.name for one in self.fields]

    def __iter__(self) -> Iterator[StructField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __getitem__(self, key: str) -> StructField:
        for one in self.fields:
            if one.name == key:
                return one
        raise KeyError(key)

    def simpleString(self) -> str:
        return f"struct<{','.join(one.simpleString() for one in self.fields)}>"

    def jsonValue(self) -> dict[str, Any]:
        return {"type": "struct", "fields": [one.jsonValue() for one in self.fields]}

    def __repr__(self) -> str:
        return f"StructType([{', '.join(map(repr, self.fields))}])"

    @staticmethod
    def fromJson(value: Mapping[str, Any]) -> StructType:
        """Read columns from what `jsonValue` returns, or from the schema of a Delta table."""
        return StructType([_field_from_json(one) for one in value["fields"]])


_COLLATIONS: Final = "__COLLATIONS"
"""The metadata key under which Spark writes collations, by the path of the text in the field."""


def _field_from_json(value: Mapping[str, Any]) -> StructField:
    metadata = dict(value.get("metadata") or {})
    collations = metadata.pop(_COLLATIONS, {})
    name = value["name"]
    kind = _from_json(value["type"], name, collations)
    return StructField(name, kind, value.get("nullable", True), metadata)


def type_of(given: TypeLike) -> DataType:
    """Return a type that somebody gives, of this module or of Spark, as one of this module.

    Raises:
        TypeError: it is no type.
    """
    if isinstance(given, DataType):
        return given
    to_json = getattr(given, "jsonValue", None)
    if isinstance(given, type) or not callable(to_json):
        raise TypeError(f"{given!r} is no type of a column")
    return _from_json(to_json(), "", {})


def _from_json(described_type: Any, path: str, collations: Mapping[str, str]) -> DataType:  # noqa: ANN401
    """Read a type; the path is where it is in its field, as Spark counts collations."""
    if isinstance(described_type, str):
        return _atom_from_json(described_type, collations.get(path))
    match described_type["type"]:
        case "array":
            element = _from_json(described_type["elementType"], f"{path}.element", collations)
            return ArrayType(element, described_type["containsNull"])
        case "map":
            key = _from_json(described_type["keyType"], f"{path}.key", collations)
            value = _from_json(described_type["valueType"], f"{path}.value", collations)
            return MapType(key, value, described_type["valueContainsNull"])
        case "struct":
            return StructType.fromJson(described_type)
    return OtherType(str(described_type["type"]))


_NAMED: Final[Mapping[str, DataType]] = MappingProxyType(
    {
        str(kind.jsonValue()): kind
        for kind in (
            NullType(),
            BooleanType(),
            BinaryType(),
            VariantType(),
            DateType(),
            TimestampType(),
            TimestampNTZType(),
            ByteType(),
            ShortType(),
            IntegerType(),
            LongType(),
            FloatType(),
            DoubleType(),
            StringType(),
        )
    }
)
_DECIMAL: Final = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
_COLLATED: Final = re.compile(r"string\s+collate\s+(\w+)")
_INTERVAL: Final = re.compile(r"interval (\w+)(?: to (\w+))?")


def _atom_from_json(text: str, collation: str | None) -> DataType:
    if text == "string" and collation is not None:
        return StringType(collation.rpartition(".")[2])
    if text in _NAMED:
        return _NAMED[text]
    if text == "decimal":
        return DecimalType()
    if match := _DECIMAL.fullmatch(text):
        return DecimalType(int(match[1]), int(match[2]))
    if match := _COLLATED.fullmatch(text):
        return StringType(match[1])
    if match := _INTERVAL.fullmatch(text):
        for kind in (DayTimeIntervalType, YearMonthIntervalType):
            if {match[1], match[2] or match[1]} <= {*kind.UNITS}:
                first, last = match[1], match[2] or match[1]
                return kind(kind.UNITS.index(first), kind.UNITS.index(last))
    return OtherType(text)
