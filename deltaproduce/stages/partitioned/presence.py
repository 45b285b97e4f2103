"""Presence: the hidden stage with the partitions that a source has, or ever had.

A partition is present once it has had rows, or was named by the user. The invariant: a partition is
never removed, whatever becomes of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Final

import pyarrow as pa
from typing_extensions import override

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import empty, in_order
from deltaproduce.engines.selections import Selection
from deltaproduce.errors import InvalidArgumentError
from deltaproduce.model.graph import Source, Stage
from deltaproduce.model.hidden import RECORDS, Hidden, hidden_name
from deltaproduce.shown.tasks import Values
from deltaproduce.stages.batches import Batch
from deltaproduce.stages.kind import Arrival, SourceKind
from deltaproduce.stages.scheduled.kinds import ScheduledKind
from deltaproduce.stages.sql.scopes.tables import table_of
from deltaproduce.storage.stored import Stored
from deltaproduce.types.columns import ORDINAL_COLUMN, Column, row_schema
from deltaproduce.types.data_types import BooleanType, DateType, StructField, StructType
from deltaproduce.types.excerpts import shown

_PRESENT: Final = Column("is_present", BooleanType())


@dataclass(frozen=True, slots=True, repr=False)
class Presence(SourceKind):
    """The partitions of another source."""

    @property
    @override
    def word(self) -> str:
        return "partitions"


def presence_stage(source: Stage) -> Source:
    """Return the stage with the partitions that a source has."""
    types = {c.name: c.data_type for c in (*source.schema.key, *source.schema.value)}
    names = source.kind.tasks.columns
    key = StructType([StructField(name, types[name]) for name in names])
    schema = row_schema(key, "is_present boolean", stage=source.name)
    name, owned = hidden_name("tasks", 1, source.name), Hidden(RECORDS, (source.name,))
    return Source(name, schema, Presence(), hidden=owned)


def records_of(stage: Stage) -> tuple[Stage, ...]:
    """Return the stage that keeps records of a stage's tasks, or of its partitions, if any."""
    if isinstance(stage.kind, ScheduledKind):
        return (stage.kind.records(stage),)
    return (presence_stage(stage),) if stage.kind.tasks.columns else ()


def presence_batches(
    sources: Iterable[Source],
    given: Mapping[str, Batch],
    arrived: Mapping[str, Arrival],
    named: Mapping[str, Sequence[Values]],
    engines: Engines,
) -> dict[str, Batch]:
    """Return the batches for the stages with the partitions of sources.

    Args:
        given: the rows that come into sources.
        arrived: the arrivals in sources that are read in place: all their current rows count.
        named: the partitions that the user names, by source.
    """
    batches = dict[str, Batch]()
    for source in sources:
        name, partitions = source.name, list[Rows]()
        if name in given:
            partitions.append(given[name].upserts())
        if name in arrived:
            partitions.append(arrived[name].content().rows())
        if source.kind.tasks.columns and (partitions or name in named):
            batch = _batch(source, partitions, named.get(name, ()), engines)
            batches[batch.source.name] = batch
    return batches


def _batch(
    source: Source, partitions: Iterable[Rows], named: Iterable[Values], engines: Engines
) -> Batch:
    """Return the partitions of rows, and the named ones."""
    stage = presence_stage(source)
    key = stage.schema.key.columns
    types = [(c.name, c.data_type) for c in key]
    parts: list[Rows] = [table_of(named, types).select([c.name for c in key])]
    parts += [engines.of(rows).here(rows, key) for rows in partitions]
    engine = engines.of(*parts)
    rows = engine.distinct(engine.concat(parts, key), key)
    keys = Selection.of(rows, key, engines)
    for column, value in ((ORDINAL_COLUMN, 0), (_PRESENT, True)):
        rows = engine.with_all(rows, column, value)
    return Batch.replacing(keys, rows, stage)


def present(stored: Stored | None, source: Stage) -> pa.Table:
    """Return the partitions that a source has, or ever had, sorted, in its partition columns.

    Args:
        stored: the rows of its `presence_stage`.
    """
    key = presence_stage(source).schema.key.columns
    if stored is None:
        return empty(key)
    key_rows = replace(stored, columns=(*key, ORDINAL_COLUMN)).fetched()
    return in_order(key_rows.select([c.name for c in key]), key)


def partitions_table(source: Stage, values: Iterable[Values]) -> pa.Table:
    """Return partitions of a source as a table, in its partition columns."""
    key = presence_stage(source).schema.key.columns
    return table_of(values, [(c.name, c.data_type) for c in key]).select([c.name for c in key])


def named_partitions(source: Stage, given: object) -> list[Values]:
    """Return the partitions that a user names.

    Args:
        given: dicts of all partition columns of a source; or values, if it has one such column.

    Raises:
        InvalidArgumentError: one is neither, or has a value of another type.
    """
    types = {c.name: c.data_type for c in (*source.schema.key, *source.schema.value)}
    names = source.kind.tasks.columns
    partition_values = list[Values]()
    for one in given if isinstance(given, list | tuple) else [given]:
        if not isinstance(one, Mapping) and len(names) == 1:
            one = {names[0]: one}
        if not isinstance(one, Mapping) or set(one) != set(names):
            wanted = ", ".join(f"{name!r}: …" for name in names)
            raise _unnamed(
                source,
                f"{shown(one)}, and its partitions are by {', '.join(names)}: give a list of "
                f"dicts, as [{{{wanted}}}]",
            )
        try:
            values = tuple(
                _date(one[name]) if isinstance(types[name], DateType) else one[name]
                for name in names
            )
            table_of([values], [(name, types[name]) for name in names])
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise _unnamed(source, f"{shown(one)}, whose types are others") from None
        partition_values.append(values)
    return partition_values


def _date(value: object) -> date | None:
    """Convert text in ISO 8601, or a datetime, to a date; dates and nulls stay.

    Raises:
        TypeError: it is something else; ValueError: the text is none.
    """
    if isinstance(value, str):
        return date.fromisoformat(value)
    if isinstance(value, datetime):
        return value.date()
    if value is None or isinstance(value, date):
        return value
    raise TypeError(value)


def _unnamed(source: Stage, fault: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"a partition of {source.name!r} is {fault}", argument="partitions")
