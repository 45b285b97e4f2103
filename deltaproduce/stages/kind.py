"""What kinds of stages do: the half of the protocol that needs a session.

`StageKind` is a `Kind` that can be carried out. Sources have a `SourceKind`, which says what comes
into them; stages that are made from others a `productions.DerivedKind`. Each kind is a package
beside this module, and none knows another. The invariant: whoever plans, computes, writes or reads
a version asks these methods, and never which kind it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from deltaproduce.engines.choice import Engines
from deltaproduce.errors import DefinitionError, InvalidChangesError
from deltaproduce.model.graph import Source, Stage
from deltaproduce.model.kind import Kind
from deltaproduce.stages.batches import Batch
from deltaproduce.stages.sql.expressions.terms import Constant
from deltaproduce.storage.figures import InPlace, StageFigures
from deltaproduce.storage.stored import Stored
from deltaproduce.storage.tables import Tables
from deltaproduce.storage.versions import Version


class StageKind(Kind):
    """What a stage is, and what is done with it."""

    __slots__ = ()

    def resolved(self, stage: Stage, tables: Tables) -> Stage:
        """The stage with the types of all its columns; no row is read.

        Args:
            stage: one of this kind, whose feeders are resolved.

        Raises:
            DefinitionError: what it refers to is not there, or does not fit; with `stage`.
        """
        del tables
        return stage

    @property
    def select(self) -> tuple[str, Mapping[str, Constant]] | None:
        """The query that reads its feeders, and what names of its own stand for; None without."""
        return None


class Arrival(Protocol):
    """What has come into a source without being given, since the head.

    Attributes:
        last: the source's figures in the head; None if it had no rows there.
        place: where its rows are from now on.
        reason: what an update says of it.
        begins: its rows before are none, or do not count: all that there are are new.
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
        """Whether it is to be put into a version even if no row differs."""

    def content(self) -> Stored:
        """The source's rows as they are now."""

    def batch(self) -> Batch:
        """The rows that the keys which changed have now; all rows if only they can tell."""

    def reading(self) -> AbstractContextManager[None]:
        """Says what to do where the rows that the head had can be read no more."""


class SourceKind(StageKind):
    """What a source is, and what comes into it."""

    __slots__ = ()

    def arrived(
        self, source: Source, head: Version, tables: Tables, *, anew: bool = False
    ) -> Arrival | None:
        """What has come without being given; None if there is nothing new.

        Args:
            anew: as if the source were read for the first time.

        Raises:
            InvalidChangesError: it is not known any more.
        """
        del source, head, tables, anew
        return None

    def taken(
        self, given: object, source: Source, engines: Engines, *, is_snapshot: bool = False
    ) -> Batch:
        """What a user gives, checked and computed.

        Raises:
            InvalidChangesError: nothing can be given, or not that.
        """
        del given, engines, is_snapshot
        raise InvalidChangesError(f"source {source.name!r} takes no rows", source=source.name)


def stage_kind(stage: Stage) -> StageKind:
    """A stage's kind, which can be carried out.

    Raises:
        DefinitionError: it cannot; with `stage`.
    """
    if not isinstance(stage.kind, StageKind):
        raise unfit(stage, "StageKind")
    return stage.kind


def source_kind(source: Source) -> SourceKind:
    """A source's kind, which says what comes into it.

    Raises:
        DefinitionError: it does not; with `stage`.
    """
    if not isinstance(source.kind, SourceKind):
        raise unfit(source, "SourceKind")
    return source.kind


def unfit(stage: Stage, wanted: str) -> DefinitionError:
    """The error that says that a stage's kind does not do what is asked of its sort."""
    found = type(stage.kind).__name__
    message = f"stage {stage.name!r}: its kind is a {found}; give one that is a {wanted}"
    return DefinitionError(message, stage=stage.name)


def arrivals(
    stages: tuple[Source, ...], head: Version, tables: Tables, *, anew: str | None = None
) -> dict[str, Arrival]:
    """What has come into sources without being given, by name; nothing of those without news.

    Args:
        anew: a source to be taken as if it were read for the first time.

    Raises:
        InvalidChangesError: what is new in one is not known any more.
    """
    found = {
        source.name: source_kind(source).arrived(source, head, tables, anew=source.name == anew)
        for source in stages
    }
    return {name: arrival for name, arrival in found.items() if arrival is not None}
