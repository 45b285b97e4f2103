"""Plans: which stages an update has to look at, how, and why.

Pure: from the graph, the head and the definitions' fingerprints, before anything is read. The
invariant: a stage is produced in full only for a reason that the plan states (a new stage, a
changed function, a refresh that was asked for); everything else is incremental.

It stands apart so that the decision can be tested, and shown, without Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from deltaproduce import limits
from deltaproduce.errors import DefinitionError
from deltaproduce.fingerprints import Fingerprint
from deltaproduce.pipeline import Graph, Producer, Stage
from deltaproduce.versions import StageFigures, Version

TableType = Literal["copy_on_write", "merge_on_read"]
"""How a stage's content and key mappings take a step, in Hudi's words.

``copy_on_write``: changed rows are replaced, so the tables are plain at every version.
``merge_on_read``: changed rows are added to a table of runs, and resolved when read.
"""

Writing = Literal["nothing", "run", "replace", "rewrite"]
"""Add a run; replace the pairs that differ; or write the tables anew, with all runs in them."""


Compaction = Literal["fold", "feed"]
"""Write content and key mappings with their runs; put the small files of updates together."""


@dataclass(frozen=True, slots=True)
class Step:
    """One stage that an update may touch.

    Attributes:
        how: ``changes`` (a source that is given some), ``incremental`` (if its feeder's keys
            turn out to have changed) or ``full``.
        reason: why, in words.
    """

    stage: Stage
    how: Literal["changes", "incremental", "full"]
    reason: str


def plan(
    graph: Graph,
    head: Version,
    definitions: Mapping[str, Fingerprint],
    *,
    given: Collection[str] = (),
    refreshed: Collection[str] = (),
) -> tuple[Step, ...]:
    """The steps of an update, feeders first.

    Args:
        definitions: the fingerprints of the graph's stages.
        given: the sources that changes are given for.
        refreshed: the stages to be produced in full because someone asked.

    Raises:
        DefinitionError: the columns or feeders of a stage with tables are not those of its tables.
    """
    for name, found in definitions.items():
        _check_layout(name, found, head)
    steps: dict[str, Step] = {}
    for stage in graph.stages:
        if isinstance(stage, Producer):
            step = _producer_step(stage, head, definitions[stage.name], steps, refreshed)
        elif stage.name in given:
            step = Step(stage, "changes", "changes given")
        else:
            step = None
        if step is not None:
            steps[stage.name] = step
    return tuple(steps.values())


def _producer_step(
    stage: Producer,
    head: Version,
    definition: Fingerprint,
    steps: Mapping[str, Step],
    refreshed: Collection[str],
) -> Step | None:
    reached = [feeder.name for feeder in stage.feeders if feeder.name in steps]
    if not has_tables(head, stage.name):
        fed = reached or [x.name for x in stage.feeders if has_tables(head, x.name)]
        return Step(stage, "full", "first version of this stage") if fed else None
    if stage.name in refreshed:
        return Step(stage, "full", "refresh asked for")
    if head.definitions[stage.name].function != definition.function:
        return Step(stage, "full", "its function changed")
    if reached:
        return Step(stage, "incremental", f"reached through {', '.join(reached)}")
    return None


def writing(
    table_type: TableType,
    *,
    complete: bool,
    rows: int,
    row_bytes: int,
    pairs_changed: int,
    pairs_replaced: int,
    run_rows: int,
    overlay_rows: int,
    overlay_runs: int,
    added: int,
) -> Writing:
    """How a stage's content and key mappings take a step.

    Args:
        complete: the step knows all rows of the content.
        rows: of the content after the step.
        row_bytes: about how many bytes one has.
        pairs_changed: pairs of source key and key whose rows differ.
        pairs_replaced: those that had rows before.
        run_rows: rows of the pairs that differ.
        overlay_rows: rows of the runs that are not in the tables yet.
        overlay_runs: how many runs that are.
        added: commits that added to the content since its rows were last put in order.
    """
    if not pairs_changed:
        return "nothing"
    if complete or limits.is_small(rows, row_bytes):
        return "rewrite"
    if table_type == "merge_on_read":
        fits = limits.fits_overlay(run_rows, overlay_rows, overlay_runs, row_bytes)
        return "run" if fits else "rewrite"
    if overlay_runs or added >= limits.COMPACTION_COMMITS:
        return "rewrite"
    return "rewrite" if pairs_replaced and pairs_changed > limits.SEEK_KEYS else "replace"


def compactions(figures: StageFigures | None, *, at_once: bool = False) -> Collection[Compaction]:
    """What a stage's tables need, beside the versions.

    Args:
        at_once: as soon as there is anything to be put in order.
    """
    found: list[Compaction] = []
    if figures is None:
        return found
    if figures.runs and (at_once or limits.is_full(figures.run_rows, figures.runs)):
        found.append("fold")
    added = figures.added.get("updates", 0)
    if added and (at_once or added % limits.COMPACTION_COMMITS == 0):
        found.append("feed")
    return found


def has_tables(version: Version, stage: str) -> bool:
    """Whether the stage has been produced, or the source been given rows, by that version."""
    return version.delta_version(stage, "content") is not None


def _check_layout(name: str, found: Fingerprint, head: Version) -> None:
    if has_tables(head, name) and head.definitions[name].layout != found.layout:
        raise DefinitionError(
            f"stage {name!r} has other columns or feeders than its tables of version "
            f"{head.number}: give it a new name, or keep the pipeline in a new location",
            stage=name,
        )
