"""Stages whose rows are made from one source key each, and go with it.

From the rows of a source key a kind emits rows of the stage's content. A step finds what the
changed source keys have produced, through the key mappings and never by producing again (S4), puts
what is emitted now in its place, and compares per target key. The invariant: only keys that a
feeder has changed are produced, and only their target keys are read.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from deltaproduce.engines.comparisons import Comparison
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.selections import Selection
from deltaproduce.model.layouts import CONTENT, KEY_MAPPINGS, RUNS, UPDATES, Layout
from deltaproduce.stages.inputs import StageInput, changed_keys
from deltaproduce.stages.productions import DerivedKind, Found, Production
from deltaproduce.storage.stored import Stored


class ProducerKind(DerivedKind):
    """What a stage is that is made by source key, and how it is made."""

    __slots__ = ()

    @property
    def tables(self) -> tuple[str, ...]:
        """See `Kind.tables`."""
        return (CONTENT, KEY_MAPPINGS, UPDATES, RUNS)

    def reads_again(self, feeders: int) -> bool:
        """See `Kind.reads_again`: the rows of a source key that one feeder has change together."""
        return feeders > 1

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

    def produced(
        self, production: Production, inputs: Sequence[StageInput]
    ) -> tuple[Rows, int] | None:
        """See `DerivedKind.produced`: what all source keys emit."""
        return self.emitted(production, inputs, None)

    def changed(
        self,
        production: Production,
        inputs: Sequence[StageInput],
        content: Stored | None,
        mappings: Callable[[], Stored | None],
    ) -> Found | None:
        """See `DerivedKind.changed`: the keys that a feeder has changed are produced again."""
        changed = changed_keys(inputs, Layout.of(production.stage).sources)
        if changed is None:
            return None
        return self._again(production, inputs, content, mappings, changed)

    def sampled(
        self,
        production: Production,
        inputs: Sequence[StageInput],
        content: Stored | None,
        mappings: Callable[[], Stored | None],
        keys: Callable[[], Selection],
    ) -> Found | None:
        """See `DerivedKind.sampled`."""
        some = keys()
        if some.empty:
            return None
        return self._again(production, inputs, content, mappings, some)

    def _again(
        self,
        production: Production,
        inputs: Sequence[StageInput],
        content: Stored | None,
        mappings: Callable[[], Stored | None],
        changed: Selection,
    ) -> Found:
        """What producing some source keys again changes, among which are all that have changed."""
        layout, engines = Layout.of(production.stage), production.engines

        def emitted() -> tuple[Rows, int]:
            return self.emitted(production, inputs, changed) or (empty(layout.content), 0)

        if content is None:
            return production.first(*emitted())
        if content.small and changed.is_here:
            before: Rows = content.fetched()
            new, surrogates = production.kept(before, *emitted())
            compared = Comparison.of_some(before, changed, new, layout, complete=True)
            return Found(compared, surrogates)

        @engines.in_thread
        def were_produced() -> Rows:
            produced = mappings()
            assert produced is not None  # content has rows, and each has its pair
            return produced.of(changed)

        with ThreadPoolExecutor(1) as beside:  # a function leaves cores free, and Spark waits much
            old = beside.submit(were_produced)
            come, count = emitted()
        targets = engines.united(old.result(), come, layout.key)
        affected = Selection.of(targets, layout.key, engines)
        before = content.of(affected)
        new, surrogates = production.kept(before, come, count)
        sought = changed.is_here and affected.is_here
        return Found(Comparison.of_some(before, changed, new, layout, sought=sought), surrogates)
