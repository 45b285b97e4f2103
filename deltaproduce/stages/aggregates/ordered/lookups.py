"""Look-ups: the rows of a sorted multiset after a step, for selected groups.

The invariant: a look-up returns all rows, after the step, of each group that was asked for, and no
rows of other groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from deltaproduce.engines.choice import Engines, is_local
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.columns import cols, order
from deltaproduce.engines.spark.sessions.on_demand import Window, is_frame
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.stages.inputs import StageInput
from deltaproduce.stages.sql.states.functions.ordered import Reach
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import LongType

MOVED = Column("_moved", LongType())
"""The column that holds how many more values a group has than before."""
_PLACE = "_place"


@dataclass(frozen=True, slots=True)
class MultisetLookup:
    """A multiset in a step.

    Attributes:
        given: the multiset, as the stage that it answers reads it.
        width: how many of its key columns are the group's key.
    """

    given: StageInput
    width: int
    engines: Engines

    @property
    def group(self) -> tuple[Column, ...]:
        """The columns of the groups."""
        return self.given.stage.schema.key.columns[: self.width]

    @property
    def values(self) -> tuple[Column, ...]:
        """The columns of the values, which are keys."""
        return self.given.stage.schema.key.columns[self.width :]

    @property
    def counted(self) -> Column:
        """The column with the count of a value in a group."""
        (count_column,) = self.given.stage.schema.value
        return count_column

    def rows(self, groups: Selection | None) -> Rows:
        """Return the rows of the groups; of all if None."""
        columns = self.given.content
        if groups is None:
            rows = self.given.all_rows()
            return empty(columns) if rows is None else rows
        wanted = groups.renamed(self.group)
        before, step = self.given.before(), self.given.step
        known = None if before is None else partial(before.of, wanted)
        if step is not None:
            rows = step.content_after(known)  # reads nothing if the step has all rows
        elif known is None:
            return empty(columns)
        else:
            rows = known()
        return wanted.semi_join(rows, columns)

    def are_held(self, groups: Selection) -> bool:
        """Return whether the multiset's step has read all rows of these groups, and holds them."""
        before = self.given.before()
        return before is not None and before.are_held(groups.renamed(self.group))

    def end(self, groups: Selection | None, reach: Reach, count: int) -> Rows:
        """Return ``count`` rows of each group from one end, perhaps more; of all groups if None."""
        first, *others = self.values
        by = (replace(first, descending=reach == "last"), *others)
        ends = None if groups is None else self._sought(groups.renamed(self.group), by, count)
        if ends is None:
            ends = self.rows(groups)
        if isinstance(ends, pa.Table):
            return ends
        place = f.row_number().over(Window.partitionBy(*cols(self.group)).orderBy(*order(by)))
        return ends.withColumn(_PLACE, place).where(f.col(_PLACE) <= count).drop(_PLACE)

    def _sought(self, groups: Selection, by: Sequence[Column], count: int) -> Rows | None:
        """Return the first rows of the groups; None if the driver cannot get all of them."""
        step = self.given.step
        if not groups.is_here or (step is not None and not is_local(step.rows)):
            return None
        before = None if step is not None and step.complete else self.given.before()
        if before is None:
            return None
        stored = before if step is None else before.after(step, groups)
        return groups.semi_join(stored.first(groups, by, count), self.given.content)

    def moved(self) -> Rows:
        """Return the groups that the step has changed, and `MOVED` of each."""
        columns = (*self.group, MOVED)
        if self.given.changed is None:
            return empty(columns)
        parts = self.given.moved()  # in the columns of groups alone, the rows of most stay the same
        engine = self.engines.of(*parts)
        signed = [
            engine.with_all(engine.here(rows, self.group), MOVED, sign)
            for rows, sign in zip(parts, (-1, 1), strict=True)
        ]
        together = engine.concat(signed, columns)
        names = [c.name for c in self.group]
        if is_frame(together):
            total = f.sum(MOVED.name).alias(MOVED.name)
            return together.groupBy(*cols(self.group)).agg(total)
        sums = together.group_by(names, use_threads=False).aggregate([(MOVED.name, "sum")])
        return sums.rename_columns([*names, MOVED.name])
