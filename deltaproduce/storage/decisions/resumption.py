"""Resumption: decides what a later attempt with the same task may keep of one that stopped.

Pure, from the histories of tables. Each commit of an attempt that may be carried on records what
the attempt was given, and its part in the stage (`attempts.AttemptPart`); the attempt writes the
stages one after the other, feeders first. So the stages whose tables are complete are the first of
those that it changes, and their functions need not, and must not, run again for the same version
(S4). The invariant: the kept outcomes of several stages come from one run of each function, and
each was made from the kept outcomes of its feeders.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from deltaproduce.storage.attempts import Attempt, AttemptPart, Commit
from deltaproduce.storage.decisions.recovery import current, landed
from deltaproduce.storage.figures import StageFigures
from deltaproduce.storage.versions import Version


@dataclass(frozen=True, slots=True)
class CompletedStage:
    """A stage whose tables an earlier attempt has completed.

    Attributes:
        figures: its figures in the version.
        delta_versions: the delta versions of that attempt's commits, by kind.
    """

    figures: StageFigures
    delta_versions: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Resumption:
    """The kept outcome of an earlier attempt.

    Attributes:
        kept: the stages that it has completed, feeders first.
        changed: all stages that it was to change.
    """

    kept: Mapping[str, CompletedStage]
    changed: frozenset[str]

    def settled(self, producers: Mapping[str, Collection[str]]) -> frozenset[str]:
        """Return the stages whose functions must not run again.

        They are complete, or were found not to change, and the same holds for their feeders.

        Args:
            producers: the stages to check, feeders first -> their feeders among these.
        """
        stages: set[str] = set()
        for stage, feeders in producers.items():
            known = stage in self.kept or (self.kept and stage not in self.changed)
            if known and stages.issuperset(feeders):
                stages.add(stage)
        return frozenset(stages)


NOTHING_KEPT = Resumption({}, frozenset())
"""There was no such attempt, or it has completed nothing."""


def resumption(
    head: Version, given: str, histories: Mapping[str, Mapping[str, Sequence[Commit]]]
) -> Resumption:
    """Return what may be kept of attempts at the version after ``head`` with the same inputs.

    Args:
        histories: stages, feeders first -> kinds of their tables -> their last commits, newest
            first.
    """
    kept: dict[str, CompletedStage] = {}
    changed: Sequence[str] = ()
    for stage, tables in histories.items():
        part = _part(head, given, tables)
        if part is None:
            continue
        commits = {
            kind: _completed(head, given, stage, kind, tables.get(kind, ())) for kind in part.kinds
        }
        delta_versions = {kind: commit[0] for kind, commit in commits.items() if commit is not None}
        attempts = {commit[1] for commit in commits.values() if commit is not None}
        if (
            len(delta_versions) < len(part.kinds)
            or len(attempts) > 1
            or part.stages[: len(kept) + 1] != (*kept, stage)
            or part.before != {name: dict(known.delta_versions) for name, known in kept.items()}
        ):
            break
        kept[stage] = CompletedStage(part.figures.at(delta_versions), delta_versions)
        changed = part.stages
    return Resumption(kept, frozenset(changed)) if kept else NOTHING_KEPT


def _part(head: Version, given: str, tables: Mapping[str, Sequence[Commit]]) -> AttemptPart | None:
    """Return the part of the newest such attempt in a stage; None if there is none."""
    for commits in tables.values():
        attempt = _attempt(head, given, commits)
        if attempt is not None:
            return attempt.part
    return None


def _attempt(head: Version, given: str, commits: Sequence[Commit]) -> Attempt | None:
    attempts = (commit.attempt for commit in commits if commit.attempt is not None)
    return next((a for a in attempts if (a.given, a.version) == (given, head.number + 1)), None)


def _completed(
    head: Version, given: str, stage: str, kind: str, commits: Sequence[Commit]
) -> tuple[int, str] | None:
    """Return the delta version that such an attempt made, and its id; None if it is not current."""
    attempt = _attempt(head, given, commits)
    if attempt is None:
        return None
    commit = landed(attempt, head.pinned(stage, kind), commits)
    newest = None if commit is None else current(commit.delta_version, commits)
    return None if newest is None else (newest, attempt.id)
