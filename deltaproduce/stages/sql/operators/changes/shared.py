"""The changes of a version that several queries need.

The invariant: what is kept is a change of the rows of its subplan, in all columns that any query of
the version needs of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from deltaproduce.model.limits.machine import memory_bytes

if TYPE_CHECKING:  # each version has such changes, and reading SQL needs its grammar
    from deltaproduce.stages.sql.operators.changes.signed import Signed
    from deltaproduce.stages.sql.operators.changes.subplans import Columns, Key, Subplan

_MEMORY_SHARE: Final = 64
"""Of the memory, one part in so many holds the shared changes of a version."""


@dataclass(slots=True)
class SharedChanges:
    """The changes of a version that several queries need.

    Attributes:
        columns: the keys of subplans that several operators have -> the columns that any needs.
        moved: keys -> how many rows move in their stages, in these columns.
        kept: keys -> the changes that were computed, in these columns.
    """

    columns: Mapping[Key, Columns] = field(default_factory=dict)
    moved: dict[Key, int] = field(default_factory=dict)
    kept: dict[Key, Signed] = field(default_factory=dict)

    @staticmethod
    def of(every: Iterable[Subplan]) -> SharedChanges:
        """Return nothing, for the subplans of all queries of a version."""
        counts: Counter[Key] = Counter()
        columns: dict[Key, Columns] = {}
        for one in every:
            counts[one.key] += 1
            columns[one.key] = {**columns.get(one.key, {}), **one.columns}
        return SharedChanges({key: columns[key] for key, count in counts.items() if count > 1})

    def keep(self, key: Key, change: Signed) -> None:
        """Keep a change, if the memory of all of them allows it."""
        held = sum(one.rows.nbytes for one in self.kept.values())
        if held + change.rows.nbytes <= memory_bytes() // _MEMORY_SHARE:
            self.kept[key] = change
