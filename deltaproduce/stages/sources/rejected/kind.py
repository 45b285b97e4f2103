"""The kind of a stage with rejected rows: its rows come with those of a source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from typing_extensions import override

from deltaproduce.model.graph import Source, Stage
from deltaproduce.model.kind import Intake
from deltaproduce.model.layouts import Layout
from deltaproduce.model.retention import Retention
from deltaproduce.stages.batches import Batch
from deltaproduce.stages.kind import SourceKind
from deltaproduce.stages.sources.rejected.dividing import (
    Divided,
    RowRule,
    projections,
)
from deltaproduce.stages.sql.projection import naming
from deltaproduce.storage.stored import Stored
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.types.columns import RULE_COLUMN, VERSION_COLUMN, Columns


@dataclass(frozen=True, slots=True, repr=False)
class Rejected(SourceKind):
    """The rows of a source that are set aside.

    Attributes:
        source: the source.
        rules: those by which rows are set aside.
        retention: which rows the source keeps; all if None.
    """

    source: Stage
    rules: tuple[RowRule, ...] = ()
    retention: Retention | None = None

    @property
    @override
    def word(self) -> str:
        return "rejected"

    @property
    @override
    def intake(self) -> Intake:
        return Intake(retention=self.retention, rows_of=self.source.name)

    @override
    def resolved(self, stage: Stage, tables: Tables) -> Stage:
        """Refuse a rule that only a session computes, if there is none."""
        columns = Layout.of(self.source).content
        for rule, projection in zip(self.rules, projections(self.rules, self.source), strict=True):
            with naming(rule.name):
                projection.resolved(columns, tables.engines)
        return stage

    @override
    def divided(
        self,
        stage: Source,
        given: Mapping[str, Batch],
        stored: Callable[[], Stored | None],
        version: int,
    ) -> Mapping[str, Batch]:
        batch = given.get(self.source.name)
        if batch is None:
            return given
        parts = Divided(batch, self.rules, stage)
        aside = parts.aside(stored(), version)
        taken = {**given, self.source.name: parts.taken}
        return taken if aside is None else {**taken, stage.name: aside}


def rejected_beside(
    source: Stage, rules: Iterable[tuple[str, str]], known: Iterable[Stage] = ()
) -> Source:
    """Return the stage with the rows of a source that break rules.

    Args:
        rules: the names of checks, with the conditions of the rows that break them.
        known: the same stage with the rules that the source has already, if it has some.
    """
    had = [rule for one in known if isinstance(one.kind, Rejected) for rule in one.kind.rules]
    every = (*had, *(RowRule(*rule) for rule in rules))
    value = Columns((*source.schema.value, RULE_COLUMN, VERSION_COLUMN))
    schema = replace(source.schema, value=value)
    kind = Rejected(source, every, source.kind.intake.retention)
    return Source(f"{source.name}__rejected", schema, kind)
