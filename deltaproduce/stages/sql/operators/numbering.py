"""The rows of a query as a stage keeps them: in its columns, and numbered within their keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Numbers, factorize, order_codes, places, sorting
from deltaproduce.engines.local.kernels.row_hashes import row_hashes
from deltaproduce.stages.sql.algebra.scalars import NESTED, SortKey
from deltaproduce.stages.sql.operators.limit import order_numbers
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import NO_KEY, ORDINAL, Column

_HIDDEN: Final = NO_KEY.names[0]


def numbered(
    rows: pa.Table,
    fields: Mapping[str, str],
    order: Sequence[SortKey],
    pair: Sequence[Column],
    values: Sequence[Column],
) -> pa.Table:
    """Return the columns of a stage, and ``_ordinal``: the number of a row within its pair.

    Rows of a pair are in the query's order, and then in that of their values.

    Args:
        rows: the rows of the query, in columns named by fields.
        fields: the query's columns -> their fields.
        order: the query's ORDER BY.
        pair: the columns within which rows are numbered.
        values: the other columns.
    """
    own = {
        column.name: rows.column(fields[column.name]).cast(arrow_type(column.data_type))
        for column in (*pair, *values)
        if column.name != _HIDDEN
    }
    if any(column.name == _HIDDEN for column in pair):
        own[_HIDDEN] = pa.repeat(pa.scalar(True, pa.bool_()), len(rows))
    table = pa.table(own)
    groups = factorize(table.column(column.name) for column in pair)
    sorted_rows = np.zeros(0, np.int64)
    if len(table):
        ranks = [groups, *order_numbers(rows, order), *_numbers_of(table, values)]
        sorted_rows = sorting(ranks)
    numbers = places([groups[sorted_rows]]) if len(table) else sorted_rows
    table = table.combine_chunks().take(pa.array(sorted_rows))
    return table.append_column(ORDINAL, pa.array(numbers.astype(np.int64)))


def _numbers_of(rows: pa.Table, values: Sequence[Column]) -> list[Numbers]:
    """Return columns of numbers that sort rows by their values.

    Nested values have no order here, and get any that depends on the values alone.
    """
    plain = [column for column in values if not isinstance(column.data_type, NESTED)]
    nested = [column.name for column in values if isinstance(column.data_type, NESTED)]
    codes = order_codes(rows, plain)
    if nested:
        codes.append(row_hashes(rows.select(nested)).view(np.int64))
    return codes
