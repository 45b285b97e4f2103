"""Stages: computes their rows from all rows of their feeders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from deltaproduce.errors import ProducerError
from deltaproduce.model.graph import Producer, Stage
from deltaproduce.stages.kind import stage_kind
from deltaproduce.stages.sql.algebra.binding import bound
from deltaproduce.stages.sql.resolve import Resolved
from deltaproduce.stages.views.dates import dated
from deltaproduce.testing.oracle.groups import PARTS
from deltaproduce.testing.oracle.models import by_key, of_all, of_parts, settled
from deltaproduce.testing.oracle.relations import in_order as in_order_of
from deltaproduce.testing.oracle.relations import interpreted
from deltaproduce.testing.oracle.rows import Row, Rows, in_order, key_groups, named_rows
from deltaproduce.testing.oracle.values import (
    Value,
    as_argument,
    as_arrow,
    as_stored,
    from_columns,
    plain,
    record_items,
    sort_key,
)
from deltaproduce.testing.oracle.windows import WindowStates, window_place
from deltaproduce.types.atoms import arrow_schema
from deltaproduce.types.columns import NO_KEY, Columns
from deltaproduce.types.data_types import (
    StructType,
)


def is_known(producer: Producer) -> bool:
    """Return whether the oracle computes a producer."""
    if by_key(producer.kind) is not None or of_all(producer.kind) is not None:
        return True
    return stage_kind(producer).over({one.name: one.schema for one in producer.merged}) is not None


def fed_rows(producer: Stage, state: Rows, forgotten: Rows) -> Rows:
    """Return a producer's input, with forgotten rows of sources unless it has a window."""
    if producer.kind.upkeep.window is not None or not any(forgotten.values()):
        return state
    state_of = dict(state)
    for feeder in producer.merged:
        if feeder.name in forgotten:
            rows = [*state[feeder.name], *forgotten.get(feeder.name, ())]
            state_of[feeder.name] = in_order(rows, feeder)
    return state_of


def produced_rows(
    producer: Producer, state: Rows, windows: WindowStates, forgotten: Rows
) -> list[Row]:
    """Return the rows of a producer, computed from all rows of its feeders.

    Args:
        state: as `fed_rows` returns it.
        forgotten: the forgotten rows of sources, of which parts of values may be.
    """
    query = stage_kind(producer).over({one.name: one.schema for one in producer.merged})
    if query is not None:
        return _rows_of_query(producer, query, state, windows)
    if of_all(producer.kind) is not None:
        return _rows_of_all(producer, state, windows, forgotten)
    columns = producer.feeders[0].schema.key
    rows: list[Row] = []
    for source_key, inputs in _inputs(producer, state).values():  # S4: only keys with values
        emitted: Counter[Hashable] = Counter()
        for key, value in _emissions(producer, source_key, inputs):
            rows.append(Row(key, source_key, emitted[plain(key)], value))  # S5: equal rows stay
            emitted[plain(key)] += 1
    return sorted(
        rows,
        key=lambda row: (
            sort_key(row.key, producer.schema.key),
            sort_key(row.source_key, columns),  # S13: in the feeder's directions
            row.ordinal,
        ),
    )


def _rows_of_query(
    producer: Producer, query: Resolved, state: Rows, windows: WindowStates
) -> list[Row]:
    """Return the rows of a query over all rows of its feeders, numbered within their keys."""
    key, values = producer.schema.key, producer.schema.value

    def stored(named_row: Mapping[str, Any]) -> Row:
        named = {name: named_row[field] for name, field in query.fields.items()}
        named.setdefault(NO_KEY.names[0], True)
        own = tuple(named[name] for name in key.names), tuple(named[name] for name in values.names)
        return Row(as_stored(own[0], key), (), 0, as_stored(own[1], values))

    relation = bound(query.relation, dated(windows.date))
    interpreted_rows = interpreted(relation, named_rows(producer.merged, state))
    interpreted_rows.sort(key=lambda row: sort_key(stored(row).value, values))
    interpreted_rows = in_order_of(
        interpreted_rows, query.order
    )  # of equal rows the one with the least values is first
    rows = sorted(map(stored, interpreted_rows), key=lambda row: sort_key(row.key, key))
    counts: Counter[Hashable] = Counter()
    for place, row in enumerate(rows):
        rows[place] = replace(row, ordinal=counts[plain(row.key)])
        counts[plain(row.key)] += 1
    return rows


def _rows_of_all(
    producer: Producer, state: Rows, windows: WindowStates, forgotten: Rows
) -> list[Row]:
    """Return the rows of a producer that computes each from rows of many source keys."""
    model = of_all(producer.kind)
    assert model is not None
    rows, counts = list[Row](), Counter[Hashable]()
    for key, value in model(given_rows(producer, state, windows, forgotten)):
        stored = as_stored(key, producer.schema.key)
        number, counts[plain(stored)] = counts[plain(stored)], counts[plain(stored)] + 1
        rows.append(Row(stored, (), number, as_stored(value, producer.schema.value)))
    return sorted(rows, key=lambda row: sort_key(row.key, producer.schema.key))


def given_rows(
    stage: Stage, state: Rows, windows: WindowStates, forgotten: Rows, consumer: str | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the rows that a stage reads, and the parts of values if it merges some.

    Args:
        forgotten: the forgotten rows of sources, of which these parts may be.
        consumer: the one feeder to read; all if None.
    """
    schema, window = stage.feeders[0].schema, stage.kind.upkeep.window
    if window is not None:
        windows.place(stage)  # it may raise, even if there is no row
    for feeder in stage.merged:
        if consumer not in (None, feeder.name):
            continue
        partials = (
            _parts(feeder, state, windows, forgotten) if stage.kind.upkeep.reads_states else None
        )
        for row in state[feeder.name]:
            given = dict(zip(schema.names, (*row.key, *row.value), strict=True))
            if window is not None and not windows.has(
                stage, given[schema.names[window_place(stage)]]
            ):
                continue
            if partials is not None:
                given[PARTS] = dict(zip(schema.value.names, partials[plain(row.key)], strict=True))
            yield given


def _parts(
    stage: Stage, state: Rows, windows: WindowStates, forgotten: Rows
) -> dict[Hashable, tuple[Any, ...]]:
    """Return the parts of each key's values."""
    model = of_parts(stage.kind)
    assert model is not None  # only values of such stages are merged
    rows = model(given_rows(stage, fed_rows(stage, state, forgotten), windows, forgotten))
    return {plain(as_stored(key, stage.schema.key)): partial for key, partial in rows}


def _inputs(
    producer: Producer, state: Rows
) -> dict[tuple[Any, ...], tuple[tuple[Any, ...], list[list[Value]]]]:
    """Return, for each key that any feeder has (S10), the key and the values of each input."""
    fed = {feeder.name: dict(key_groups(state[feeder.name])) for feeder in producer.feeders}
    keys = {plain(row.key): row.key for name in fed for row in state[name]}
    return {
        group: (
            key,
            [
                [
                    as_argument(row.value, merged[0].schema.value)
                    for feeder in merged
                    for row in fed[feeder.name].get(group, ())  # S6: in the feeder's order
                ]
                for merged in producer.inputs
            ],
        )
        for group, key in keys.items()
    }


def numbered_rows(
    producer: Producer, rows: list[Row], before: list[Row], last: int
) -> tuple[list[Row], int]:
    """Return the rows with surrogates, and the last surrogate assigned (S12)."""
    place = producer.schema.value.names.index(str(producer.kind.key_use.numbered))
    numbers = {plain(row.key): row.value[place] for row in before}
    for key, _ in key_groups(rows):  # in key order
        if key not in numbers:
            last += 1
            numbers[key] = last
    return [
        replace(row, value=(*row.value[:place], numbers[plain(row.key)], *row.value[place + 1 :]))
        for row in rows
    ], last


def preserved_rows(producer: Producer, state: Rows, before: Rows, *, is_same: bool) -> list[Row]:
    """Return the rows of changed source keys after the hook (S12), and other rows unchanged.

    Args:
        is_same: whether the definition is unchanged; otherwise all source keys are produced again.
    """
    old, columns = before[producer.name], producer.schema.value
    inputs_before, inputs_after = _inputs(producer, before), _inputs(producer, state)
    known = {(plain(row.source_key), plain(row.key), row.ordinal): row for row in old}
    examples = {key: group[0].value for key, group in key_groups(old)}
    rows: list[Row] = []
    for row in state[producer.name]:
        source = plain(row.source_key)
        stays = is_same and source in inputs_before
        if stays and plain(inputs_before[source]) == plain(inputs_after[source]):
            rows.append(known[source, plain(row.key), row.ordinal])
            continue
        example = examples.get(plain(row.key))
        stored = settled(
            producer.kind,
            as_argument(row.value, columns),
            None if example is None else as_argument(example, columns),
        )
        value = as_stored(record_items(stored, columns), columns)
        examples.setdefault(plain(row.key), value)
        rows.append(replace(row, value=value))
    return rows


def _emissions(
    producer: Producer, source_key: tuple[Any, ...], inputs: list[list[Value]]
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Yield what the producer's function emits for one key's values, as it will be stored."""
    key = as_argument(source_key, producer.feeders[0].schema.key)
    model, numbered = by_key(producer.kind), producer.kind.key_use.numbered
    assert model is not None  # all kinds in the oracle have one
    columns = Columns(  # a number is filled in later, whatever its declaration
        tuple(replace(c, nullable=c.nullable or c.name == numbered) for c in producer.schema.value)
    )
    try:
        for target_key, value in model(_KeyRows(producer, source_key, inputs)):
            yield (
                as_stored(record_items(target_key, producer.schema.key), producer.schema.key),
                as_stored(record_items(value, columns), columns),
            )
    except Exception as error:
        raise ProducerError(
            f"stage {producer.name!r} failed for key {key!r}", stage=producer.name, key=key
        ) from error


@dataclass(frozen=True, slots=True)
class _KeyRows:
    """One source key of a producer and its rows, as the model of its kind gets them."""

    producer: Producer
    source_key: tuple[Any, ...]
    values: list[list[Value]]

    @property
    def key(self) -> Value:
        return as_argument(self.source_key, self.producer.feeders[0].schema.key)

    def table(self) -> pa.Table:
        """Return the rows of the only input, in Arrow."""
        key, value = self.producer.feeders[0].schema.key, self.producer.feeders[0].schema.value
        struct = StructType([*key.struct, *value.struct])
        rows = [
            as_arrow((*self.source_key, *record_items(item, value)), struct)
            for item in self.values[0]
        ]
        return pa.Table.from_pylist(rows, arrow_schema((*key, *value)))

    def emissions(self, table: pa.Table) -> Iterator[tuple[Value, Value]]:
        """Yield the emissions in a table, row by row."""
        key, schema = self.producer.feeders[0].schema.key, self.producer.schema
        sources = [f"_source_{name}" for name in key.names]
        if sorted(table.schema.names) != sorted([*sources, *schema.names]):
            raise ValueError(f"the columns {table.schema.names!r} are not those that are declared")
        for row in table.to_pylist():
            named = tuple(row[name] for name in sources)
            if plain(as_stored(named, key)) != plain(self.source_key):
                raise ValueError(f"{named!r} is not the source key")
            yield from_columns(row, schema.key), from_columns(row, schema.value)
