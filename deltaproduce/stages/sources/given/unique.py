"""Unique keys: a source may say that a key has one row, so a batch has each key once.

The invariant: a key with two upserts in one batch is refused, wherever the rows are, with the
positions of two of them. Deletes of a key may repeat (S3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

import numpy as np
import pyarrow as pa

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.local.arrays import Marks, Numbers, factorize
from deltaproduce.engines.spark.columns import cols, same
from deltaproduce.engines.spark.frames import fetched
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.errors import InvalidChangesError
from deltaproduce.model.graph import Source
from deltaproduce.stages.batches import sample_keys
from deltaproduce.types.columns import ORDINAL, Column
from deltaproduce.types.data_types import LongType
from deltaproduce.types.excerpts import shown
from deltaproduce.types.pandas_on_demand import in_numpy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLACE: Final = Column("_place", LongType(), nullable=False)
_IDS_OF_PARTITION: Final = 33
"""The bits of a number of `monotonically_increasing_id` below those of the partition."""


def check_in_table(
    given: pa.Table, source: Source, engines: Engines, counts: Marks, places: Numbers
) -> None:
    """Refuse rows on the driver in which a key is there twice.

    Args:
        counts: which rows count: the upserts.
        places: the positions of the rows in what the user gave.

    Raises:
        InvalidChangesError: with the positions.
    """
    key = source.schema.key
    rows = given.select(key.names).append_column(_PLACE.name, pa.array(places, pa.int64()))
    if not counts.all():
        rows = rows.filter(pa.array(counts))
    positions = [_repeated(part, key.names) for (part,) in engines.ranges([rows], key.columns)]
    repeated = pa.concat_tables(positions) if positions else rows.slice(0, 0)
    if len(repeated):
        _refuse(repeated, source, engines)


def check_in_spark(upserts: DataFrame, rows: DataFrame, source: Source, engines: Engines) -> None:
    """Refuse rows in Spark in which a key is there twice; one job, and three to refuse them.

    Args:
        upserts: the rows that count.
        rows: all rows; both have the ids of `monotonically_increasing_id` as ``_ordinal``.

    Raises:
        InvalidChangesError: with the positions.
    """
    key = source.schema.key
    once = upserts.groupBy(*cols(key)).agg(f.count(f.lit(1)).alias(_PLACE.name))
    twice = once.where(f.col(_PLACE.name) > 1).drop(_PLACE.name).limit(1)
    repeated = fetched(twice, key.columns)
    if not len(repeated):
        return
    wanted = engines.frame(repeated, key.columns)
    matches = upserts.join(wanted, same(upserts, wanted, key), "left_semi")
    places = fetched(
        matches.select(*cols(key), f.col(ORDINAL).alias(_PLACE.name)).orderBy(_PLACE.name).limit(2),
        (*key, _PLACE),
    )
    ids = in_numpy(places.column(_PLACE.name), np.int64)
    at = places.schema.get_field_index(_PLACE.name)
    positions = pa.array(_positions(ids, rows), pa.int64())
    _refuse(places.set_column(at, _PLACE.name, positions), source, engines)


def _positions(ids: Numbers, rows: DataFrame) -> list[int]:
    """Return the positions of rows with these ids among all rows."""
    number = f.shiftright(ORDINAL, _IDS_OF_PARTITION).alias("number")
    last = f.max(f.col(ORDINAL)).alias("last")
    below = (1 << _IDS_OF_PARTITION) - 1
    sizes = {row[0]: (row[1] & below) + 1 for row in rows.groupBy(number).agg(last).collect()}
    return [
        sum(size for number, size in sizes.items() if number < one >> _IDS_OF_PARTITION)
        + (one & below)
        for one in ids.tolist()
    ]


def _repeated(rows: pa.Table, names: tuple[str, ...]) -> pa.Table:
    """Return the rows of keys with several rows, a key's rows together."""
    if len(rows) < 2:
        return rows.slice(0, 0)
    keys = factorize(rows.select(names).columns)
    several = np.bincount(keys) > 1
    if not several.any():
        return rows.slice(0, 0)
    places = np.flatnonzero(several[keys])
    return rows.take(pa.array(places[np.argsort(keys[places], kind="stable")]))


def _refuse(repeated: pa.Table, source: Source, engines: Engines) -> NoReturn:
    """Refuse changes for keys that are there twice.

    Args:
        repeated: rows of such keys with their positions; the first two are of one key.
    """
    keys = sample_keys(repeated, source, engines)
    rows = tuple(in_numpy(repeated.column(_PLACE.name).slice(0, 2), np.int64).tolist())
    others = f"; so are {shown(keys[1:])}" if len(keys) > 1 else ""
    raise InvalidChangesError(
        f"changes of source {source.name!r}: key {shown(keys[0]) if keys else '(unreadable)'} is "
        f"there twice, in rows {rows[0]} and {rows[1]} (from 0){others}. The source is unique: "
        "drop one of the rows",
        source=source.name,
        keys=keys,
        rows=rows,
    )
