"""Updates: publish given rows as a version, or plan what an update would do.

The invariant: given rows are computed once, however often publishing is retried, unless they are
lost with the executor that had them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import partial
from types import EllipsisType
from typing import Literal, TypeAlias

import pyarrow as pa

from deltaproduce.engines.local.arrays import distinct
from deltaproduce.engines.spark.executors.lost_rows import are_lost
from deltaproduce.engines.spark.sessions.on_demand import is_frame
from deltaproduce.errors import CorruptStoreError, InvalidArgumentError, InvalidChangesError
from deltaproduce.model import arguments
from deltaproduce.model.graph import Source
from deltaproduce.model.layouts import CONTENT
from deltaproduce.operations.executor import Executor
from deltaproduce.operations.making.options import OnConflict
from deltaproduce.operations.making.request import Request
from deltaproduce.operations.reports.plans import Counted, Plan
from deltaproduce.operations.step.window_arguments import NO_ARGUMENTS, WindowArguments, named
from deltaproduce.operations.verbs.repair import verify
from deltaproduce.operations.verbs.tasks import moment_of, present_at
from deltaproduce.operations.writer import Writer
from deltaproduce.reading.opened import Opened
from deltaproduce.shown.phases import phase
from deltaproduce.shown.tasks import Values
from deltaproduce.stages.batches import Batch
from deltaproduce.stages.kind import (
    Arrival,
    arrivals,
    divided_batches,
    source_kind,
    stage_kind,
)
from deltaproduce.stages.partitioned.presence import (
    named_partitions,
    partitions_table,
    presence_batches,
)
from deltaproduce.stages.scheduled.schedules import Absent, Schedule
from deltaproduce.storage.versions import Version
from deltaproduce.types.atoms import Misfit
from deltaproduce.types.columns import Column
from deltaproduce.types.conversions import conformed
from deltaproduce.types.excerpts import meant, shown

AsOf: TypeAlias = date | str | EllipsisType | None
"""A date or a time, also as ISO text; None for no date, ``...`` for the last one."""


@dataclass(frozen=True, slots=True)
class UpdateInput:
    """What a user gives `Store.update` or `Store.load`; they describe it."""

    operation: Literal["update", "load"]
    changes: Mapping[str, object]
    snapshots: Mapping[str, object]
    update_id: str | None
    partitions: Mapping[str, object]
    as_of: AsOf


def update(writer: Writer, given: UpdateInput, on_conflict: OnConflict | None) -> Version:
    """See `Store.update` and `Store.load`."""
    taken = _Taken.of(writer, given)
    version = writer.published(given.operation, taken.attempt, on_conflict)
    while writer.executor.windows.behind(version):
        version = writer.published(given.operation, taken.catch_up, on_conflict)
    return version


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    """What a user has given, with arguments that are checked.

    Attributes:
        sources: the sources that rows are given for, with these rows.
        snapshots: the names of those among them for which all rows are given.
        named: the named partitions of sources that tasks read by partition.
        window_arguments: what is said of windows and tasks.
        batches: the rows, once an attempt has computed them.
    """

    writer: Writer
    operation: Literal["update", "load"]
    sources: Sequence[tuple[Source, object]]
    snapshots: Collection[str]
    named: Mapping[str, list[Values]]
    window_arguments: WindowArguments
    update_id: str | None
    batches: dict[str, Batch] = field(default_factory=dict)

    @staticmethod
    def of(writer: Writer, given: UpdateInput) -> _Taken:
        """Check what a user gives; no row is read.

        Raises:
            InvalidChangesError: rows are given for no source, or twice.
            InvalidArgumentError: another argument is wrong.
        """
        store = writer.opened
        sources = [*_sources(store, given.changes), *_sources(store, given.snapshots)]
        if twice := sorted({*given.changes} & {*given.snapshots}):
            raise InvalidChangesError(
                f"both changes and all rows are given for {twice[0]!r}: give one of the two",
                source=twice[0],
            )
        update_id = given.update_id
        name = None if update_id is None else arguments.text(update_id, "update_id")
        named = _named_partitions(writer, given.partitions)
        return _Taken(
            writer=writer,
            operation=given.operation,
            sources=sources,
            snapshots=given.snapshots,
            named=named,
            window_arguments=_window_arguments(
                writer, _of_windows(given.partitions, named), given.as_of
            ),
            update_id=name,
        )

    def attempt(self) -> Version:
        """Publish the rows, unless a version has the id already; compute them the first time."""
        store = self.writer.opened
        versions = store.log.versions()
        known = self._known()
        if known is not None:
            return known
        there, executor = self.writer.computing.now()
        try:
            return self._published(there, executor, versions)
        except Exception as error:
            if are_lost(error):
                self._forget_computed()
            raise

    def _published(self, there: Opened, executor: Executor, versions: Sequence[Version]) -> Version:
        store = self.writer.opened
        self._compute(there)
        head = store.log.last_read
        news = arrivals(store.graph.sources, head, there.tables)
        try:
            with store.noticing():
                schedule = _schedule(store, self.window_arguments, head, self.named)
                request = replace(self._request(there, news), schedule=schedule)
                return executor.update(request, head)
        except CorruptStoreError as error:
            lost = [store.tables.location.table(name, CONTENT).name for name in self.batches]
            if self.operation != "load" or error.table not in lost:
                raise
            request = replace(self._request(there, {}), window_arguments=NO_ARGUMENTS)
            return executor.repair(request, versions, verify(self.writer))

    def catch_up(self) -> Version:
        """Publish a further version, in which limited windows move on."""
        store = self.writer.opened
        head, known = store.log.head(), self._known()
        if known is not None:
            return known
        request = Request(operation=self.operation, advances=True, update_id=self.update_id)
        with store.noticing():
            return self.writer.executor.update(request, head)

    def _known(self) -> Version | None:
        """Return the version that has the id, as of the last read."""
        if self.update_id is None:
            return None
        return self.writer.opened.log.with_ids().get(self.update_id)

    def _compute(self, there: Opened) -> None:
        """Check and compute the rows, unless an attempt before has."""
        missing = [one for one in self.sources if one[0].name not in self.batches]
        if not missing:
            return
        _expect_calls(self.writer.opened, self.sources)
        with phase("checking"):
            taken = {
                source.name: source_kind(source).taken(
                    rows, source, there.engines, is_snapshot=source.name in self.snapshots
                )
                for source, rows in missing
            }
        self.batches.update(taken)

    def _forget_computed(self) -> None:
        """Have the next attempt compute again what Spark has, as far as it can be read again."""
        for source, rows in self.sources:
            batch = self.batches.get(source.name)
            is_there = batch is not None and is_frame(batch.rows)
            if is_there and not isinstance(rows, pa.RecordBatchReader):
                del self.batches[source.name]

    def _request(self, there: Opened, news: Mapping[str, Arrival]) -> Request:
        """Return the request for the rows, and for the partitions that are known with them."""
        sources = self.writer.opened.graph.sources
        beside = presence_batches(sources, self.batches, news, self.named, there.engines)
        head = there.log.last_read
        batches = divided_batches(
            sources, self.batches, partial(there.reader.content, head), head.number + 1
        )
        return Request(
            operation=self.operation,
            batches={**batches, **beside},
            arrivals=news,
            window_arguments=self.window_arguments,
            update_id=self.update_id,
        )


def plan(
    writer: Writer,
    given: Collection[str | Source],
    snapshots: Collection[str | Source],
    partitions: Mapping[str, object],
    as_of: AsOf,
) -> Plan:
    """See `Store.plan`."""
    store = writer.opened
    full = _names(store, snapshots, "snapshots")
    rows = given if isinstance(given, Mapping) else {}
    keys = {
        **{
            source.name: _keys_given(source, rows.get(named))
            for named, source in zip(given, _named(store, given, "given"), strict=True)
        },
        **dict.fromkeys(full),
    }
    named_of = _named_partitions(writer, partitions)
    selection = _window_arguments(writer, _of_windows(partitions, named_of), as_of)
    head = store.log.head()
    there, executor = writer.computing.now()
    news = arrivals(store.graph.sources, head, there.tables)
    compared: Counted = {}
    if isinstance(snapshots, Mapping):
        batches = {
            source.name: source_kind(source).taken(rows, source, there.engines, is_snapshot=True)
            for source, rows in _sources(store, dict(zip(full, snapshots.values(), strict=True)))
        }
        with store.noticing(), writer.computing.keeping_active():
            compared = executor.compared(
                Request(operation="load", batches=batches, window_arguments=selection), head
            )
    return executor.plan(
        head, given=keys, snapshots=full, compared=compared, arrivals=news, named=selection
    )


def _keys_given(source: Source, rows: object) -> int | None:
    """Return the number of keys in rows, for Arrow and lists of dicts; None if unknown."""
    key, names = source.schema.key, source.schema.key.names
    if isinstance(rows, list):
        if not all(isinstance(row, Mapping) and set(names) <= row.keys() for row in rows):
            return None
        try:
            rows = pa.table({name: [row[name] for row in rows] for name in names})
        except (pa.ArrowException, OverflowError):  # an update reports what is wrong
            return None
    if not isinstance(rows, pa.Table) or not set(names) <= set(rows.column_names):
        return None
    try:
        keys = {c.name: _in_type(rows.column(c.name), c) for c in key}
    except (pa.ArrowException, Misfit):  # as above
        return None
    return len(distinct(pa.table(keys)))


def _in_type(values: pa.ChunkedArray, column: Column) -> pa.Array:
    """Return values in the type of their column; whatever their clock is, as many are distinct."""
    return conformed(values.combine_chunks(), column.data_type, clock=UTC)


def _names(store: Opened, sources: Collection[str | Source], argument: str) -> list[str]:
    """Return the names of sources given as objects or names; see `_named`."""
    return [source.name for source in _named(store, sources, argument)]


def _named(store: Opened, sources: Collection[str | Source], argument: str) -> list[Source]:
    """Return sources given as objects or names.

    Raises:
        InvalidArgumentError: the argument is not a collection, or an item is neither.
    """
    if isinstance(sources, str) or not isinstance(sources, Iterable):
        message = f"{argument} is {shown(sources)}; give a collection of sources, or of names"
        raise InvalidArgumentError(message, argument=argument)
    return [store.source(source, argument) for source in sources]


def _window_arguments(
    writer: Writer, partitions: Mapping[str, object], as_of: AsOf
) -> WindowArguments:
    """Return the arguments that concern windows and tasks.

    Raises:
        InvalidArgumentError: an argument is not valid.
    """
    if not isinstance(partitions, Mapping):
        message = f"partitions are {shown(partitions)}; give a mapping of source names to lists"
        raise InvalidArgumentError(message, argument="partitions")
    for source in partitions:
        writer.opened.source(source, "partitions")
    moment = as_of if isinstance(as_of, EllipsisType) or as_of is None else _moment(writer, as_of)
    return WindowArguments(moment, _has_time(as_of), named(partitions, writer.executor.windows))


def _has_time(as_of: AsOf) -> bool:
    """Return whether a valid date has a time, also midnight."""
    if isinstance(as_of, str):
        return "T" in as_of or ":" in as_of
    return isinstance(as_of, datetime)


def _moment(writer: Writer, as_of: date | str) -> datetime:
    writer.opened.log.versions()
    return moment_of(as_of, writer.opened.engines.time_zone)


def _expect_calls(store: Opened, sources: Iterable[tuple[Source, object]]) -> None:
    """Prepare for the functions that read what is given, while it is checked."""
    for name in store.graph.downstream_of(source.name for source, _ in sources):
        stage_kind(store.graph.stage(name)).expect_calls(store.engines)


def _named_partitions(writer: Writer, partitions: Mapping[str, object]) -> dict[str, list[Values]]:
    """Return the named partitions of sources that tasks read by partition.

    If windows are over such a source, too, dates and numbers name the windows' partitions.
    """
    if not isinstance(partitions, Mapping):
        return {}
    known = {s.name: s for s in writer.opened.graph.sources if s.kind.tasks.columns}
    windows = writer.executor.windows
    return {
        name: named_partitions(known[name], given)
        for name, given in partitions.items()
        if name in known and (not windows.roots(name) or _are_dicts(given))
    }


def _are_dicts(given: object) -> bool:
    """Return whether partitions are named by dicts, of all columns of a source's partitions."""
    return isinstance(given, list | tuple) and (
        not given or any(isinstance(one, Mapping) for one in given)
    )


def _of_windows(
    partitions: Mapping[str, object], named_of: Mapping[str, list[Values]]
) -> Mapping[str, object]:
    """Return the named partitions of columns that windows are over."""
    if not named_of:
        return partitions
    return {name: given for name, given in partitions.items() if name not in named_of}


def _schedule(
    store: Opened, selection: WindowArguments, head: Version, named_of: Mapping[str, list[Values]]
) -> Schedule | None:
    """Return the schedule of the tasks that an update makes dirty, for the date that it names."""
    if not isinstance(selection.as_of, datetime):
        return None
    if not any(stage.kind.tasks.make_rows for stage in store.graph.producers):
        return None
    there = {
        name: distinct(
            pa.concat_tables(
                [known, partitions_table(store.source(name, ""), named_of.get(name, ()))]
            )
        )
        for name, known in present_at(store, head).items()
    }
    return Schedule(selection.as_of, Absent(only_changed=True), there, raises=True)


def _sources(store: Opened, changes: Mapping[str, object]) -> list[tuple[Source, object]]:
    """Return the sources that rows are given for, with these rows."""
    known = {s.name: s for s in store.graph.sources if s.hidden is None}
    if not isinstance(changes, Mapping):
        raise InvalidChangesError(
            f"changes are a {type(changes).__name__}: give a dict of source names and rows, as "
            f"{{{next(iter(known), 'orders')!r}: rows}}"
        )
    for name in changes:
        if name not in known:
            raise InvalidChangesError(
                f"changes are given for {shown(name)}, which is not a source; {meant(name, known)}",
                source=str(name),
            )
        if not known[name].kind.intake.takes_rows:
            raise InvalidChangesError(
                f"changes are given for {name!r}, which {_untaken(known[name])}", source=name
            )
    return [(known[name], given) for name, given in changes.items()]


def _untaken(source: Source) -> str:
    """Return where the rows of a source come from to which none are given."""
    if source.table is None:
        return "has the rows of another source that are set aside: give rows for that"
    return f"is the Delta table {source.table!r}: change that; an update takes what is new in it"
