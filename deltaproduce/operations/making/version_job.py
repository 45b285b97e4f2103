"""Work: the value that one version is made from.

An update, a repair and a rollback are each a `VersionJob`. It says which stages are processed, what
each step finds, and how that is written. The executor does what they share: the order of effects.
The
invariant: nothing here is written, and a work does not change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from deltaproduce.described.content import text_of
from deltaproduce.described.descriptor import Description
from deltaproduce.engines.choice import Engines
from deltaproduce.engines.marks import ROWS_OF_CHANGED_PAIRS
from deltaproduce.model.checks.definitions import Refusal
from deltaproduce.model.clustering import Clustering
from deltaproduce.model.fingerprints import Fingerprint
from deltaproduce.model.graph import Graph
from deltaproduce.operations.making.options import StoreOptions
from deltaproduce.operations.step.expiry import Retentions
from deltaproduce.operations.step.filing import Filing, check_partitions
from deltaproduce.operations.step.plan import (
    Causes,
    Step,
    changes_storage,
    plan,
)
from deltaproduce.operations.step.rezoning import Rezoned
from deltaproduce.operations.step.windowing import Windows, due_by_date
from deltaproduce.operations.step.writes import StageWrite, StepResult, StepWrite
from deltaproduce.reading.readers import StageReader
from deltaproduce.reading.store_zone import StoreZone
from deltaproduce.storage.attempts import Attempt
from deltaproduce.storage.decisions.resumption import NOTHING_KEPT, Resumption
from deltaproduce.storage.figures import StageFigures
from deltaproduce.storage.stored import Overlay
from deltaproduce.storage.versions import Version
from deltaproduce.storage.window_states import WindowState
from deltaproduce.times.zones import OF_UTC


@dataclass(frozen=True, slots=True)
class StoreContext:
    """The means by which a store makes its versions.

    Attributes:
        definitions: the fingerprints of the graph's stages.
        options: how the store was opened.
        reader: reads the tables of versions.
        windows: the windows of the graph.
        clusterings: the partitions that cluster a stage under windows, by stage.
        descriptions: how files keep the content of stages whose definitions describe it.
        retentions: the sources that do not keep all rows.
        zone: the time zone of the store.
    """

    graph: Graph
    definitions: Mapping[str, Fingerprint]
    reader: StageReader
    engines: Engines
    options: StoreOptions
    windows: Windows
    clusterings: Mapping[str, Clustering]
    descriptions: Mapping[str, Description]
    retentions: Retentions
    zone: StoreZone

    @property
    def time_zone(self) -> str:
        """The time zone in which a version is computed."""
        return self.engines.time_zone

    def rezoned(self, head: Version) -> Rezoned:
        """Return what the head has that another time zone changes."""
        before = self.zone.recorded(head) if head.number else self.time_zone
        days = before if head.time_zone is not None or not head.number else OF_UTC
        return Rezoned(before, days, self.time_zone)

    def plan(
        self,
        head: Version,
        causes: Causes,
        windows: WindowState,
        *,
        advances: bool,
    ) -> tuple[Step, ...]:
        """Return what would be done, and why; see `plan.plan`.

        Args:
            causes: those that the caller has; the store adds its own.
            windows: the state that windows will depend on.
            advances: whether limited windows move, too.

        Raises:
            DefinitionError: also if the plan needs forgotten rows; see `Retentions`.
        """
        causes = replace(
            causes,
            due={
                **self.windows.due(head, windows, advances=advances),
                **due_by_date(self.graph, head, windows),
            },
            expiring=self.retentions.due(head, windows),
            stored={name: text_of(description) for name, description in self.descriptions.items()},
            rezoned=self.rezoned(head).reasons(self.graph),
            is_version=windows != head.windows,
        )
        steps = plan(self.graph, head, self.definitions, causes, self.options.policy)
        self.retentions.check(self.graph, head, steps)
        return steps

    def write(self, result: StepResult, last: StageFigures, overlay: Overlay | None) -> StepWrite:
        """Return how a step is written; see `StepWrite.of`."""
        name, table_type = result.stage.name, self.options.table_type
        marks = table_type == "copy_on_write" and self.reader.marks_rows(name, last)
        return StepWrite.of(result, table_type, last, overlay, self.filing(name), marks=marks)

    def check_partitions(self, result: StepResult, head: Version) -> None:
        """Refuse rows that fit no partition, before anything is written.

        Raises:
            InvalidChangesError: for rows of a source; with `column` and `keys`.
            ProducerError: for rows of another stage.
        """
        stage, description = result.stage, self.descriptions.get(result.stage.name)
        if description is None or not description.partitions:
            return
        comparison = result.comparison
        if changes_storage(stage.name, head, text_of(description)) and not result.rebuilt:
            content = self.reader.content(head, stage)
            rows = comparison.content_after(None if content is None else content.rows)
        else:
            rows = comparison.select(comparison.layout.content, ROWS_OF_CHANGED_PAIRS)
        check_partitions(rows, stage, description)

    def filing(self, stage: str) -> Filing:
        """Return how files keep a stage's content."""
        return Filing(self.clusterings.get(stage), self.descriptions.get(stage))


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionJob(ABC):
    """The value that one version is made from.

    Attributes:
        head: the version before it, with its tables as compactions have left them.
        steps: the stages to process, feeders first.
        attempt: the attempt that publishes it.
        update_id: a name that the version is found by.
        kept: what an earlier attempt at the same version has stored.
    """

    context: StoreContext
    operation: str
    head: Version
    steps: tuple[Step, ...]
    attempt: Attempt
    update_id: str | None = None
    kept: Resumption = NOTHING_KEPT

    @property
    def trusts_tables(self) -> bool:
        """Whether the work is refused if someone else has written to, or removed, the tables."""
        return True

    @property
    def refusal(self) -> Refusal:
        """Which broken checks keep it from being published."""
        return "broken"

    @property
    def restored(self) -> Version | None:
        """The earlier version whose rows it has; None if it has others."""
        return None

    @property
    def limits_shares(self) -> bool:
        """Whether the limits of what a version may delete or change are of it."""
        return True

    @property
    @abstractmethod
    def definitions(self) -> Mapping[str, Fingerprint]:
        """The definitions of the tables afterwards."""

    def carrying_on(self, kept: Resumption) -> Self:
        """Return the same work, carrying on from what an earlier attempt has stored."""
        return replace(self, kept=kept)

    @abstractmethod
    def result(self, step: Step, results: Mapping[str, StepResult]) -> StepResult | None:
        """Return the outcome of one stage's step; None if nothing reaches the step.

        Args:
            results: the outcomes of the steps before.
        """

    def name(self, results: Mapping[str, StepResult]) -> str | None:
        """Return the name that the version is found by, if it gets one."""
        del results
        return self.update_id

    @abstractmethod
    def results_to_publish(
        self, results: Mapping[str, StepResult]
    ) -> Mapping[str, StepResult] | None:
        """Return the results to publish; None if no version is needed."""

    @abstractmethod
    def write(self, result: StepResult, head: Version) -> StageWrite:
        """Return how a result is written.

        Args:
            head: the version before, in the state that no compaction will change.
        """

    def before(self, head: Version, results: Mapping[str, StepResult]) -> Version:
        """Return the head that the version continues, updated for stages without results."""
        del results
        return head
