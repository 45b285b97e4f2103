"""The oracle: what every table of a pipeline must hold, computed from plain lists by brute force.

Invariant: each version is computed from the full state of the sources alone, every stage from
scratch, and updates by comparing two versions. Nothing here is incremental, and nothing is shared
with the code that it judges beyond the pipeline's definition.

A few lines a rule, each named after its rule in the contract (S1, S2, …), so that reading it is
enough to believe it.
"""

from __future__ import annotations

import ctypes
import dataclasses
import datetime
import math
from collections import Counter, namedtuple
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal, Inexact, InvalidOperation
from itertools import groupby
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    StructType,
    TimestampType,
)

from deltaproduce.errors import DefinitionError, InvalidChangesError, NotFoundError, ProducerError
from deltaproduce.model.fingerprints import fingerprint
from deltaproduce.model.graph import Producer, Source, Stage, is_auxiliary
from deltaproduce.model.kind import PARTS
from deltaproduce.pipeline import Pipeline
from deltaproduce.testing.window_model import AsOf, Named, Windows, window_place
from deltaproduce.types.atoms import arrow_schema
from deltaproduce.types.columns import Column, Columns

Value: TypeAlias = Any
"""Whatever a column can hold, or a function emit; a type checker cannot know more."""

Table: TypeAlias = Literal["content", "key_mappings", "updates"]

Mode: TypeAlias = Literal["net", "complete"]


@dataclass(frozen=True, slots=True)
class Upsert:
    """One row of a key in a batch of changes.

    Attributes:
        key: the key, one item per key column.
        value: the value, one item per value column.
    """

    key: tuple[Any, ...]
    value: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """The removal of a key in a batch of changes.

    Attributes:
        key: the key, one item per key column.
    """

    key: tuple[Any, ...]


Change: TypeAlias = Upsert | Delete


class Oracle:
    """The model of a store: the same pipeline over lists instead of tables, in memory.

    Rows are tuples in the column order and row order of the store's tables, in the normal form of
    `plain`, so that `oracle.content(stage) == plain_rows(frame.collect())` is the whole test for a
    frame read with `ordered=True`. Where a function emits a moment with time zone, or gets its rows
    in Arrow, timestamps without one are in UTC.

    Every update costs a recomputation of the whole pipeline: keep test data small.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._graph = pipeline.graph()
        for producer in self._producers:
            if producer.kind.model is None and producer.kind.model_of_all is None:
                message = (
                    f"stage {producer.name!r} is of kind {producer.kind.word!r}, which the oracle "
                    "has not; write it as a function, or give its kind a model"
                )
                raise DefinitionError(message, stage=producer.name)
        self._versions = [_Version({stage.name: [] for stage in self._stages})]
        self._rollbacks: set[int] = set()
        self._number_by_update_id: dict[str, int] = {}

    @property
    def _stages(self) -> tuple[Stage, ...]:
        """Those that the pipeline defines: what they bring along is how, and not what, they are."""
        return tuple(stage for stage in self._graph.stages if not is_auxiliary(stage.name))

    @property
    def _producers(self) -> tuple[Producer, ...]:
        """Those of them that are made from others."""
        return tuple(p for p in self._graph.producers if p in self._stages)

    @property
    def head(self) -> int:
        """The number of the newest version; 0 before the first."""
        return len(self._versions) - 1

    def update(
        self,
        changes: Mapping[str, Sequence[Change]],
        update_id: str | None = None,
        *,
        partitions: Named = MappingProxyType({}),
        as_of: AsOf = ...,
    ) -> int:
        """Apply one batch of changes to the sources, and bring every stage to the next version.

        Args:
            changes: the changes of each source, in row order.
            update_id: a name for the batch; a second update of the same name changes nothing.
            partitions: those that are there, as for `Store.update`.
            as_of: as for `Store.update`.

        Returns:
            The number of the head after it, or of the version that `update_id` made before.

        Raises:
            InvalidChangesError: a source is unknown, or has a key with deletes and upserts (S2).
            ProducerError: a stage's function failed. As with every error, nothing has changed.
        """
        if update_id is not None and update_id in self._number_by_update_id:  # S9
            return self._number_by_update_id[update_id]
        for name in changes:
            if name not in {source.name for source in self._graph.sources}:
                raise InvalidChangesError(f"there is no source {name!r}", source=name)
        head = self._versions[-1]
        windows = head.windows.asked(self._graph, partitions, as_of)
        taken = self._taken(changes, windows)
        windows = windows.seen(self._graph, _named_rows(self._graph.sources, taken.rows))
        windows = windows.floored(self._graph)
        made = self._made(taken, windows)  # which may fail though nothing changed
        stays = (  # S9: nothing changed, so there is no version
            windows == head.windows
            and taken.all_taken
            and head.functions in ({}, made.functions)  # S15
            and all(
                _values_by_key(found) == _values_by_key(head.rows[name])
                for name, found in taken.rows.items()
            )
        )
        is_last = not made.windows.behind(self._graph)  # of several versions, and so has the id
        if not stays or (update_id is not None and is_last):
            self._versions.append(made)
        while self._versions[-1].windows.behind(self._graph):  # a version after the other
            head = self._versions[-1]
            rows = {source.name: head.rows[source.name] for source in self._graph.sources}
            taken = _Taken(rows, head.forgotten)
            self._versions.append(self._made(taken, head.windows, advances=True))
        if update_id is not None:
            self._number_by_update_id[update_id] = self.head
        return self.head

    def _made(self, taken: _Taken, windows: Windows, *, advances: bool = False) -> _Version:
        """The version after the head.

        Args:
            taken: what sources have.
            windows: as far as these and the update decide about them.
            advances: windows move on that few partitions may enter at once.
        """
        head, rows = self._versions[-1], dict(taken.rows)
        surrogates, functions = dict(head.surrogates), dict[str, str]()
        for producer in self._producers:
            name = producer.name
            if advances:
                windows = windows.advanced(producer)
            fed = _fed(producer, rows, taken.forgotten)
            rows[name] = _produced_rows(producer, fed, windows)
            windows = windows.seen(self._graph, _named_rows([producer], rows))
            if producer.kind.numbered is not None:
                rows[name], surrogates[name] = _numbered_rows(
                    producer, rows[name], head.rows[name], surrogates.get(name, 0)
                )
            functions[name] = fingerprint(producer).function
            if producer.kind.depends_on_history and producer.kind.model is not None:
                is_same = head.functions.get(name) == functions[name]
                fed = _fed(producer, rows, taken.forgotten)
                fed_before = _fed(producer, head.rows, head.forgotten)
                rows[name] = _preserved_rows(producer, fed, fed_before, is_same=is_same)
        return _Version(rows, surrogates, windows, functions, taken.forgotten)

    def _taken(self, changes: Mapping[str, Sequence[Change]], windows: Windows) -> _Taken:
        """What sources have after some changes."""
        head = self._versions[-1]
        kept: _Rows = {}
        forgotten, all_taken = dict(head.forgotten), True
        floors = windows.floored(self._graph, _keys_given(self._graph.sources, changes))
        for source in self._graph.sources:
            name, retention = source.name, source.kind.retention
            given = changes.get(name, ())
            taken = [one for one in given if floors.keeps(source, one.key)]
            rows = _source_rows(source, head.rows[name], taken)
            kept[name] = [row for row in rows if floors.keeps(source, row.key)]
            refused = [one for one in given if not floors.keeps(source, one.key)]
            if retention is not None and retention.forgets:
                gone = [row for row in rows if not floors.keeps(source, row.key)]
                forgotten[name] = [*forgotten.get(name, ()), *gone]
            else:
                refused = [one for one in refused if isinstance(one, Upsert)]
            all_taken = all_taken and not refused
        return _Taken(kept, forgotten, all_taken)

    def load(
        self,
        rows: Mapping[str, Sequence[Upsert]],
        update_id: str | None = None,
        *,
        partitions: Named = MappingProxyType({}),
        as_of: AsOf = ...,
    ) -> int:
        """Give sources all the rows that they are to have: keys without one are deleted.

        Args:
            rows: the rows of each source, in order; other sources stay.
            update_id: as for `update`.
            partitions: as for `update`.
            as_of: as for `update`.

        Returns:
            As `update`.

        Raises:
            InvalidChangesError: a source is unknown.
            ProducerError: as `update`.
        """
        changes: dict[str, Sequence[Change]] = dict(rows)
        for source in self._graph.sources:
            if source.name in rows:
                key = source.schema.key
                found = {plain(_stored_change(row.key, key, source)) for row in rows[source.name]}
                before = (key for key, _ in _groups(self._versions[-1].rows[source.name]))
                gone = [Delete(key) for key in before if key not in found]
                changes[source.name] = [*rows[source.name], *gone]
        return self.update(changes, update_id, partitions=partitions, as_of=as_of)

    def rollback(self, version: int) -> int:
        """Make the state of an earlier version the next one, unless the head is equal to it.

        Returns:
            The number of the head after it.

        Raises:
            NotFoundError: there is no such version.
        """
        names = [stage.name for stage in self._stages]
        moves = self._versions[version].windows != self._versions[-1].windows
        if moves or any(self.content(name, version) != self.content(name) for name in names):
            self._versions.append(self._versions[version])
            self._rollbacks.add(self.head)
        return self.head

    def content(self, stage: str, version: int | None = None) -> list[tuple[Any, ...]]:
        """The content of a stage at a version, the head if none is given.

        Raises:
            NotFoundError: there is no such stage or version.
        """
        key, source_key = self._columns(stage)
        return plain_rows(
            (*_shown(row.key, key), *_shown(row.source_key, source_key), row.ordinal, *row.value)
            for row in self._rows(stage, version)
        )

    def key_mappings(self, stage: str, version: int | None = None) -> list[tuple[Any, ...]]:
        """The key mappings of a producer at a version, the head if none is given.

        Raises:
            NotFoundError: there is no such producer or version.
        """
        producer = self._producer(stage)
        columns = (*producer.source_key, *producer.schema.key)
        rows = {(*plain(row.source_key), *plain(row.key)) for row in self._rows(stage, version)}
        in_order = sorted(rows, key=lambda row: sort_key(row, columns))  # S13
        return [_shown(row, columns) for row in in_order]

    def pairs(
        self, stage: str, feeder: str, version: int | None = None
    ) -> set[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        """Which source keys have made which keys of a producer at a version: what lineage is.

        Args:
            feeder: the one whose keys they are, if each of the producer's makes its own.

        Raises:
            NotFoundError: there is no such stage or version.
        """
        rows, producer = self._rows(stage, version), self._graph.stage(stage)
        model = producer.kind.model_of_all
        if model is None:
            return {(plain(row.source_key), plain(row.key)) for row in rows}
        found = self._versions[self.head if version is None else version]
        names = producer.feeders[0].schema.key.names
        return {
            (plain([given[name] for name in names]), plain(_stored(key, producer.schema.key)))
            for given in _given(producer, found.rows, found.windows, feeder)
            for key, _ in model([given])
        }

    def updates(self, stage: str, version: int | None = None) -> list[tuple[Any, ...]]:
        """The updates that a version made to a stage, the head's own if none is given.

        Raises:
            NotFoundError: there is no such stage or version.
        """
        number = self.head if version is None else version
        before, after = self._compared(stage, number) if number else ({}, {})
        schema = self._graph.stage(stage).schema
        rows: list[tuple[Any, ...]] = []
        for key in sorted(before.keys() | after.keys(), key=lambda key: sort_key(key, schema.key)):
            if before.get(key) == after.get(key):  # S8
                continue
            if key not in after:  # S7: one row without values for a key that is gone
                shown = _shown(key, schema.key)
                rows.append((number, "delete", *shown, 0, *(None for _ in schema.value)))
            for position, value in enumerate(after.get(key, ())):  # S7: all rows of a changed key
                is_new = key not in before and position == 0
                change_type = "add" if is_new else "update"
                shown = _shown(key, schema.key)
                rows.append((number, change_type, *shown, position, *value))
        return rows

    def changes(
        self, stage: str, since: int, until: int | None = None, mode: Mode = "net"
    ) -> list[tuple[Any, ...]]:
        """The rows that came and went between two versions, in no order: the feed without times.

        Raises:
            NotFoundError: there is no such stage or version.
        """
        last = self.head if until is None else until
        columns, _ = self._columns(stage)
        for number in (since, last):
            self._rows(stage, number)  # which says if there is no such version
        pairs = {number: self._compared(stage, number) for number in range(since + 1, last + 1)}
        changed = {  # S8: the keys that each version's updates are about
            number: {k for k in before.keys() | after.keys() if before.get(k) != after.get(k)}
            for number, (before, after) in pairs.items()
        }
        if mode == "net":
            by_key = {key: number for number, keys in changed.items() for key in keys}
            first, final = pairs[since + 1][0] if pairs else {}, pairs[last][1] if pairs else {}
            moves = [(first, final, key, number) for key, number in by_key.items()]
        else:
            moves = [
                (*pairs[number], key, number) for number, keys in changed.items() for key in keys
            ]
        return [
            (*_shown(key, columns), *value, change_type, number)
            for before, after, key, number in moves
            for value, change_type in _difference(before.get(key, []), after.get(key, []))
        ]

    def columns(self, stage: str, table: Table) -> tuple[str, ...]:
        """The column names of a stage's table, in the order of its rows.

        Raises:
            NotFoundError: there is no such stage, or it has no such table.
        """
        own, feeders = self._columns(stage)
        key, value = _shown(own.names, own), self._graph.stage(stage).schema.value.names
        if table == "updates":
            return ("_version", "_change_type", *key, "_position", *value)
        source_key = tuple(f"_source_{name}" for name in _shown(feeders.names, feeders))
        if table == "content":
            return (*key, *source_key, "_ordinal", *value)
        return (*source_key, *key)

    def _compared(self, stage: str, number: int) -> tuple[_Values, _Values]:
        """What a version's updates are about: what a source forgets is not told."""
        rows = [self._rows(stage, number - 1), self._rows(stage, number)]
        if number not in self._rollbacks:  # which brings it back, and tells that
            forgotten = (self._versions[n].forgotten.get(stage, ()) for n in (number - 1, number))
            rows = [[*found, *more] for found, more in zip(rows, forgotten, strict=True)]
        before, after = map(_values_by_key, rows)
        return before, after

    def _columns(self, stage: str) -> tuple[Columns, Columns]:
        """The columns of a stage's key, and of its source key."""
        found = self._graph.stage(stage)
        return found.schema.key, found.source_key

    def _rows(self, stage: str, version: int | None) -> list[_Row]:
        number = self.head if version is None else version
        if not 0 <= number <= self.head:
            raise NotFoundError(f"there is no version {number!r}; the head is {self.head}")
        return self._versions[number].rows[self._graph.stage(stage).name]

    def _producer(self, stage: str) -> Producer:
        self._graph.stage(stage)
        for producer in self._graph.producers:
            if producer.name == stage and producer.source_key:
                return producer
        raise NotFoundError(f"{stage!r} has no key mappings")


def _shown(values: Sequence[Any], columns: Iterable[Column]) -> tuple[Any, ...]:
    """The values in columns that readers see."""
    return tuple(v for v, c in zip(values, columns, strict=True) if not c.is_hidden)


def sort_key(values: Sequence[Any], columns: Iterable[Column]) -> tuple[Any, ...]:
    """What to sort rows by to have them in Spark's order (S13).

    Nulls come first in an ascending column and last in a descending one, text is compared by its
    UTF-8 bytes, binary by unsigned bytes; everything else as in Python.

    Args:
        values: one value per column, of the types that key columns can have.
        columns: the columns, for their directions.
    """
    return tuple(
        _Descending(_rank(value)) if column.descending else _rank(value)
        for value, column in zip(values, columns, strict=True)
    )


def plain(value: Value) -> Value:
    """The normal form of a value, in which `==` is the equality of Spark and of the contract (S8).

    Rows, named tuples and lists become tuples, binary becomes `bytes`, and every NaN becomes the
    one object `math.nan`, which Python finds equal to itself inside a tuple. Keys in normal form
    can be hashed.
    """
    if isinstance(value, tuple | list):
        return tuple(plain(item) for item in value)
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, float) and math.isnan(value):
        return math.nan
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    return value


def plain_rows(rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """The normal form of rows, such as `DataFrame.collect()` returns; see `plain`."""
    return [plain(tuple(row)) for row in rows]


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of content; a source's rows have the empty source key."""

    key: tuple[Any, ...]
    source_key: tuple[Any, ...]
    ordinal: int
    value: tuple[Any, ...]


_Rows: TypeAlias = dict[str, list[_Row]]
"""The rows of stages at one version, sorted."""

_Values: TypeAlias = dict[tuple[Any, ...], list[tuple[Any, ...]]]  # of each key, in order


@dataclass(frozen=True, slots=True)
class _Taken:
    """What sources have once some changes are taken.

    Attributes:
        forgotten: the rows that they dropped without a word.
        all_taken: whether all rows were taken that were given.
    """

    rows: _Rows
    forgotten: _Rows
    all_taken: bool = True


@dataclass(frozen=True, slots=True)
class _Version:
    """A version, and what the next one depends on.

    Attributes:
        surrogates: the last one that each stage has given out.
        windows: what windows depend on.
        functions: what made each stage.
        forgotten: the rows that sources dropped without a word.
    """

    rows: _Rows
    surrogates: Mapping[str, int] = field(default_factory=dict)
    windows: Windows = field(default_factory=Windows)
    functions: Mapping[str, str] = field(default_factory=dict)
    forgotten: _Rows = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Descending:
    """Turns an order around."""

    rank: Any

    def __lt__(self, other: _Descending) -> bool:
        return bool(other.rank < self.rank)


def _keys_given(
    sources: Iterable[Source], changes: Mapping[str, Sequence[Change]]
) -> dict[str, list[dict[str, Any]]]:
    """The keys that rows are given for, by column name."""
    return {
        source.name: [
            dict(zip(source.schema.key.names, change.key, strict=True))
            for change in changes.get(source.name, ())
            if isinstance(change, Upsert)
        ]
        for source in sources
    }


def _fed(producer: Producer, state: _Rows, forgotten: _Rows) -> _Rows:
    """What a producer is made of: of what a source has forgotten, too, unless it has a window."""
    if producer.kind.window is not None or not any(forgotten.values()):
        return state
    found = dict(state)
    for feeder in producer.merged:
        if feeder.name in forgotten:
            rows = [*state[feeder.name], *forgotten.get(feeder.name, ())]
            found[feeder.name] = _in_order(rows, feeder)
    return found


def _in_order(rows: Iterable[_Row], source: Stage) -> list[_Row]:
    return sorted(rows, key=lambda row: (sort_key(row.key, source.schema.key), row.ordinal))


def _source_rows(source: Source, before: list[_Row], changes: Sequence[Change]) -> list[_Row]:
    """The rows of a source after a batch of changes."""
    schema = source.schema
    deleted: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    upserted: dict[tuple[Any, ...], list[_Row]] = {}
    for change in changes:
        key = _stored_change(change.key, schema.key, source)
        if isinstance(change, Delete):
            deleted[plain(key)] = key
        else:
            rows = upserted.setdefault(plain(key), [])
            value = _stored_change(change.value, schema.value, source)
            rows.append(_Row(key, (), len(rows), value))
    if both := deleted.keys() & upserted.keys():  # S2
        keys = tuple(_argument(deleted[key], schema.key) for key in deleted if key in both)
        raise InvalidChangesError(
            f"source {source.name!r} has deletes and upserts of the same keys: {keys!r}",
            source=source.name,
            keys=keys,
        )
    content = {key: list(rows) for key, rows in _groups(before)}
    for key in deleted:  # S3: of an unknown key too
        content.pop(key, None)
    for key, rows in upserted.items():  # S1; S9: the stored rows stay if the new ones are equal
        if _values(rows) != _values(content.get(key, [])):
            content[key] = rows
    found = [row for rows in content.values() for row in rows]
    return _in_order(found, source)


def _stored_change(values: Sequence[Any], columns: Columns, source: Source) -> tuple[Any, ...]:
    try:
        return _stored(values, columns)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise InvalidChangesError(
            f"{values!r} is not {columns.ddl!r}", source=source.name
        ) from error


def _produced_rows(producer: Producer, state: _Rows, windows: Windows) -> list[_Row]:
    """The rows of a producer, computed from all rows of its feeders."""
    if producer.kind.model_of_all is not None:
        return _rows_of_all(producer, state, windows)
    columns = producer.feeders[0].schema.key
    rows: list[_Row] = []
    for source_key, inputs in _inputs(producer, state).values():  # S4: only keys with values
        emitted: Counter[Hashable] = Counter()
        for key, value in _emissions(producer, source_key, inputs):
            rows.append(_Row(key, source_key, emitted[plain(key)], value))  # S5: equal rows stay
            emitted[plain(key)] += 1
    return sorted(
        rows,
        key=lambda row: (
            sort_key(row.key, producer.schema.key),
            sort_key(row.source_key, columns),  # S13: in the feeder's directions
            row.ordinal,
        ),
    )


def _rows_of_all(producer: Producer, state: _Rows, windows: Windows) -> list[_Row]:
    """The rows of a producer that makes each from rows of many source keys."""
    model = producer.kind.model_of_all
    assert model is not None
    made = (
        _Row(_stored(key, producer.schema.key), (), 0, _stored(value, producer.schema.value))
        for key, value in model(_given(producer, state, windows))
    )
    return sorted(made, key=lambda row: sort_key(row.key, producer.schema.key))


def _named_rows(
    stages: Iterable[Source | Producer], state: _Rows
) -> dict[str, list[dict[str, Any]]]:
    """The rows of some stages, by column name."""
    return {
        stage.name: [
            dict(zip(stage.schema.names, (*row.key, *row.value), strict=True))
            for row in state[stage.name]
        ]
        for stage in stages
    }


def _given(
    stage: Stage, state: _Rows, windows: Windows, only: str | None = None
) -> Iterator[dict[str, Any]]:
    """The rows that a stage reads, and what values are made of if it merges some.

    Args:
        only: the feeder whose rows are wanted; all if None.
    """
    schema, window = stage.feeders[0].schema, stage.kind.window
    if window is not None:
        windows.place(stage)  # it may not be, even if there is no row
    for feeder in stage.merged:
        if only not in (None, feeder.name):
            continue
        made = _parts(feeder, state, windows) if stage.kind.reads_states else None
        for row in state[feeder.name]:
            given = dict(zip(schema.names, (*row.key, *row.value), strict=True))
            if window is not None and not windows.has(
                stage, given[schema.names[window_place(stage)]]
            ):
                continue
            if made is not None:
                given[PARTS] = dict(zip(schema.value.names, made[plain(row.key)], strict=True))
            yield given


def _parts(stage: Stage, state: _Rows, windows: Windows) -> dict[Hashable, tuple[Any, ...]]:
    """What the values of each key are made of."""
    model = stage.kind.model_of_parts
    assert model is not None  # only values of such stages are merged
    rows = model(_given(stage, state, windows))
    return {plain(_stored(key, stage.schema.key)): made for key, made in rows}


def _inputs(
    producer: Producer, state: _Rows
) -> dict[tuple[Any, ...], tuple[tuple[Any, ...], list[list[Value]]]]:
    """For each key that any feeder has (S10): the key, and the values of each input."""
    fed = {feeder.name: dict(_groups(state[feeder.name])) for feeder in producer.feeders}
    keys = {plain(row.key): row.key for name in fed for row in state[name]}
    return {
        group: (
            key,
            [
                [
                    _argument(row.value, merged[0].schema.value)
                    for feeder in merged
                    for row in fed[feeder.name].get(group, ())  # S6: in the feeder's order
                ]
                for merged in producer.inputs
            ],
        )
        for group, key in keys.items()
    }


def _numbered_rows(
    producer: Producer, rows: list[_Row], before: list[_Row], last: int
) -> tuple[list[_Row], int]:
    """The rows with surrogates, and the last one given out (S12)."""
    place = producer.schema.value.names.index(str(producer.kind.numbered))
    numbers = {plain(row.key): row.value[place] for row in before}
    for key, _ in _groups(rows):  # in key order
        if key not in numbers:
            last += 1
            numbers[key] = last
    return [
        replace(row, value=(*row.value[:place], numbers[plain(row.key)], *row.value[place + 1 :]))
        for row in rows
    ], last


def _preserved_rows(
    producer: Producer, state: _Rows, before: _Rows, *, is_same: bool
) -> list[_Row]:
    """The rows of source keys that changed after the hook (S12), the others as they were.

    Args:
        is_same: the stage is made as before; else all of its source keys are produced again.
    """
    old, columns = before[producer.name], producer.schema.value
    inputs_before, inputs_after = _inputs(producer, before), _inputs(producer, state)
    known = {(plain(row.source_key), plain(row.key), row.ordinal): row for row in old}
    examples = {key: group[0].value for key, group in _groups(old)}
    rows: list[_Row] = []
    for row in state[producer.name]:
        source = plain(row.source_key)
        stays = is_same and source in inputs_before
        if stays and plain(inputs_before[source]) == plain(inputs_after[source]):
            rows.append(known[source, plain(row.key), row.ordinal])
            continue
        example = examples.get(plain(row.key))
        stored = producer.kind.settled(
            _argument(row.value, columns), None if example is None else _argument(example, columns)
        )
        value = _stored(record_items(stored, columns), columns)
        examples.setdefault(plain(row.key), value)
        rows.append(replace(row, value=value))
    return rows


def _emissions(
    producer: Producer, source_key: tuple[Any, ...], inputs: list[list[Value]]
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """What the producer's function emits for one key's values, as it will be stored."""
    key = _argument(source_key, producer.feeders[0].schema.key)
    model, numbered = producer.kind.model, producer.kind.numbered
    assert model is not None  # all of the oracle's have one
    columns = Columns(  # a number is filled in later, whatever it is declared
        tuple(replace(c, nullable=c.nullable or c.name == numbered) for c in producer.schema.value)
    )
    try:
        for target_key, value in model(_KeyRows(producer, source_key, inputs)):
            yield (
                _stored(record_items(target_key, producer.schema.key), producer.schema.key),
                _stored(record_items(value, columns), columns),
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
        return _argument(self.source_key, self.producer.feeders[0].schema.key)

    def table(self) -> pa.Table:
        """The rows of the only input, in Arrow."""
        key, value = self.producer.feeders[0].schema.key, self.producer.feeders[0].schema.value
        struct = StructType([*key.struct, *value.struct])
        rows = [
            _in_arrow((*self.source_key, *record_items(found, value)), struct)
            for found in self.values[0]
        ]
        return pa.Table.from_pylist(rows, arrow_schema((*key, *value)))

    def emissions(self, table: pa.Table) -> Iterator[tuple[Value, Value]]:
        """What a table says that was made of it, row by row."""
        key, made = self.producer.feeders[0].schema.key, self.producer.schema
        sources = [f"_source_{name}" for name in key.names]
        if sorted(table.schema.names) != sorted([*sources, *made.names]):
            raise ValueError(f"the columns {table.schema.names!r} are not those that are declared")
        for row in table.to_pylist():
            named = tuple(row[name] for name in sources)
            if plain(_stored(named, key)) != plain(self.source_key):
                raise ValueError(f"{named!r} is not the source key")
            yield _of_columns(row, made.key), _of_columns(row, made.value)


def _of_columns(row: Mapping[str, Value], columns: Columns) -> Value:
    return _argument(tuple(row[name] for name in columns.names), columns)


def _in_arrow(value: Value, data_type: DataType) -> Value:
    """A stored value as Arrow takes it: structs by name."""
    if value is None:
        return None
    match data_type:
        case StructType():
            items = zip(data_type.fields, value, strict=True)
            return {field.name: _in_arrow(item, field.dataType) for field, item in items}
        case ArrayType():
            return [_in_arrow(item, data_type.elementType) for item in value]
        case MapType():
            return [
                (_in_arrow(key, data_type.keyType), _in_arrow(item, data_type.valueType))
                for key, item in value.items()
            ]
    return value


def _groups(rows: list[_Row]) -> Iterator[tuple[tuple[Any, ...], list[_Row]]]:
    """The rows of each key, from rows sorted by key."""
    for key, group in groupby(rows, key=lambda row: plain(row.key)):
        yield key, list(group)


def _values(rows: Iterable[_Row]) -> list[tuple[Any, ...]]:
    return plain_rows(row.value for row in rows)


def _values_by_key(rows: list[_Row]) -> _Values:
    """Each key's ordered list of values: what S8 compares, and what the next stage reads."""
    return {key: _values(group) for key, group in _groups(rows)}


def _difference(before: list[Value], after: list[Value]) -> Iterator[tuple[Value, str]]:
    """Rows that came or went: equal ones cancel, the first first; the rest are pairs in order."""
    gone, new = list(before), list(after)
    for value in before:
        if value in new:
            gone.remove(value)
            new.remove(value)
    pairs = min(len(gone), len(new))
    yield from zip(gone, ["update_preimage"] * pairs + ["delete"] * len(gone), strict=False)
    yield from zip(new, ["update_postimage"] * pairs + ["insert"] * len(new), strict=False)


def _argument(values: tuple[Any, ...], columns: Columns) -> Value:
    """A key or value as functions get it: bare if it is one column, else a named tuple."""
    return values[0] if len(columns) == 1 else _named(columns.names)(*values)


def record_items(emitted: Value, columns: Columns) -> tuple[Any, ...]:
    """An emitted key or value as a tuple in column order."""
    return (emitted,) if len(columns) == 1 else _fields(emitted, columns.names)


def _fields(record: Value, names: Sequence[str]) -> tuple[Any, ...]:
    """The items of a record: by name if it has names, else by position; all of them, no others."""
    fields: Sequence[str] | None = getattr(record, "__fields__", None)  # of a Row
    if fields is None:
        fields = getattr(record, "_fields", None)  # of a named tuple
    if dataclasses.is_dataclass(record):
        by_name = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    elif isinstance(record, Mapping):
        by_name = dict(record)
    elif fields is not None:
        by_name = dict(zip(fields, record, strict=True))
    elif isinstance(record, tuple | list) and len(record) == len(names):
        return tuple(record)
    else:
        raise ValueError(f"{record!r} is no record of the columns {names!r}")
    for known in (names, _named(names)._fields):
        if set(by_name) == set(known):
            return tuple(by_name[name] for name in known)
    raise ValueError(f"{record!r} has other columns than {names!r}")


def _named(names: Sequence[str]) -> Value:
    return namedtuple("Record", names, rename=True)


def _stored(values: Sequence[Any], columns: Columns) -> tuple[Any, ...]:
    """Values as their columns hold them, and hence as the next stage gets them."""
    for value, column in zip(values, columns, strict=True):
        if value is None and not column.nullable:
            raise ValueError(f"column {column.name!r} is None, but declared NOT NULL")
    return tuple(
        _typed(value, column.data_type) for value, column in zip(values, columns, strict=True)
    )


def _typed(value: Value, data_type: DataType) -> Value:
    if value is None:
        return None
    match data_type:
        case StructType():
            items = zip(_fields(value, data_type.names), data_type.fields, strict=True)
            typed = [_typed(item, field.dataType) for item, field in items]
            return _named(data_type.names)(*typed)
        case ArrayType():
            return [_typed(item, data_type.elementType) for item in value]
        case MapType():
            return {
                _typed(key, data_type.keyType): _typed(item, data_type.valueType)
                for key, item in dict(value).items()
            }
        case FloatType():
            return ctypes.c_float(value).value
        case DoubleType():
            return float(value)
        case DecimalType():
            exact = Context(prec=data_type.precision, traps=[Inexact, InvalidOperation])
            return exact.quantize(Decimal(value), Decimal(1).scaleb(-data_type.scale))
        case BinaryType():
            return bytes(value)
        case TimestampType() if value.tzinfo is not None:
            return value.astimezone(datetime.UTC).replace(tzinfo=None)
    return value


def _rank(value: Value) -> tuple[Any, ...]:
    """What to compare a value by: nulls are least, then Spark's order of the type."""
    if value is None:
        return (0,)
    return (1, value.encode() if isinstance(value, str) else value)
