"""Quantiles of a group, by the sketch of Karnin, Lang and Liberty.

Values of every accepted type are encoded as whole numbers in their order (`encodings`). A sketch of
up to `EXACT_VALUES` holds all of them, sorted; a larger one drops values at random, so two sketches
of the same values differ, within the error.

Source of the algorithm and of its error: Karnin, Lang, Liberty, "Optimal quantile approximation in
streams", 2016, as implemented by the Apache DataSketches library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from datasketches import PyLongsSerDe, kll_items_sketch
from typing_extensions import override

from deltaproduce.engines.local.arrays import Marks
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.stages.sql.states.functions.encodings import encoded_type
from deltaproduce.stages.sql.states.functions.plans import Plan, Planned
from deltaproduce.stages.sql.states.functions.sketches.sketch import (
    Items,
    Sketch,
    from_whole_numbers,
    whole_number_in_spark,
    whole_numbers,
)
from deltaproduce.types.data_types import (
    ArrayType,
    DataType,
    DateType,
    DecimalType,
    NumericType,
    TimestampNTZType,
    TimestampType,
)

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression

EXACT_VALUES: Final = 200
"""The k of Spark and the library: a rank is at most 1.33 % off, in 99 cases of 100."""
_SERDE: Final = PyLongsSerDe()


@dataclass(frozen=True, slots=True)
class QuantilesSketch(Sketch):
    """A sketch of quantiles."""

    @override
    def items(self, values: pa.Array) -> Items:
        """Whole numbers."""
        numbers: list[int | str] = whole_numbers(values, self.of).sort().to_pylist()
        return numbers

    @override
    def item_in_spark(self, value: Expression) -> Expression | None:
        return whole_number_in_spark(value, self.of)

    @override
    def sketched(self, items: Items) -> bytes:
        return _written(_sketch_of(items))

    @override
    def sketched_in_spark(self, item: Expression) -> Expression:
        return f.kll_sketch_agg_bigint(item, EXACT_VALUES)

    @override
    def merge(self, states: Sequence[bytes]) -> bytes:
        union = _read(states[0])
        for state in states[1:]:
            union.merge(_read(state))
        if not union.is_estimation_mode():
            union = _sketch_of(sorted(item for item, _ in union))
        return _written(union)

    @override
    def merge_in_spark(self, state: Expression) -> Expression:
        return f.kll_merge_agg_bigint(state, EXACT_VALUES)


def approx_percentile(p: float | tuple[float, ...]) -> Plan:
    """Plan an estimate of the least value not below the share ``p`` of all; or of several."""
    shares = list(p) if isinstance(p, tuple) else [p]

    def plan(argument: int, data_type: DataType) -> Planned | None:
        if not _is_taken(data_type):
            return None

        def finish(states: Sequence[pa.Array]) -> pa.Array:
            sketches = [_read(state) for state in states[0].to_pylist()]
            is_present = np.array([bool(sketch.n) for sketch in sketches], bool)
            quantiles = (
                number
                for sketch in sketches
                if sketch.n
                for number in sketch.get_quantiles(shares, inclusive=True)
            )
            values = from_whole_numbers(pa.array(quantiles, pa.int64()), data_type)
            return (
                _lists(values, is_present) if isinstance(p, tuple) else _where(values, is_present)
            )

        result = ArrayType(data_type) if isinstance(p, tuple) else data_type
        return Planned(result, (QuantilesSketch(argument, data_type),), finish)

    return plan


def _is_taken(data_type: DataType) -> bool:
    """Return whether values are numbers or timestamps, encoded as whole numbers of 64 bits."""
    if isinstance(encoded_type(data_type), DecimalType):
        return False
    return isinstance(data_type, NumericType | DateType | TimestampType | TimestampNTZType)


def _read(state: bytes) -> kll_items_sketch:
    return kll_items_sketch.deserialize(state, _SERDE)


def _written(sketch: kll_items_sketch) -> bytes:
    state: bytes = sketch.serialize(_SERDE)
    return state


def _sketch_of(items: Items) -> kll_items_sketch:
    sketch = kll_items_sketch(EXACT_VALUES)
    for item in items:
        sketch.update(item)
    return sketch


def _where(values: pa.Array, marks: Marks) -> pa.Array:
    """Return the values at the marked places, null elsewhere."""
    return values.take(pa.array(np.cumsum(marks) - 1, mask=~marks))


def _lists(values: pa.Array, marks: Marks) -> pa.Array:
    """Return lists of equal length at the marked places, null elsewhere."""
    width = len(values) // max(int(marks.sum()), 1)
    offsets = np.append(0, np.cumsum(marks * width)).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(~marks))
    return lists.cast(pa.list_(pa.field("element", values.type)))
