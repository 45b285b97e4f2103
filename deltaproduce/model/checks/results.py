"""Results of checks, as users see them.

Pure. The invariant: a result says what a check found in one version, and nothing that it says
changes when the definition of the check does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from deltaproduce.shown.table import Table
from deltaproduce.shown.tabular import Tabular, Word, one_line
from deltaproduce.types.excerpts import shown
from deltaproduce.types.json.plain import plain

SAMPLED: Final = 10
"""The most rows of a sample."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found in a version.

    Attributes:
        stage: the stage that it is about; of a query, the first that it reads.
        severity: ``error``, ``warn`` or ``quarantine``, when it was evaluated.
        rows: how many rows break it; of a limit, how many keys the version deletes or changes, or
            how many rows the stage has.
        broken: whether these are more than it allows, or of `rows` also fewer.
        sample: at most ten of the rows, or keys, that break it, by column; those that the version
            adds come first.
        broken_before: whether the version before breaks it, too.
        allows: what it allows, in words.
        given: of a check that keeps a version from being published, the keys of the batch that its
            new rows come from, by source, at most ten each; nothing where that is not known.
    """

    name: str
    stage: str
    severity: str
    rows: int
    broken: bool
    sample: tuple[Mapping[str, Any], ...] = ()
    broken_before: bool = False
    allows: str = ""
    given: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)

    def __repr__(self) -> str:
        state = Word("broken" if self.broken else "holds")
        return one_line(self, self.name, Word(self.severity), state, rows=self.rows)

    @property
    def failed(self) -> bool:
        """Whether it keeps a version from being published: it is broken, and an error."""
        return self.broken and self.severity == "error"

    @property
    def sentence(self) -> str:
        """What it found, in words."""
        count = f"{self.name} of stage {self.stage!r}: found {self.rows:,}, allowed {self.allows}"
        rows = f", such as {shown(dict(self.sample[0]))}" if self.broken and self.sample else ""
        before = "; the version before breaks it, too" if self.broken and self.broken_before else ""
        keys = "".join(
            f", from {source!r} {shown(dict(one[0]))} of the batch"
            for source, one in self.given.items()
        )
        return f"{count}{rows}{keys}{before}"

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON values."""
        return {
            "name": self.name,
            "stage": self.stage,
            "severity": self.severity,
            "rows": self.rows,
            "broken": self.broken,
            "broken_before": self.broken_before,
            "allows": self.allows,
            "sample": [plain(row) for row in self.sample],
            "given": {name: [plain(row) for row in rows] for name, rows in self.given.items()},
        }


class CheckResults(Tabular, tuple[CheckResult, ...]):
    """The results of all checks of a store, in order of definition.

    Attributes:
        version: the number of the version that they are of.
    """

    version: int

    def __repr__(self) -> str:
        broken = sum(one.broken for one in self)
        return one_line(self, checks=len(self), broken=broken, version=self.version)

    def __reduce__(self) -> tuple[Any, ...]:
        return CheckResults, (tuple(self),), self.__dict__

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        """Those that are broken and of severity ``error``."""
        return tuple(one for one in self if one.failed)

    def as_dict(self) -> dict[str, Any]:
        """The results as JSON values."""
        return {"version": self.version, "checks": [one.as_dict() for one in self]}

    def as_tables(self) -> tuple[Table, ...]:
        """The results, with a row that breaks each broken check."""
        return (table_of(self, f"checks of version {self.version}"),)


def table_of(results: tuple[CheckResult, ...], title: str) -> Table:
    """Return results as a table; notes have a row of each broken check."""
    rows = tuple(
        (
            one.name,
            one.stage,
            one.severity,
            "broken" if one.broken else "holds",
            one.rows,
            one.allows,
        )
        for one in results
    )
    notes = tuple(
        f"{one.name}: {shown(dict(row))}" for one in results if one.broken for row in one.sample[:1]
    )
    columns = ("check", "stage", "severity", "state", "found", "allows")
    return Table(title, columns, rows, notes)
