"""Generators: each row once for each item of an array, or entry of a map."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.local.arrays import Numbers, places_within
from deltaproduce.stages.sql.algebra.expanding import TIMES, Generate
from deltaproduce.stages.sql.operators.changes.keys import LookupKeys
from deltaproduce.stages.sql.operators.changes.rules import RelationChanges
from deltaproduce.stages.sql.operators.changes.signed import Signed
from deltaproduce.stages.sql.operators.computing import Computing, in_type
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.pandas_on_demand import in_numpy


def whole(generate: Generate, rows: pa.Table, computing: Computing) -> pa.Table:
    """Return each row once for each row that the generator makes of it."""
    return _generated(generate, rows, computing)[0]


def change(generate: Generate, changes: RelationChanges) -> Signed:
    """Return what the generator makes of each row of the change."""
    touched = changes.change(generate.input)
    rows, owners = _generated(generate, touched.rows, changes.computing)
    return Signed(rows, touched.counts[owners]).net()


def looked_up(generate: Generate, keys: LookupKeys, changes: RelationChanges) -> pa.Table:
    """Return the rows before that have one of the keys."""
    rows = changes.before(generate.input, keys.within(generate.input.fields))
    return keys.of_rows(whole(generate, rows, changes.computing))


def _generated(
    generate: Generate, rows: pa.Table, computing: Computing
) -> tuple[pa.Table, Numbers]:
    """Return the generator's rows, and which row of the input each of them is made of."""
    (argument,) = generate.arguments
    lists = computing.value(argument, rows, generate.input.fields)
    if generate.function == TIMES:
        owners = np.repeat(np.arange(len(rows)), in_numpy(lists, np.int64))
        return rows.combine_chunks().take(pa.array(owners)), owners
    sizes = in_numpy(pc.fill_null(pc.list_value_length(_as_lists(lists)), 0), np.int64)
    alone = np.flatnonzero(sizes == 0) if generate.is_outer else np.zeros(0, np.int64)
    owners = np.repeat(np.arange(len(rows)), sizes)
    places = places_within(np.zeros_like(sizes), sizes)
    items = pc.list_flatten(_as_lists(lists))
    columns = _columns(generate, items, pa.array(places.astype(np.int32)))
    every = np.concatenate([owners, alone])
    generated = rows.combine_chunks().take(pa.array(every))
    for field, values in zip(generate.own, columns, strict=True):
        assert field.data_type is not None
        wanted = arrow_type(field.data_type)
        padded = [in_type(values, wanted), pa.nulls(len(alone), wanted)]
        generated = generated.append_column(field.id, pa.concat_arrays(padded))
    return generated, every


def _as_lists(array: pa.Array) -> pa.Array:
    """Return maps as lists of their entries."""
    if not pa.types.is_map(array.type):
        return array
    entries = pa.list_(pa.struct([array.type.key_field, array.type.item_field]))
    return array.cast(entries)


def _columns(generate: Generate, items: pa.Array, places: pa.Array) -> list[pa.Array]:
    """Return the columns of a generator from all items, and their places in their arrays."""
    kind = items.type
    is_entry = len(generate.own) > (2 if generate.function == "posexplode" else 1)
    if generate.function == "inline" or (pa.types.is_struct(kind) and is_entry):
        arrays = items.flatten()
    else:
        arrays = [items]
    return [places, *arrays] if generate.function == "posexplode" else arrays
