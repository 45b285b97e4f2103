"""Key and value columns: their names, types and sort directions.

A `RowSchema` describes the rows of a source or stage. It is declared as DDL or as a ``StructType``;
both give equal values.

Invariant: the result of `row_schema` can be stored in a plain Delta table next to the library's own
columns and sorted by its key, and its `Columns.ddl` reads back as the same columns.
"""

from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, TypeAlias

from deltaproduce.errors import DefinitionError
from deltaproduce.types.data_types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TypeLike,
    type_of,
)
from deltaproduce.types.ddl import (
    ATOMIC_TYPES,
    DESCENDING,
    ddl_of,
    listed,
    names_from_list,
    quoted,
    struct_from_ddl,
    unsupported_type,
)

SOURCE_PREFIX: Final = "_source_"
ORDINAL: Final = "_ordinal"
POSITION: Final = "_position"
VERSION: Final = "_version"
CHANGE_TYPE: Final = "_change_type"
IS_ALIVE: Final = "_is_alive"
_ALL: Final = "_all"
_FLOATS: Final = (FloatType, DoubleType)
_NESTED: Final = (ArrayType, MapType, StructType)

SchemaLike: TypeAlias = str | TypeLike


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a key or value; only a key column can be descending."""

    name: str
    data_type: DataType
    nullable: bool = True
    descending: bool = False

    @property
    def is_known(self) -> bool:
        """Whether its type is known: a query column's type is known once a session has seen it."""
        return not isinstance(self.data_type, NullType)

    @property
    def is_strict(self) -> bool:
        """Whether a part of it, such as a field of a struct, is NOT NULL."""
        return with_nulls(self.data_type) != self.data_type

    @property
    def is_hidden(self) -> bool:
        """Whether readers do not see it, because it is the key of a stage without a key."""
        return self.name in {_ALL, SOURCE_PREFIX + _ALL}

    @property
    def ddl(self) -> str:
        """The column as text, such as ``total bigint NOT NULL DESC``."""
        return self._with(f" {ddl_of(self.data_type)}")

    @property
    def label(self) -> str:
        """The column as people read it: its DDL, without a type that is not known."""
        return self.ddl if self.is_known else self._with("")

    def _with(self, kind: str) -> str:
        not_null = "" if self.nullable else " NOT NULL"
        direction = " DESC" if self.descending else ""
        return f"{listed(self.name)}{kind}{not_null}{direction}"


VERSION_COLUMN: Final = Column(VERSION, LongType())
"""The version that wrote a row."""

RULE: Final = "_rule"
RULE_COLUMN: Final = Column(RULE, StringType())
"""The check that a rejected row breaks."""

CHANGE_TYPE_COLUMN: Final = Column(CHANGE_TYPE, StringType())
"""``add``, ``update`` or ``delete``."""

IS_ALIVE_COLUMN: Final = Column(IS_ALIVE, BooleanType(), nullable=False)
"""False in the one row of a run that says that its pair has no rows left."""

ORDINAL_COLUMN: Final = Column(ORDINAL, LongType())
"""A row's number within its source key and key, from 0."""

POSITION_COLUMN: Final = Column(POSITION, LongType())
"""A row's number within its key, from 0."""


@dataclass(frozen=True)
class Columns:
    """The columns of a key, or of a value, in order."""

    columns: tuple[Column, ...]

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def struct(self) -> StructType:
        """The columns as they are stored: all nullable, since delete rows hold no value."""
        return StructType([StructField(column.name, column.data_type) for column in self.columns])

    @cached_property
    def ddl(self) -> str:
        """The columns as text, such as ``customer_id bigint NOT NULL, amount decimal(12,2)``."""
        return ", ".join(column.ddl for column in self.columns)

    @property
    def label(self) -> str:
        """The columns as people read them; see `Column.label`."""
        return ", ".join(column.label for column in self.columns)


NO_KEY: Final = Columns((Column(_ALL, BooleanType()),))
"""The key of a stage that has one row over all: it is true, and readers do not see it."""


@dataclass(frozen=True, slots=True)
class RowSchema:
    """The key and value columns of a source or stage.

    Attributes:
        states: columns that the stage keeps with each row to update it incrementally; readers do
            not see them, and most kinds have none.
    """

    key: Columns
    value: Columns
    states: Columns = Columns(())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the key columns, then of the value columns."""
        return self.key.names + self.value.names


def row_type(names: Iterable[str]) -> type[tuple[Any, ...]]:
    """Return a new named tuple class; names that are no identifiers are numbered, as ``_0``."""
    return namedtuple("Row", list(names), rename=True)


def unknown_schema(key: Mapping[str, bool], value: Iterable[str]) -> RowSchema:
    """Return columns whose types are not known yet.

    Args:
        key: the names of the key columns, and whether each sorts descending.
        value: the names of the value columns.
    """
    return RowSchema(
        Columns(tuple(Column(name, NullType(), descending=desc) for name, desc in key.items())),
        Columns(tuple(Column(name, NullType()) for name in value)),
    )


def row_schema(
    key: SchemaLike, value: SchemaLike, *, stage: str, may_lack_values: bool = False
) -> RowSchema:
    """Read and check the columns that a stage declares.

    Args:
        key: the key columns, as DDL or StructType. A column is sorted descending if its DDL ends in
            ``desc``, or its field's metadata is ``{"descending": True}``.
        value: the value columns, as DDL or StructType.
        stage: the name of the stage that declares them, for messages.
        may_lack_values: whether there may be no value columns.

    Returns:
        The columns, with types as DDL can express them: comments and other metadata are dropped,
        and the elements of arrays and the values of maps are nullable.

    Raises:
        DefinitionError: the text is no column list, or a name or type is refused; with `stage` and,
            if it is about one column, `column`.
    """
    try:
        lacks_values = may_lack_values and not value
        values = Columns(()) if lacks_values else _value_columns(value)
        schema = RowSchema(key_columns(key), values)
        _check_distinct(schema.names)
    except DefinitionError as error:
        raise _of_stage(error, stage) from None
    return schema


def existing_schema(key: SchemaLike, value: SchemaLike | None, *, stage: str) -> RowSchema:
    """Read columns that a table has, for which names are enough.

    Args:
        key: the key columns: names as ``"a, b desc"``, or as in `row_schema`.
        value: the value columns, likewise; none yet if None.
        stage: the name of the stage that declares them, for messages.

    Returns:
        The columns; the types of columns given by name only are unknown.

    Raises:
        DefinitionError: as `row_schema` does.
    """
    try:
        keys = named_columns(key) or key_columns(key)
        values = Columns(()) if value is None else named_columns(value) or _value_columns(value)
        _check_distinct(keys.names + values.names)
    except DefinitionError as error:
        raise _of_stage(error, stage) from None
    return RowSchema(keys, values)


def named_columns(declared: SchemaLike) -> Columns | None:
    """Return columns declared by name only, with their directions.

    None if the declaration is no list of names.
    """
    names = names_from_list(declared) if isinstance(declared, str) else None
    if names is None:
        return None
    return Columns(
        tuple(Column(name, NullType(), descending=bool(direction)) for name, direction in names)
    )


def _of_stage(error: DefinitionError, stage: str) -> DefinitionError:
    message = f"stage {stage!r}: {error}"
    return DefinitionError(message, stage=stage, column=error.column)


def key_columns(declared: SchemaLike) -> Columns:
    """Read and check the columns of a key, as `row_schema` does.

    Raises:
        DefinitionError: they are refused; with `column` if it is about one.
    """
    fields = _fields(declared, part="key")
    for field in fields:
        check_key_type(field.name, field.dataType)
        descending = field.metadata.get(DESCENDING, False)
        if not isinstance(descending, bool):
            message = (
                f"column {field.name!r} has metadata {DESCENDING!r} {descending!r}; use a bool"
            )
            raise DefinitionError(message, column=field.name)
    return _columns(fields)


def plain_columns(declared: SchemaLike) -> Columns:
    """Read and check the columns of a table without a key, as `row_schema` does.

    Raises:
        DefinitionError: they are refused; with `column` if it is about one.
    """
    columns = _value_columns(declared)
    _check_distinct(columns.names)
    return columns


def keyless_schema(value: SchemaLike, *, stage: str) -> RowSchema:
    """Return the columns of a stage with one row over all, as `row_schema` checks them."""
    try:
        columns = _value_columns(value)
        _check_distinct(columns.names)
    except DefinitionError as error:
        raise _of_stage(error, stage) from None
    return RowSchema(NO_KEY, columns)


def stored_schema(key: str, value: str, *, stage: str) -> RowSchema:
    """Return the columns of tables that the library has written, as `row_schema` checks them.

    Rejected rows have values that the library names.
    """
    if key == NO_KEY.ddl:
        return keyless_schema(value, stage=stage)
    fields = struct_from_ddl(value).fields if value else []
    added = [field for field in fields if field.name in (RULE, VERSION)]
    if not added:
        return row_schema(key, value, stage=stage, may_lack_values=True)
    own = StructType([field for field in fields if field not in added])
    schema = row_schema(key, own if own.fields else "", stage=stage, may_lack_values=True)
    return replace(schema, value=Columns((*schema.value, *_columns(added))))


def stored_key(ddl: str) -> Columns:
    """Return the key columns of tables that the library has written; none if the DDL is empty."""
    if ddl == NO_KEY.ddl:
        return NO_KEY
    return key_columns(ddl) if ddl else Columns(())


def stored_columns(ddl: str) -> Columns:
    """Return columns that the library has named, from their DDL; none if it is empty."""
    return _columns(struct_from_ddl(ddl).fields) if ddl else Columns(())


def column_of(name: str, declared: str | TypeLike) -> Column:
    """Return a column of one type, declared in DDL or as a type.

    Raises:
        DefinitionError: the declaration is not one type that can be stored.
    """
    try:
        text = declared if isinstance(declared, str) else ddl_of(type_of(declared))
    except TypeError as error:
        raise DefinitionError(f"{declared!r} is not one type, as 'bigint'", column=name) from error
    columns = _columns(struct_from_ddl(f"{quoted(name)} {text}").fields).columns
    if len(columns) != 1 or columns[0] != Column(name, columns[0].data_type):
        raise DefinitionError(f"{text!r} is not one type, as 'bigint'", column=name)
    return columns[0]


_REFUSED_CHARACTERS: Final = frozenset(" ,;{}()\n\t=")  # Delta refuses them without column mapping


def _value_columns(declared: SchemaLike) -> Columns:
    fields = _fields(declared, part="value")
    for field in fields:
        if DESCENDING in field.metadata:
            message = (
                f"value column {field.name!r} has a sort direction; only key columns can, drop it"
            )
            raise DefinitionError(message, column=field.name)
    return _columns(fields)


def _fields(declared: SchemaLike, *, part: str) -> Sequence[StructField]:
    fields = _struct(declared, part=part).fields
    if not fields:
        message = f"the {part} {declared!r} has no columns; a stage needs at least one"
        raise DefinitionError(message)
    for field in fields:
        check_column_name(field.name)
    return fields


def _struct(declared: SchemaLike, *, part: str) -> StructType:
    if isinstance(declared, str):
        return struct_from_ddl(declared)
    with suppress(TypeError):
        if isinstance(struct := type_of(declared), StructType):
            return struct
    raise DefinitionError(f"the {part} is {declared!r}; use a DDL string or a StructType")


def _columns(fields: Iterable[StructField]) -> Columns:
    return Columns(
        tuple(
            Column(
                name=field.name,
                data_type=_storable(field.dataType, column=field.name),
                nullable=field.nullable,
                descending=field.metadata.get(DESCENDING, False),
            )
            for field in fields
        )
    )


def check_column_name(name: str) -> None:
    """Refuse a name that no column of a stage can have.

    Raises:
        DefinitionError: with `column`.
    """
    _check_name(name, column=name)
    if name.startswith("_"):
        message = f"column {name!r}: names that begin with '_' are reserved; rename it"
        raise DefinitionError(message, column=name)


def _check_name(name: str, *, column: str) -> None:
    """Check the name of a column, or of a struct's field inside it."""
    if not name:
        message = f"a name in column {column!r} is empty; name every column and field"
        raise DefinitionError(message, column=column)
    for character in name:
        if character in _REFUSED_CHARACTERS:
            message = f"Delta does not store names with {character!r}, as in {name!r}; rename it"
            raise DefinitionError(message, column=column)


def _check_distinct(names: Iterable[str], *, column: str | None = None) -> None:
    """Check that names differ, as Spark compares them; `column` is the struct that has them."""
    first_spellings: dict[str, str] = {}
    for name in names:
        if name.lower() in first_spellings:
            message = (
                f"{name!r} is declared twice, first as {first_spellings[name.lower()]!r}; rename "
                "one (upper and lower case are the same, and so are key and value)"
            )
            raise DefinitionError(message, column=column or name)
        first_spellings[name.lower()] = name


def check_key_type(name: str, data_type: DataType) -> None:
    """Refuse a key column of a type that keys cannot have.

    Raises:
        DefinitionError: it has such a type; with `column`.
    """
    if may_be_key(data_type):
        return
    if isinstance(data_type, _FLOATS):
        advice = "float keys are refused, as NaN and -0.0 have no sound equality; use decimal"
    else:
        advice = "nested keys are refused; use a key column for each part"
    type_text = data_type.simpleString()
    raise DefinitionError(f"key column {name!r} is {type_text!r}: {advice}", column=name)


def may_be_key(data_type: DataType) -> bool:
    """Return whether a key column may have a type that a stage may have."""
    return not isinstance(data_type, (*_FLOATS, *_NESTED))


def _storable(data_type: DataType, *, column: str, in_map_key: bool = False) -> DataType:
    """Return the type as DDL can express it; refuse what Delta cannot store and compare."""

    def storable(inner: DataType, *, in_map_key: bool = in_map_key) -> DataType:
        return _storable(inner, column=column, in_map_key=in_map_key)

    match data_type:
        case ArrayType():
            return ArrayType(storable(data_type.elementType))
        case MapType() if not in_map_key:
            key = storable(data_type.keyType, in_map_key=True)
            return MapType(key, storable(data_type.valueType))
        case StructType() if data_type.fields:
            _check_distinct(data_type.names, column=column)
            for name in data_type.names:
                _check_name(name, column=column)
            return StructType(
                [StructField(f.name, storable(f.dataType), f.nullable) for f in data_type.fields]
            )
        case DecimalType(precision=precision, scale=scale):
            if 1 <= precision <= 38 and 0 <= scale <= precision:
                return data_type
        case _ if data_type in ATOMIC_TYPES.values():
            return data_type
    raise _refused_type(data_type, column=column)


def with_nulls(data_type: DataType) -> DataType:
    """Return a type whose parts may be null."""
    match data_type:
        case ArrayType():
            return ArrayType(with_nulls(data_type.elementType))
        case MapType():
            return MapType(with_nulls(data_type.keyType), with_nulls(data_type.valueType))
        case StructType():
            return StructType([StructField(f.name, with_nulls(f.dataType)) for f in data_type])
    return data_type


def _refused_type(data_type: DataType, *, column: str) -> DefinitionError:
    type_text = data_type.simpleString()
    match data_type:
        case MapType():
            advice = "the key of a map cannot hold a map; use an array of structs"
        case StructType():
            advice = "Parquet stores no empty struct; give it a field"
        case DecimalType():
            advice = "use a precision of 1 to 38, and a scale of 0 to the precision"
        case StringType():
            advice = "text sorts by bytes, and collations are not supported; use string"
        case _:
            return unsupported_type(type_text, column=column)
    return DefinitionError(f"column {column!r} has type {type_text!r}: {advice}", column=column)
