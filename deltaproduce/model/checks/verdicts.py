"""Verdicts: what a check finds, from what is known of a version, and which of them refuse it.

Pure. The invariant: a version with a broken check of severity ``error`` is published only by a
`Refusal` that says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from deltaproduce.errors import ChecksFailedError
from deltaproduce.model.checks.definitions import Check, Refusal, RowCheck, RowsLimit, ShareLimit
from deltaproduce.model.checks.results import CheckResult

Sample: TypeAlias = tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a check in a version.

    Attributes:
        rows: the rows that break it; of a limit, the keys or rows that it is about.
        before: for a share, the number of keys that the stage had; 0 if the limit does not apply.
        sample: some of the rows.
    """

    rows: int
    before: int = 0
    sample: Sample = ()


def is_broken(check: Check, evidence: Evidence) -> bool:
    """Return whether a check is broken."""
    match check:
        case RowCheck() | RowsLimit():
            return check.is_broken(evidence.rows)
        case ShareLimit():
            return check.is_broken(evidence.rows, evidence.before)


def verdict(check: Check, evidence: Evidence, *, broken_before: bool) -> CheckResult:
    """Return the result of a check."""
    share = (
        f" ({evidence.before:,} before)"
        if isinstance(check, ShareLimit) and evidence.before
        else ""
    )
    return CheckResult(
        name=check.name,
        stage=check.stage,
        severity=check.severity,
        rows=evidence.rows,
        broken=is_broken(check, evidence),
        sample=evidence.sample,
        broken_before=broken_before,
        allows=f"{check.bound}{share}",
    )


def refuse(results: Sequence[CheckResult], refusal: Refusal) -> None:
    """Refuse a version that its checks do not let pass.

    Raises:
        ChecksFailedError: with `checks`.
    """
    failed = tuple(one for one in results if one.failed)
    counting = [one for one in failed if refusal == "broken" or not one.broken_before]
    if not counting or refusal == "never":
        return
    number = "a check fails" if len(failed) == 1 else f"{len(failed)} checks fail"
    said = "; ".join(one.sentence for one in failed)
    raise ChecksFailedError(f"{number}, so nothing is published: {said}", checks=failed)
