"""Resumption: what an attempt that stopped has left, and a later one with the same task may keep.

Pure, from the histories of tables. Each commit of an attempt that may be carried on says what the
attempt was given, and what it does to the stage (`versions.Part`); it writes the stages one after
the other, feeders first. So the stages whose tables are complete are a first part of those that it
changes, and the functions of these need not, and must not, be run again for the same version (S4).
The invariant: what is kept of several stages is what one run of each function has made, each from
what is kept of its feeders.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from deltaproduce.storage.attempts import Attempt, Commit, Part
from deltaproduce.storage.decisions.recovery import current, landed
from deltaproduce.storage.figures import StageFigures
from deltaproduce.storage.versions import Version


@dataclass(frozen=True, slots=True)
class Kept:
    """A stage whose tables an earlier attempt has completed.

    Attributes:
        figures: what the version says of it.
        delta_versions: what that attempt's commits became, by kind.
    """

    figures: StageFigures
    delta_versions: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Resumption:
    """What is kept of an earlier attempt.

    Attributes:
        kept: the stages that it has completed, feeders first.
        changed: all stages that it was to change.
    """

    kept: Mapping[str, Kept]
    changed: frozenset[str]

    def settled(self, producers: Mapping[str, Collection[str]]) -> frozenset[str]:
        """The stages whose functions must not be run again.

        They are complete, or were found not to change, and so were those that they are made from.

        Args:
            producers: those to be looked at, feeders first -> those of them that they read.
        """
        found: set[str] = set()
        for stage, feeders in producers.items():
            known = stage in self.kept or (self.kept and stage not in self.changed)
            if known and found.issuperset(feeders):
                found.add(stage)
        return frozenset(found)


NOTHING_KEPT = Resumption({}, frozenset())
"""There was no such attempt, or it has completed nothing."""


def resumption(
    head: Version, given: str, histories: Mapping[str, Mapping[str, Sequence[Commit]]]
) -> Resumption:
    """What may be kept of attempts at the version after ``head`` that were given the same.

    Args:
        histories: stages, feeders first -> kinds of their tables -> their last commits, newest
            first.
    """
    kept: dict[str, Kept] = {}
    changed: Sequence[str] = ()
    for stage, tables in histories.items():
        part = _part(head, given, tables)
        if part is None:
            continue
        made = {kind: _made(head, given, stage, kind, tables.get(kind, ())) for kind in part.kinds}
        delta_versions = {kind: found[0] for kind, found in made.items() if found is not None}
        attempts = {found[1] for found in made.values() if found is not None}
        if (
            len(delta_versions) < len(part.kinds)
            or len(attempts) > 1
            or part.stages[: len(kept) + 1] != (*kept, stage)
            or part.before != {name: dict(known.delta_versions) for name, known in kept.items()}
        ):
            break
        kept[stage] = Kept(part.figures.at(delta_versions), delta_versions)
        changed = part.stages
    return Resumption(kept, frozenset(changed)) if kept else NOTHING_KEPT


def _part(head: Version, given: str, tables: Mapping[str, Sequence[Commit]]) -> Part | None:
    """What the newest such attempt says of a stage; None if there is none."""
    for commits in tables.values():
        attempt = _attempt(head, given, commits)
        if attempt is not None:
            return attempt.part
    return None


def _attempt(head: Version, given: str, commits: Sequence[Commit]) -> Attempt | None:
    attempts = (commit.attempt for commit in commits if commit.attempt is not None)
    return next((a for a in attempts if (a.given, a.version) == (given, head.number + 1)), None)


def _made(
    head: Version, given: str, stage: str, kind: str, commits: Sequence[Commit]
) -> tuple[int, str] | None:
    """What such an attempt has made of a table, and the attempt; None if it is not there now."""
    attempt = _attempt(head, given, commits)
    if attempt is None:
        return None
    commit = landed(attempt, head.pinned(stage, kind), commits)
    newest = None if commit is None else current(commit.delta_version, commits)
    return None if newest is None else (newest, attempt.id)
