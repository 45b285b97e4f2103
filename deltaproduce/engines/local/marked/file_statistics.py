"""Statistics of files, as the log has them: a JSON text for each file, into columns.

Pure. The columns are those that stand for whole numbers, which is what look-ups skip files by
(`storage.parquet.file_ranges`). The invariant: a range contains the values of all rows of its file;
what the log has in another form is left out.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from deltaproduce.model.partitions import SORTS
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.data_types import DataType, StructField

ColumnTypes = Mapping[str, DataType]
"""The type of each column that has ranges, by its name."""

_FEW: Final = 100
"""Up to so many texts are parsed one by one, which is sooner."""
_BLOCK_BYTES: Final = 1 << 24
_ENDS: Final[Mapping[str, str]] = {"min": "minValues", "max": "maxValues"}
_UNPARSED: Final = (pa.ArrowException, OverflowError, ValueError)


def types_of(fields: Iterable[StructField]) -> ColumnTypes:
    """Return those of some columns that stand for whole numbers."""
    return {one.name: one.dataType for one in fields if one.dataType.simpleString() in SORTS}


def parsed(texts: pa.StringArray, types: ColumnTypes) -> pa.Table:
    """Return the statistics of some files; a null has none.

    Returns:
        ``num_records`` and structs of columns, ``null_count``, ``min`` and ``max``. A struct lacks
        a column that has another form in one of the texts.

    Raises:
        ValueError: a text is no JSON.
    """
    if len(texts) > _FEW:
        try:
            return _parsed_together(texts, types)
        except _UNPARSED:
            pass  # a column has another form: one by one, it is left out
    return _parsed_singly(texts.to_pylist(), types)


def _parsed_together(texts: pa.StringArray, types: ColumnTypes) -> pa.Table:
    """Return the result of `parsed`.

    Raises:
        ArrowException, ValueError: a column has another form than expected in one of the texts.
    """
    forms = {name: _form(arrow_type(kind)) for name, kind in types.items()}
    ends = pa.struct([*forms.items()])
    counts = pa.struct([(name, pa.int64()) for name in types])
    schema = {"numRecords": pa.int64(), "nullCount": counts, **dict.fromkeys(_ENDS.values(), ends)}
    text = "\n".join(pc.fill_null(texts, "{}").to_pylist())
    rows = pyarrow.json.read_json(
        io.BytesIO(text.encode()),
        pyarrow.json.ReadOptions(block_size=_BLOCK_BYTES),
        pyarrow.json.ParseOptions(pa.schema(schema), unexpected_field_behavior="ignore"),
    ).combine_chunks()
    if len(rows) != len(texts):
        raise ValueError(len(rows))
    columns = {"num_records": rows["numRecords"], "null_count": rows["nullCount"]}
    for name, of in _ENDS.items():
        structs = rows[of].combine_chunks()
        arrays = {
            column: _in_type(pc.struct_field(structs, [column]), arrow_type(kind))
            for column, kind in types.items()
        }
        columns[name] = _struct(arrays, len(texts))
    return pa.table(columns)


def _parsed_singly(texts: Sequence[str | None], types: ColumnTypes) -> pa.Table:
    said = [json.loads(text or "{}") for text in texts]
    nulls = [_counts(one.get("nullCount"), types) for one in said]
    return pa.table(
        {
            "num_records": pa.array([one.get("numRecords") for one in said], pa.int64()),
            "null_count": pa.array(nulls, pa.struct([(name, pa.int64()) for name in types])),
            **{name: _ends([one.get(of) for one in said], types) for name, of in _ENDS.items()},
        }
    )


def _counts(counts: object, types: ColumnTypes) -> dict[str, int] | None:
    if not isinstance(counts, dict):
        return None
    return {name: counts[name] for name in types if isinstance(counts.get(name), int)}


def _ends(ends: Sequence[object], types: ColumnTypes) -> pa.StructArray:
    """Return one end of each file's values, in the columns that have one in the expected form."""
    arrays = dict[str, pa.Array]()
    for name, kind in types.items():
        values = [one.get(name) if isinstance(one, dict) else None for one in ends]
        arrow = arrow_type(kind)
        try:
            arrays[name] = _in_type(pa.array(values, _form(arrow)), arrow)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
            continue
    return _struct(arrays, len(ends))


def _form(kind: pa.DataType) -> pa.DataType:
    """Return the type of values as the log has them."""
    return pa.int64() if pa.types.is_integer(kind) else pa.string()


def _in_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values if pa.types.is_integer(kind) else values.cast(kind)


def _struct(arrays: Mapping[str, pa.Array], files: int) -> pa.StructArray:
    if not arrays:
        return pa.nulls(files, pa.struct([]))
    return pa.StructArray.from_arrays([*arrays.values()], [*arrays])
