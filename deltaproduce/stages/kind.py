"""The protocol of a stage's kind: the half that needs a session.

A `StageKind` is a `Kind` that can be executed. A source has a `SourceKind`, which takes its rows; a
stage made from other stages has a `productions.DerivedKind`. Each kind is a package next to this
module, and none knows another. The invariant: code that plans, computes, writes or reads a version
calls these methods, and never asks which kind a stage has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from typing_extensions import override

from deltaproduce.engines.choice import OPEN_IN_SESSION, Engines
from deltaproduce.errors import DefinitionError, InvalidChangesError, SessionError
from deltaproduce.model.graph import Source, Stage
from deltaproduce.model.kind import Kind
from deltaproduce.model.layouts import CONTENT, RUNS, UPDATES
from deltaproduce.shown.explanations import Explanation, Operator
from deltaproduce.stages.batches import Batch
from deltaproduce.storage.figures import InPlace, StageFigures
from deltaproduce.storage.parquet.shared_lookups import Wanted
from deltaproduce.storage.stored import Stored
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.storage.versions import Version
from deltaproduce.types.columns import RowSchema

if TYPE_CHECKING:  # reading SQL needs its grammar
    from deltaproduce.stages.sql.operators.changes.subplans import Subplan
    from deltaproduce.stages.sql.resolve import Resolved


class StageKind(Kind):
    """The kind of a stage, with the methods that execute it."""

    __slots__ = ()

    @property
    @override
    def tables(self) -> tuple[str, ...]:
        """No key mappings: its rows do not come from one source key each."""
        return (CONTENT, UPDATES, RUNS)

    def resolved(self, stage: Stage, tables: Tables) -> Stage:
        """Return the stage with the types of all its columns; no row is read.

        Args:
            stage: a stage of this kind, whose feeders are resolved.

        Raises:
            DefinitionError: it refers to something that does not exist or fit; with `stage`.
        """
        del tables
        return stage

    def expect_calls(self, engines: Engines) -> None:
        """Prepare for calls of the stage's function, if it has one: its feeders get new rows."""
        del engines

    def look_ups(self, stage: Stage) -> Sequence[Wanted]:
        """Return the look-ups that a stage of this kind may make in its feeders, but by keys."""
        del stage
        return ()

    def subplans(self, stage: Stage) -> Iterable[Subplan]:
        """Return what a step of a stage of this kind may share with other stages."""
        del stage
        return ()

    def over(self, feeders: Mapping[str, RowSchema]) -> Resolved | None:
        """Return the query that makes all its rows of all rows of its feeders; None without one.

        Args:
            feeders: the columns of the stages that it reads.

        Raises:
            DefinitionError: the query does not fit them.
        """
        del feeders
        return None

    def operators(self, stage: Stage) -> tuple[Operator, ...]:
        """Return what a step of a stage of this kind computes, inputs first, for explanations."""
        scans = [Operator(f"Scan {one.name}", "incremental") for one in stage.merged]
        return (*scans, Operator(self.word, "incremental", None, tuple(range(len(scans)))))


class Arrival(Protocol):
    """New rows in a source since the head that the user did not give.

    Attributes:
        last: the source's figures in the head; None if it had no rows there.
        place: where its rows are from now on.
        reason: the text that an update shows for it.
        begins: the source had no rows before, or they do not count, so that all its rows are new.
    """

    @property
    def source(self) -> Source: ...  # noqa: D102 see the class

    @property
    def last(self) -> StageFigures | None: ...  # noqa: D102 see the class

    @property
    def place(self) -> InPlace: ...  # noqa: D102 see the class

    @property
    def reason(self) -> str: ...  # noqa: D102 see the class

    @property
    def begins(self) -> bool: ...  # noqa: D102 see the class

    def is_overdue(self, now: datetime) -> bool:
        """Return whether a version must record it even if no row differs."""

    def content(self) -> Stored:
        """Return the source's current rows."""

    def batch(self) -> Batch:
        """Return the current rows of the changed keys; all rows if only a comparison can tell."""

    def reading(self) -> AbstractContextManager[None]:
        """Explain what to do if the rows of the head can no longer be read."""


class SourceKind(StageKind):
    """The kind of a source, which takes its rows."""

    __slots__ = ()

    def arrived(
        self, source: Source, head: Version, tables: Tables, *, from_start: bool = False
    ) -> Arrival | None:
        """Find rows that arrived without being given; None if there is nothing new.

        Args:
            from_start: as if the source were read for the first time.

        Raises:
            InvalidChangesError: the new rows can no longer be determined.
        """
        del source, head, tables, from_start
        return None

    def taken(
        self, given: object, source: Source, engines: Engines, *, is_snapshot: bool = False
    ) -> Batch:
        """Check and compute the rows that a user gives.

        Raises:
            InvalidChangesError: the source takes no rows, or not these.
        """
        del given, engines, is_snapshot
        raise InvalidChangesError(f"source {source.name!r} takes no rows", source=source.name)

    def divided(
        self,
        stage: Source,
        given: Mapping[str, Batch],
        stored: Callable[[], Stored | None],
        version: int,
    ) -> Mapping[str, Batch]:
        """Return the batches of an update, with what this source gets of those of others.

        Args:
            stage: a source of this kind.
            given: the batches, by source.
            stored: finds its rows in the head.
            version: the number of the version that is made.
        """
        del stage, stored, version
        return given


def divided_batches(
    sources: Iterable[Source],
    given: Mapping[str, Batch],
    content: Callable[[Stage], Stored | None],
    version: int,
) -> Mapping[str, Batch]:
    """Return the batches of an update, of which some sources get rows of others.

    Args:
        content: finds the rows of a stage in the head.
        version: the number of the version that is made.
    """
    for source in sources:
        given = source_kind(source).divided(source, given, partial(content, source), version)
    return given


def stage_kind(stage: Stage) -> StageKind:
    """Return a stage's kind, if it can be executed.

    Raises:
        DefinitionError: it cannot; with `stage`.
    """
    if not isinstance(stage.kind, StageKind):
        raise unfit(stage, "StageKind")
    return stage.kind


def source_kind(source: Source) -> SourceKind:
    """Return a source's kind, if it can take rows.

    Raises:
        DefinitionError: it cannot; with `stage`.
    """
    if not isinstance(source.kind, SourceKind):
        raise unfit(source, "SourceKind")
    return source.kind


@contextmanager
def needing(stage: Stage) -> Iterator[None]:
    """Name the stage in errors of a store that has no session, and what of it needs one.

    Raises:
        SessionError: with `stage`.
    """
    try:
        yield
    except SessionError as error:
        if error.stage is not None:
            raise
        what = f"stage {stage.owner!r}"
        if stage.kind.intake.table is not None:
            what = f"source {stage.name!r} is an existing table, which"
        elif stage.kind.definition.maker == "query":
            what += " is a query, which"
        raise SessionError(
            f"{what} needs Spark, and the store was opened without a session; {OPEN_IN_SESSION}",
            stage=stage.owner,
        ) from error


def explanation(stage: Stage, version: Version | None = None) -> Explanation:
    """Return how a stage is kept up to date.

    Args:
        version: a version that has the tables of its operators; None if there is no store.
    """
    key = tuple(column.name for column in stage.schema.key if not column.is_hidden)
    figures = {} if version is None else version.stages
    operators = (
        replace(one, tables=tuple(_sized(table, figures) for table in one.tables))
        for one in stage_kind(stage).operators(stage)
    )
    return Explanation(stage.name, key, tuple(operators))


def _sized(table: Mapping[str, Any], figures: Mapping[str, StageFigures]) -> dict[str, Any]:
    """Return a table with its number of rows, and about how many bytes they have in memory."""
    known_bytes = figures.get(table["name"])
    rows = None if known_bytes is None else known_bytes.rows
    size = None if known_bytes is None else known_bytes.rows * known_bytes.row_bytes
    return {**table, "rows": rows, "bytes": size}


def unfit(stage: Stage, wanted: str) -> DefinitionError:
    """Return the error for a stage whose kind lacks the methods that its sort needs."""
    kind_name = type(stage.kind).__name__
    message = f"stage {stage.name!r}: its kind is a {kind_name}; give one that is a {wanted}"
    return DefinitionError(message, stage=stage.name)


def arrivals(
    stages: tuple[Source, ...], head: Version, tables: Tables, *, from_start: str | None = None
) -> dict[str, Arrival]:
    """Find rows that arrived in sources without being given, by name; only of sources with news.

    Args:
        from_start: a source to read as if for the first time.

    Raises:
        InvalidChangesError: the new rows of a source can no longer be determined.
    """
    arrivals_found = dict[str, Arrival | None]()
    for source in stages:
        with needing(source):
            arrivals_found[source.name] = source_kind(source).arrived(
                source, head, tables, from_start=source.name == from_start
            )
    return {name: arrival for name, arrival in arrivals_found.items() if arrival is not None}
