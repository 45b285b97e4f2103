"""Stages whose rows are each made from one source key, and deleted with it.

A kind turns the rows of a source key into rows of the stage's content. A step looks up what the
changed source keys have produced, in the key mappings and never by producing again (S4), replaces
it with what they emit now, and compares per target key. The invariant: a step produces only keys
that a feeder has changed, and reads only their target keys.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

from typing_extensions import override

from deltaproduce.engines.comparisons import Comparison
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.local.large.threads import beside
from deltaproduce.engines.selections import Selection
from deltaproduce.model.layouts import CONTENT, KEY_MAPPINGS, RUNS, UPDATES, Layout
from deltaproduce.stages.inputs import StageInput, changed_keys
from deltaproduce.stages.productions import DerivedKind, Production, ProductionResult
from deltaproduce.storage.parquet.readings import ReadAmount
from deltaproduce.storage.stored import Stored


class ProducerKind(DerivedKind):
    """The kind of a stage that is made by source key, with the methods that make it."""

    __slots__ = ()

    @property
    @override
    def tables(self) -> tuple[str, ...]:
        return (CONTENT, KEY_MAPPINGS, UPDATES, RUNS)

    @override
    def reads_again(self, feeders: int, column: str) -> bool:
        """The rows of a source key change together if one feeder has it."""
        del column
        return feeders > 1

    @abstractmethod
    def emitted(
        self, production: Production, inputs: Sequence[StageInput], keys: Selection | None
    ) -> tuple[Rows, int] | None:
        """Emit the rows of source keys, and their number; `Production.computed` returns both.

        It may be called for any keys, and must emit the same rows for a key whatever other keys
        there are.

        Args:
            inputs: the feeders, with their rows before and after.
            keys: in the columns of the stage's source key; all keys of all feeders if None.

        Returns:
            Rows in the columns of the content, in any order, where ``_ordinal`` counts the rows of
            a pair of source key and key; None if there are no keys.
        """

    @override
    def produced(
        self, production: Production, inputs: Sequence[StageInput]
    ) -> tuple[Rows, int] | None:
        """All source keys emit."""
        return self.emitted(production, inputs, None)

    @override
    def changed(
        self,
        production: Production,
        inputs: Sequence[StageInput],
        content: Stored | None,
        mappings: Callable[[], Stored | None],
    ) -> ProductionResult | None:
        """Keys that a feeder has changed emit again."""
        changed = changed_keys(inputs, Layout.of(production.stage).sources)
        if changed is None:
            return None
        return self._again(production, inputs, content, mappings, changed)

    @override
    def sampled(
        self,
        production: Production,
        inputs: Sequence[StageInput],
        content: Stored | None,
        mappings: Callable[[], Stored | None],
        keys: Callable[[], Selection],
    ) -> ProductionResult | None:
        sampled = keys()
        if sampled.empty:
            return None
        return self._again(production, inputs, content, mappings, sampled)

    def _again(
        self,
        production: Production,
        inputs: Sequence[StageInput],
        content: Stored | None,
        mappings: Callable[[], Stored | None],
        changed: Selection,
    ) -> ProductionResult:
        """Return what producing source keys again changes; they include all changed ones."""
        layout, engines = Layout.of(production.stage), production.engines

        def emitted() -> tuple[Rows, int]:
            return self.emitted(production, inputs, changed) or (empty(layout.content), 0)

        if content is None:
            return production.first(*emitted())
        if content.small and changed.is_here:
            before: Rows = content.fetched()
            new, surrogates = production.kept(before, *emitted())
            compared = Comparison.of_changed_keys(before, changed, new, layout, complete=True)
            return ProductionResult(compared, surrogates)

        @engines.in_thread
        def were_produced(keys: Selection) -> tuple[Rows, ReadAmount]:
            produced, begun = mappings(), content.readings.total
            assert produced is not None  # each row of the content has a pair
            rows = produced.of(keys)
            return rows, content.readings.total.after(begun)

        # functions leave cores idle, and Spark waits
        with beside(were_produced, changed) as looked_up:
            emitted_rows, count = emitted()
        old, read = looked_up.result()
        content.readings.add(*read)  # they count in the thread that reads
        targets = engines.concat(old, emitted_rows, layout.key)
        affected = Selection.of(targets, layout.key, engines)
        before = content.of(affected)
        new, surrogates = production.kept(before, emitted_rows, count)
        sought = changed.is_here and affected.is_here
        return ProductionResult(
            Comparison.of_changed_keys(before, changed, new, layout, sought=sought), surrogates
        )
