"""Pruning: which files may have rows that match a predicate, by their entries in the log.

Pure. The invariant: a skipped file has no row for which the condition is true; a file that is kept
may have none either.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.datasets.actions import values_in_log
from deltaproduce.described.descriptor import Description
from deltaproduce.described.partitions import read_values
from deltaproduce.engines.local.arrays import Marks
from deltaproduce.stages.sql.expressions.evaluation import evaluated, holds
from deltaproduce.stages.sql.expressions.kernels.comparing import COMPARISONS
from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError
from deltaproduce.stages.sql.expressions.terms import Call, Junction, Reference, Term
from deltaproduce.types.atoms import arrow_schema, arrow_type
from deltaproduce.types.data_types import DateType, IntegralType, StringType

_SIGNS: Final = MappingProxyType({kernel: sign for sign, kernel in COMPARISONS.items()})
_SWAPPED: Final = MappingProxyType({"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="})
_ONE_ROW: Final = pa.table({"_": pa.nulls(1)})


def may_have(condition: Term, files: pa.Table, descriptor: Description) -> Marks:
    """Return which files may have rows for which a condition is true.

    Args:
        files: as `Snapshot.files`; at least one.
    """
    kept = np.ones(len(files), bool)
    by = {one.column.name for one in descriptor.partitions}
    partitions = _partitions(files, descriptor) if by else None
    for part in _all_of(condition):
        names = set(_named(part))
        marks = None
        if partitions is not None and names <= by:
            marks = _of_partitions(part, partitions)
        elif isinstance(part, Call) and len(names) == 1:
            marks = _within_ends(part, files)
        if marks is not None:
            kept &= marks
    return kept


def _partitions(files: pa.Table, descriptor: Description) -> pa.Table:
    """Return the partition values of files, one row for each file."""
    by = descriptor.partitions
    values = [
        read_values(tuple(values_in_log(file, descriptor).values()), by)
        for file in files.select(["partition"]).to_pylist()
    ]
    schema = arrow_schema(one.column for one in by)
    return pa.table({name: [row[name] for row in values] for name in schema.names}, schema)


def _of_partitions(part: Term, partitions: pa.Table) -> Marks | None:
    try:
        return holds(part, partitions)
    except EvaluationError:  # an earlier part may keep such a row from being computed
        return None


def _within_ends(part: Call, files: pa.Table) -> Marks | None:
    """Prune by the minimum and maximum of a column that is compared with a constant."""
    sign = _SIGNS.get(part.kernel, "")
    if sign not in _SWAPPED:
        return None
    match part.arguments:
        case (Reference() as column, other) if not set(_named(other)):
            how = sign
        case (other, Reference() as column) if not set(_named(other)):
            how = _SWAPPED[sign]
        case _:
            return None
    ends = [_end(files, name, column) for name in ("min", "max")]
    if None in ends:
        return None
    try:
        (value,) = evaluated(other, _ONE_ROW)
    except EvaluationError:
        return None
    least, greatest = ends
    below = pc.less(least, value) if how == "<" else pc.less_equal(least, value)
    above = pc.greater(greatest, value) if how == ">" else pc.greater_equal(greatest, value)
    both = {"<": below, "<=": below, ">": above, ">=": above}
    may = both.get(how, pc.and_(below, above))
    return np.asarray(pc.fill_null(may, fill_value=True), bool)


def _end(files: pa.Table, end: str, column: Reference) -> pa.Array | None:
    """Return a column's minima or maxima, one a file; None if the log does not have exact ones."""
    place = files.schema.get_field_index(end)
    kinds = (DateType, IntegralType, StringType)
    if place < 0 or not isinstance(column.data_type, kinds):
        return None
    struct = files.column(place).combine_chunks()
    if struct.type.get_field_index(column.name) < 0:
        return None
    ends = pc.struct_field(struct, column.name)
    return ends if ends.type == arrow_type(column.data_type) else None


def _all_of(term: Term) -> Iterator[Term]:
    """Return the parts of a condition that must all hold."""
    if isinstance(term, Junction) and not term.settled:
        yield from _all_of(term.left)
        yield from _all_of(term.right)
    else:
        yield term


def _named(term: Term) -> Iterator[str]:
    """Return the columns that a term reads."""
    if isinstance(term, Reference):
        yield term.name
    for part in term.parts:
        yield from _named(part)
