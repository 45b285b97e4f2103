"""Opened: a store as reading operations use it.

The invariant: each question is answered from one whole version, by default the head, whatever
writers do meanwhile; and a stage, source or version that does not exist is refused before anything
is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local import arrays
from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.spark.columns import cols, order, struct_of
from deltaproduce.engines.spark.sessions.damage import noticed
from deltaproduce.errors import InvalidArgumentError, NotFoundError, SessionError
from deltaproduce.model import arguments
from deltaproduce.model.graph import Graph, Source, Stage, is_stage
from deltaproduce.model.layouts import KINDS, Layout
from deltaproduce.reading.readers import StageReader
from deltaproduce.reading.store_zone import StoreZone
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.storage.version_log import VersionLog
from deltaproduce.storage.versions import Version, check_there, find
from deltaproduce.types.columns import Column


@dataclass(frozen=True, slots=True)
class Opened:
    """The stages of one pipeline, and their stored rows at one location.

    Attributes:
        graph: the stages with the types of all columns.
        defined: the stages as the pipeline had them when the store was opened.
        zone: the time zone of the store.
        needing: the stages that need a session to be made -> why; none if there is one. They are
            read with the columns that a version has recorded.
    """

    engines: Engines
    graph: Graph
    defined: tuple[Stage, ...]
    tables: Tables
    log: VersionLog
    reader: StageReader
    zone: StoreZone
    needing: Mapping[str, SessionError] = field(default_factory=dict)

    def stage(self, stage: str | Stage, argument: str = "stage") -> Stage:
        """Return a stage by its name, or by a definition of it, which may be a new object.

        Raises:
            NotFoundError: there is none; all of these methods raise it.
        """
        if isinstance(stage, str):
            return self.graph.stage(stage)
        if not is_stage(stage):
            raise InvalidArgumentError(
                f"{argument} is a {type(stage).__name__}; give a stage, or its name",
                argument=argument,
            )
        if (stage.name, stage.schema) not in ((own.name, own.schema) for own in self.defined):
            raise NotFoundError(
                f"{stage.name!r} is a stage of another pipeline, or was defined after the store "
                "was opened; give one of this store's, or a name"
            )
        return self.graph.stage(stage.name)

    def source(self, source: str | Source, argument: str) -> Source:
        """Return a stage that is a source."""
        target = self.stage(source, argument)
        for known in self.graph.sources:
            if known is target:
                return known
        names = ", ".join(known.name for known in self.graph.sources)
        raise NotFoundError(
            f"{target.name!r} is not a source, and its rows follow from those of sources: {names}"
        )

    def producer(self, stage: str | Stage) -> Stage:
        """Return a stage that is not a source."""
        target = self.stage(stage)
        if not target.feeders:
            raise NotFoundError(f"{target.name!r} is a source: nothing produces it")
        return target

    def mapped(self, stage: str | Stage) -> Stage:
        """Return a stage that has key mappings."""
        target = self.stage(stage)
        if not target.source_key:
            what = "a source" if not target.feeders else f"of kind {target.kind.word!r}"
            raise NotFoundError(f"{target.name!r} is {what}: it has no key mappings")
        return target

    def version(self, version: int | None) -> Version:
        """Return a version by its number; the head if None."""
        number = None if version is None else arguments.integer(version, "version")
        versions = self.log.versions()
        return self.log.last_read if number is None else find(versions, number)

    def check_there(self, version: Version, stages: Iterable[str], *kinds: str) -> None:
        """Refuse a version whose tables no longer exist; call it after reading the log."""
        check_there(self.log.last_read, version, stages, *kinds)

    def frame(
        self, rows: Rows | None, columns: Sequence[Column], in_order: Sequence[Column] = ()
    ) -> Rows:
        """Return rows, or no rows, as users get them, without hidden columns.

        Args:
            in_order: the columns to sort by, if any.
        """
        shown = [column for column in columns if not column.is_hidden]
        in_order = [column for column in in_order if not column.is_hidden]
        if self.engines.session is None:
            table = self.engines.table(empty(shown) if rows is None else rows, shown)
            return arrays.in_order(table, in_order) if in_order and len(table) else table
        if rows is None:
            return self.engines.spark.createDataFrame([], struct_of(shown))
        frame = self.engines.frame(rows, shown)
        return frame.orderBy(*order(in_order)) if in_order else frame

    def without_internal(self, rows: Rows, stage: Stage) -> Rows:
        """Return content, as users get it, without the columns of the library."""
        own = [column for column in Layout.of(stage).own if not column.is_hidden]
        if isinstance(rows, pa.Table):
            return rows.select([column.name for column in own])
        return rows.select(*cols(own))

    def noticing(self) -> AbstractContextManager[None]:
        """Return a context in which errors from missing or broken files name the store's table."""
        location = self.tables.location
        tables = [location.table(stage.name, kind) for stage in self.graph.stages for kind in KINDS]
        return noticed(lambda: self.tables.access.places([*tables, location.log()]))


class Opening(Protocol):
    """What has a store open: a `Store`, or a `StageReader`."""

    @property
    def _opened(self) -> Opened: ...


def opened_by(store: Opening) -> Opened:
    """What a store has open, for what is built on stores, such as `deltaproduce.sync`."""
    return store._opened
