"""Surrogate keys on the driver: a number for each target key; see `spark.kernels.surrogates`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import factorize, order_codes, sorting
from deltaproduce.model.layouts import Layout
from deltaproduce.types.pandas_on_demand import in_numpy


def numbered(
    before: pa.Table, new: pa.Table, layout: Layout, surrogate: str, last: int
) -> tuple[pa.Table, int]:
    """Fill the surrogate of new rows; see `Engine.give_numbers`."""
    names = [c.name for c in layout.key]
    keys = factorize(pa.concat_tables([before.select(names), new.select(names)]).columns)
    old, arriving = keys[: len(before)], keys[len(before) :]
    numbers = np.zeros(keys.max(initial=-1) + 1, np.int64)
    numbers[old] = in_numpy(before.column(surrogate))
    unknown = np.flatnonzero(numbers[arriving] == 0)
    fresh, first = np.unique(arriving[unknown], return_index=True)
    rows = new.take(pa.array(unknown[first]))
    in_key_order = fresh[sorting(order_codes(rows, layout.key))]
    numbers[in_key_order] = last + 1 + np.arange(len(fresh))
    place = new.schema.names.index(surrogate)
    # A number that does not fit is refused by the stage's kind, whichever engine has given it.
    filled = pa.array(numbers[arriving]).cast(new.schema.types[place], safe=False)
    return new.set_column(place, surrogate, filled), last + len(fresh)
