"""Parts of a data set: the rows with certain values in certain partition columns.

Pure. The invariant: a value is one of its column's type, in the log's form, or is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC

from deltaproduce.described.descriptor import Description
from deltaproduce.described.partitions import PartitionColumn
from deltaproduce.engines.delta.log import logged
from deltaproduce.errors import InvalidArgumentError
from deltaproduce.model import arguments
from deltaproduce.types.atoms import Misfit
from deltaproduce.types.columns import Columns
from deltaproduce.types.data_types import DateType
from deltaproduce.types.excerpts import shown
from deltaproduce.types.row_writers import rows_writer


def narrowed(
    values: Mapping[str, object], descriptor: Description, within: Mapping[str, str | None]
) -> dict[str, str | None]:
    """Return the values, in the log's form, of a part of a part.

    Args:
        values: the values of the smaller part, by column.
        within: the values of the part that contains it.

    Raises:
        InvalidArgumentError: a value does not fit.
    """
    if not values:
        raise InvalidArgumentError("name a partition column and its value, as in day='2026-01-31'")
    known = {one.column.name: one for one in descriptor.partitions}
    parts = dict(within)
    for name, value in values.items():
        if name not in known:
            raise InvalidArgumentError(
                f"{name!r} is not a partition column; there are: {', '.join(known) or 'none'}",
                argument=name,
            )
        text = _text(known[name], value)
        if parts.get(name, text) != text:
            raise InvalidArgumentError(
                f"{name} is {shown(value)}, and this is the part of {parts[name]!r}", argument=name
            )
        parts[name] = text
    return parts


def _text(one: PartitionColumn, value: object) -> str | None:
    column = one.column
    if isinstance(column.data_type, DateType):
        value = arguments.day(value, column.name)
    try:
        (array,) = rows_writer(Columns((column,)), UTC)([value])
    except Misfit as misfit:
        raise InvalidArgumentError(f"{misfit}", argument=column.name) from misfit
    return logged(array[0].as_py(), column.data_type)
