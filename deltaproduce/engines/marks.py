"""Marks: the columns in which a comparison says what differs, with their counts and terms.

Both engines' comparisons (`local.kernels.comparing`, `spark.kernels.comparing`) give them the same
meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Final, TypeAlias

from deltaproduce.types.columns import POSITION, POSITION_COLUMN, Column
from deltaproduce.types.data_types import BooleanType, IntegerType, LongType, StringType

ADD: Final = "add"
UPDATE: Final = "update"
DELETE: Final = "delete"
SIDE: Final = "_side"
BEFORE: Final = 0
AFTER: Final = 1
ROW_DIFFERS: Final = "_row_differs"
PAIR_DIFFERS: Final = "_pair_differs"
PAIR_BEFORE: Final = "_pair_before"
PAIR_AFTER: Final = "_pair_after"
PAIR_MOVED: Final = "_pair_moved"
KEY_DIFFERS: Final = "_key_differs"
KEY_BEFORE: Final = "_key_before"
KEY_AFTER: Final = "_key_after"
IS_PAIR: Final = "_is_pair"
IS_KEY: Final = "_is_key"

ADDED: Final = (
    Column(SIDE, IntegerType()),
    POSITION_COLUMN,
    *(
        Column(mark, BooleanType())
        for mark in (
            ROW_DIFFERS,
            PAIR_DIFFERS,
            PAIR_BEFORE,
            PAIR_AFTER,
            KEY_DIFFERS,
            KEY_BEFORE,
            KEY_AFTER,
            PAIR_MOVED,
            IS_PAIR,
            IS_KEY,
        )
    ),
)
"""The columns that a comparison has in addition to the content's."""

Which: TypeAlias = Mapping[str, bool | int]
"""Selects the rows of a comparison in which each of these columns has this value."""

ALIVE: Final[Which] = {SIDE: AFTER}
CHANGED_KEYS: Final[Which] = {IS_KEY: True, KEY_DIFFERS: True}
DELETED_KEYS: Final[Which] = {**CHANGED_KEYS, KEY_AFTER: False}
UPDATED_KEYS: Final[Which] = {**CHANGED_KEYS, KEY_BEFORE: True, KEY_AFTER: True}
CHANGED_PAIRS: Final[Which] = {IS_PAIR: True, PAIR_DIFFERS: True}
REPLACED_PAIRS: Final[Which] = {**CHANGED_PAIRS, PAIR_BEFORE: True}
NEW_PAIRS: Final[Which] = {IS_PAIR: True, PAIR_BEFORE: False}
GONE_PAIRS: Final[Which] = {IS_PAIR: True, PAIR_AFTER: False}
MOVED_PAIRS: Final[Which] = {IS_PAIR: True, PAIR_MOVED: True}
ROWS_OF_CHANGED_KEYS: Final[Which] = {SIDE: AFTER, KEY_DIFFERS: True}
FIRST_OF_NEW_KEYS: Final[Which] = {**ROWS_OF_CHANGED_KEYS, KEY_BEFORE: False, POSITION: 0}
ROWS_OF_CHANGED_PAIRS: Final[Which] = {SIDE: AFTER, PAIR_DIFFERS: True}

DIFFERENCES: Final = (ROW_DIFFERS, PAIR_DIFFERS, KEY_DIFFERS)
"""The marks of what differs between the two sides."""

COUNTED: Final[Mapping[str, Which]] = {
    "keys": {IS_KEY: True},
    "keys_changed": CHANGED_KEYS,
    "keys_before": {IS_KEY: True, KEY_BEFORE: True},
    "keys_after": {IS_KEY: True, KEY_AFTER: True},
    "keys_deleted": DELETED_KEYS,
    "keys_updated": UPDATED_KEYS,
    "rows_before": {SIDE: BEFORE},
    "rows_after": ALIVE,
    "rows_added": {SIDE: AFTER, ROW_DIFFERS: True},
    "rows_removed": {SIDE: BEFORE, ROW_DIFFERS: True},
    "rows_of_changed_keys": ROWS_OF_CHANGED_KEYS,
    "rows_of_changed_pairs": ROWS_OF_CHANGED_PAIRS,
    "pairs_changed": CHANGED_PAIRS,
    "pairs_replaced": REPLACED_PAIRS,
    "pairs_new": NEW_PAIRS,
    "pairs_gone": GONE_PAIRS,
}
"""The rows of a comparison that each of its `Counts` counts; bytes are counted apart."""


FAULTS: Final = ("unknown", "misnumbered", "mistyped", "out_of_step")
"""What `Engine.faults` counts of updates."""

PAIR_FAULTS: Final = ("rows", "misnumbered", "unmapped", "surplus")
"""What `Engine.pair_faults` counts of content and key mappings."""

FILE: Final = "_file"
"""The file that a first or last row belongs to."""

MISPLACED: Final = "_misplaced"
"""The number of rows in the file that are out of place."""

FILE_COLUMN: Final = Column(FILE, StringType())
MISPLACED_COLUMN: Final = Column(MISPLACED, LongType())


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of keys, content rows and pairs (source key, target key) in a comparison.

    Attributes:
        keys: those that were processed.
        keys_changed: those whose rows differ; of these ``keys_deleted`` have none afterwards, and
            ``keys_updated`` have some on both sides.
        bytes: the approximate size of the content rows, before and after.
    """

    keys: int
    keys_changed: int
    keys_before: int
    keys_after: int
    keys_deleted: int
    keys_updated: int
    rows_before: int
    rows_after: int
    rows_added: int
    rows_removed: int
    rows_of_changed_keys: int
    rows_of_changed_pairs: int
    pairs_changed: int
    pairs_replaced: int
    pairs_new: int
    pairs_gone: int
    bytes: int

    def __add__(self, other: Counts) -> Counts:
        """Add the counts of two comparisons that have no key in common."""
        return Counts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @staticmethod
    def of_new(keys: int, pairs: int, rows: int, total_bytes: int) -> Counts:
        """Return the counts where nothing was there before."""
        return Counts(
            keys=keys,
            keys_changed=keys,
            keys_before=0,
            keys_after=keys,
            keys_deleted=0,
            keys_updated=0,
            rows_before=0,
            rows_after=rows,
            rows_added=rows,
            rows_removed=0,
            rows_of_changed_keys=rows,
            rows_of_changed_pairs=rows,
            pairs_changed=pairs,
            pairs_replaced=0,
            pairs_new=pairs,
            pairs_gone=0,
            bytes=total_bytes,
        )
