"""Listings: what a table's state says of its files, in the form in which delta-rs lists them.

Pure, but for vectors that are in files of their own. A listing has ranges of the columns that stand
for whole numbers, which is what look-ups skip files by (`storage.parquet.file_ranges`). The
invariant: a range contains the values of all rows of its file; what the log has in another form is
left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import DataType, StructType

from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local.marked import vectors
from deltaproduce.engines.local.marked.state import VECTOR, TableState, path_of
from deltaproduce.model.partitions import SORTS
from deltaproduce.types.atoms import arrow_type

MARKED: Final = "marked"
"""The name of the column with the numbers of the rows that are marked as deleted."""

_ENDS: Final[Mapping[str, str]] = {"min": "minValues", "max": "maxValues"}


def listed(directory: Directory, state: TableState) -> pa.Table:
    """Return the files of a table without partitions, in the order of their paths.

    Returns:
        ``path``, from the table's directory, ``size_bytes``, ``num_records``, structs of columns
        ``min``, ``max`` and ``null_count``, and, if rows are marked as deleted, `MARKED`.

    Raises:
        OSError, ValueError: a deletion vector cannot be read.
    """
    adds = sorted(state.files.values(), key=path_of)
    stats = [json.loads(add.get("stats") or "{}") for add in adds]
    fields = StructType.fromJson(json.loads(state.metadata["schemaString"])).fields
    kinds = {x.name: x.dataType for x in fields if x.dataType.simpleString() in SORTS}
    nulls = [_counts(one.get("nullCount"), kinds) for one in stats]
    columns = {
        "path": pa.array(map(path_of, adds), pa.string()),
        "size_bytes": pa.array([add["size"] for add in adds], pa.int64()),
        "num_records": pa.array([one.get("numRecords") for one in stats], pa.int64()),
        "null_count": pa.array(nulls, pa.struct([(name, pa.int64()) for name in kinds])),
        **{name: _ends([one.get(of) for one in stats], kinds) for name, of in _ENDS.items()},
    }
    if any(add.get(VECTOR) for add in adds):
        columns[MARKED] = marks(directory, adds)
    return pa.table(columns)


def marks(directory: Directory, adds: Iterable[Mapping[str, Any]]) -> pa.Array:
    """Return the numbers of the marked rows of some files; null for a file without any."""
    found = [
        None if add.get(VECTOR) is None else vectors.read(directory, add[VECTOR]).rows
        for add in adds
    ]
    return pa.array(found, pa.list_(pa.int64()))


def _counts(told: object, kinds: Mapping[str, DataType]) -> dict[str, int] | None:
    if not isinstance(told, dict):
        return None
    return {name: told[name] for name in kinds if isinstance(told.get(name), int)}


def _ends(told: Sequence[object], kinds: Mapping[str, DataType]) -> pa.StructArray:
    """Return one end of each file's values, in the columns that have one in the expected form."""
    found = dict[str, pa.Array]()
    for name, kind in kinds.items():
        values = [one.get(name) if isinstance(one, dict) else None for one in told]
        try:
            found[name] = _parsed(values, arrow_type(kind))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
            continue
    if not found:
        return pa.nulls(len(told), pa.struct([]))
    return pa.StructArray.from_arrays([*found.values()], [*found])


def _parsed(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    if pa.types.is_integer(kind):
        return pa.array(values, pa.int64())
    return pa.array(values, pa.string()).cast(kind)
