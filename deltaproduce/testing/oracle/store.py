"""The versions of a pipeline, over lists instead of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from deltaproduce.errors import DefinitionError, InvalidChangesError, NotFoundError
from deltaproduce.model.fingerprints import fingerprint
from deltaproduce.model.graph import Producer, Source, Stage
from deltaproduce.pipeline import Pipeline
from deltaproduce.testing.oracle.models import by_key, keys_of, of_all
from deltaproduce.testing.oracle.producers import (
    fed_rows,
    given_rows,
    is_known,
    numbered_rows,
    preserved_rows,
    produced_rows,
)
from deltaproduce.testing.oracle.rejected import divided, has_version, sources_beside
from deltaproduce.testing.oracle.rows import (
    KeyValues,
    Row,
    Rows,
    differences,
    named_rows,
    values_by_key,
)
from deltaproduce.testing.oracle.sources import (
    Change,
    Delete,
    Upsert,
    check_keys,
    keys_given,
    source_rows,
    stored_change,
)
from deltaproduce.testing.oracle.values import as_stored, plain, plain_rows, shown_values, sort_key
from deltaproduce.testing.oracle.windows import AsOf, Named, WindowStates
from deltaproduce.types.columns import Columns

Table: TypeAlias = Literal["content", "key_mappings", "updates"]


Mode: TypeAlias = Literal["net", "complete"]


@dataclass(frozen=True, slots=True)
class _Taken:
    """The state of the sources after changes are taken.

    Attributes:
        forgotten: the rows that sources have silently dropped.
        all_taken: whether all given rows were taken.
    """

    rows: Rows
    forgotten: Rows
    all_taken: bool = True


@dataclass(frozen=True, slots=True)
class _Version:
    """A version, and what the next version depends on.

    Attributes:
        surrogates: the last surrogate that each stage has assigned.
        windows: the state of the windows.
        functions: the definition that computed each stage.
        forgotten: the rows that sources have silently dropped.
    """

    rows: Rows
    surrogates: Mapping[str, int] = field(default_factory=dict)
    windows: WindowStates = field(default_factory=WindowStates)
    functions: Mapping[str, str] = field(default_factory=dict)
    forgotten: Rows = field(default_factory=dict)


class Oracle:
    """The model of a store: the same pipeline over lists instead of tables, in memory.

    Rows are tuples in the column order and row order of the store's tables, in the normal form of
    `plain`. So for a frame read with `ordered=True`,
    `oracle.content(stage) == plain_rows(frame.collect())` is the whole test. If a function emits a
    time with zone, or gets its rows in Arrow, timestamps without a zone are in UTC.

    Every update recomputes the whole pipeline: keep test data small. It evaluates no checks, but
    sets rows of sources aside.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._graph = pipeline.graph()
        for producer in self._producers:
            if not is_known(producer):
                message = (
                    f"stage {producer.name!r} is of kind {producer.kind.word!r}, which the oracle "
                    "has not; write it as a function, or register a model of its kind"
                )
                raise DefinitionError(message, stage=producer.name)
        self._beside = sources_beside(self._graph.sources)
        self._versions = [_Version({stage.name: [] for stage in self._stages})]
        self._rollbacks: set[int] = set()
        self._number_by_update_id: dict[str, int] = {}

    @property
    def _stages(self) -> tuple[Stage, ...]:
        """The stages that the pipeline defines; helper stages only serve to compute them."""
        return self._graph.shown

    @property
    def _given(self) -> tuple[Source, ...]:
        """The sources that rows are given for: others have the rows that these set aside."""
        return tuple(s for s in self._graph.sources if not s.kind.intake.rows_of)

    @property
    def _producers(self) -> tuple[Producer, ...]:
        """The stages that have feeders."""
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
            update_id: a name for the batch; a second update with the same id changes nothing.
            partitions: partitions to mark as present, as for `Store.update`.
            as_of: as for `Store.update`.

        Returns:
            The number of the head afterwards, or of the version that `update_id` made before.

        Raises:
            InvalidChangesError: a source is unknown, or has a key with deletes and upserts (S2).
            ProducerError: a stage's function failed. As with every error, nothing has changed.
        """
        if update_id is not None and update_id in self._number_by_update_id:  # S9
            return self._number_by_update_id[update_id]
        for name in changes:
            if name not in {source.name for source in self._given}:
                raise InvalidChangesError(f"there is no source {name!r}", source=name)
        head = self._versions[-1]
        windows = head.windows.after_arguments(self._graph, partitions, as_of)
        taken = self._taken(changes, windows)
        windows = windows.seen(self._graph, named_rows(self._graph.sources, taken.rows))
        windows = windows.floored(self._graph)
        produced = self._computed(taken, windows)  # this may fail even if nothing changed
        stays = (  # S9: nothing changed, so there is no version
            windows == head.windows
            and taken.all_taken
            and head.functions in ({}, produced.functions)  # S15
            and all(
                values_by_key(rows) == values_by_key(head.rows[name])
                for name, rows in taken.rows.items()
            )
        )
        is_last = not produced.windows.behind(self._graph)  # the last of several, which has the id
        if not stays or (update_id is not None and is_last):
            self._versions.append(produced)
        while self._versions[-1].windows.behind(self._graph):  # one version after the other
            head = self._versions[-1]
            rows = {source.name: head.rows[source.name] for source in self._graph.sources}
            taken = _Taken(rows, head.forgotten)
            self._versions.append(self._computed(taken, head.windows, advances=True))
        if update_id is not None:
            self._number_by_update_id[update_id] = self.head
        return self.head

    def _computed(
        self, taken: _Taken, windows: WindowStates, *, advances: bool = False
    ) -> _Version:
        """Compute the version after the head.

        Args:
            taken: the state of the sources.
            windows: the state of the windows after the update's arguments.
            advances: whether windows with ``max_partitions`` move on.
        """
        head, rows = self._versions[-1], dict(taken.rows)
        surrogates, functions = dict(head.surrogates), dict[str, str]()
        for producer in self._producers:
            name = producer.name
            if advances:
                windows = windows.advanced(producer)
            fed = fed_rows(producer, rows, taken.forgotten)
            rows[name] = produced_rows(producer, fed, windows, taken.forgotten)
            windows = windows.seen(self._graph, named_rows([producer], rows))
            if producer.kind.key_use.numbered is not None:
                rows[name], surrogates[name] = numbered_rows(
                    producer, rows[name], head.rows[name], surrogates.get(name, 0)
                )
            functions[name] = fingerprint(producer).function
            if producer.kind.upkeep.by_history and by_key(producer.kind) is not None:
                is_same = head.functions.get(name) == functions[name]
                fed = fed_rows(producer, rows, taken.forgotten)
                fed_before = fed_rows(producer, head.rows, head.forgotten)
                rows[name] = preserved_rows(producer, fed, fed_before, is_same=is_same)
        return _Version(rows, surrogates, windows, functions, taken.forgotten)

    def _taken(self, changes: Mapping[str, Sequence[Change]], windows: WindowStates) -> _Taken:
        """Apply changes to the sources."""
        head = self._versions[-1]
        kept: Rows = {}
        forgotten, all_taken = dict(head.forgotten), True
        floors = windows.floored(self._graph, keys_given(self._graph.sources, changes))
        for source in self._given:
            name, retention = source.name, source.kind.intake.retention
            given = changes.get(name, ())
            taken = [one for one in given if floors.keeps(source, one.key)]
            check_keys(source, taken)
            if name in self._beside:
                aside = self._beside[name]
                before = [row for row in head.rows[aside.name] if floors.keeps(source, row.key)]
                taken, kept[aside.name] = divided(source, aside, before, taken, self.head + 1)
            rows = source_rows(source, head.rows[name], taken)
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
        """Load all rows of some sources: keys without rows are deleted.

        Args:
            rows: the rows of each source, in order; other sources stay as they are.
            update_id: as for `update`.
            partitions: as for `update`.
            as_of: as for `update`.

        Returns:
            As for `update`.

        Raises:
            InvalidChangesError: a source is unknown.
            ProducerError: as for `update`.
        """
        changes: dict[str, Sequence[Change]] = dict(rows)
        head = self._versions[-1].rows
        for source in self._given:
            if source.name in rows:
                key = source.schema.key
                loaded = {plain(stored_change(row.key, key, source)) for row in rows[source.name]}
                aside = self._beside.get(source.name)
                had = [*head[source.name], *([] if aside is None else head[aside.name])]
                before = dict.fromkeys(plain(row.key) for row in had)
                gone = [Delete(key) for key in before if key not in loaded]
                changes[source.name] = [*rows[source.name], *gone]
        return self.update(changes, update_id, partitions=partitions, as_of=as_of)

    def rollback(self, version: int) -> int:
        """Restore an earlier version as the next one, unless the head equals it.

        Returns:
            The number of the head afterwards.

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
        """The content of a stage at a version; at the head if None.

        Raises:
            NotFoundError: there is no such stage or version.
        """
        key, source_key = self._columns(stage)
        return plain_rows(
            (
                *shown_values(row.key, key),
                *row.value,
                *shown_values(row.source_key, source_key),
                row.ordinal,
            )
            for row in self._rows(stage, version)
        )

    def key_mappings(self, stage: str, version: int | None = None) -> list[tuple[Any, ...]]:
        """The key mappings of a producer at a version; at the head if None.

        Raises:
            NotFoundError: there is no such producer or version.
        """
        producer = self._producer(stage)
        columns = (*producer.source_key, *producer.schema.key)
        rows = {(*plain(row.source_key), *plain(row.key)) for row in self._rows(stage, version)}
        in_order = sorted(rows, key=lambda row: sort_key(row, columns))  # S13
        return [shown_values(row, columns) for row in in_order]

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
        if of_all(producer.kind) is None:
            return {(plain(row.source_key), plain(row.key)) for row in rows}
        state = self._versions[self.head if version is None else version]
        there = {plain(row.key) for row in rows}
        names = producer.feeders[0].schema.key.names
        pairs = (
            (plain([given[name] for name in names]), plain(as_stored(key, producer.schema.key)))
            for given in given_rows(producer, state.rows, state.windows, state.forgotten, feeder)
            for key in keys_of(producer.kind, given)
        )
        return {(source, key) for source, key in pairs if key in there}

    def updates(self, stage: str, version: int | None = None) -> list[tuple[Any, ...]]:
        """The updates of a version to a stage; of the head if None.

        Raises:
            NotFoundError: there is no such stage or version.
        """
        number = self.head if version is None else version
        before, after = self._compared(stage, number) if number else ({}, {})
        schema, values = self._graph.stage(stage).schema, self._values(stage)
        rows: list[tuple[Any, ...]] = []
        for key in sorted(before.keys() | after.keys(), key=lambda key: sort_key(key, schema.key)):
            if before.get(key) == after.get(key):  # S8
                continue
            if key not in after:  # S7: one row without values for a deleted key
                shown = shown_values(key, schema.key)
                rows.append((number, "delete", *shown, 0, *(None for _ in values)))
            for position, value in enumerate(after.get(key, ())):  # S7: all rows of a changed key
                is_new = key not in before and position == 0
                change_type = "add" if is_new else "update"
                shown = shown_values(key, schema.key)
                rows.append((number, change_type, *shown, position, *value[: len(values)]))
        return rows

    def changes(
        self, stage: str, since: int, until: int | None = None, mode: Mode = "net"
    ) -> list[tuple[Any, ...]]:
        """The rows inserted and deleted between two versions, in any order: the feed without times.

        Raises:
            NotFoundError: there is no such stage or version.
        """
        last = self.head if until is None else until
        columns, width = self._columns(stage)[0], len(self._values(stage))
        for number in (since, last):
            self._rows(stage, number)  # this raises if there is no such version
        pairs = {number: self._compared(stage, number) for number in range(since + 1, last + 1)}
        changed = {  # S8: the keys in each version's updates
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
            (*shown_values(key, columns), *value, change_type, number)
            for before, after, key, number in moves
            for value, change_type in differences(
                [value[:width] for value in before.get(key, [])],
                [value[:width] for value in after.get(key, [])],
            )
        ]

    def columns(self, stage: str, table: Table) -> tuple[str, ...]:
        """The column names of a stage's table, in the order of its rows.

        Raises:
            NotFoundError: there is no such stage, or it has no such table.
        """
        own, feeders = self._columns(stage)
        key, value = shown_values(own.names, own), self._graph.stage(stage).schema.value.names
        if table == "updates":
            return ("_version", "_change_type", *key, "_position", *self._values(stage))
        source_key = tuple(f"_source_{name}" for name in shown_values(feeders.names, feeders))
        if table == "content":
            return (*key, *value, *source_key, "_ordinal")
        return (*source_key, *key)

    def _compared(self, stage: str, number: int) -> tuple[KeyValues, KeyValues]:
        """Return the rows that a version's updates compare; they do not report forgotten rows."""
        rows = [self._rows(stage, number - 1), self._rows(stage, number)]
        if number not in self._rollbacks:  # a rollback restores forgotten rows, and reports them
            forgotten = (self._versions[n].forgotten.get(stage, ()) for n in (number - 1, number))
            rows = [[*row, *more] for row, more in zip(rows, forgotten, strict=True)]
        before, after = map(values_by_key, rows)
        return before, after

    def _columns(self, stage: str) -> tuple[Columns, Columns]:
        """Return the columns of a stage's key, and of its source key."""
        target = self._graph.stage(stage)
        return target.schema.key, target.source_key

    def _values(self, stage: str) -> tuple[str, ...]:
        """Return a stage's values in its updates: the version of a row is a column of these."""
        target = self._graph.stage(stage)
        names = target.schema.value.names
        return tuple(names[:-1] if has_version(target) else names)

    def _rows(self, stage: str, version: int | None) -> list[Row]:
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
