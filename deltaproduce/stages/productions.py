"""Productions: how a stage is made from its feeders, in one step and by its kind.

From the rows of some source keys to rows of the stage's content: the kind makes them, they are
computed (S4), and what is to be stored of them may depend on what the target keys had before (S12).
The invariant: whatever runs a user's code is computed exactly once a step, and is on the driver
afterwards if it is little.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.failures import BatchFunction
from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.checkpoints import checkpoint
from deltaproduce.engines.spark.frames import row_bytes
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import (
    CONTENT,
    KEY_MAPPINGS,
    RUNS,
    UPDATES,
    Layout,
)
from deltaproduce.stages.inputs import StageInput, all_parts, changed_parts
from deltaproduce.stages.kind import StageKind, unfit
from deltaproduce.storage.figures import StageFigures
from deltaproduce.types.columns import Column


class ProducerKind(StageKind):
    """What a stage is that is made from others, and how it is made."""

    __slots__ = ()

    @property
    def tables(self) -> tuple[str, ...]:
        """See `Kind.tables`."""
        return (CONTENT, KEY_MAPPINGS, UPDATES, RUNS)

    @property
    @abstractmethod
    def made_by(self) -> object:
        """See `Kind.made_by`; not None."""

    @abstractmethod
    def emitted(
        self, production: Production, inputs: Sequence[StageInput], keys: Selection | None
    ) -> tuple[Rows, int] | None:
        """What is made of some source keys, and how many rows: `Production.computed` has both.

        It may be asked for any keys, and must make the same of a key whatever others there are.

        Args:
            inputs: the feeders, with their rows before and after.
            keys: in the columns of the stage's source key; all that any feeder has if None.

        Returns:
            Rows in the columns of the content, in any order, where ``_ordinal`` counts the rows of
            a pair of source key and key; None if there are no keys.
        """

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
    """

    stage: Stage
    surrogates: int
    engines: Engines
    is_numbered: bool = True

    @staticmethod
    def of(stage: Stage, last: StageFigures, engines: Engines) -> Production:
        """How it is made after a version that has these figures of the stage."""
        is_numbered = last.numbering.surrogate == stage.kind.numbered
        last_number = last.numbering.surrogates if is_numbered else 0
        return Production(stage, last_number, engines, is_numbered)

    @property
    def kind(self) -> ProducerKind:
        """The stage's.

        Raises:
            DefinitionError: it is not made; with `stage`.
        """
        if not isinstance(self.stage.kind, ProducerKind):
            raise unfit(self.stage, "ProducerKind")
        return self.stage.kind

    @property
    def content(self) -> tuple[Column, ...]:
        """The columns of what is produced: those of the content."""
        return Layout.of(self.stage).content

    def of_changed(self, inputs: Sequence[StageInput], keys: Selection) -> tuple[Rows, int]:
        """What is made of the changed keys, and how many rows."""
        return self.kind.emitted(self, inputs, keys) or (empty(self.content), 0)

    def of_all(self, inputs: Sequence[StageInput]) -> tuple[Rows, int] | None:
        """What is made of all keys, and how many rows; None if there are no keys."""
        return self.kind.emitted(self, inputs, None)

    def kept(self, before: Rows | None, emitted: Rows, count: int) -> tuple[Rows, int]:
        """What is to be stored of what was emitted; see `ProducerKind.stored`."""
        return self.kind.stored(self, before, emitted, count)

    def frames(
        self, inputs: Sequence[StageInput], keys: Selection | None
    ) -> dict[str, DataFrame] | None:
        """The content of each feeder, by name; None if all keys are wanted and there are none.

        Args:
            keys: as for `ProducerKind.emitted`.
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
        self, rows: Rows, key: Sequence[Column], run: BatchFunction
    ) -> tuple[Rows, int] | None:
        """Rows of the content that a function makes beside the driver, and how many.

        Args:
            rows: in the columns that the function reads, with equal keys adjacent.
            key: what the rows may be shared out by among workers; not at all if it is empty.

        Returns:
            None if they are to be made in Spark: there are many, or the function cannot be sent.

        Raises:
            ProducerError: the function failed.
        """
        if not self.engines.calls_beside(rows):
            return None
        return self.engines.made_beside(rows, key, run, self.content, stage=self.stage.name)

    def computed(self, rows: DataFrame) -> tuple[Rows, int]:
        """Rows of the content, computed once and on the driver if they are few; how many.

        Raises:
            ProducerError: the stage's function failed, if it runs one.
        """
        size = f.coalesce(f.sum(row_bytes(self.content)), f.lit(0))
        counted = {"rows": f.count(f.lit(1)), "bytes": size}
        function = None if self.stage.kind.called is None else self.stage.name
        computed, counts = checkpoint(rows, counted, stage=function)
        count = counts["rows"]
        return self.engines.settled(computed, self.content, count, counts["bytes"]), count
