"""Salvage: finds the rows that remain of damaged stages, and decides the repair of each.

The invariant: rows come from the damaged version, either from its own tables or from its updates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.engine import Rows
from deltaproduce.errors import CorruptStoreError
from deltaproduce.model.graph import Graph, Source, Stage
from deltaproduce.model.layouts import (
    Layout,
)
from deltaproduce.operations.step.expiry import remembered
from deltaproduce.operations.verifying.findings import Finding, RepairAction
from deltaproduce.reading.readers import StageReader
from deltaproduce.storage.stored import Stored
from deltaproduce.storage.versions import Version, has_tables, stage_at, updates_known_since

ROW_BYTES: Final = 100
"""The assumed size of a row, in bytes, if it is unknown."""


@dataclass(frozen=True, slots=True)
class Damage:
    """The rows that remain of a store's damaged stages, as far as its tables show.

    Attributes:
        versions: all versions of the store, oldest first; the newest is damaged.
    """

    versions: Sequence[Version]
    reader: StageReader
    engines: Engines

    @property
    def head(self) -> Version:
        """The damaged version."""
        return self.versions[-1]

    def content(self, stage: Stage) -> Stored | None:
        """Return the rows of a stage's content; None if there are none."""
        return self.reader.content(self.head, stage)

    def folded(self, stage: Stage) -> Stored | None:
        """Return a stage's rows folded from its updates, without source keys; None if empty."""
        rows = self._fold(stage)
        if rows is None:
            return None
        figures, then = self.head.stages[stage.name], stage_at(self.head, stage)
        return Stored(
            rows,
            Layout.of(then).content,
            None,
            max(figures.rows, 1),
            figures.row_bytes or ROW_BYTES,
            self.engines,
        )

    def actions(
        self, graph: Graph, findings: Iterable[Finding], given: Collection[str]
    ) -> dict[str, RepairAction]:
        """Return the repair of each damaged stage; one Spark job for a source that has lost rows.

        Args:
            findings: the damage of the version.
            given: the sources for which all rows are given.

        Raises:
            CorruptStoreError: rows of a source are lost, and not given.
        """
        by_stage: dict[str, list[Finding]] = {}
        for finding in findings:
            by_stage.setdefault(finding.stage, []).append(finding)
        actions = {
            stage.name: RepairAction.of(
                by_stage[stage.name],
                runs=self.head.stages[stage.name].base.runs > 0,
                is_source=not stage.feeders,
                by_tasks=stage.kind.tasks.make_rows,
            )
            for stage in graph.stages
            if stage.name in by_stage
        }
        settled = {
            source.name: self._action(source, actions[source.name], is_given=source.name in given)
            for source in graph.sources
            if source.name in actions
        }
        return {**actions, **settled, **self._by_tasks(graph, actions)}

    def _by_tasks(
        self, graph: Graph, actions: Mapping[str, RepairAction]
    ) -> dict[str, RepairAction]:
        """Return the repairs of damaged stages whose rows tasks make, and of their records.

        If the rows of either are lost, both begin again: then all tasks are missing, and the next
        run makes them.
        """
        actions_of_tasks = {
            stage.name: self._of_tasks(stage, actions[stage.name])
            for stage in graph.stages
            if stage.kind.tasks.make_rows and stage.name in actions
        }
        lost = {
            graph.stage(n).owner for n, action in actions_of_tasks.items() if action.rows == "none"
        }
        rebuilds = {
            stage.name: RepairAction.rebuild(actions_of_tasks.get(stage.name))
            for stage in graph.stages
            if stage.kind.tasks.make_rows
            and stage.owner in lost
            and has_tables(self.head, stage.name)
        }
        return {**actions_of_tasks, **rebuilds}

    def _of_tasks(self, stage: Stage, action: RepairAction) -> RepairAction:
        """Return the repair of a stage whose rows tasks make; its updates may have the rows."""
        if action.rows != "updates" or (action.before == "updates" and self._is_whole(stage)):
            return action
        return RepairAction.rebuild(action.without_updates())

    def _action(self, source: Source, action: RepairAction, *, is_given: bool) -> RepairAction:
        """Return the repair of a source, which may have lost rows that its updates have.

        Raises:
            CorruptStoreError: the updates do not have the rows, and they are not given.
        """
        if action.rows != "updates" or (action.before == "updates" and self._is_whole(source)):
            return action
        if not is_given:
            table = f"{source.name}/content"
            raise CorruptStoreError(
                f"table {table!r} has lost rows, and the updates do not have all of them either. "
                f"Give them again, all of them: store.load({{{source.name!r}: rows}})",
                table=table,
            )
        return action.without_updates()

    def _fold(self, stage: Stage) -> Rows | None:
        then = stage_at(self.head, stage)
        since, _ = updates_known_since(self.versions, stage.name)
        updates = self.reader.updates(self.head, then, since - 1)
        if updates is None:
            return None
        updates = remembered(updates, then, self.head.windows, self.engines.time_zone)
        folded: Rows = self.engines.of(updates).folded(updates, Layout.of(then))
        return folded

    def _is_whole(self, stage: Stage) -> bool:
        """Return whether a stage's updates fold to the number of rows that the version records."""
        _, complete = updates_known_since(self.versions, stage.name)
        if not complete:
            return False
        rows = self._fold(stage)
        count = 0 if rows is None else self.engines.of(rows).computed(rows)[1]
        return count == self.head.stages[stage.name].rows
