"""Productions: how a stage is made from its feeders, in one step and by its kind.

From the rows of some source keys to rows of the stage's content: the kind makes them, they are
computed (S4), and what is to be stored of them may depend on what the target keys had before (S12).
The invariant: whatever runs a user's code is computed exactly once a step, and is on the driver
afterwards if it is little.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.comparisons import Comparison
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.failures import BatchFunction
from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.checkpoints import checkpoint
from deltaproduce.engines.spark.frames import row_bytes
from deltaproduce.model.clustering import Clustering
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import Layout
from deltaproduce.model.window_moves import Shift, WindowMove
from deltaproduce.stages.inputs import StageInput, all_parts, changed_parts
from deltaproduce.stages.kind import StageKind, unfit
from deltaproduce.storage.figures import StageFigures
from deltaproduce.storage.stored import Stored
from deltaproduce.types.columns import Column


@dataclass(frozen=True, slots=True)
class Found:
    """What a step found out.

    Attributes:
        surrogates: the last surrogate number that the stage has given out.
        window: how its window came to where it is, if it has one and was not made anew.
        rows_expired: rows that left a source with their partitions.
        rows_not_taken: rows that were given for partitions that it does not keep.
    """

    comparison: Comparison
    surrogates: int = 0
    window: WindowMove | None = None
    rows_expired: int = 0
    rows_not_taken: int = 0


class DerivedKind(StageKind):
    """What a stage is that is made from others, and how it is made."""

    __slots__ = ()

    @property
    @abstractmethod
    def made_by(self) -> object:
        """See `Kind.made_by`; not None."""

    @abstractmethod
    def produced(
        self, production: Production, inputs: Sequence[StageInput]
    ) -> tuple[Rows, int] | None:
        """All rows of the stage, and how many: `Production.computed` has both.

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
    ) -> Found | None:
        """What the feeders' changes change in the stage; None if no feeder has changed a key.

        Args:
            inputs: the feeders, with their rows before and after.
            content: the stage's rows; None if there are none.
            mappings: finds the stage's key mappings, if it has some.
        """

    def sampled(
        self,
        production: Production,
        inputs: Sequence[StageInput],
        content: Stored | None,
        mappings: Callable[[], Stored | None],
        keys: Callable[[], Selection],
    ) -> Found | None:
        """What producing some source keys again changes, whether a feeder has changed them or not.

        Of a stage whose rows do not go with one source key each, all rows are produced.

        Args:
            keys: finds some keys, in the columns of the stage's source key, if it has one. The rest
                is as for `changed`.
        """
        del mappings, keys
        found = self.produced(production, inputs)
        return None if found is None else production.replaced(content, *found)

    def pairs(self, stage: Stage, feeder: Stage, rows: Rows, engines: Engines) -> Rows:
        """Which keys of a feeder some rows of it have, and which of the stage they are in.

        It is asked of stages without key mappings, which say it for others.

        Args:
            stage: one of this kind.
            rows: in the columns of the feeder's content.

        Returns:
            The feeder's key columns, named as `layouts.sources_of` does, and the stage's.
        """
        raise unfit(stage, "kind that has key mappings")

    def indexed(self, stage: Stage, rows: Rows, keys: Selection) -> Rows:
        """Of some rows of its feeder those whose rows in the stage have one of some keys.

        It is asked of stages that are an index.

        Args:
            stage: one of this kind.
            rows: in the columns of the feeder's content.
            keys: of the stage.
        """
        raise unfit(stage, "kind that is an index")

    def stored(
        self, production: Production, before: Rows | None, emitted: Rows, count: int
    ) -> tuple[Rows, int]:
        """The rows to be stored of what was emitted, and the last surrogate number given out then.

        Args:
            before: content before the step, of all keys of the emitted rows at least; None if
                there was none.
            count: how many rows were emitted.
        """
        del before, count
        return emitted, production.surrogates


@dataclass(frozen=True, slots=True)
class Production:
    """A stage, and what its kind is told to make it with in one step.

    Attributes:
        surrogates: the last surrogate number that the stage has given out.
        is_numbered: whether the rows before have the surrogates that the stage is defined with.
        shift: from where to where its window moves; None if it has none.
        clustering: by which partitions it will be stored, if windows are over it.
    """

    stage: Stage
    surrogates: int
    engines: Engines
    is_numbered: bool = True
    shift: Shift | None = None
    clustering: Clustering | None = None

    @staticmethod
    def of(
        stage: Stage,
        last: StageFigures,
        engines: Engines,
        shift: Shift | None = None,
        clustering: Clustering | None = None,
    ) -> Production:
        """How it is made after a version that has these figures of the stage."""
        is_numbered = last.numbering.surrogate == stage.kind.numbered
        last_number = last.numbering.surrogates if is_numbered else 0
        return Production(stage, last_number, engines, is_numbered, shift, clustering)

    @property
    def kind(self) -> DerivedKind:
        """The stage's.

        Raises:
            DefinitionError: it is not made; with `stage`.
        """
        return derived_kind(self.stage)

    @property
    def content(self) -> tuple[Column, ...]:
        """The columns of what is produced: those of the content."""
        return Layout.of(self.stage).content

    def kept(self, before: Rows | None, emitted: Rows, count: int) -> tuple[Rows, int]:
        """What is to be stored of what was emitted; see `DerivedKind.stored`."""
        return self.kind.stored(self, before, emitted, count)

    def replaced(self, content: Stored | None, emitted: Rows, count: int) -> Found:
        """What emitted rows change when they take the place of all that the stage has.

        Args:
            content: the stage's rows; None if there are none.
        """
        if content is None:
            return self.first(emitted, count)
        before, layout = content.rows(), Layout.of(self.stage)
        new, surrogates = self.kept(before, emitted, count)
        return Found(Comparison.of_all(before, new, layout, self.engines), surrogates)

    def first(self, emitted: Rows, count: int) -> Found:
        """What comes into the stage when it has no rows."""
        new, surrogates = self.kept(None, emitted, count)
        layout = Layout.of(self.stage)
        compared = Comparison.first(new, count, layout, self.engines, self.clustering)
        return Found(compared, surrogates)

    def frames(
        self, inputs: Sequence[StageInput], keys: Selection | None
    ) -> dict[str, DataFrame] | None:
        """The content of each feeder, by name; None if all keys are wanted and there are none.

        Args:
            keys: in the columns of the stage's source key; all that any feeder has if None.
        """
        parts = all_parts(inputs) if keys is None else changed_parts(inputs, keys)
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
        """Rows that a function makes beside the driver, and how many.

        Args:
            rows: in the columns that the function reads, with equal keys adjacent.
            key: what the rows may be shared out by among workers; not at all if it is empty.
            columns: what it makes; those of the content if None.

        Returns:
            None if they are to be made in Spark: there are many, or the function cannot be sent.

        Raises:
            ProducerError: the function failed.
        """
        if not self.engines.calls_beside(rows):
            return None
        columns = self.content if columns is None else columns
        return self.engines.made_beside(rows, key, run, columns, stage=self.stage.name)

    def computed(
        self, rows: DataFrame, columns: Sequence[Column] | None = None
    ) -> tuple[Rows, int]:
        """Rows, computed once and on the driver if they are few; how many.

        Args:
            columns: what they have; those of the content if None.

        Raises:
            ProducerError: the stage's function failed, if it runs one.
        """
        columns = self.content if columns is None else columns
        size = f.coalesce(f.sum(row_bytes(columns)), f.lit(0))
        counted = {"rows": f.count(f.lit(1)), "bytes": size}
        function = self.stage.name if self.stage.kind.calls_user else None
        computed, counts = checkpoint(rows, counted, stage=function)
        count = counts["rows"]
        return self.engines.settled(computed, columns, count, counts["bytes"]), count


def derived_kind(stage: Stage) -> DerivedKind:
    """A stage's kind, which makes it from others.

    Raises:
        DefinitionError: it does not; with `stage`.
    """
    if not isinstance(stage.kind, DerivedKind):
        raise unfit(stage, "DerivedKind")
    return stage.kind
