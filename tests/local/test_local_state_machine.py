"""A store without a session under random operations always matches the model.

``LOCAL_EXAMPLES`` (environment) makes the search longer.
"""

import os

from forcing import WAYS, Way
from machine import run_machine

EXAMPLES = int(os.environ.get("LOCAL_EXAMPLES", "0"))
HERE = (
    Way("small", "merge_on_read"),
    *(w for w in WAYS if w.name in ("runs", "runs, often folded")),
)


def test_random_operations(long_run: bool) -> None:
    run_machine(None, HERE, examples=EXAMPLES or (15 if long_run else 6), steps=8)
