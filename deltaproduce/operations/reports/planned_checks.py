"""Planned checks: which checks an update would evaluate anew, and what they find in the head.

Pure: a function of the steps, the head and the definitions. The invariant: what only a query over
rows tells is None.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from deltaproduce.model.checks.definitions import Check, RowCheck, RowsLimit, ShareLimit
from deltaproduce.model.fingerprints import Fingerprint
from deltaproduce.operations.step.plan import Step
from deltaproduce.shown.table import UNKNOWN, Table
from deltaproduce.shown.tabular import Word, one_line
from deltaproduce.storage.figures import NO_TABLES
from deltaproduce.storage.versions import Version, has_tables

Cause = Literal["added", "changed", "reached", "unchanged"]
"""Why a check is evaluated anew: the head was made without it (``added``), or with another query
(``changed``), or a stage that it reads is processed (``reached``). If not, it is as in the head.
"""


@dataclass(frozen=True, slots=True)
class PlannedCheck:
    """A check of the version that an update would make.

    Attributes:
        stage: the stage that it is about; of a query, the first that it reads.
        severity: ``error``, ``warn`` or ``quarantine``.
        allows: what it allows, in words.
        rows: how many rows break it in the head, or how many rows a limited stage has there; None
            if that is not known.
        broken: whether the head breaks it; None if that is not known.
    """

    name: str
    stage: str
    severity: str
    allows: str
    cause: Cause
    rows: int | None = None
    broken: bool | None = None

    def __repr__(self) -> str:
        return one_line(self, self.name, Word(self.severity), Word(self.cause), rows=self.rows)

    def as_dict(self) -> dict[str, Any]:
        """The check as JSON values."""
        return {
            "name": self.name,
            "stage": self.stage,
            "severity": self.severity,
            "allows": self.allows,
            "cause": self.cause,
            "rows": self.rows,
            "broken": self.broken,
        }


def planned_checks(
    checks: Iterable[Check],
    steps: Iterable[Step],
    head: Version,
    definitions: Mapping[str, Fingerprint],
) -> tuple[PlannedCheck, ...]:
    """Return the checks of the version that some steps would make.

    Args:
        definitions: the fingerprints of the graph's stages.
    """
    processed = {step.stage.name for step in steps}
    return tuple(_planned(check, processed, head, definitions) for check in checks)


def table_of(checks: Collection[PlannedCheck]) -> Table:
    """Return checks as a table."""
    state = {None: UNKNOWN, True: "broken", False: "holds"}
    rows = tuple(
        (one.name, one.stage, one.severity, one.cause, state[one.broken], one.allows)
        for one in checks
    )
    columns = ("check", "stage", "severity", "cause", "now", "allows")
    return Table("checks", columns, rows)


def _planned(
    check: Check,
    processed: Collection[str],
    head: Version,
    definitions: Mapping[str, Fingerprint],
) -> PlannedCheck:
    rows: int | None = None
    broken: bool | None = None
    cause: Cause = "reached" if check.stage in processed else "unchanged"
    match check:
        case RowCheck():
            cause = _cause(check, processed, head, definitions)
            if cause in ("reached", "unchanged"):
                rows = head.stages.get(check.table, NO_TABLES).rows
                broken = check.is_broken(rows)
        case RowsLimit():
            rows = head.stages.get(check.stage, NO_TABLES).rows
            broken = check.is_broken(rows)
        case ShareLimit():
            pass
    return PlannedCheck(check.name, check.stage, check.severity, check.bound, cause, rows, broken)


def _cause(
    check: RowCheck,
    processed: Collection[str],
    head: Version,
    definitions: Mapping[str, Fingerprint],
) -> Cause:
    if not has_tables(head, check.table):
        return "added"
    if head.definitions.get(check.table) != definitions[check.table]:
        return "changed"
    return "reached" if check.table in processed else "unchanged"
