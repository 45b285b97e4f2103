"""Listings: what a table's state says of its files, in the form in which delta-rs lists them.

Pure, but for vectors that are in files of their own. A listing has ranges of the columns that stand
for whole numbers, which is what look-ups skip files by (`storage.parquet.file_ranges`). The
invariant: a range contains the values of all rows of its file; what the log has in another form is
left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local.arrays import Numbers
from deltaproduce.engines.local.marked import vectors
from deltaproduce.engines.local.marked.state import VECTOR, TableState, path_of
from deltaproduce.model.partitions import SORTS
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.data_types import DataType, StructType

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
    paths = [path_of(add) for add in adds]
    stats = [json.loads(add.get("stats") or "{}") for add in adds]
    fields = StructType.fromJson(json.loads(state.metadata["schemaString"])).fields
    kinds = {x.name: x.dataType for x in fields if x.dataType.simpleString() in SORTS}
    nulls = [_counts(one.get("nullCount"), kinds) for one in stats]
    columns = {
        "path": pa.array(paths, pa.string()),
        "size_bytes": pa.array([add["size"] for add in adds], pa.int64()),
        "num_records": pa.array([one.get("numRecords") for one in stats], pa.int64()),
        "null_count": pa.array(nulls, pa.struct([(name, pa.int64()) for name in kinds])),
        **{name: _ends([one.get(of) for one in stats], kinds) for name, of in _ENDS.items()},
    }
    return with_marks(pa.table(columns), paths, marked_rows(directory, state))


def marked_rows(directory: Directory, state: TableState) -> dict[str, Numbers]:
    """Return the numbers of the rows that are marked as deleted, in order, by the file's path.

    Raises:
        OSError, ValueError: a deletion vector cannot be read.
    """
    entries = {path_of(add): add.get(VECTOR) for add in state.files.values()}
    return {p: vectors.read(directory, one).rows for p, one in entries.items() if one is not None}


def with_marks(listed: pa.Table, paths: Sequence[str], marked: Mapping[str, Numbers]) -> pa.Table:
    """Return a listing with the column `MARKED`, null for a file without any; only if one has.

    Args:
        paths: the path of each file.
    """
    if not marked:
        return listed
    numbers = [marked.get(path) for path in paths]
    return listed.append_column(MARKED, pa.array(numbers, pa.list_(pa.int64())))


def _counts(counts: object, kinds: Mapping[str, DataType]) -> dict[str, int] | None:
    if not isinstance(counts, dict):
        return None
    return {name: counts[name] for name in kinds if isinstance(counts.get(name), int)}


def _ends(ends: Sequence[object], kinds: Mapping[str, DataType]) -> pa.StructArray:
    """Return one end of each file's values, in the columns that have one in the expected form."""
    arrays = dict[str, pa.Array]()
    for name, kind in kinds.items():
        values = [one.get(name) if isinstance(one, dict) else None for one in ends]
        try:
            arrays[name] = _parsed(values, arrow_type(kind))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
            continue
    if not arrays:
        return pa.nulls(len(ends), pa.struct([]))
    return pa.StructArray.from_arrays([*arrays.values()], [*arrays])


def _parsed(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    if pa.types.is_integer(kind):
        return pa.array(values, pa.int64())
    return pa.array(values, pa.string()).cast(kind)
