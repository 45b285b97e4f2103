"""Evaluation: what a check finds in a version that exists.

If the check's hidden stage was made by the query that the check has now, it has the rows that break
the check; else the query runs over the contents of the version. The invariant: nothing is written,
and all is read from the tables that the version pins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from deltaproduce.engines.choice import Engines
from deltaproduce.errors import NotFoundError
from deltaproduce.model.checks.definitions import Check, RowCheck, RowsLimit, ShareLimit
from deltaproduce.model.checks.results import CheckResult, CheckResults
from deltaproduce.model.checks.verdicts import Evidence, verdict
from deltaproduce.model.fingerprints import Fingerprint
from deltaproduce.model.graph import Graph, Stage
from deltaproduce.operations.making.checking import samples
from deltaproduce.reading.readers import StageReader
from deltaproduce.stages.inputs import StageInput, inputs_of
from deltaproduce.stages.productions import Production, derived_kind
from deltaproduce.storage.figures import NO_TABLES
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.storage.versions import Version, has_tables, stage_at


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What evaluates the checks of a graph over versions.

    Attributes:
        definitions: the fingerprints of the graph's stages.
        tables: find the types of a query's columns.
    """

    graph: Graph
    definitions: Mapping[str, Fingerprint]
    reader: StageReader
    engines: Engines
    tables: Tables

    def results(self, version: Version) -> CheckResults:
        """Return what all checks find in a version; of what it has changed, what it records.

        Raises:
            DeltaProduceError: as for `evidence`.
        """
        results = CheckResults(self._result(check, version) for check in self.graph.checks)
        results.version = version.number
        return results

    def _result(self, check: Check, version: Version) -> CheckResult:
        known = recorded(check, version)
        before = known is not None and known.broken_before
        match check:
            case RowCheck():
                return verdict(check, self.evidence(check, version), broken_before=before)
            case RowsLimit():
                rows = version.stages.get(check.stage, NO_TABLES).rows
                return verdict(check, Evidence(rows), broken_before=before)
            case ShareLimit():
                result = known or verdict(check, Evidence(0), broken_before=False)
                return replace(result, severity=check.severity)

    def evidence(self, check: RowCheck, version: Version) -> Evidence:
        """Return what a check finds in a version.

        Raises:
            ProducerError: its query fails; with `stage`, the check's name.
            NotFoundError: the version has a stage that it reads with other columns.
        """
        stage = self.graph.stage(check.table)
        if not self.is_kept(stage, version):
            return self._computed(stage, version)
        rows = version.stages[stage.name].rows
        stored = self.reader.content(version, stage) if rows else None
        return Evidence(rows, sample=samples.of_stored(stage, stored))

    def rows(self, check: RowCheck, version: Version) -> int:
        """Return how many rows a check finds in a version; see `evidence`."""
        stage = self.graph.stage(check.table)
        if self.is_kept(stage, version):
            return version.stages[stage.name].rows
        return self._computed(stage, version).rows

    def is_kept(self, stage: Stage, version: Version) -> bool:
        """Return whether a version has the rows that a stage's definition makes."""
        known = version.definitions.get(stage.name)
        return has_tables(version, stage.name) and known == self.definitions[stage.name]

    def _computed(self, stage: Stage, version: Version) -> Evidence:
        """Return what the query of a check finds over the contents of a version."""
        for feeder in stage.merged:
            if has_tables(version, feeder.name) and stage_at(version, feeder) is not feeder:
                raise NotFoundError(
                    f"check {stage.owner!r} reads {feeder.name!r}, which has other columns in "
                    f"version {version.number}: it can be evaluated after the next update"
                )
        alone = derived_kind(stage).alone(stage, self.tables)
        inputs = inputs_of(
            alone, lambda one: StageInput(one, partial(self.reader.content, version, one), None)
        )
        date = version.windows.date
        production = Production.of(alone, NO_TABLES, self.engines, dates=(date, date))
        produced = production.kind.produced(production, inputs)
        if produced is None:
            return Evidence(0)
        rows, count, *_ = produced
        return Evidence(count, sample=samples.of_rows(alone, rows, self.engines) if count else ())


def recorded(check: Check, version: Version) -> CheckResult | None:
    """Return what a version records of a check."""
    return next((one for one in version.checks if one.name == check.name), None)
