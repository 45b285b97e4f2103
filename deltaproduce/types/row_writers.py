"""Emissions of a produce function: Python pairs in, Arrow columns of the declared types out.

A key or value of one column is emitted bare, one of several as a tuple or list by position, or as a
named tuple, ``Row``, dict or dataclass by name. The same holds for a struct inside a value.

Invariant: the arrays hold everything that was emitted, or a `Misfit` is raised: no missing, unknown
or misplaced column is guessed.

The work is per column; Python takes apart only rows that are no plain tuples. `row_readers` is its
counterpart.
"""

import copy
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import tzinfo
from functools import partial
from itertools import accumulate, chain, count
from operator import itemgetter
from typing import Any, TypeAlias

import pyarrow as pa

from deltaproduce.types.atoms import Misfit, Writer, arrow_type, atom_writer
from deltaproduce.types.columns import Columns, RowSchema, row_type
from deltaproduce.types.data_types import ArrayType, DataType, MapType, StructType
from deltaproduce.types.excerpts import shown

RowsWriter: TypeAlias = Callable[[Sequence[Any]], list[pa.Array]]
EmissionWriter: TypeAlias = Callable[[Sequence[Any]], tuple[list[pa.Array], list[pa.Array]]]


def emission_writer(
    schema: RowSchema, zone: tzinfo, surrogate: str | None = None
) -> EmissionWriter:
    """Return the function that turns emissions into the arrays of ``schema``.

    Args:
        schema: the declared key and value columns.
        zone: the clock of naive datetimes, for a column declared as timestamp.
        surrogate: a value column that is None in every emission, whatever its declaration.

    Returns:
        A function from (key, value) pairs to the arrays of the key columns and those of the value
        columns; it raises Misfit if a pair does not match the declaration.
    """
    write_keys = rows_writer(schema.key, zone)
    write_values = rows_writer(schema.value, zone, surrogate)

    def write(emissions: Sequence[Any]) -> tuple[list[pa.Array], list[pa.Array]]:
        _check_pairs(emissions)
        return write_keys(_part(emissions, 0)), write_values(_part(emissions, 1))

    return write


def rows_writer(columns: Columns, zone: tzinfo, surrogate: str | None = None) -> RowsWriter:
    """Return the writer of keys or of values: rows to one array per column.

    Args:
        columns: the declared columns.
        zone: see `emission_writer`.
        surrogate: see `emission_writer`.
    """
    writers = [
        _named(
            c.name,
            partial(_write_none, arrow=arrow_type(c.data_type))
            if c.name == surrogate
            else _value_writer(c.data_type, c.nullable, zone),
        )
        for c in columns
    ]
    if len(writers) == 1:
        return lambda rows: [writers[0](rows)]
    return _parts_writer(columns.names, writers)


def settled(emission: Any) -> Any:  # noqa: ANN401 it may be anything
    """Return an emission in its current state, as it is written only after the function goes on.

    A hashable value does not change. A dict, list or dataclass may, as in a function that yields
    one total repeatedly while adding to it, so it is copied.
    """
    try:
        hash(emission)
    except TypeError:
        return _copied(emission)
    return emission


def _copied(value: Any) -> Any:  # noqa: ANN401 it may be anything
    match value:
        case dict():
            return {key: settled(part) for key, part in value.items()}
        case list():
            return list(map(settled, value))
        case tuple():
            copied = tuple.__new__(type(value), map(settled, value))
            if hasattr(value, "__dict__"):  # a Row keeps its names in its __dict__
                copied.__dict__.update(value.__dict__)
            return copied
        case bytearray():
            return bytes(value)
    return copy.deepcopy(value) if dataclasses.is_dataclass(value) else value


def _check_pairs(emissions: Sequence[Any]) -> None:
    kinds = set(map(type, emissions))
    if all(issubclass(kind, tuple | list) for kind in kinds) and set(map(len, emissions)) <= {2}:
        return
    for emission in emissions:
        if not isinstance(emission, tuple | list) or len(emission) != 2:
            raise Misfit(f"{shown(emission)} is not a pair; yield (key, value)")


def _write_none(values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    """Write a column that the library fills."""
    for value in values:
        if value is not None:
            raise Misfit(f"it is {shown(value)}; emit None, the library fills a surrogate")
    return pa.nulls(len(values), arrow)


def _parts_writer(names: Sequence[str], writers: Sequence[Writer]) -> RowsWriter:
    fields: tuple[str, ...] = row_type(names)._fields  # type: ignore[attr-defined]
    by_position = partial(_by_position, names=names, fields=fields)

    def write(rows: Sequence[Any]) -> list[pa.Array]:
        parts = by_position(rows)
        return [write(_part(parts, position)) for position, write in enumerate(writers)]

    return write


def _part(rows: Sequence[Sequence[Any]], position: int) -> list[Any]:
    """Return one column of rows; ``zip(*rows)`` would create an iterator for each row."""
    return list(map(itemgetter(position), rows))


def _named(name: str, write: Writer) -> Writer:
    """Return a writer whose Misfit names the column or field."""

    def write_named(values: Sequence[Any]) -> pa.Array:
        try:
            return write(values)
        except Misfit as misfit:
            raise Misfit(f"{name}: {misfit}") from misfit.__cause__

    return write_named


def _by_position(
    rows: Sequence[Any], names: Sequence[str], fields: tuple[str, ...]
) -> Sequence[Sequence[Any]]:
    """Return rows of all forms as sequences in the order of the columns.

    Args:
        rows: the emitted rows.
        names: the columns' names.
        fields: the names in a named tuple, where some may be replaced.
    """
    kinds = set(map(type, rows))
    plain = all(kind in {tuple, list} or getattr(kind, "_fields", None) == fields for kind in kinds)
    if plain and set(map(len, rows)) <= {len(names)}:
        return rows
    return [row_by_position(row, names, fields) for row in rows]


def row_by_position(row: object, names: Sequence[str], fields: tuple[str, ...]) -> Sequence[Any]:
    """Return a row of any form as a sequence in the order of the columns; see `_by_position`.

    Raises:
        Misfit: it has other columns.
    """
    by_name = _by_name(row)
    if by_name is None:
        if isinstance(row, tuple | list) and len(row) == len(names):
            return row
        raise Misfit(f"{shown(row)} is not a row of the {len(names)} columns {', '.join(names)}")
    for known in (names, fields):
        if by_name.keys() == set(known):
            return [by_name[name] for name in known]
    missing = [name for name in names if name not in by_name]
    unknown = [name for name in by_name if name not in names]
    raise Misfit(
        f"{shown(row)} lacks the columns {missing!r} and has unknown ones {shown(unknown)}"
    )


def _by_name(row: object) -> Mapping[Any, Any] | None:
    """Return a dict, named tuple, Row or dataclass as a mapping; None for a value without names."""
    match row:
        case dict():
            return row
        case tuple():
            names = getattr(row, "__fields__", None) or getattr(
                row, "_fields", None
            )  # a Row of Spark
            return dict(zip(names, row, strict=True)) if names else None
        case _ if dataclasses.is_dataclass(row) and not isinstance(row, type):
            names = [field.name for field in dataclasses.fields(row)]
            return {name: getattr(row, name) for name in names if hasattr(row, name)}
    return None


def _value_writer(data_type: DataType, nullable: bool, zone: tzinfo) -> Writer:
    match data_type:
        case StructType():
            write = _struct_writer(data_type, zone)
        case ArrayType():
            write = _array_writer(data_type, zone)
        case MapType():
            write = _map_writer(data_type, zone)
        case _:
            return atom_writer(data_type, zone, nullable=nullable)
    if nullable:
        return write

    def write_not_null(values: Sequence[Any]) -> pa.Array:
        if type(None) in set(map(type, values)):
            raise Misfit("it is None, but declared NOT NULL")
        return write(values)

    return write_not_null


def _struct_writer(data_type: StructType, zone: tzinfo) -> Writer:
    writers = [_named(f.name, _value_writer(f.dataType, f.nullable, zone)) for f in data_type]
    write_parts = _parts_writer(data_type.names, writers)
    fields = list(arrow_type(data_type))

    def write(values: Sequence[Any]) -> pa.Array:
        present = [value for value in values if value is not None]
        array = pa.StructArray.from_arrays(write_parts(present), fields=fields)
        if len(present) == len(values):
            return array
        positions = count()
        return array.take(
            pa.array([None if value is None else next(positions) for value in values], pa.int64())
        )

    return write


def _array_writer(data_type: ArrayType, zone: tzinfo) -> Writer:
    write_elements = _named("element", _value_writer(data_type.elementType, True, zone))
    arrow = arrow_type(data_type)

    def write(values: Sequence[Any]) -> pa.Array:
        _check_kind(values, (list, tuple), "array takes list or tuple")
        elements = list(chain.from_iterable(value for value in values if value is not None))
        return pa.ListArray.from_arrays(_offsets(values), write_elements(elements), type=arrow)

    return write


def _map_writer(data_type: MapType, zone: tzinfo) -> Writer:
    write_keys = _named("key", _value_writer(data_type.keyType, False, zone))
    write_values = _named("value", _value_writer(data_type.valueType, True, zone))
    arrow = arrow_type(data_type)

    def write(values: Sequence[Any]) -> pa.Array:
        _check_kind(values, (dict,), "map takes dict")
        present = [value for value in values if value is not None]
        keys = write_keys(list(chain.from_iterable(present)))
        items = write_values(list(chain.from_iterable(value.values() for value in present)))
        return pa.MapArray.from_arrays(_offsets(values), keys, items, arrow)

    return write


def _check_kind(values: Iterable[Any], kinds: tuple[type, ...], rule: str) -> None:
    for value in values:
        if value is not None and not isinstance(value, kinds):
            raise Misfit(f"{rule}, not {type(value).__name__} {shown(value)}")


def _offsets(values: Sequence[Any]) -> pa.Array:
    """Return where each value's children start; null for a null value."""
    starts = accumulate((0 if value is None else len(value) for value in values), initial=0)
    filled = chain((value is not None for value in values), (True,))
    offsets = [start if there else None for start, there in zip(starts, filled, strict=True)]
    return pa.array(offsets, pa.int32())
