"""Productions: one step of one stage, made from its feeders by the stage's kind.

A production turns the rows of source keys into rows of the stage's content: the kind makes them,
the production computes them (S4), and the stored rows may depend on what the target keys had before
(S12). The invariant: user code runs exactly once a step, and its result is on the driver if it is
small.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

from typing_extensions import override

from deltaproduce.engines.calls import called_beside, calls_beside
from deltaproduce.engines.choice import Engines
from deltaproduce.engines.comparisons import Comparison
from deltaproduce.engines.engine import NumberedRows, Rows
from deltaproduce.engines.failures import BatchFunction
from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.checkpoints import checkpoint
from deltaproduce.engines.spark.frames import row_bytes
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.model.clustering import Clustering
from deltaproduce.model.graph import Stage
from deltaproduce.model.kind import Definition
from deltaproduce.model.layouts import Layout
from deltaproduce.model.window_moves import Shift, WindowMove
from deltaproduce.stages.inputs import StageInput, all_parts, changed_parts
from deltaproduce.stages.kind import StageKind, unfit
from deltaproduce.stages.sql.operators.changes.shared import SharedChanges
from deltaproduce.storage.figures import StageFigures
from deltaproduce.storage.stored import Stored
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.types.columns import ORDINAL, Column

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class ProductionResult:
    """The result of a step.

    Attributes:
        surrogates: the last surrogate number that the stage has assigned.
        window: how the window reached its place; None without a window, or if it was rebuilt.
        rows_expired: rows that left a source with their partitions.
        rows_not_taken: rows given for partitions that the source does not keep.
        ties: events that are not shown because another one is equal in the sequence.
        recomputed: why all rows were made again after all; None if they were not.
    """

    comparison: Comparison
    surrogates: int = 0
    window: WindowMove | None = None
    rows_expired: int = 0
    rows_not_taken: int = 0
    ties: int = 0
    recomputed: str | None = None


class Produced(NamedTuple):
    """All rows that a step makes for some keys, or for all.

    Attributes:
        rows: in the columns of the content, in any order.
        size: their number.
        ties: see `ProductionResult`.
        numbered: what is known of the rows, if Spark has numbered them.
    """

    rows: Rows
    size: int
    ties: int = 0
    numbered: NumberedRows | None = None


class DerivedKind(StageKind):
    """The kind of a stage that is made from other stages, with the methods that make it."""

    __slots__ = ()

    @property
    @abstractmethod
    @override
    def definition(self) -> Definition:
        """What makes its rows."""

    @abstractmethod
    def produced(
        self, production: Production, inputs: Sequence[StageInput]
    ) -> tuple[Rows, int] | Produced | None:
        """Return all rows of the stage, and their number; `Production.computed` returns both.

        Args:
            inputs: the feeders, with their rows before and after.

        Returns:
            Rows in the columns of the content, in any order; None if no feeder has ever had rows.
        """

    @abstractmethod
    def changed(
        self,
        production: Production,
        inputs: Sequence[StageInput],
        content: Stored | None,
        mappings: Callable[[], Stored | None],
    ) -> ProductionResult | None:
        """Return the stage's changes due to its feeders'; None if no feeder changed a key.

        Args:
            inputs: the feeders, with their rows before and after.
            content: the stage's rows; None if there are none.
            mappings: finds the stage's key mappings, if it has any.
        """

    def sampled(
        self,
        production: Production,
        inputs: Sequence[StageInput],
        content: Stored | None,
        mappings: Callable[[], Stored | None],
        keys: Callable[[], Selection],
    ) -> ProductionResult | None:
        """Return the changes from producing sampled source keys again, changed by feeders or not.

        If the stage's rows do not each belong to one source key, all rows are produced.

        Args:
            keys: finds the sample, in the columns of the stage's source key, if it has one. The
                rest is as for `changed`.
        """
        del mappings, keys
        rows = self.produced(production, inputs)
        return None if rows is None else production.replaced(content, *rows)

    def alone(self, stage: Stage, tables: Tables) -> Stage:
        """Return the stage as one that makes the same rows without hidden stages; read no row.

        Called for checks.

        Args:
            stage: a stage of this kind, whose columns have types.
        """
        del tables
        return stage

    def pairs(self, stage: Stage, feeder: Stage, rows: Rows, engines: Engines) -> Rows:
        """Map the keys of a feeder's rows to the stage's keys that they are in.

        Called for stages without key mappings.

        Args:
            stage: a stage of this kind.
            rows: in the columns of the feeder's content.

        Returns:
            The feeder's key columns, named as `layouts.sources_of` does, and the stage's.
        """
        raise unfit(stage, "kind that has key mappings")

    def indexed(self, stage: Stage, rows: Rows, keys: Selection) -> Rows:
        """Return the feeder's rows whose rows in the stage have one of the keys.

        Called for stages that are an index.

        Args:
            stage: a stage of this kind.
            rows: in the columns of the feeder's content.
            keys: keys of the stage.
        """
        raise unfit(stage, "kind that is an index")

    def stored(
        self, production: Production, before: Rows | None, emitted: Rows, count: int
    ) -> tuple[Rows, int]:
        """Return the rows to store for emitted ones, and the last surrogate number then assigned.

        Args:
            before: content before the step, at least of all keys of the emitted rows; None if there
                was none.
            count: how many rows were emitted.
        """
        del before, count
        return emitted, production.surrogates


@dataclass(frozen=True, slots=True)
class Production:
    """A stage, and the input of its kind for one step.

    Attributes:
        surrogates: the last surrogate number that the stage has assigned.
        is_numbered: whether the rows before have the surrogates that the stage is defined with.
        shift: the move of its window; None if it has none.
        clustering: the partitions that it will be stored by, if windows read it.
        dates: the date of the version before, and of the one that is made; see `WindowState.date`.
        shared: the changes that it shares with other stages of the version.
    """

    stage: Stage
    surrogates: int
    engines: Engines
    is_numbered: bool = True
    shift: Shift | None = None
    clustering: Clustering | None = None
    dates: tuple[date | None, date | None] = (None, None)
    shared: SharedChanges = field(default_factory=SharedChanges)

    @staticmethod
    def of(
        stage: Stage,
        last: StageFigures,
        engines: Engines,
        shift: Shift | None = None,
        clustering: Clustering | None = None,
        dates: tuple[date | None, date | None] = (None, None),
    ) -> Production:
        """Return the production that follows a version with these figures of the stage."""
        is_numbered = last.numbering.surrogate == stage.kind.key_use.numbered
        last_number = last.numbering.surrogates if is_numbered else 0
        return Production(stage, last_number, engines, is_numbered, shift, clustering, dates)

    @property
    def kind(self) -> DerivedKind:
        """The stage's kind.

        Raises:
            DefinitionError: the stage is not made from others; with `stage`.
        """
        return derived_kind(self.stage)

    @property
    def content(self) -> tuple[Column, ...]:
        """The columns of the produced rows: those of the content."""
        return Layout.of(self.stage).content

    def kept(self, before: Rows | None, emitted: Rows, count: int) -> tuple[Rows, int]:
        """Return the rows to store for emitted ones; see `DerivedKind.stored`."""
        return self.kind.stored(self, before, emitted, count)

    def replaced(
        self,
        content: Stored | None,
        emitted: Rows,
        count: int,
        ties: int = 0,
        numbered: NumberedRows | None = None,
    ) -> ProductionResult:
        """Return what changes when emitted rows replace all rows of the stage.

        Args:
            content: the stage's rows; None if there are none.
            numbered: what is known of the emitted rows, which are stored as they are.
        """
        if content is None:
            return self.first(emitted, count, ties, numbered)
        before, layout = content.rows(), Layout.of(self.stage)
        new, surrogates = self.kept(before, emitted, count)
        compared = Comparison.of_all(before, new, layout, self.engines)
        return ProductionResult(compared, surrogates, ties=ties)

    def replaced_keys(
        self, content: Stored, keys: Selection, after: Callable[[Rows], Rows]
    ) -> Comparison:
        """Compare the stored rows of some keys with those that replace them.

        Args:
            content: the stage's rows; all are read if the keys are nearly all, or the rows few.
            after: returns the new rows of the keys, from their rows before and perhaps others.
        """
        whole = keys.is_here and (content.small or content.is_nearly_all(keys))
        before = content.fetched() if whole else content.of(keys)
        new, layout = after(before), Layout.of(self.stage)
        return Comparison.of_changed_keys(
            before, keys, new, layout, complete=whole, sought=keys.is_here
        )

    def first(
        self, emitted: Rows, count: int, ties: int = 0, numbered: NumberedRows | None = None
    ) -> ProductionResult:
        """Return what emitted rows change in a stage without rows; see `replaced`."""
        new, surrogates = self.kept(None, emitted, count)
        layout = Layout.of(self.stage)
        compared = Comparison.first(new, count, layout, self.engines, self.clustering, numbered)
        return ProductionResult(compared, surrogates, ties=ties)

    def frames(
        self, inputs: Sequence[StageInput], keys: Selection | None
    ) -> dict[str, DataFrame] | None:
        """Return the content of each feeder, by name; None if all keys are wanted but none exist.

        Args:
            keys: in the columns of the stage's source key; all keys of all feeders if None.
        """
        parts = all_parts(inputs, for_spark=True) if keys is None else changed_parts(inputs, keys)
        if keys is None and not parts:
            return None
        known = {part.stage.name: rows for part, rows in parts}
        return {
            each.stage.name: self.engines.frame(
                known.get(each.stage.name, empty(each.content)), each.content
            )
            for each in inputs
        }

    def beside(
        self,
        rows: Rows,
        key: Sequence[Column],
        run: BatchFunction,
        columns: Sequence[Column] | None = None,
    ) -> tuple[Rows, int] | None:
        """Run a function in local workers; return its rows, and their number.

        Args:
            rows: in the columns that the function reads, with equal keys adjacent.
            key: the columns by which workers may share the rows; one worker if it is empty.
            columns: the columns that it makes; those of the content if None.

        Returns:
            None if Spark must run it: there are many rows, or the function cannot be sent.

        Raises:
            ProducerError: the function failed.
        """
        if not calls_beside(self.engines, rows):
            return None
        columns = self.content if columns is None else columns
        return called_beside(self.engines, rows, key, run, columns, stage=self.stage.name)

    def computed(
        self, rows: DataFrame, columns: Sequence[Column] | None = None
    ) -> tuple[Rows, int]:
        """Compute rows once, on the driver if they are few; return them and their number.

        Args:
            columns: their columns; those of the content if None.

        Raises:
            ProducerError: the stage's function failed, if it runs one.
        """
        columns, definition = self.content if columns is None else columns, self.kind.definition
        function = self.stage.name if definition.functions or definition.has_methods else None
        computed, counts = checkpoint(rows, _size_of(columns), stage=function)
        count = counts["rows"]
        return self.engines.settled(computed, columns, count, counts["bytes"]), count

    def computed_numbered(self, rows: DataFrame) -> Produced:
        """Compute rows of a query that are numbered within their keys, which have no sources.

        They are on the driver if they are few.

        Args:
            rows: in the columns of the content.
        """
        keys = {"keys": f.count_if(f.col(ORDINAL) == 0)}
        counted = _size_of(self.content) | keys
        here, counts = self.engines.computed(rows, self.content, counted, in_order=False)
        return Produced(
            here, counts["rows"], numbered=NumberedRows(counts["keys"], counts["bytes"])
        )


def _size_of(columns: Sequence[Column]) -> dict[str, Expression]:
    """Return the aggregates that tell the number of rows and their size."""
    size = f.coalesce(f.sum(row_bytes(columns)), f.lit(0))
    return {"rows": f.count(f.lit(1)), "bytes": size}


def derived_kind(stage: Stage) -> DerivedKind:
    """Return the kind of a stage that is made from others.

    Raises:
        DefinitionError: the stage is not made from others; with `stage`.
    """
    if not isinstance(stage.kind, DerivedKind):
        raise unfit(stage, "DerivedKind")
    return stage.kind
