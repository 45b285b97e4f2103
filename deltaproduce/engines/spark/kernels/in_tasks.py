"""Comparisons in Spark's tasks: the driver's kernel, for many keys at once.

Spark's windows sort a key's rows four times to compare them; `local.kernels.comparing` does it in
one pass, for as many keys as fit in a part of limited size. The invariant: a part has all rows of
its keys, and one task holds it. A key with more rows than that is left to `comparing`, whose
windows need no memory in proportion to a key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import key_ends
from deltaproduce.engines.local.kernels import comparing
from deltaproduce.engines.marks import ADDED, AFTER, BEFORE, SIDE
from deltaproduce.engines.spark.columns import by_number, cols, order, struct_of
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.model.layouts import Layout
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import ByteType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BOTH: Final = 2
"""In addition to `BEFORE` and `AFTER`: a row that is on both sides."""

_HELD: Final = "_held"
"""The sides of a row that is not compared here; null for compared rows."""

IS_LEFT: Final = f"{_HELD} IS NOT NULL"
"""Holds for a row that `compare` has left."""

_ROW_BYTES: Final = 200
"""The approximate bytes that the kernel needs per row, in addition to the row itself."""

_Batches = Iterator[pa.RecordBatch]


def compare(rows: DataFrame, layout: Layout, part_bytes: int) -> DataFrame:
    """Number the rows of each key on both sides of a step, and mark the differences; lazily.

    Args:
        rows: the rows of the affected keys: content columns and ``_side``, which is `BOTH` for a
            row that is there before the step and stays.
        part_bytes: about how many bytes of rows a task compares at a time.

    Returns:
        The result of `comparing.compare`; for keys with more rows than that, the rows unchanged,
        without any mark: see `compared` and `left`.
    """
    columns = (*layout.content, *ADDED, Column(_HELD, ByteType()))
    together = rows.repartition(*cols(layout.key)).sortWithinPartitions(*order(layout.key))
    plain = together.select(*cols(layout.content), f.col(SIDE).cast("tinyint"))
    return by_number(plain).mapInArrow(_compared(layout, part_bytes), struct_of(columns))


def compared(compared: DataFrame) -> DataFrame:
    """Return the rows that `compare` has compared."""
    return compared.where(f.col(_HELD).isNull()).drop(_HELD)


def left(compared: DataFrame, layout: Layout) -> DataFrame:
    """Return the rows that `compare` has left, as `comparing.compare` takes them: once per side."""
    sides = (
        f.when(f.col(_HELD) == BOTH, f.array(f.lit(BEFORE), f.lit(AFTER)))
        .when(f.col(_HELD) == BEFORE, f.array(f.lit(BEFORE)))
        .otherwise(f.array(f.lit(AFTER)))
    )
    rows = compared.where(f.col(_HELD).isNotNull())
    return rows.select(*cols(layout.content), f.explode(sides).alias(SIDE))


def _compared(layout: Layout, part_bytes: int) -> Callable[[_Batches], _Batches]:
    """Return a task's work, as a function that can be pickled."""
    names = [c.name for c in layout.content]
    keys = [c.name for c in layout.key]

    def run(batches: _Batches) -> _Batches:
        tables = (pa.Table.from_batches([b]).rename_columns([*names, SIDE]) for b in batches)
        for part, whole in parts(tables, keys, part_bytes):
            result = _marked(part, layout) if whole else _unmarked(part)
            yield from result.to_batches()

    return run


def parts(
    tables: Iterator[pa.Table], key: list[str], part_bytes: int
) -> Iterator[tuple[pa.Table, bool]]:
    """Split rows that are sorted by key into parts that end with a key.

    Returns:
        Parts of about ``part_bytes`` bytes, and whether each has all rows of its keys; if not, it
        has rows of a single key, which is in no complete part.
    """
    held: list[pa.Table] = []
    size, large = 0, None  # a key with an earlier part already returned
    for table in tables:
        if large is not None:
            table, large, more = _beginning(table, large, key)
            if len(more):
                yield more, False
        if not len(table):
            continue
        held.append(table)
        size += table.nbytes + _ROW_BYTES * len(table)
        if size < part_bytes:
            continue
        rows = pa.concat_tables(held).combine_chunks()
        ends = key_ends(rows.select(key))
        if len(ends) > 1:
            yield rows.slice(0, ends[-2]), True
            held = [rows.slice(ends[-2])]
            size = size * len(held[0]) // len(rows)
        else:
            yield rows, False
            held, size, large = [], 0, rows.select(key).slice(len(rows) - 1)
    if held:
        yield pa.concat_tables(held).combine_chunks(), True


def _beginning(
    table: pa.Table, large: pa.Table, key: list[str]
) -> tuple[pa.Table, pa.Table | None, pa.Table]:
    """Return the rows after a key's, the key if more of its rows may come, and its rows."""
    keys = pa.concat_tables([large, table.select(key)]).combine_chunks()
    end = int(key_ends(keys)[0]) - 1
    return table.slice(end), large if end == len(table) else None, table.slice(0, end)


def _marked(rows: pa.Table, layout: Layout) -> pa.Table:
    side = np.asarray(rows.column(SIDE))
    content = rows.select([c.name for c in layout.content])
    before = content.filter(pa.array(side != AFTER))
    stays = side[side != AFTER] == BOTH
    result = comparing.compare(before, stays, content.filter(pa.array(side == AFTER)), layout)
    result = result.select([*content.column_names, *(c.name for c in ADDED)])
    return result.append_column(_HELD, pa.nulls(len(result), pa.int8()))


def _unmarked(rows: pa.Table) -> pa.Table:
    held = rows.column(SIDE)
    rows = rows.drop_columns([SIDE])
    for mark in ADDED:
        rows = rows.append_column(mark.name, pa.nulls(len(rows), arrow_type(mark.data_type)))
    return rows.append_column(_HELD, held)
