"""Given keys: the keys that a user looks up, as a selection of keys of a stage.

The invariant: every key has the stage's columns and equals the given key, unchanged; otherwise an
`InvalidArgumentError` says which column does not fit. Equal keys count once, and null is a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.columns import col
from deltaproduce.engines.spark.data_types import frame_struct, in_spark
from deltaproduce.engines.spark.sessions.on_demand import is_frame
from deltaproduce.errors import InvalidArgumentError
from deltaproduce.times.zones import zone_of
from deltaproduce.types.atoms import Misfit
from deltaproduce.types.columns import Columns
from deltaproduce.types.conversions import conformed, widens
from deltaproduce.types.excerpts import described, shown
from deltaproduce.types.row_writers import rows_writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def selected(given: object, key: Columns, engines: Engines) -> Selection:
    """Return the given keys as a selection.

    Args:
        given: a DataFrame, or an object with the Arrow interface, with the key columns by name, and
            perhaps others; or a list of keys as functions get them.
        key: the key columns of the stage.

    Raises:
        InvalidArgumentError: it is none of these, or does not fit; with ``argument``.
        SessionError: it is a DataFrame, and there is no session.
    """
    nullable = Columns(tuple(replace(column, nullable=True) for column in key))
    if is_frame(given):
        _ = engines.spark  # refuses a store without a session
        keys: Rows = _of_frame(given, nullable)
    elif hasattr(given, "__arrow_c_stream__"):
        keys = _of_arrow(given, nullable, engines)
    elif isinstance(given, Sequence) and not isinstance(given, str | bytes):
        keys = _of_list(given, nullable, engines)
    else:
        _refuse(f"are {shown(given)}; give a DataFrame, a pyarrow Table, or a list of keys")
    return Selection.of(keys, key.columns, engines)


def _of_frame(given: DataFrame, key: Columns) -> DataFrame:
    places = _places(given.columns, key)
    struct = frame_struct(given)
    types = [struct.fields[place].dataType for place in places]
    for column, data_type in zip(key, types, strict=True):
        if not widens(data_type, column.data_type):
            wanted = column.data_type.simpleString()
            _refuse(f"have column {column.name!r} of type {data_type.simpleString()}, not {wanted}")
    numbered = given.toDF(*(f"_{place}" for place in range(len(given.columns))))
    named = zip(places, key, strict=True)
    return numbered.select(
        *(col(f"_{n}").cast(in_spark(c.data_type)).alias(c.name) for n, c in named)
    )


def _of_arrow(given: Any, key: Columns, engines: Engines) -> pa.Table:  # noqa: ANN401 see `selected`
    try:
        table = pa.RecordBatchReader.from_stream(given).read_all()
    except Exception as error:
        raise InvalidArgumentError(
            f"keys are a {type(given).__name__} that cannot be read: {described(error)}",
            argument="keys",
        ) from error
    arrays, clock = dict[str, pa.Array](), zone_of(engines.time_zone)
    for place, column in zip(_places(table.column_names, key), key, strict=True):
        try:
            array = table.column(place).combine_chunks()
            arrays[column.name] = conformed(array, column.data_type, clock=clock)
        except Misfit as misfit:
            _refuse(f"have column {column.name!r}, which does not fit: {misfit}")
    return pa.table(arrays)


def _of_list(given: Sequence[object], key: Columns, engines: Engines) -> pa.Table:
    rows = [_bare(one, key) for one in given]
    try:
        arrays = rows_writer(key, zone_of(engines.time_zone))(rows)
    except Misfit as misfit:
        _refuse(f"are not all of the columns {key.label}: {misfit}")
    return pa.table(arrays, list(key.names))


def _bare(given: object, key: Columns) -> object:
    """Return a one-column key without its name, if it has one."""
    if len(key) == 1 and isinstance(given, Mapping) and len(given) == 1:
        ((name, value),) = given.items()
        if str(name).lower() == key.names[0].lower():
            return value
    return given


def _places(names: Sequence[str], key: Columns) -> list[int]:
    """Return the places of the key columns among some names, ignoring case."""
    numbers = list[int]()
    for column in key:
        places = [n for n, name in enumerate(names) if name.lower() == column.name.lower()]
        if len(places) != 1:
            what = f"column {column.name!r} twice" if places else f"no column {column.name!r}"
            _refuse(f"have {what}; the key is {key.label}")
        numbers += places
    return numbers


def _refuse(finding: str) -> NoReturn:
    raise InvalidArgumentError(f"keys {finding}", argument="keys")
