"""Marks: the columns in which a comparison says what differs, and the words of change types.

Both engines' comparisons (`local.comparing`, `spark.comparing`) give them the same meaning.
"""

from __future__ import annotations

from typing import Final

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
