"""Dividing: the rows of a batch that a source takes, and those that are set aside.

The invariant: each row of a batch is taken, or it is set aside once for each rule that it breaks; a
key of which no row is taken is deleted. A key whose rows are set aside as they are set aside
already is not touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from deltaproduce.engines.comparisons import Comparison
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.marks import ROWS_OF_CHANGED_KEYS
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import Layout
from deltaproduce.stages.batches import Batch
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.expressions.literals import literal
from deltaproduce.stages.sql.expressions.terms import Constant
from deltaproduce.stages.sql.projection import Projection
from deltaproduce.storage.stored import Stored
from deltaproduce.types.columns import (
    ORDINAL,
    RULE,
    VERSION_COLUMN,
    Column,
)
from deltaproduce.types.data_types import StringType
from deltaproduce.types.ddl import identifier


@dataclass(frozen=True, slots=True)
class RowRule:
    """A rule that a row of a source fulfils by itself.

    Attributes:
        name: the name of its check.
        breaks: a condition that is true for the rows that break it.
    """

    name: str
    breaks: str


@dataclass(frozen=True)
class Divided:
    """A batch of a source, divided by some rules.

    Attributes:
        rules: those of the source.
        stage: the stage with rejected rows.
    """

    batch: Batch
    rules: Sequence[RowRule]
    stage: Stage

    @cached_property
    def rejected(self) -> tuple[Rows, int]:
        """The rows that are set aside, without their version, and how many they are."""
        engines = self.batch.engines
        parts = [
            projection.of(self.batch.upserts(), self._content, engines, stage=rule.name)
            for rule, projection in zip(
                self.rules, projections(self.rules, self.batch.source), strict=True
            )
        ]
        layout = Layout.of(self.stage).fed
        engine = engines.of(*parts)
        rows, count = engine.computed(engine.concat(parts, layout.content))
        return rows, count

    @property
    def taken(self) -> Batch:
        """The batch of the rows that the source takes."""
        if not self.rejected[1]:
            return self.batch
        source, engines = self.batch.source, self.batch.engines
        any_breaks = " OR ".join(f"({rule.breaks})" for rule in self.rules)
        fine = _expression(f"NOT coalesce({any_breaks}, false)", source)
        own = tuple((c.name, Expression.of_column(c.name)) for c in self._content)
        projected = Projection(own, fine).of(
            self.batch.upserts(), self._content, engines, stage=source.name
        )
        rows = engines.of(projected).computed(projected)[0]
        if self.batch.is_snapshot:
            return Batch.snapshot(rows, source, engines)
        return Batch.replacing(self.batch.keys(), rows, source)

    def aside(self, stored: Stored | None, version: int) -> Batch | None:
        """Return the batch of the stage with rejected rows; None if none of its keys changes.

        Args:
            stored: its rows; None if there are none.
            version: the number of the version that is made.
        """
        layout, (rows, count) = Layout.of(self.stage).fed, self.rejected
        if stored is None and not count:
            return None
        if stored is not None and not {*layout.content} <= {*stored.columns}:
            return self._with_other_columns(self._stamped(rows, version))
        compared = self._compared(stored, layout)
        if not compared.counts.keys_changed:
            return None
        changed = compared.select(layout.content, ROWS_OF_CHANGED_KEYS)
        stamped = self._stamped(changed, version)
        return Batch.replacing(compared.changed_keys, stamped, self.stage)

    def _stamped(self, rows: Rows, version: int) -> Rows:
        stamped: Rows = self.batch.engines.of(rows).with_all(rows, VERSION_COLUMN, version)
        return stamped

    def _with_other_columns(self, rows: Rows) -> Batch:
        """Return the batch if the stage has other columns than its tables: all keys are new."""
        if self.batch.is_snapshot:
            return Batch.snapshot(rows, self.stage, self.batch.engines)
        return Batch.replacing(self.batch.keys(), rows, self.stage)

    def _compared(self, stored: Stored | None, layout: Layout) -> Comparison:
        """Compare the rows that are set aside with those of before, but for their versions."""
        (rows, count), engines = self.rejected, self.batch.engines
        if stored is None:
            return Comparison.first(rows, count, layout, engines)
        if self.batch.is_snapshot:
            before = stored.rows()
            old = engines.of(before).here(before, layout.content)
            return Comparison.of_all(old, rows, layout, engines)
        keys = self.batch.keys()
        known = keys.exactly(stored.of(keys))
        old = engines.of(known).here(known, layout.content)
        return Comparison.of_changed_keys(old, keys, rows, layout)

    @property
    def _content(self) -> tuple[Column, ...]:
        return Layout.of(self.batch.source).content


def projections(rules: Sequence[RowRule], source: Stage) -> list[Projection]:
    """Return what is computed of a source's rows, rule by rule."""
    return [_projection(number, rule, rules, source) for number, rule in enumerate(rules)]


def _projection(number: int, rule: RowRule, rules: Sequence[RowRule], source: Stage) -> Projection:
    """Return the rows that break a rule; those of one key keep their order, rule by rule."""
    layout = Layout.of(source)
    place = f"{identifier(ORDINAL)} * {len(rules)} + {number}"
    own = tuple((c.name, Expression.of_column(c.name)) for c in layout.own)
    outputs = (
        *own,
        (ORDINAL, _expression(place, source)),
        (RULE, _expression(literal(Constant(StringType(), rule.name)), source)),
    )
    return Projection(outputs, _expression(rule.breaks, source))


def _expression(text: str, source: Stage) -> Expression:
    return Expression.read(text, [c.name for c in Layout.of(source).content])
