"""What an Arrow producer returns: tables in, the arrays of the declared columns out.

Columns are found by name. One may come in another Arrow type of its kind, such as ``int64`` for
``int``, ``dictionary`` for ``string`` or a timestamp in any zone and unit, as long as each of its
values is one of the declared type.

Invariant: as in `emissions`, the arrays hold what was returned, all of it, or a `Misfit` is raised;
and every row belongs to a source key that the function was given.

It stands apart, as does `emissions`, because conversion is the one place that needs to know types.
Here they are Arrow's on both sides, and no value becomes a Python object.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from deltaproduce.arrays import Numbers, codes
from deltaproduce.atoms import Misfit, arrow_type
from deltaproduce.excerpts import escaped, shown
from deltaproduce.schemas import Column, RowSchema


class RowMisfit(Misfit):
    """A row that does not fit.

    Attributes:
        source: the source key that the row names, one item in each array.
    """

    def __init__(self, message: str, source: Sequence[pa.Array]) -> None:
        super().__init__(message)
        self.source = source


@dataclass(frozen=True, slots=True)
class SourceKeys:
    """The distinct source keys that a function was given.

    Attributes:
        columns: the columns by which the function's output names a source key.
        arrays: the keys, in the input's own arrays.
    """

    columns: Sequence[Column]
    arrays: Sequence[pa.Array]

    def __len__(self) -> int:
        return len(self.arrays[0])

    def places(self, named: Sequence[pa.Array]) -> Numbers:
        """Returns which of these keys each named one is; -1 for one that is not among them."""
        given = [
            conformed(array, column.data_type)
            for array, column in zip(self.arrays, self.columns, strict=True)
        ]
        if len(given) == 1:  # a fifth of the time
            return np.asarray(pc.index_in(named[0], value_set=given[0]).fill_null(-1), np.int64)
        numbers = codes(map(pa.chunked_array, zip(given, named, strict=True)))
        places = np.full(numbers.max() + 1, -1)
        places[numbers[: len(self)]] = np.arange(len(self))
        return places[numbers[len(self) :]]


@dataclass(frozen=True, slots=True)
class TableReader:
    """Reads what a function returned.

    Attributes:
        sources: the columns that name a row's source key.
        schema: the declared key and value columns.
    """

    sources: Sequence[Column]
    schema: RowSchema

    def batches(self, returned: object) -> list[pa.RecordBatch]:
        """Returns the rows that a function returned: one batch, unless they are huge.

        Raises:
            Misfit: it is no table, or its columns are not of the declared names and kinds.
        """
        if isinstance(returned, pa.RecordBatch):
            returned = pa.Table.from_batches([returned])
        if not isinstance(returned, pa.Table):
            found = f"{type(returned).__name__} {shown(returned)}"
            raise Misfit(f"the function gave a {found}; give a pyarrow Table or RecordBatch")
        columns = (*self.sources, *self.schema.key, *self.schema.value)
        _check_names(returned.schema.names, [column.name for column in columns])
        for column in columns:
            none = pa.nulls(0, returned.schema.field(column.name).type)
            _named(column.name, none, column.data_type)
        batches: list[pa.RecordBatch] = returned.combine_chunks().to_batches()
        return batches

    def arrays(
        self, rows: pa.RecordBatch, keys: SourceKeys
    ) -> tuple[list[pa.Array], list[pa.Array], list[pa.Array]]:
        """Returns the source keys, keys and values of rows that `batches` returned.

        Args:
            keys: what the function was given; the source keys are copied from its arrays.

        Raises:
            Misfit: a source key is not of its type.
            RowMisfit: a source key is not among ``keys``, or a key or value is not of its type.
        """
        named = [_named(c.name, rows.column(c.name), c.data_type) for c in self.sources]
        places = keys.places(named)
        if (places < 0).any():
            row = int(np.argmax(places < 0))
            message = "a row names a source key that was not among those the function was given"
            raise RowMisfit(message, [array.slice(row, 1) for array in named])
        target, value = (
            [_written(rows.column(c.name), c, named) for c in columns]
            for columns in (self.schema.key, self.schema.value)
        )
        return [array.take(pa.array(places)) for array in keys.arrays], target, value


def conformed(array: pa.Array, data_type: DataType, *, nullable: bool = True) -> pa.Array:
    """Returns an array in the Arrow type of a declared one.

    Raises:
        Misfit: the array is of another kind, or not all of its values can be written without loss.
    """
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.null_count and not nullable:
        raise Misfit("it is null, but declared NOT NULL")
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), arrow_type(data_type))
    if not _KINDS[type(data_type)](array.type):
        raise Misfit(f"{array.type} is no {data_type.simpleString()}; cast it")
    if isinstance(data_type, StructType | ArrayType | MapType):
        return _conformed_parts(array, data_type)
    return _conformed_atoms(array, data_type)


def _check_names(found: Sequence[str], declared: Sequence[str]) -> None:
    missing = [name for name in declared if name not in found]
    unknown = [name for name in found if name not in declared]
    doubled = [name for name, times in Counter(found).items() if times > 1]
    faults = (("lacks", missing), ("has unknown", unknown), ("repeats", doubled))
    if any(names for _, names in faults):
        said = ", ".join(f"{fault} {names!r}" for fault, names in faults if names)
        raise Misfit(f"the function's table {said}; its columns are to be {', '.join(declared)}")


def _named(name: str, array: pa.Array, data_type: DataType, *, nullable: bool = True) -> pa.Array:
    """Says in a Misfit which column or field it is about."""
    try:
        return conformed(array, data_type, nullable=nullable)
    except Misfit as misfit:
        raise Misfit(f"{name}: {misfit}") from misfit.__cause__


def _written(array: pa.Array, column: Column, sources: Sequence[pa.Array]) -> pa.Array:
    """Says in a RowMisfit which row it is about: the last one of the shortest misfit beginning."""

    def misfits(rows: int) -> bool:
        try:
            conformed(array.slice(0, rows), column.data_type, nullable=column.nullable)
        except Misfit:
            return True
        return False

    try:
        return _named(column.name, array, column.data_type, nullable=column.nullable)
    except Misfit as misfit:
        row = max(bisect_left(range(len(array) + 1), True, key=misfits) - 1, 0)
        source = [named.slice(row, 1) for named in sources]
        raise RowMisfit(str(misfit), source) from misfit.__cause__


_Kind = Callable[[pa.DataType], bool]


def _any_of(*kinds: _Kind) -> _Kind:
    return lambda found: any(is_kind(found) for is_kind in kinds)


def _timestamp(*, zoned: bool) -> _Kind:
    return lambda found: pa.types.is_timestamp(found) and (found.tz is not None) == zoned


_FLOATS: Final = (pa.types.is_integer, pa.types.is_float16, pa.types.is_float32)
_LISTS: Final = _any_of(
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)
_KINDS: Final[Mapping[type[DataType], _Kind]] = MappingProxyType(
    {
        BooleanType: pa.types.is_boolean,
        ByteType: pa.types.is_integer,
        ShortType: pa.types.is_integer,
        IntegerType: pa.types.is_integer,
        LongType: pa.types.is_integer,
        FloatType: _any_of(*_FLOATS),
        DoubleType: _any_of(*_FLOATS, pa.types.is_float64),
        DecimalType: _any_of(pa.types.is_decimal, pa.types.is_integer),
        StringType: _any_of(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
        BinaryType: _any_of(
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_binary_view,
            pa.types.is_fixed_size_binary,
        ),
        DateType: pa.types.is_date,
        TimestampType: _timestamp(zoned=True),
        TimestampNTZType: _timestamp(zoned=False),
        StructType: pa.types.is_struct,
        ArrayType: _LISTS,
        MapType: pa.types.is_map,
    }
)
"""The Arrow types that a declared type takes, if each value is one of its own."""


def _conformed_atoms(array: pa.Array, data_type: DataType) -> pa.Array:
    arrow = arrow_type(data_type)
    if array.type == arrow:
        return array
    try:
        found = array.cast(arrow)
        # Arrow's cast to a larger scale overflows without a word.
        exact = not pa.types.is_decimal(arrow) or found.cast(array.type).equals(array)
    except pa.ArrowException as error:
        message = f"{array.type} does not fit {data_type.simpleString()}: {escaped(str(error))}"
        raise Misfit(message) from error
    if not exact:
        raise Misfit(f"a value of {array.type} is too large for {data_type.simpleString()}")
    return found


def _conformed_parts(array: pa.Array, data_type: DataType) -> pa.Array:
    """Returns structs, lists or maps; whatever is stored under a null does not count."""
    arrow, nulls = arrow_type(data_type), array.is_null()
    match data_type:
        case StructType():
            _check_fields(array.type.names, data_type.names)
            found = dict(zip(array.type.names, array.flatten(), strict=True))
            fields = [_conformed_field(found[f.name], f, array.null_count) for f in data_type]
            return pa.StructArray.from_arrays(fields, fields=list(arrow), mask=nulls)
        case ArrayType():
            items = _named("element", array.flatten(), data_type.elementType)
            return pa.ListArray.from_arrays(_offsets(array), items, type=arrow, mask=nulls)
        case MapType():
            key = pa.field("key", array.type.key_type, nullable=False)
            value = pa.field("value", array.type.item_type)
            lists = array.cast(pa.list_(pa.struct([key, value])))
            keys, values = lists.flatten().flatten()
            keys = _named("key", keys, data_type.keyType)
            values = _named("value", values, data_type.valueType)
            return pa.MapArray.from_arrays(_offsets(lists), keys, values, arrow, mask=nulls)
    raise TypeError(f"{data_type.simpleString()!r} has no parts")


def _conformed_field(array: pa.Array, field: StructField, null_structs: int) -> pa.Array:
    found = _named(field.name, array, field.dataType)
    if found.null_count > null_structs and not field.nullable:
        raise Misfit(f"{field.name}: it is null, but declared NOT NULL")
    return found


def _check_fields(found: Sequence[str], declared: Sequence[str]) -> None:
    if sorted(found) != sorted(declared):
        raise Misfit(f"a struct of {list(found)!r} is none of {list(declared)!r}")


def _offsets(lists: pa.Array) -> pa.Array:
    """Returns where in the flattened values each list begins, and the last one ends."""
    sizes = np.asarray(pc.list_value_length(lists).fill_null(0))
    return pa.array(np.concatenate(([0], np.cumsum(sizes))), pa.int32())
