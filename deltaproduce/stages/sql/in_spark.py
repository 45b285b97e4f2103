"""Queries in Spark, for the kinds that run a query by its own text: its views, and its rows.

The invariant: no temporary view is left behind, and the rows of a pair are numbered in the same
order whichever other rows a query returns with them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deltaproduce.engines.spark.columns import col, comparable, typed
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.model.layouts import Layout
from deltaproduce.types.columns import ORDINAL
from deltaproduce.types.ddl import identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@contextmanager
def temporary_views(
    frames: Mapping[str, DataFrame], spark: SparkSession
) -> Iterator[dict[str, str]]:
    """Create temporary views of frames, under unique names, while the context lasts.

    Yields:
        The name of each frame's view.
    """
    views = {name: f"_deltaproduce_{uuid.uuid4().hex}" for name in frames}
    try:
        for name, frame in frames.items():
            frame.createOrReplaceTempView(views[name])
        yield views
    finally:
        for view in views.values():
            spark.catalog.dropTempView(view)


def numbered(
    rows: DataFrame, layout: Layout, first: Sequence[str], *, are_unique: bool = False
) -> DataFrame:
    """Return rows in the columns of the content, with the ``_ordinal`` of each among its pair.

    Args:
        rows: the rows, with the other columns of the content, and perhaps more.
        first: what orders the rows of a pair, as SQL text; rows that are equal in it go by their
            values.
        are_unique: whether no pair has two rows.
    """
    if are_unique:
        numbered_rows = rows.withColumn(ORDINAL, f.lit(0))
        return numbered_rows.select(*(typed(col(c.name), c) for c in layout.content))
    values = {
        f"_value_{n}": comparable(col(c.name), c.data_type) for n, c in enumerate(layout.value)
    }
    pair = ", ".join(identifier(c.name) for c in layout.pair)
    order = ", ".join([*first, *values]) or "1"
    place = f.expr(f"row_number() OVER (PARTITION BY {pair} ORDER BY {order})")
    in_order = rows.withColumns(values).withColumn(ORDINAL, place - 1)
    return in_order.select(*(typed(col(c.name), c) for c in layout.content))
