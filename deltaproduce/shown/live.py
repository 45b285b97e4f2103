"""A live line: what a version in progress is doing, on a terminal or in a notebook.

The invariant: nothing is written where nobody watches (a pipe, a log file, a scheduler), nor for an
operation that takes less than two seconds, and the line is gone once the version is published.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TextIO

from deltaproduce.shown.phases import Listener, Progress

_SECONDS: Final = 2.0
"""As in DuckDB's progress bar: a faster operation needs no line."""
_CLEAR: Final = "\r\x1b[K"


def live() -> Listener | None:
    """Return a line on standard error if a terminal or a notebook shows it; else None."""
    stream = sys.stderr
    return LiveLine(stream) if stream is not None and (stream.isatty() or _in_notebook()) else None


@dataclass(slots=True)
class LiveLine:
    """One line, overwritten in place.

    Args:
        stream: the stream to write to.
    """

    stream: TextIO
    clock: Callable[[], float] = time.perf_counter
    _started: float | None = None
    _shown: bool = False

    def __call__(self, progress: Progress) -> None:
        """Show the current work."""
        now = self.clock()
        if self._started is None:
            self._started = now
        if progress.event == "ends" and not progress.phase and not progress.stage:
            self._clear()
        elif now - self._started >= _SECONDS:
            self._show(progress, now - self._started)

    def _show(self, progress: Progress, seconds: float) -> None:
        doing = progress.phase if progress.event == "begins" else ""
        text = " ".join(filter(None, (progress.operation, progress.stage, doing)))
        count = f" ({progress.done}/{progress.total} stages)" if progress.total else ""
        self.stream.write(f"{_CLEAR}{text}{count} {seconds:.0f} s")
        self.stream.flush()
        self._shown = True

    def _clear(self) -> None:
        self._started = None
        if self._shown:
            self.stream.write(_CLEAR)
            self.stream.flush()
            self._shown = False


def _in_notebook() -> bool:
    """Return whether IPython runs in a kernel, whose output is shown in a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")
