"""The rows of a stage of events: events become states, and states become its rows.

A `Making` is all that tasks of Spark need, so it has names and types, and no expressions. The
invariant: the rows of a key follow from all its events, whichever engine computes them, and however
keys are divided among calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

import numpy as np
import pyarrow as pa

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.failures import in_worker
from deltaproduce.engines.local.arrays import Numbers, distinct, whole_keys
from deltaproduce.engines.spark.columns import by_number, cols, order, struct_of
from deltaproduce.engines.spark.frames import row_bytes
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.errors import InvalidChangesError, ProducerError
from deltaproduce.model.limits.machine import cores
from deltaproduce.stages.productions import Produced
from deltaproduce.stages.rekeyed.events.states import KeyStates
from deltaproduce.times.zones import zone_of
from deltaproduce.types.columns import ORDINAL, Column, Columns
from deltaproduce.types.conversions import in_arrow_types
from deltaproduce.types.data_types import LongType
from deltaproduce.types.excerpts import shown
from deltaproduce.types.python_values import python_keys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VALID_FROM: Final = "valid_from"
VALID_TO: Final = "valid_to"
_TIES: Final = Column("_ties", LongType())
"""In Spark, the number of ties in a row that says nothing else; null in the stage's rows."""
_SHOWN: Final = 10
"""How many keys a message shows."""


@dataclass(frozen=True, slots=True)
class Blame:
    """Who is told of an event without a sequence.

    Attributes:
        stage: the stage that reads it.
        source: the source that it is from; None if another stage made it.
        event_key: the key of the events.
        zone: the time zone in which keys are shown.
    """

    stage: str
    source: str | None
    event_key: Columns
    zone: str


@dataclass(frozen=True, slots=True)
class Making:
    """What makes a stage's rows of events.

    Attributes:
        key: the columns of the stage's key -> those of an event.
        values: its value columns -> those of an event.
        sequence: the columns of the sequence -> those of an event.
        deleted: the column that says which events are deletes; None if none are.
        columns: the columns of an event.
        every: those that settle ties, in order: first the events' key.
        tracked: those that tell a state from the next; None if only the latest state counts.
        content: the columns of the stage's content.
        blame: who is told of an event without a sequence.
    """

    key: dict[str, str]
    values: dict[str, str]
    sequence: dict[str, str]
    deleted: str | None
    columns: tuple[Column, ...]
    every: tuple[Column, ...]
    tracked: tuple[str, ...] | None
    content: tuple[Column, ...]
    blame: Blame

    @property
    def key_columns(self) -> list[Column]:
        """The columns of an event that are the stage's key."""
        return self._columns(self.key)

    def rows(self, events: pa.Table) -> tuple[pa.Table, int]:
        """Return the rows of keys, and how many events are tied with another one.

        Args:
            events: all events of these keys.

        Raises:
            InvalidChangesError: an event of a source has no sequence.
            ProducerError: another event has none.
        """
        self._check_sequence(events)
        sequence = self._columns(self.sequence)
        states = KeyStates.of(events, [*self.key.values()], sequence, self.every, self.deleted)
        if self.tracked is None:
            shown_rows, validity = states.latest(), dict[str, pa.Array]()
            numbers = np.zeros(len(shown_rows), np.int64)
        else:
            spans = states.spans(self.tracked)
            shown_rows, numbers = spans.lasts, spans.numbers
            validity = {
                VALID_FROM: self._sequence_at(states.rows, spans.begins),
                VALID_TO: self._sequence_at(states.rows, spans.nexts),
            }
        columns = self.key | self.values
        taken = states.rows.select([*dict.fromkeys(columns.values())]).take(pa.array(shown_rows))
        arrays = {name: taken.column(place) for name, place in columns.items()}
        rows = pa.table(arrays | validity | {ORDINAL: pa.array(numbers)})
        return in_arrow_types(rows, self.content), states.ties

    def _columns(self, named: dict[str, str]) -> list[Column]:
        known = {column.name: column for column in self.columns}
        return [known[place] for place in named.values()]

    def _sequence_at(self, states: pa.Table, at: Numbers) -> pa.ChunkedArray | pa.Array:
        """Return the sequence of some states, null at -1: a struct if it has several columns."""
        places = pa.array(at, mask=at < 0)
        taken = states.select([*self.sequence.values()]).take(places).combine_chunks()
        if len(self.sequence) == 1:
            return taken.column(0)
        arrays = [column.combine_chunks() for column in taken.columns]
        return pa.StructArray.from_arrays(arrays, [*self.sequence], mask=pa.array(at < 0))

    def _check_sequence(self, events: pa.Table) -> None:
        for name, place in self.sequence.items():
            column = events.column(place)
            if column.null_count:
                self._refuse(name, events.filter(column.is_null()))

    def _refuse(self, column: str, wrong: pa.Table) -> NoReturn:
        """Refuse events without a sequence."""
        blame, zone = self.blame, zone_of(self.blame.zone)
        own = [one.name for one in self.every[: len(blame.event_key)]]
        keys = python_keys(
            blame.event_key, zone, distinct(wrong.select(own)).slice(0, _SHOWN).columns
        )
        what = (
            f"sequence {column!r} is null in {len(wrong)} rows, of keys {shown(keys)}, and stage "
            f"{blame.stage!r} orders events by it; give each event a value"
        )
        if blame.source is not None:
            raise InvalidChangesError(
                f"source {blame.source!r}: {what}",
                source=blame.source,
                column=column,
                columns=(column,),
                keys=keys,
            )
        names = [*self.key.values()]
        typed = zip(self.key, self.key_columns, strict=True)
        key = Columns(tuple(Column(name, one.data_type) for name, one in typed))
        (first,) = python_keys(key, zone, wrong.select(names).slice(0, 1).columns)
        message = f"stage {blame.stage!r}, key {shown(first)}: {what}"
        raise ProducerError(message, stage=blame.stage, key=first, column=column)


def rows_of_events(events: Rows, making: Making, engines: Engines) -> Produced:
    """Return the rows of keys, their number, and the number of ties.

    Args:
        events: all events of these keys, in the columns of `Making.columns`.

    Raises:
        InvalidChangesError, ProducerError: see `Making.rows`.
    """
    if not isinstance(events, pa.Table):
        return _rows_in_spark(events, making, engines)
    ties = list[int]()

    def of_part(part: pa.Table) -> pa.Table:
        rows, tied = making.rows(part)
        ties.append(tied)
        return rows

    rows = engines.by_ranges([events], making.key_columns, of_part, threads=cores())
    return Produced(rows, len(rows), sum(ties))


def _rows_in_spark(events: DataFrame, making: Making, engines: Engines) -> Produced:
    columns = (*making.content, _TIES)
    key, names = making.key_columns, events.columns

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tables = (pa.Table.from_batches([one]).rename_columns(names) for one in batches)
        for part in whole_keys(tables, [column.name for column in key]):
            yield from _with_ties(*making.rows(part), columns).to_batches()

    parted = events.repartition(*cols(key)).sortWithinPartitions(*order(key))
    mapped = by_number(parted).mapInArrow(in_worker(run), struct_of(columns))
    counts = {
        "rows": f.count(f.lit(1)),
        "bytes": f.coalesce(f.sum(row_bytes(columns)), f.lit(0)),
        "ties": f.coalesce(f.sum(_TIES.name), f.lit(0)),
        "others": f.count(_TIES.name),
    }
    rows, counted = engines.computed(mapped, columns, counts)
    if isinstance(rows, pa.Table):
        own: Rows = rows.filter(rows.column(_TIES.name).is_null()).drop_columns([_TIES.name])
    else:
        own = rows.where(f.col(_TIES.name).isNull()).select(*cols(making.content))
    return Produced(own, counted["rows"] - counted["others"], counted["ties"])


def _with_ties(rows: pa.Table, ties: int, columns: Sequence[Column]) -> pa.Table:
    """Return rows in more columns, and one that says how many ties there are."""
    parts = [
        in_arrow_types(rows.append_column(_TIES.name, pa.nulls(len(rows), pa.int64())), columns)
    ]
    if ties:
        schema = parts[0].schema
        nulls = [pa.nulls(1, field.type) for field in schema][:-1]
        parts.append(pa.Table.from_arrays([*nulls, pa.array([ties], pa.int64())], schema=schema))
    return pa.concat_tables(parts)
