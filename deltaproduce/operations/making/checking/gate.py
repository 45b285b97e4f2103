"""The gate: evaluates all checks of a version that is computed, before anything of it is written.

The invariant: what a check finds is what it would find in the version: the rows of its stage after
the step, or those of before if no step reaches it; and a version that does not pass leaves nothing
behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from deltaproduce.engines.marks import DELETED_KEYS, UPDATED_KEYS
from deltaproduce.errors import NotFoundError
from deltaproduce.model.checks.definitions import Check, RowCheck, RowsLimit, ShareLimit
from deltaproduce.model.checks.results import CheckResult
from deltaproduce.model.checks.verdicts import Evidence, is_broken, refuse, verdict
from deltaproduce.model.layouts import Layout
from deltaproduce.operations.making.checking import samples
from deltaproduce.operations.making.checking.evaluation import Evaluation, recorded
from deltaproduce.operations.making.checking.origins import Origins
from deltaproduce.operations.making.version_job import VersionJob
from deltaproduce.operations.step.writes import StepResult
from deltaproduce.storage.figures import NO_TABLES


@dataclass(frozen=True, slots=True)
class Gate:
    """The checks of a version that is computed.

    Attributes:
        work: what it is made from.
        results: the outcomes of the stages that it touches.
        evaluation: evaluates checks over versions that exist.
    """

    work: VersionJob
    results: Mapping[str, StepResult]
    evaluation: Evaluation

    def passed(self) -> tuple[CheckResult, ...]:
        """Return what the checks find.

        Raises:
            ChecksFailedError: the version may not be published.
        """
        checks = self.work.context.graph.checks
        results = tuple(map(self._result, checks))
        if any(one.failed for one in results):
            refuse(tuple(map(self._with_origins, checks, results)), self.work.refusal)
        return results

    def _with_origins(self, check: Check, result: CheckResult) -> CheckResult:
        """Return the result of a broken check with the rows of the batch that it comes from."""
        is_new = result.failed and self.work.restored is None
        if not is_new or not isinstance(check, RowCheck):
            return result
        origins = Origins(self.work.context.graph, self.results)
        return replace(result, given=origins.of(check))

    def _result(self, check: Check) -> CheckResult:
        evidence = self._evidence(check)
        before = is_broken(check, evidence) and self._is_broken_before(check)
        return verdict(check, evidence, broken_before=before)

    def _evidence(self, check: Check) -> Evidence:
        restored = self.work.restored
        match check:
            case RowCheck() if restored is not None:
                return self.evaluation.evidence(check, restored)
            case RowCheck():
                return self._rows_of(check)
            case ShareLimit():
                return self._share(check)
            case RowsLimit():
                return Evidence(self._count(check.stage))

    def _rows_of(self, check: RowCheck) -> Evidence:
        """Return what a check finds after the step of its stage."""
        result, head = self.results.get(check.table), self.work.head
        stage = self.evaluation.graph.stage(check.table)
        rows = self._count(check.table)
        if not rows:
            return Evidence(0)
        stored = partial(self.evaluation.reader.content, head, stage)
        if result is not None:
            return Evidence(rows, sample=samples.of_step(result.comparison, stored))
        known = recorded(check, head)
        if known is not None and known.rows == rows and known.sample:
            return Evidence(rows, sample=known.sample)
        return Evidence(rows, sample=samples.of_stored(stage, stored()))

    def _share(self, check: ShareLimit) -> Evidence:
        """Return how many keys the version deletes or changes; none if the limit is not of it."""
        result = self.results.get(check.stage)
        if result is None or not self.work.limits_shares or self._is_redefined(check.stage):
            return Evidence(0)
        counts = result.comparison.counts
        is_deleted = check.what == "deleted"
        keys = counts.keys_deleted if is_deleted else counts.keys_updated
        evidence = Evidence(keys, self._keys_before(result))
        if not is_broken(check, evidence):
            return evidence
        which = DELETED_KEYS if is_deleted else UPDATED_KEYS
        return Evidence(keys, evidence.before, samples.of_keys(result.comparison, which))

    def _is_redefined(self, stage: str) -> bool:
        """Return whether the version makes a stage again by its definition."""
        return any(step.redefined for step in self.work.steps if step.stage.name == stage)

    def _keys_before(self, result: StepResult) -> int:
        """Return the number of keys that a stage had; reads all keys if no version recorded it."""
        head, stage = self.work.head, result.stage
        last = head.stages.get(stage.name, NO_TABLES)
        if result.comparison.complete:
            return result.comparison.counts.keys_before
        if last.keys is not None:
            return last.keys
        stored = self.evaluation.reader.content(head, stage)
        if stored is None:
            return 0
        key = Layout.of(stage).key
        rows = stored.narrowed(key).rows()
        engine = self.evaluation.engines.of(rows)
        count: int = engine.computed(engine.distinct(rows, key))[1]
        return count

    def _count(self, stage: str) -> int:
        """Return how many rows a stage has in the version."""
        if self.work.restored is not None:
            return self.work.restored.stages.get(stage, NO_TABLES).rows
        last, result = self.work.head.stages.get(stage, NO_TABLES), self.results.get(stage)
        return last.rows if result is None else result.size(last)[0]

    def _is_broken_before(self, check: Check) -> bool:
        """Return whether the head breaks a check, also one that it was not made with."""
        head = self.work.head
        if not head.number:
            return False
        match check:
            case RowCheck():
                try:
                    return check.is_broken(self.evaluation.rows(check, head))
                except NotFoundError:  # its stages had other columns
                    return False
            case RowsLimit():
                return check.is_broken(head.stages.get(check.stage, NO_TABLES).rows)
            case ShareLimit():
                return False
