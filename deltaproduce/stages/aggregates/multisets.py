"""Sorted multisets: the values of each group with their counts, sorted by value.

A multiset is a stage with one row per key and value, which the definition of an aggregate adds
(`Producer.hidden_inputs`): itself an aggregate, which counts. So its rows are stored, looked up,
compacted, rolled back and repaired like those of any stage. The invariant: it has one row for each
value that a row of its group has now, keyed in the order of the values (`functions.encodings`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from deltaproduce.engines.engine import Rows
from deltaproduce.engines.spark.columns import col
from deltaproduce.engines.spark.data_types import in_spark
from deltaproduce.model.graph import HiddenInput, Producer, Stage
from deltaproduce.model.hidden import MULTISET, Hidden, hidden_name
from deltaproduce.model.kind import KeyUse
from deltaproduce.stages.aggregates.kind import Aggregate
from deltaproduce.stages.sql.states.agg import count
from deltaproduce.stages.sql.states.functions.encodings import encoded, encoded_type
from deltaproduce.stages.sql.states.functions.ordered import multiset_of, role_of
from deltaproduce.stages.sql.states.functions.partials import NO_PARTIALS, Partials
from deltaproduce.types.columns import Column, Columns, RowSchema
from deltaproduce.types.data_types import ArrayType, DataType, StructField, StructType

_Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True, repr=False)
class Multiset(Aggregate):
    """A stage with one row per key and value, and the number of rows that have them.

    Attributes:
        width: how many of the columns ``key`` are the group's key; the others are the values. A
            value that is an array stands for its items, each of which is a value.
        merges: whether its values are those of an aggregate.
    """

    width: int = 0
    merges: bool = False

    @property
    @override
    def word(self) -> str:
        return "multiset"

    @property
    @override
    def key_use(self) -> KeyUse:
        return replace(super(Multiset, self).key_use, group_width=self.width)

    @property
    @override
    def reads_states(self) -> bool:
        """What decided on a value is beside the states."""
        return self.merges

    @override
    def typed(
        self, types: Mapping[str, DataType], partials: Partials = NO_PARTIALS, *, stage: str
    ) -> RowSchema:
        """Values have the types of keys."""
        grouping, counted = self.grouping(types, partials, stage=stage), self.counted_types(types)
        places = zip(self.key, self.keys, strict=True)
        key = (Column(name, counted[place]) for (name, _), place in places)
        return RowSchema(Columns(tuple(key)), grouping.value, grouping.states)

    @override
    def counted_types(self, types: Mapping[str, DataType]) -> Mapping[str, DataType]:
        """Those of keys."""
        values = {place: encoded_type(_of_items(types[place])) for place in self.keys[self.width :]}
        return {**types, **values}

    @override
    def counted(self, rows: Rows, types: Mapping[str, DataType]) -> Rows:
        """Rows with a value, with their values encoded as keys."""
        values = {place: types[place] for place in self.keys[self.width :]}
        first = self.keys[self.width]
        if isinstance(rows, pa.Table):
            return _encoded(_itemized(rows.filter(rows.column(first).is_valid()), values), values)
        not_null, wanted = rows.where(col(first).isNotNull()), self.counted_types(types)
        if wanted == types:
            return not_null
        fields = [StructField(name, data_type) for name, data_type in wanted.items()]

        def run(batches: _Batches) -> _Batches:
            for batch in batches:
                counted_rows = _itemized(pa.Table.from_batches([batch]), values)
                yield from _encoded(counted_rows, values).to_batches()

        return not_null.select(*map(col, types)).mapInArrow(run, in_spark(StructType(fields)))


def kept_beside(
    kind: Aggregate, stage: str, inputs: tuple[tuple[Stage, ...], ...], revision: str | None
) -> tuple[HiddenInput, ...]:
    """Return the multisets that an aggregate is answered from, each once.

    They share its window, which moves in the same step; if it is limited, they are rebuilt with the
    aggregate (`operations.step.plan`).
    """
    called = (multiset_of(call) for _, call in kind.computed)
    merged = {multiset_of(call) for _, call in kind.in_order}
    read = {one.name: one for one in kind.arguments}
    hidden = list[HiddenInput]()
    for number, arguments in enumerate(dict.fromkeys(a for a in called if a is not None)):
        wanted = [name.lstrip("_") for name, _ in kind.key]
        wanted += [f"value_{n}" for n in range(len(arguments))]
        *names, counted = _distinct_names([*wanted, "count"])
        expressions = (*(one for _, one in kind.key), *(read[name] for name in arguments))
        multiset = Multiset(
            key=tuple(zip(names, expressions, strict=True)),
            values=((counted, count()),),
            arguments=(),
            where=kind.where,
            window=kind.window,
            width=len(kind.key),
            merges=arguments in merged,
        )
        schema = multiset.schema(inputs[0], stage=stage)
        name, owned = hidden_name("sorted", number, stage), Hidden(MULTISET, (stage,))
        producer = Producer(name, inputs, schema, multiset, revision, hidden=owned)
        hidden.append(HiddenInput(role_of(arguments), producer))
    return tuple(hidden)


def _distinct_names(wanted: Sequence[str]) -> list[str]:
    """Make names distinct, ignoring case, by appending to names that are taken."""
    names = list[str]()
    for name in wanted:
        while name.lower() in map(str.lower, names):
            name += "_"
        names.append(name)
    return names


def _of_items(data_type: DataType) -> DataType:
    """Return the type of the values that a column stands for."""
    return data_type.elementType if isinstance(data_type, ArrayType) else data_type


def _itemized(rows: pa.Table, values: Mapping[str, DataType]) -> pa.Table:
    """Return a row for each item of a value that is an array, which stands alone."""
    for name, data_type in values.items():
        if isinstance(data_type, ArrayType):
            arrays = rows.column(name).combine_chunks()
            rows = rows.take(pc.list_parent_indices(arrays))
            place = rows.schema.get_field_index(name)
            rows = rows.set_column(place, name, pc.list_flatten(arrays))
    return rows


def _encoded(rows: pa.Table, values: Mapping[str, DataType]) -> pa.Table:
    """Encode the values of rows as keys."""
    for name, data_type in values.items():
        array = encoded(rows.column(name).combine_chunks(), _of_items(data_type))
        rows = rows.set_column(rows.schema.get_field_index(name), name, array)
    return rows
