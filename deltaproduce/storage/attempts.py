"""Attempts: which writer tries to make which version, and how its commits record that.

Pure values, and their JSON in a commit's ``userMetadata``. The invariant: metadata that an attempt
of ours has written reads back; metadata that matches only in part is not ours, whoever wrote it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Final, Protocol

from deltaproduce.storage.figures import StageFigures, figures_of, stored
from deltaproduce.types.json.fields import (
    Kind,
    fields,
    is_integer,
    is_text,
    is_texts,
    objects_of,
    parsed,
)


class Numbered(Protocol):
    """The part of a version that an attempt builds on; see `versions.Version`."""

    @property
    def number(self) -> int:
        """1, 2, 3, …; 0 for the empty version."""

    @property
    def fencing_token(self) -> int:
        """The token of the version log's newest commit when the version was read."""


@dataclass(frozen=True, slots=True)
class AttemptPart:
    """The part of an attempt in one stage, recorded in each of its commits to the stage's tables.

    From it a later attempt finds what this one has stored, and can carry on.

    Attributes:
        stages: the names of all stages that the attempt commits to, feeders first.
        before: the stages completed by then -> the delta versions that it made of their tables.
        kinds: the tables of this stage that it commits to.
        figures: the figures of this stage in its version, before the commits.
    """

    stages: tuple[str, ...]
    before: Mapping[str, Mapping[str, int]]
    kinds: tuple[str, ...]
    figures: StageFigures

    def stored(self) -> dict[str, object]:
        """Return the part as a commit stores it."""
        return {**asdict(self), "figures": stored(self.figures)}

    @staticmethod
    def parse(value: object) -> AttemptPart | None:
        """Parse the output of `stored` from JSON; return None if it is not ours."""
        values = fields(value, _PART, required=_PART)
        figures = None if values is None else figures_of(values["figures"])
        if values is None or figures is None:
            return None
        return AttemptPart(
            tuple(values["stages"]), values["before"], tuple(values["kinds"]), figures
        )


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of one writer at publishing a version, dropping old versions, or folding runs.

    Attributes:
        id: a unique id.
        version: the number that it tries to publish; or the head's, if it drops versions; or that
            of the version whose runs it folds.
        folds: for a fold, the delta version of the table that it builds on.
        started_at: the start, with time zone; None if unknown.
        given: a digest of its inputs, if a later attempt may carry it on.
        part: its part in the stage whose table a commit is to, if it may be carried on.
        fencing_token: the token of its commit to the version log: one more than the token it read.
        table: for an attempt that is read from a commit, the name of the committed table.
    """

    id: str
    version: int
    folds: int | None = None
    started_at: datetime | None = field(default=None, compare=False)
    given: str | None = field(default=None, compare=False)
    part: AttemptPart | None = field(default=None, compare=False)
    fencing_token: int = field(default=0, compare=False)
    table: str | None = field(default=None, compare=False)

    @staticmethod
    def after(head: Numbered, started_at: datetime, given: str | None = None) -> Attempt:
        """Return a new attempt at the version after ``head``."""
        attempt = Attempt.dropping(head, started_at)
        return replace(attempt, version=head.number + 1, given=given)

    @staticmethod
    def dropping(head: Numbered, started_at: datetime) -> Attempt:
        """Return a new attempt at dropping versions before ``head``."""
        return Attempt(
            uuid.uuid4().hex,
            head.number,
            started_at=started_at,
            fencing_token=head.fencing_token + 1,
        )

    @staticmethod
    def compacting(version: Numbered, base: int) -> Attempt:
        """Return a new attempt at folding a version's runs into a table."""
        return Attempt(uuid.uuid4().hex, version.number, base)

    @staticmethod
    def parse(metadata: str | None) -> Attempt | None:
        """Parse the output of `metadata`; return None for anything else.

        Anyone may write anything there. Metadata that matches only in part is not ours.
        """
        values = fields(parsed(metadata), _ATTEMPT, required=("table", "version", "attempt"))
        if values is None:
            return None
        part = AttemptPart.parse(values["part"]) if "part" in values else None
        if "part" in values and part is None:
            return None
        started = values.get("started_at")
        return Attempt(
            values["attempt"],
            values["version"],
            values.get("folds"),
            None if started is None else datetime.fromisoformat(started),
            values.get("given"),
            part,
            values.get("turn", 0),
            values.get("table"),
        )

    def metadata(self, table: str) -> str:
        """Return the ``userMetadata`` of a data commit."""
        metadata = {
            "table": table,
            "version": self.version,
            "attempt": self.id,
            "folds": self.folds,
            "started_at": None if self.started_at is None else self.started_at.isoformat(),
            "given": self.given,
            "part": None if self.part is None else self.part.stored(),
            "turn": self.fencing_token or None,
        }
        return json.dumps({name: value for name, value in metadata.items() if value is not None})


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit in a Delta table's history.

    Attributes:
        attempt: the attempt of ours that made it; None if none did.
        operation: its operation, in Delta's words, such as ``WRITE`` or ``OPTIMIZE``.
        micros: its time, in microseconds since 1970.
    """

    delta_version: int
    attempt: Attempt | None
    operation: str = "WRITE"
    micros: int = 0


def _is_time(value: object) -> bool:
    """Return whether a value is a time as `Attempt.metadata` writes it."""
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
