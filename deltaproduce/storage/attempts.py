"""Attempts: who tries to make which version, and what a commit says of that.

Pure values, and their JSON, which stands in a commit's ``userMetadata``. The invariant: what one of
ours has written reads back, and what is like it in part, whoever wrote it, is not ours.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Final, Protocol

from deltaproduce.storage.figures import StageFigures, figures_of, stored
from deltaproduce.types.json_fields import (
    Kind,
    fields,
    is_integer,
    is_text,
    is_texts,
    objects_of,
    parsed,
)


class Numbered(Protocol):
    """What an attempt needs to know of a version that it goes on from; see `versions.Version`."""

    @property
    def number(self) -> int:
        """1, 2, 3, …; 0 of the empty one."""

    @property
    def fencing_token(self) -> int:
        """That of the version log's newest commit when the version was read."""


@dataclass(frozen=True, slots=True)
class Part:
    """What an attempt does to one stage, as each of its commits to the stage's tables says.

    So that a later attempt finds out what is stored of this one, and can carry on.

    Attributes:
        stages: the names of all stages that the attempt commits to, feeders first.
        before: those that were complete by then -> the delta versions that it made of their tables.
        kinds: the tables of this stage that it commits to.
        figures: what its version says of this stage, but for what the commits become.
    """

    stages: tuple[str, ...]
    before: Mapping[str, Mapping[str, int]]
    kinds: tuple[str, ...]
    figures: StageFigures

    def stored(self) -> dict[str, object]:
        """The part as it is stored."""
        return {**asdict(self), "figures": stored(self.figures)}

    @staticmethod
    def parse(found: object) -> Part | None:
        """The inverse of `stored`, from JSON; None if it is none of ours."""
        values = fields(found, _PART, required=_PART)
        figures = None if values is None else figures_of(values["figures"])
        if values is None or figures is None:
            return None
        return Part(tuple(values["stages"]), values["before"], tuple(values["kinds"]), figures)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of one writer at publishing one version, dropping old ones, or folding runs of one.

    Attributes:
        id: unique.
        version: the number it tries to publish; or the head's, if it drops versions; or that of the
            version whose runs it folds.
        folds: of a fold, the delta version of the table that it goes on from.
        started_at: when, with time zone; None if that is not known.
        given: a digest of what it was given to do, if a later attempt may carry it on.
        part: what it does to the stage whose table a commit is to, if it may be carried on.
        fencing_token: what its commit to the version log carries: the one after that which it read.
        table: of one that is read from a commit, the name of the table that the commit is to.
    """

    id: str
    version: int
    folds: int | None = None
    started_at: datetime | None = field(default=None, compare=False)
    given: str | None = field(default=None, compare=False)
    part: Part | None = field(default=None, compare=False)
    fencing_token: int = field(default=0, compare=False)
    table: str | None = field(default=None, compare=False)

    @staticmethod
    def after(head: Numbered, started_at: datetime, given: str | None = None) -> Attempt:
        """A new attempt at the version after ``head``."""
        attempt = Attempt.dropping(head, started_at)
        return replace(attempt, version=head.number + 1, given=given)

    @staticmethod
    def dropping(head: Numbered, started_at: datetime) -> Attempt:
        """A new attempt at dropping versions before ``head``."""
        return Attempt(
            uuid.uuid4().hex,
            head.number,
            started_at=started_at,
            fencing_token=head.fencing_token + 1,
        )

    @staticmethod
    def compacting(version: Numbered, base: int) -> Attempt:
        """A new attempt at folding a version's runs into a table."""
        return Attempt(uuid.uuid4().hex, version.number, base)

    @staticmethod
    def parse(metadata: str | None) -> Attempt | None:
        """The inverse of `metadata`; None if it is not one of ours, whatever it is.

        Anyone may write anything there. What is like ours in part is not ours.
        """
        found = fields(parsed(metadata), _ATTEMPT, required=("table", "version", "attempt"))
        if found is None:
            return None
        part = Part.parse(found["part"]) if "part" in found else None
        if "part" in found and part is None:
            return None
        started = found.get("started_at")
        return Attempt(
            found["attempt"],
            found["version"],
            found.get("folds"),
            None if started is None else datetime.fromisoformat(started),
            found.get("given"),
            part,
            found.get("turn", 0),
            found.get("table"),
        )

    def metadata(self, table: str) -> str:
        """What a data commit says of itself in its ``userMetadata``."""
        found = {
            "table": table,
            "version": self.version,
            "attempt": self.id,
            "folds": self.folds,
            "started_at": None if self.started_at is None else self.started_at.isoformat(),
            "given": self.given,
            "part": None if self.part is None else self.part.stored(),
            "turn": self.fencing_token or None,
        }
        return json.dumps({name: value for name, value in found.items() if value is not None})


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit in a Delta table's history.

    Attributes:
        attempt: which of ours made it; None if none did.
        operation: what it was, in Delta's words, such as ``WRITE`` or ``OPTIMIZE``.
        micros: when, in microseconds since 1970.
    """

    delta_version: int
    attempt: Attempt | None
    operation: str = "WRITE"
    micros: int = 0


def _is_time(value: object) -> bool:
    """Whether it is a time as `Attempt.metadata` says one."""
    try:
        return isinstance(value, str) and bool(datetime.fromisoformat(value))
    except ValueError:
        return False


def _is_count(value: object) -> bool:
    return isinstance(value, int) and is_integer(value) and value >= 0


_PART: Final[Mapping[str, Kind]] = {
    "stages": is_texts,
    "before": objects_of(objects_of(is_integer)),
    "kinds": is_texts,
    "figures": lambda value: isinstance(value, dict),
}
_ATTEMPT: Final[Mapping[str, Kind]] = {
    "table": is_text,
    "version": _is_count,
    "attempt": is_text,
    "folds": is_integer,
    "started_at": _is_time,
    "given": is_text,
    "part": lambda value: isinstance(value, dict),
    "turn": _is_count,
}
