"""Repairs: how the tables of a stage are put right, and which updates that makes.

What is wrong with a stage decides what is done (`findings.RepairAction`): its rows stay, are
written anew, or are made again from what its feeders, or its own updates, have. They are compared
with the rows that readers last had, as far as anybody knows, and the difference is the stage's
updates, as in any version. The invariant: afterwards all updates together come to the content,
those of older versions too unless they had to be begun anew, which the version says
(`StageFigures.past`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from deltaproduce.engines.comparisons import Comparison
from deltaproduce.errors import CorruptStoreError
from deltaproduce.model.graph import Graph, Source, Stage
from deltaproduce.model.layouts import RUNS, UPDATES, content_columns, sources_of
from deltaproduce.operations.findings import Finding, RepairAction
from deltaproduce.operations.step.edits import Read, emptied, updates_edit
from deltaproduce.operations.step.incremental import Found, difference
from deltaproduce.operations.step.plan import Step, TableType
from deltaproduce.operations.step.writes import Edits, StepResult, Write
from deltaproduce.reading.folds import folded
from deltaproduce.reading.readers import Reader
from deltaproduce.storage.edits import Edit, Restore
from deltaproduce.storage.figures import Past, StageFigures
from deltaproduce.storage.stored import Overlay, Stored
from deltaproduce.storage.versions import Version, has_tables, stage_at, told_since
from deltaproduce.types.columns import ORDINAL, POSITION

_ROW_BYTES = 100  # where nobody knows better


class Repair:
    """What is known of a store's damaged stages, while one version puts them right.

    Args:
        versions: all of the store, oldest first; the newest is repaired.
        mends: the damaged stages -> what is done about them.
    """

    def __init__(
        self,
        graph: Graph,
        versions: Sequence[Version],
        mends: Mapping[str, RepairAction],
        reader: Reader,
        spark: SparkSession,
    ) -> None:
        self.mends = dict(mends)
        self._graph = graph
        self._versions = versions
        self._head = versions[-1]
        self._reader = reader
        self._spark = spark
        self._begun: dict[str, Comparison] = {}

    @staticmethod
    def of(
        graph: Graph,
        versions: Sequence[Version],
        findings: Iterable[Finding],
        given: Collection[str],
        reader: Reader,
        spark: SparkSession,
    ) -> Repair:
        """What is to be done about some findings; one Spark job for a source that has lost rows.

        Args:
            given: the sources whose rows are all given.

        Raises:
            CorruptStoreError: rows of a source are lost, and not given.
        """
        damage: dict[str, list[Finding]] = {}
        for finding in findings:
            damage.setdefault(finding.stage, []).append(finding)
        mends = {
            stage.name: RepairAction.of(
                damage[stage.name],
                runs=versions[-1].stages[stage.name].base.runs > 0,
                is_source=isinstance(stage, Source),
            )
            for stage in graph.stages
            if stage.name in damage
        }
        repair = Repair(graph, versions, mends, reader, spark)
        for source in graph.sources:
            if source.name in mends:
                repair._settle(source, is_given=source.name in given)
        return repair

    @property
    def produced(self) -> frozenset[str]:
        """The stages to be produced in full: damaged, or read from one of unknown changes."""
        damaged = {name for name, mend in self.mends.items() if mend.rows == "feeders"}
        unknown = [name for name, mend in self.mends.items() if mend.before == "nothing"]
        readers = {reader.name for name in unknown for reader in self._graph.readers_of(name)}
        return frozenset(damaged | readers)

    def steps(self, planned: Sequence[Step]) -> tuple[Step, ...]:
        """The steps of a plan, and those that are due because of the damage, feeders first."""
        known = {step.stage.name: step for step in planned}
        for stage in self._graph.stages:
            reached = [feeder.name for feeder in stage.feeders if feeder.name in known]
            if stage.name in self.mends:
                found = known.get(stage.name, Step(stage, "incremental", ""))
                known[stage.name] = replace(found, reason="damaged")
            elif reached and stage.name not in known and has_tables(self._head, stage.name):
                known[stage.name] = Step(
                    stage, "incremental", f"reached through {', '.join(reached)}"
                )
        return tuple(known[stage.name] for stage in self._graph.stages if stage.name in known)

    def before(self, stage: Stage) -> Stored | None:
        """The rows that readers last had; None if there were none, or nobody knows."""
        match self.mends[stage.name].before:
            case "content":
                return self._reader.content(self._head, stage)
            case "updates":
                return self._folded(stage)
            case _:
                return None

    def found(
        self, stage: Stage, produced: Callable[[Stored | None], Found | None], *, is_moved: bool
    ) -> Found:
        """What is found out about a stage whose rows are put right.

        Args:
            produced: given the rows before, makes those that take their place, from what the
                feeders have, or from what is given for a source; None if there are none.
            is_moved: what they are made from is not the same any more.
        """
        mend, before = self.mends[stage.name], self.before(stage)
        given_out, after = self._head.stages[stage.name].numbering.surrogates, None
        made = produced(before) if is_moved or mend.rows == "feeders" else None
        if mend.rows != "feeders" and not is_moved:
            after = self._folded(stage) if mend.rows == "updates" else self._stored(stage)
        found = made or Found(difference(stage, before, after, None, self._spark), given_out)
        if mend.begins:
            rows = self.after(found.comparison)
            self._begun[stage.name] = difference(stage, None, rows, None, self._spark)
        return found

    def after(self, comparison: Comparison) -> Stored:
        """The rows that a damaged stage has when it is put right."""
        counts, columns = comparison.counts, comparison.content
        seen = counts.rows_before + counts.rows_after
        row_bytes = counts.bytes // seen if seen else _ROW_BYTES
        rows = comparison.content_after(None)
        return Stored(rows, columns, None, counts.rows_after, row_bytes, self._spark)

    def write(self, result: StepResult, head: Version, table_type: TableType) -> Mended:
        """How a damaged stage is written: whole, unless its rows stay as they are."""
        name = result.stage.name
        mend, last = self.mends[name], head.stages[name]
        overlay = None
        if mend.rows != "kept" or result.comparison.counts.pairs_changed:
            result = replace(result, anew=True)
        else:
            overlay = self._reader.overlay(head, result.stage)
        write = Write.of(result, table_type, last, overlay)
        return Mended(result, last, write, mend, self._begun.get(name))

    def _settle(self, source: Source, *, is_given: bool) -> None:
        """Find out whether the rows of a source that has lost some are in its updates."""
        mend = self.mends[source.name]
        if mend.rows != "updates" or (mend.before == "updates" and self._is_whole(source)):
            return
        if not is_given:
            table = f"{source.name}/content"
            raise CorruptStoreError(
                f"table {table!r} has lost rows, and the updates do not have all of them either. "
                f"Give them again, all of them: store.load({{{source.name!r}: rows}})",
                table=table,
            )
        self.mends[source.name] = mend.without_updates()

    def _stored(self, stage: Stage) -> Stored | None:
        return self._reader.content(self._head, stage)

    def _folded(self, stage: Stage) -> Stored | None:
        """The rows that a stage's updates come to, of no source key; None if there are none."""
        rows = self._fold(stage)
        if rows is None:
            return None
        figures, then = self._head.stages[stage.name], stage_at(self._head, stage)
        columns = content_columns(then.schema, sources_of(then))
        given = rows.withColumnRenamed(POSITION, ORDINAL)
        for source in sources_of(then):
            given = given.withColumn(source.name, f.lit(None).cast(source.data_type))
        return Stored(
            given, columns, None, max(figures.rows, 1), figures.row_bytes or _ROW_BYTES, self._spark
        )

    def _fold(self, stage: Stage) -> DataFrame | None:
        then = stage_at(self._head, stage)
        since, _ = told_since(self._versions, stage.name)
        updates = self._reader.updates(self._head, then, since - 1)
        return None if updates is None else folded(updates, then.schema)

    def _is_whole(self, stage: Stage) -> bool:
        """Whether a stage's updates come to as many rows as the version says that it has."""
        _, complete = told_since(self._versions, stage.name)
        if not complete:
            return False
        rows = self._fold(stage)
        return (0 if rows is None else rows.count()) == self._head.stages[stage.name].rows


@dataclass(frozen=True, slots=True)
class Mended:
    """What is done to the tables of a damaged stage (a `StageWrite`).

    Attributes:
        last: the stage's figures in the head.
        begun: all its rows, as new, if its updates begin with them.
    """

    result: StepResult
    last: StageFigures
    write: Write
    mend: RepairAction
    begun: Comparison | None

    @property
    def in_place(self) -> bool:
        """See `StageWrite.in_place`."""
        return True

    def edits(self, number: int, before: Mapping[str, Read]) -> Edits:
        """See `StageWrite.edits`; tables that others have only added commits to are set back."""
        edits: dict[str, Edit | Restore] = dict(self.write.edits(number, before))
        if self.begun is not None:
            begun = updates_edit(self.begun, number, exists=False)
            assert begun is not None  # there is none only for a table that is there
            edits[UPDATES] = begun
        if self.mend.runs_lost:
            edits[RUNS] = emptied(self.result.stage, RUNS)
        for kind in self.mend.set_back:
            edits.setdefault(kind, Restore(self.last.delta_versions[kind]))
        return edits

    def overlay_after(self) -> Overlay | None:
        """See `StageWrite.overlay_after`."""
        return self.write.overlay_after()

    def figures(self, number: int, edits: Edits) -> StageFigures:
        """See `StageWrite.figures`."""
        last = self.last
        begun = (number, -1) if self.begun is not None else (last.past.begun, last.past.begun_at)
        return replace(
            self.write.figures(number, edits),
            origin=last.origin,
            past=Past(*begun, {**last.past.remade, **dict.fromkeys(self.mend.remade, number)}),
        )
