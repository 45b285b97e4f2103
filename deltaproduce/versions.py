"""Versions: which delta version of each table together is one state of a store.

Everything here is a value, without Spark. The invariant: a `Version` names the delta version of
every table that exists in it, so a reader needs nothing else to read one state, and a stage that a
version did not touch has the same delta versions as in the version before.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Literal

from deltaproduce.errors import NotFoundError
from deltaproduce.fingerprints import Fingerprint

Mode = Literal["skipped", "seek", "merge", "rewrite", "full"]


@dataclass(frozen=True, slots=True)
class StageFigures:
    """What one version did to one stage.

    Attributes:
        mode: ``skipped`` (not touched), ``seek`` (affected rows found by predicate and replaced),
            ``merge`` (found by a join with the whole table, and replaced), ``rewrite`` (the content
            written anew, in order) or ``full`` (produced from all of the feeder).
        reason: why this mode, in words.
        affected_keys: target keys that were looked at.
        changed_keys: target keys in this version's updates.
        rows_added: content rows written that were not there before.
        rows_removed: content rows that are gone.
        rows: content rows in this version.
        row_bytes: about how many bytes one has in memory.
        seconds: wall time of the stage's computation, without its commits.
        delta_versions: ``content``, ``key_mappings``, ``updates`` and, with merge on read, ``runs``
            -> the Delta table's version.
        whole: those of them whose table was written whole at that delta version, so that its files
            are its rows.
        folded: the version whose rows the content and key mappings tables hold.
        runs: how many versions since then are in the table of runs only.
    """

    mode: Mode
    reason: str = ""
    affected_keys: int = 0
    changed_keys: int = 0
    rows_added: int = 0
    rows_removed: int = 0
    rows: int = 0
    row_bytes: int = 0
    seconds: float = 0.0
    delta_versions: Mapping[str, int] = field(default_factory=dict)
    whole: Mapping[str, bool] = field(default_factory=dict)
    folded: int = 0
    runs: int = 0

    def carried(self) -> StageFigures:
        """The figures of the same stage in a next version that does not touch it."""
        return StageFigures(
            "skipped",
            "not reached",
            rows=self.rows,
            row_bytes=self.row_bytes,
            delta_versions=self.delta_versions,
            whole=self.whole,
            folded=self.folded,
            runs=self.runs,
        )


@dataclass(frozen=True, slots=True)
class Version:
    """One published state of all tables of a store; number 0 is the empty one.

    Attributes:
        number: 1, 2, 3, …
        committed_at: when it was published, with time zone; None for the empty version.
        operation: ``update`` or ``refresh``.
        update_id: the caller's name for the batch, if it gave one.
        stages: figures of every source and stage by name.
        definitions: stage name -> fingerprint of the definition its tables were made by.
        attempt: the attempt that published it.
    """

    number: int
    committed_at: datetime | None
    operation: str
    update_id: str | None
    stages: Mapping[str, StageFigures]
    definitions: Mapping[str, Fingerprint] = field(default_factory=dict)
    attempt: Attempt | None = None

    def delta_version(self, stage: str, kind: str) -> int | None:
        """The delta version of one table; None when it does not exist in this version."""
        figures = self.stages.get(stage)
        return None if figures is None else figures.delta_versions.get(kind)


EMPTY = Version(0, None, "empty", None, {})
"""The version before the first: every table reads as empty."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of one writer at publishing one version.

    Attributes:
        id: unique.
        version: the number it tries to publish.
    """

    id: str
    version: int

    @staticmethod
    def after(head: Version) -> Attempt:
        """A new attempt at the version after ``head``."""
        return Attempt(uuid.uuid4().hex, head.number + 1)

    def metadata(self, table: str) -> dict[str, object]:
        """What a data commit says of itself in its ``userMetadata``."""
        return {"table": table, "version": self.version, "attempt": self.id}


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit in a Delta table's history, and the attempt that made it, if one of ours did."""

    delta_version: int
    attempt_id: str | None


def find(versions: Iterable[Version], number: int) -> Version:
    """The version of that number.

    Raises:
        NotFoundError: it was never published or is no longer retained.
    """
    if number == 0:
        return EMPTY
    known = {version.number: version for version in versions}
    if number not in known:
        kept = f"{min(known)} to {max(known)}" if known else "none"
        raise NotFoundError(f"version {number!r} is not in this store; versions: {kept}")
    return known[number]


def figures_to_json(stages: Mapping[str, StageFigures]) -> str:
    """The figures as the version log stores them."""
    return json.dumps({name: asdict(figures) for name, figures in stages.items()})


def figures_from_json(text: str) -> dict[str, StageFigures]:
    """The inverse of `figures_to_json`; figures that a later release added are passed over."""
    known = set(StageFigures.__dataclass_fields__)
    return {
        stage: StageFigures(**{name: value for name, value in found.items() if name in known})
        for stage, found in json.loads(text).items()
    }
