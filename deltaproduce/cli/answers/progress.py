"""Progress: what standard error shows while a version is computed.

On a terminal, a table grows by a line for each stage, and disappears when the answer comes.
Elsewhere (a log, a scheduler) each stage prints a line when it is done. The invariant: an operation
that takes less than two seconds shows nothing, and nothing is ever written to standard output.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TextIO

from deltaproduce.shown.phases import Listener, Progress
from deltaproduce.shown.table import Cell, Table, cell_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

COLUMNS: Final = ("stage", "", "keys", "changed", "rows", "seconds")
"""As in the table that a run prints at its end, with the same figures.

That also has the mode, which is known only once a stage is written.
"""

_SECONDS: Final = 2.0
"""As for DuckDB's progress bar: faster operations need none."""


def on_standard_error() -> Listener:
    """Return the progress display of one command: a table on a terminal, else lines."""
    stream = sys.stderr
    return LiveTable(stream) if stream.isatty() else Lines(stream)


@dataclass(slots=True)
class Lines:
    """Prints a line for each stage that is done.

    Args:
        stream: where to write.
        clock: returns seconds since any fixed moment.
    """

    stream: TextIO
    clock: Callable[[], float] = time.perf_counter
    _started: float | None = None
    _held: list[str] = field(default_factory=list)

    def __call__(self, progress: Progress) -> None:
        """Write the stages that are done, or hold them until two seconds are over."""
        now = self.clock()
        self._started = now if self._started is None else self._started
        if progress.event == "ends" and not progress.phase:
            if not progress.stage:  # the operation
                self._started, self._held = None, []
                return
            if progress.mode is not None:  # else no change reached it
                cells = zip(COLUMNS[2:5], _row(progress)[2:5], strict=True)
                text = ", ".join(f"{name} {cell_text(cell)}" for name, cell in cells)
                done = f"{text}, {cell_text(_row(progress)[5])} s"
                self._held.append(f"{cell_text(progress.stage)}: {done}")
        if self._held and now - self._started >= _SECONDS:
            self.stream.write("".join(f"{line}\n" for line in self._held))
            self.stream.flush()
            self._held = []


@dataclass(slots=True)
class LiveTable:
    """Draws a table of the stages that are done, and of the current one.

    Args:
        stream: a terminal.
        clock: returns seconds since any fixed moment.
    """

    stream: TextIO
    clock: Callable[[], float] = time.perf_counter
    _started: float = 0.0
    _begun: float = 0.0
    _now: Progress | None = None
    _done: dict[str, Progress] = field(default_factory=dict)
    _live: Live | None = None

    def __call__(self, progress: Progress) -> None:
        """Record what is done; another thread draws it, four times a second."""
        match progress:
            case Progress(event="ends", phase="", stage=""):
                self._end()
                return
            case Progress(event="ends", phase=""):
                if progress.mode is not None:  # else no change reached it
                    self._done[progress.stage] = progress
                self._now = None
            case Progress(event="begins", phase=""):
                self._begun, self._now = self.clock(), progress
            case Progress(event="begins"):
                self._now = progress
        if self._live is None:
            self._begin()

    def drawn(self) -> RenderableType:
        """Return the current table; nothing in the first two seconds."""
        from rich.console import Group

        from deltaproduce.cli.answers.console import drawn

        now = self.clock()
        if now - self._started < _SECONDS:
            return Group()
        rows = [_row(one) for one in list(self._done.values())]
        current = self._now
        if current is not None:
            seconds = round(now - self._begun, 2)
            rows.append((current.stage, current.phase, None, None, None, seconds))
        return drawn(Table("", COLUMNS, tuple(rows)))

    def _begin(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._started = self._begun = self.clock()
        console = Console(file=self.stream)
        self._live = Live(console=console, get_renderable=self.drawn, transient=True)
        self._live.start()

    def _end(self) -> None:
        if self._live is not None:
            self._live.stop()
        self._live, self._now, self._done = None, None, {}


def _row(progress: Progress) -> tuple[Cell, ...]:
    """Return the cells of a stage that is done, by `COLUMNS`."""
    seconds = None if progress.seconds is None else round(progress.seconds, 3)
    keys, changed = progress.keys_affected, progress.keys_changed
    return progress.stage, "done", keys, changed, progress.rows, seconds
