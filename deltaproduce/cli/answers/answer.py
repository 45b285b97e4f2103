"""Answers: the output of a verb, as JSON and as tables, and its exit code.

Pure. The invariant: the JSON has everything that the tables show, so that no program has to parse
the tables.
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
"""As in shells: 128 plus the number of SIGINT."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The output of a verb.

    Attributes:
        data: what ``--json`` prints: plain values.
        parts: the output without ``--json``, from top to bottom.
        code: the exit code.
    """

    data: Any
    parts: tuple[Table | str, ...] = ()
    code: int = DONE
