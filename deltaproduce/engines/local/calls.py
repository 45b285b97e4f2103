"""Calls of a function in workers on the driver: how rows are distributed among them.

Rows are cut between keys. One worker gets the first few; if it does not respond at once, the call
is slow enough to distribute, and other workers get the next rows. Each time a worker gets a share
of the remaining rows, so that all end together, but not less than a moment's work: a fast function
over a few rows takes one or two round trips, a slow one uses all cores. A call that a cluster would
finish sooner is left to it.

Invariants: results are in the order of the rows, whichever worker computes them. They are all of
one run of the function, or nothing. The failure that is raised is that of the first rows that fail.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from selectors import EVENT_READ, DefaultSelector
from types import MappingProxyType
from typing import Any, Final, NoReturn

import numpy as np
import pyarrow as pa

from deltaproduce.engines.failures import WorkerError, died, failure_in
from deltaproduce.engines.local import worker as said
from deltaproduce.engines.local.arrays import Numbers
from deltaproduce.engines.local.workers import EndedError, Worker, Workers
from deltaproduce.types.excerpts import escaped

_LATE_SECONDS: Final = 0.005
"""A call that has taken this long and has rows left gets the idle workers."""
_SLOW_SECONDS: Final = 0.05
"""After this long, more workers are started, which takes a third of a second."""
_MOMENT_SECONDS: Final = 0.02
"""The least work that is worth a round trip."""
_KNOWN_SECONDS: Final = 0.5
"""After this much work, the function's speed is known."""
_JOB_SECONDS: Final = 1.0
"""The time that other machines need to start."""
_LOOK_SECONDS: Final = 0.25
_BATCH_ROWS: Final = 10_000
_LONGEST_TEXT: Final = 16_000


def pickled(function: Callable[..., Any], stays: tuple[type, ...] = ()) -> bytes | None:
    """Return a function as it is sent to a worker; None if it cannot be sent.

    Args:
        stays: the function cannot be sent if it holds an instance of one of these classes.
    """
    written, pickler = io.BytesIO(), _pickler()
    try:
        pickler(written, stays).dump(function)
    except Exception:  # noqa: BLE001 the user's objects may do anything
        return None
    return written.getvalue()


@cache
def _pickler() -> Any:  # noqa: ANN401 a class of a module that is imported here
    """Return the class that pickles the user's functions; a start needs none of it."""
    import cloudpickle  # type: ignore[import-untyped]  # noqa: TID251 functions for a worker

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def __init__(self, file: io.BytesIO, stays: tuple[type, ...]) -> None:
            super().__init__(file)
            self._stays = stays

        def reducer_override(self, obj: Any) -> Any:  # noqa: ANN401 its signature
            if isinstance(obj, self._stays):
                raise TypeError("it is of no use in a worker")
            return super().reducer_override(obj)

    return Pickler


@dataclass(frozen=True, slots=True)
class BatchCall:
    """A function, and the rows to call it for.

    Attributes:
        stage: the function's stage.
        function: from batches to batches, `pickled`; see `failures.in_worker`.
        rows: at least one.
        ends: the rows before which they may be cut, in order; the last is the number of rows.
        most_workers: the most workers that take part.
        most_bytes: the most bytes of the result; None if only workers here can compute it.
        elsewhere: the number of workers on other machines; 0 if there are none.
    """

    stage: str
    function: bytes
    rows: pa.Table
    ends: Numbers
    most_workers: int
    most_bytes: int | None
    elsewhere: int = 0

    def run(self, workers: Workers) -> list[pa.Table] | None:
        """Return the function's result for the rows, in their order.

        Returns:
            Tables; None if the result is too large, other machines would finish sooner, or a worker
            cannot run the function.

        Raises:
            ProducerError: the function failed, or its worker died.
            WorkerError: something else failed in a worker.
        """
        return _Sharing(self, workers).run()


def is_sooner_elsewhere(count: int, left: int, each: float, here: int, elsewhere: int) -> bool:
    """Return whether other machines would do all rows sooner than this one does the rest.

    Args:
        count: all rows, which other machines would do from the first one on.
        left: the rows that no worker here has received.
        each: the seconds that a worker needs for a row.
        here: the workers on this machine.
        elsewhere: those on other machines.
    """
    return left * each / here > _JOB_SECONDS + count * each / elsewhere


class _LeftError(Exception):
    """The call is left to Spark."""


@dataclass(slots=True)
class _Part:
    """Rows that a worker has received."""

    rows: int
    since: float
    output: list[bytes] = field(default_factory=list)
    done: bool = False
    failure: Exception | None = None


class _Sharing:
    """A call in progress. One thread waits for all of its workers."""

    def __init__(self, call: BatchCall, workers: Workers) -> None:
        self._call = call
        self._workers = workers
        self._most = max(1, min(call.most_workers, workers.most))
        self._selector = DefaultSelector()
        self._lent: dict[Worker, _Part | None] = {}  # None while it starts
        self._called_workers: set[Worker] = set()
        self._parts: list[_Part] = []
        self._first_open = 0
        self._next_row = 0
        self._failed = False
        self._bytes = 0
        self._busy = [0.0, 0.0]  # rows with results, and their seconds
        self._warm = [0.0, 0.0]  # the same without the first rows of each worker
        self._begun: set[Worker] = set()
        self._began: float | None = None

    def run(self) -> list[pa.Table] | None:
        """See `BatchCall.run`."""
        first = self._workers.take()
        if first is None:
            return None
        try:
            self._hire(first)
            while not self._is_over():
                self._wait()
            return [
                pa.ipc.open_stream(b"".join(part.output)).read_all()
                for part in self._parts
                if part.output
            ]
        except _LeftError:
            return None
        finally:  # Ctrl-C ends here, too
            for worker in [*self._lent]:
                self._let_go(worker)
            self._selector.close()

    @property
    def _has_more(self) -> bool:
        return not self._failed and self._next_row < len(self._call.rows)

    def _is_over(self) -> bool:
        while self._first_open < len(self._parts):
            part = self._parts[self._first_open]
            if part.failure is not None:
                raise part.failure from part.failure.__cause__
            if not part.done:
                return False
            self._first_open += 1
        return not self._has_more

    def _wait(self) -> None:
        taken = self._taken()
        nexts = [after for after in (_LATE_SECONDS, _SLOW_SECONDS) if after > taken]
        patience = nexts[0] - taken if self._has_more and nexts else _LOOK_SECONDS
        events = self._selector.select(patience)
        for key, _ in events:
            self._hear(key.fileobj)  # type: ignore[arg-type]  # workers are what is registered
        if not events:
            for worker in [*self._lent]:
                if worker.has_ended:  # its own child may hold the channel open
                    self._lose(worker)
        self._hire_more()

    def _hire_more(self) -> None:
        taken = self._taken()
        while self._has_more and taken >= _LATE_SECONDS and len(self._lent) < self._most:
            worker = self._workers.take_another(start=taken >= _SLOW_SECONDS)
            if worker is None:
                return
            self._hire(worker)

    def _taken(self) -> float:
        """Return the duration of the call, since a worker was ready."""
        return 0.0 if self._began is None else time.monotonic() - self._began

    def _hire(self, worker: Worker) -> None:
        self._lent[worker] = None
        self._selector.register(worker, EVENT_READ)
        if worker.ready:
            self._hand(worker)

    def _hand(self, worker: Worker) -> None:
        """Send a worker the next rows; if there are none, let it go."""
        if not self._has_more:
            self._let_go(worker)
            return
        first, end = self._next_row, self._next_end()
        self._next_row, now = end, time.monotonic()
        if self._began is None:
            self._began = now
        part = self._lent[worker] = _Part(end - first, now)
        self._parts.append(part)
        try:
            if worker not in self._called_workers:
                worker.send_place()
                worker.send(said.FUNCTION, self._call.function)
                self._called_workers.add(worker)
            worker.send(said.ROWS, _written(self._call.rows.slice(first, end - first)))
        except EndedError:
            self._lose(worker)

    def _next_end(self) -> int:
        """Return where the next part ends: after a share of the rest, or a moment's work."""
        left = len(self._call.rows) - self._next_row
        rows, seconds = self._busy
        moment = int(_MOMENT_SECONDS * rows / seconds) if seconds else 0
        share = left if self._most == 1 else left // (2 * self._most)
        if self._call.elsewhere and self._warm[1] < _KNOWN_SECONDS:
            share = min(share, int(rows))  # twice as many each time, to learn its speed soon
        wanted = self._next_row + min(max(share, moment, 1), left)
        ends = self._call.ends
        place = int(np.searchsorted(ends, wanted, "right")) - 1
        if place < 0 or ends[place] <= self._next_row:
            place += 1  # one key, however many rows it has
        return int(ends[place])

    def _is_sooner_elsewhere(self) -> bool:
        """Return whether other machines would do all of it sooner than this one does the rest."""
        rows, seconds = self._warm
        if not self._call.elsewhere or seconds < _KNOWN_SECONDS:
            return False
        count = len(self._call.rows)
        return is_sooner_elsewhere(
            count, count - self._next_row, seconds / rows, self._most, self._call.elsewhere
        )

    def _hear(self, worker: Worker) -> None:
        try:
            frames = worker.received()
        except EndedError:
            self._lose(worker)
            return
        for kind, payload in frames:
            _HEARD[kind](self, worker, payload)

    def _ready(self, worker: Worker, payload: bytes) -> None:
        del payload
        worker.ready = True
        self._hand(worker)

    def _output(self, worker: Worker, payload: bytes) -> None:
        self._part(worker).output.append(payload)
        self._bytes += len(payload)
        most = self._call.most_bytes
        if most is not None and self._bytes > most:
            raise _LeftError

    def _done(self, worker: Worker, payload: bytes) -> None:
        del payload
        part = self._part(worker)
        part.done = True
        seconds = time.monotonic() - part.since
        for idle in (self._busy, self._warm) if worker in self._begun else (self._busy,):
            idle[0] += part.rows
            idle[1] += seconds
        self._begun.add(worker)
        if self._has_more and self._is_sooner_elsewhere():
            raise _LeftError
        self._hand(worker)

    def _fail(self, worker: Worker, payload: bytes) -> None:
        text = payload.decode()
        other = WorkerError(escaped(text, limit=_LONGEST_TEXT, lines=True))
        self._part(worker).failure = failure_in(text) or other
        self._failed = True
        self._lent[worker] = None
        self._let_go(worker)

    def _unfit(self, worker: Worker, payload: bytes) -> NoReturn:
        del payload
        self._lent[worker] = None
        raise _LeftError

    def _part(self, worker: Worker) -> _Part:
        part = self._lent[worker]
        assert part is not None
        return part

    def _lose(self, worker: Worker) -> None:
        """Handle the end of a worker: caused by the function, or before the worker was ready."""
        part = self._lent.pop(worker)
        self._selector.unregister(worker)
        if part is None:
            self._workers.give_up(worker)
            raise _LeftError
        self._workers.drop(worker)
        part.failure = died(self._call.stage)
        self._failed = True

    def _let_go(self, worker: Worker) -> None:
        part = self._lent.pop(worker)
        self._selector.unregister(worker)
        if part is None or part.done:
            self._workers.give_back(worker)
        else:
            self._workers.drop(worker)


_HEARD: Final = MappingProxyType(
    {
        said.READY: _Sharing._ready,
        said.OUTPUT: _Sharing._output,
        said.DONE: _Sharing._done,
        said.FAILED: _Sharing._fail,
        said.UNFIT: _Sharing._unfit,
    }
)


def _written(rows: pa.Table) -> memoryview:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=_BATCH_ROWS)
    return memoryview(sink.getvalue())
