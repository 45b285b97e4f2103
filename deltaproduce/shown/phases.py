"""Phases: the work on a version in progress, how long each part takes, and who watches.

Code that does work names its phase (`phase`, `in_phase`); code that makes a version watches it
(`watching`). Phases nest, and the seconds of a phase exclude those of its inner phases. The
invariant: the seconds of all phases add up to those from beginning to end, so all time has a name.

The watch is in a context variable, as in logging and tracing: packages that read and compute need
not pass it down, and work of other threads, outside the version, does not count.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from functools import wraps
from typing import Any, Final, Literal, ParamSpec, TypeAlias, TypeVar

from deltaproduce.shown.tabular import Word, one_line

Phase = Literal[
    "planning",
    "checking",
    "reading",
    "computing",
    "comparing",
    "waiting",
    "writing",
    "publishing",
]
"""The phases of an operation.

``planning``: finding the work in the version log, and all work without a phase of its own.
``checking``: the given rows, and what other writers left in the tables. ``reading``: stored rows.
``computing``: functions, queries and aggregates. ``comparing``: rows before and after. ``waiting``:
for a compaction. ``writing``: one commit per table. ``publishing``: the version. With Spark,
deferred reading counts where its rows are used.
"""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of an operation: stage number ``done`` + 1 of ``total`` is running.

    Without a `phase` it reports that a stage begins or ends, that the commit of all stages begins,
    or, without a `stage` too, that the operation ends.

    Attributes:
        stage: the stage; ``commit`` when the store begins to write tables; empty for the operation.
        phase: the phase; empty if it is about the stage.
        event: whether it begins or ends.
        seconds: how long it took, at the end; a phase does not count those within it.
        mode: how a stage was done, at its end; see `StageFigures.mode`, before it is written.
        keys_in: the number of changed keys of its feeders; for a source, of processed keys.
        keys_changed: the number of keys that its updates will have.
        rows: the number of rows that it then has.
        keys_affected: the number of its own keys that were compared; see
            `StageFigures.affected_keys`.
    """

    operation: str
    stage: str
    done: int
    total: int
    phase: Phase | Literal[""] = ""
    event: Literal["begins", "ends"] = "begins"
    seconds: float | None = None
    mode: str | None = None
    keys_in: int | None = None
    keys_changed: int | None = None
    rows: int | None = None
    keys_affected: int | None = None

    def __repr__(self) -> str:
        what = Word(f"{self.phase or 'stage'} {self.event}")
        return one_line(self, Word(self.operation), self.stage, self.done, self.total, what)

    def as_dict(self) -> dict[str, Any]:
        """Return the progress as JSON has it, without its empty optional fields."""
        values = {name: value for name, value in asdict(self).items() if value not in (None, "")}
        place = {"operation": self.operation, "stage": self.stage}
        if self.event == "begins" and not self.phase:
            del values["event"]
        return {**place, **values}


Listener: TypeAlias = Callable[[Progress], None]
Describe: TypeAlias = Callable[[str | None], None]


@dataclass(slots=True)
class _Open:
    """A phase that has begun."""

    name: Phase
    seconds: float = 0.0


@dataclass(slots=True)
class Watch:
    """Times the phases of one operation, and reports them.

    Attributes:
        operation: the name of the operation.
        listeners: the functions to notify, in order.
        describing: returns a function that is called with a description of the current work, and
            with None at the end; called when the first of Spark's jobs is about to begin.
    """

    operation: str
    listeners: tuple[Listener, ...] = ()
    describing: Callable[[], Describe | None] | None = None
    clock: Callable[[], float] = time.perf_counter
    _describe: Describe | None = None
    _stage: str = ""
    _done: int = 0
    _total: int = 0
    _since: float = 0.0
    _open: list[_Open] = field(default_factory=list)

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        """Run the block as this phase; a phase directly within itself is one phase."""
        if self._open and self._open[-1].name == name:
            yield
            return
        self._charge()
        opened = _Open(name)
        self._open.append(opened)
        self._say(name, "begins")
        try:
            yield
        finally:
            self._charge()
            self._open.pop()
            self._say(name, "ends", opened.seconds)

    def reached(self, progress: Progress, *, is_hidden: bool = False) -> None:
        """Report that a stage or the commit begins or ends; later phases belong to it.

        Args:
            is_hidden: no listener is notified, because a hidden stage of the named one runs.
        """
        commits = progress.event == "begins" and progress.stage == COMMIT
        self._stage = "" if commits else progress.stage
        self._done, self._total = progress.done, progress.total
        if not is_hidden:
            self._tell(progress)

    def jobs_begin(self) -> None:
        """Describe Spark's jobs from now on; it takes Java a call for each phase."""
        if self.describing is not None:
            self._describe, self.describing = self.describing(), None
            self._describe_now()

    def end(self, seconds: float) -> None:
        """Report the end of the operation."""
        if self._describe is not None:
            self._describe(None)
        self._tell(Progress(self.operation, "", self._done, self._total, "", "ends", seconds))

    def _charge(self) -> None:
        """Add the time until now to the innermost phase."""
        now = self.clock()
        if self._open:
            self._open[-1].seconds += now - self._since
        self._since = now

    def _say(
        self, name: Phase, event: Literal["begins", "ends"], seconds: float | None = None
    ) -> None:
        self._describe_now()
        place = self.operation, self._stage, self._done, self._total
        self._tell(Progress(*place, name, event, seconds))

    def _describe_now(self) -> None:
        """Describe the phase that runs, if jobs are described."""
        if self._describe is not None and self._open:
            now = ("deltaproduce:", self.operation, self._stage, self._open[-1].name)
            self._describe(" ".join(filter(None, now)))

    def _tell(self, progress: Progress) -> None:
        """Notify the listeners; an operation that a listener runs is not part of this one."""
        token = _watch.set(None)
        try:
            for listener in self.listeners:
                try:
                    listener(progress)
                except Exception:
                    if progress.event == "begins":
                        raise  # at the end the version may be published already
                    _LOGGER.exception("progress failed at the end of %r", progress)
        finally:
            _watch.reset(token)


COMMIT: Final = "commit"
_LOGGER: Final = logging.getLogger("deltaproduce")
_watch: Final[ContextVar[Watch | None]] = ContextVar("deltaproduce_watch", default=None)


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Watch the block, unless an operation around it is watched already."""
    if _watch.get() is not None:
        yield
        return
    token, started = _watch.set(watch), watch.clock()
    try:
        with watch.phase("planning"):
            yield
    finally:
        _watch.reset(token)
        watch.end(watch.clock() - started)


@contextmanager
def phase(name: Phase) -> Iterator[None]:
    """Run the block as this phase, if it is watched."""
    watch = _watch.get()
    if watch is None:
        yield
        return
    with watch.phase(name):
        yield


def jobs_begin() -> None:
    """Report to the watch, if there is one, that Spark is about to get work from this thread."""
    watch = _watch.get()
    if watch is not None:
        watch.jobs_begin()


def reached(progress: Progress, *, is_hidden: bool = False) -> None:
    """Report to the watch, if there is one, that a stage begins or ends; see `Watch.reached`."""
    watch = _watch.get()
    if watch is not None:
        watch.reached(progress, is_hidden=is_hidden)


_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def in_phase(name: Phase) -> Callable[[Callable[_Given, _Result]], Callable[_Given, _Result]]:
    """Return a decorator that runs a function as a phase."""

    def decorate(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
        @wraps(function)
        def phased(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
            with phase(name):
                return function(*args, **kwargs)

        return phased

    return decorate
