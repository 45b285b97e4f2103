"""Work: what one version is made from, as a value.

An update, a repair and a rollback each are a `Work` of their own: it says which stages are looked
at, what each step finds out, and how that is written. What is the same for all, the order of
effects, is the executor's. The invariant: nothing here is written, and a work does not change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from deltaproduce.described.content import text_of
from deltaproduce.described.descriptor import Description
from deltaproduce.engines.choice import Engines
from deltaproduce.engines.marks import ROWS_OF_CHANGED_PAIRS
from deltaproduce.model.clustering import Clustering
from deltaproduce.model.fingerprints import Fingerprint
from deltaproduce.model.graph import Graph
from deltaproduce.operations.step.expiry import Retentions
from deltaproduce.operations.step.filing import Filing, check_partitions
from deltaproduce.operations.step.plan import (
    Policy,
    Step,
    TableType,
    is_stored_anew,
    plan,
)
from deltaproduce.operations.step.windowing import Windows
from deltaproduce.operations.step.writes import StageWrite, StepResult, Write
from deltaproduce.reading.readers import Reader
from deltaproduce.stages.kind import Arrival
from deltaproduce.storage.attempts import Attempt
from deltaproduce.storage.decisions.resumption import NOTHING_KEPT, Resumption
from deltaproduce.storage.figures import StageFigures
from deltaproduce.storage.stored import Overlay
from deltaproduce.storage.versions import Version
from deltaproduce.storage.window_states import WindowState


@dataclass(frozen=True, slots=True)
class Means:
    """What a store makes its versions with.

    Attributes:
        definitions: the fingerprints of the graph's stages.
        reader: reads what versions have.
        windows: those of the graph.
        clusterings: by which partitions stages are stored that windows are over.
        descriptions: how files keep the content of stages whose definitions say it.
        retentions: its sources that do not keep all rows.
    """

    graph: Graph
    definitions: Mapping[str, Fingerprint]
    reader: Reader
    engines: Engines
    table_type: TableType
    policy: Policy
    windows: Windows
    clusterings: Mapping[str, Clustering]
    descriptions: Mapping[str, Description]
    retentions: Retentions

    def plan(
        self,
        head: Version,
        now: datetime,
        *,
        given: Collection[str],
        snapshots: Collection[str],
        arrivals: Mapping[str, Arrival],
        refreshed: Collection[str],
        windows: WindowState,
        advances: bool = False,
        tasks: str | None = None,
    ) -> tuple[Step, ...]:
        """What would be done, and why; see `plan.plan`.

        Raises:
            DefinitionError: also if rows would be needed that are forgotten; see `Retentions`.
        """
        steps = plan(
            self.graph,
            head,
            self.definitions,
            given=given,
            snapshots=snapshots,
            arrived={name: arrival.reason for name, arrival in arrivals.items()},
            refreshed=refreshed,
            due=self.windows.due(head, windows, advances=advances),
            tasks=tasks,
            expiring=self.retentions.due(head, windows),
            stored={name: text_of(found) for name, found in self.descriptions.items()},
            policy=self.policy,
            now=now,
        )
        self.retentions.check(self.graph, head, steps)
        return steps

    def write(self, result: StepResult, last: StageFigures, overlay: Overlay | None) -> Write:
        """How a step is written; see `Write.of`."""
        return Write.of(result, self.table_type, last, overlay, self.filing(result.stage.name))

    def check_partitions(self, result: StepResult, head: Version) -> None:
        """Refuse rows that no partition can have, before anything is written.

        Raises:
            InvalidChangesError: of a source; with `column` and `keys`.
            ProducerError: of another stage.
        """
        stage, found = result.stage, self.descriptions.get(result.stage.name)
        if found is None or not found.partitions:
            return
        comparison = result.comparison
        if is_stored_anew(stage.name, head, text_of(found)) and not result.anew:
            content = self.reader.content(head, stage)
            rows = comparison.content_after(None if content is None else content.rows)
        else:
            rows = comparison.pick(comparison.layout.content, ROWS_OF_CHANGED_PAIRS)
        check_partitions(rows, stage, found)

    def filing(self, stage: str) -> Filing:
        """How files keep a stage's content."""
        return Filing(self.clusterings.get(stage), self.descriptions.get(stage))


@dataclass(frozen=True, slots=True, kw_only=True)
class Work(ABC):
    """What one version is made from.

    Attributes:
        head: the version before it, of the tables as compactions have left them.
        steps: the stages that are looked at, feeders first.
        attempt: the one that makes it.
        update_id: a name that the version is remembered by.
        kept: what an earlier attempt at the same has stored.
    """

    means: Means
    operation: str
    head: Version
    steps: tuple[Step, ...]
    attempt: Attempt
    update_id: str | None = None
    kept: Resumption = NOTHING_KEPT

    @property
    def trusts_tables(self) -> bool:
        """Whether it is refused where someone else has written to the tables, or removed them."""
        return True

    @property
    @abstractmethod
    def definitions(self) -> Mapping[str, Fingerprint]:
        """By which definitions the tables are made afterwards."""

    def carrying_on(self, kept: Resumption) -> Self:
        """The same, with what is stored of it."""
        return replace(self, kept=kept)

    @abstractmethod
    def result(self, step: Step, results: Mapping[str, StepResult]) -> StepResult | None:
        """What one stage's step finds out; None if it is not reached after all.

        Args:
            results: those of the steps before.
        """

    def name(self, results: Mapping[str, StepResult]) -> str | None:
        """The name that the version is remembered by, if this one is."""
        del results
        return self.update_id

    @abstractmethod
    def worth(self, results: Mapping[str, StepResult]) -> Mapping[str, StepResult] | None:
        """The results that are published; None if there is to be no version."""

    @abstractmethod
    def write(self, result: StepResult, head: Version) -> StageWrite:
        """What is done about a result.

        Args:
            head: the version before, in the state that no compaction will change.
        """

    def before(self, head: Version, results: Mapping[str, StepResult]) -> Version:
        """The head as the version goes on from it, where that says of stages without results."""
        del results
        return head
