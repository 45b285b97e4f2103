"""Answers: what a verb has to say, as JSON and as tables, and the exit code that goes with it.

Pure. The invariant: the JSON has all that the tables show, so that nobody has to read these with a
program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from deltaproduce.shown.table import Table

DONE: Final = 0
FAILED: Final = 1
WRONG_USE: Final = 2
NOTHING_TO_DO: Final = 3
INTERRUPTED: Final = 130
"""As shells have it: 128 and the number of SIGINT."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a verb says.

    Attributes:
        data: what ``--json`` prints: plain values.
        parts: what is printed otherwise, from top to bottom.
        code: the exit code.
    """

    data: Any
    parts: tuple[Table | str, ...] = ()
    code: int = DONE
