"""Worker processes on the driver: a pool of them, started on demand and reused.

A user's function must not crash the driver, so it runs in a process of its own (`worker`), and a
step of a few rows does not wait for a Spark job. `calls` distributes rows; this module starts,
lends and ends processes.

Invariants: a worker is lent to one call at a time. It is given back only after it has responded,
otherwise it is ended. The driver is never forked. Workers end with the pool, and with the driver.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from operator import is_
from types import ModuleType
from typing import Any, Final

from deltaproduce.engines.local.worker import HEADER, PLACE, START
from deltaproduce.model.limits.machine import cores

_END_SECONDS: Final = 0.5
_RECEIVED: Final = 1 << 20


class EndedError(Exception):
    """A worker has ended."""


class Worker:
    """A process that calls functions, as the driver sees it.

    Attributes:
        ready: it has reported that it is; a process takes a third of a second to start.
        generation: how often the driver's modules had changed when it was started.
    """

    def __init__(self, generation: int, modules: Iterable[str]) -> None:
        self.ready = False
        self.generation = generation
        self._place = b""
        self._received = bytearray()
        self._channel, theirs = socket.socketpair()
        with theirs:
            arguments = _path(jars=False), theirs.fileno(), os.getpid(), [*modules]
            self._process = subprocess.Popen(
                [sys.executable, "-u", "-c", START, *map(json.dumps, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=_errors(),
                pass_fds=[theirs.fileno()],
                env=_environment(),
            )

    def fileno(self) -> int:
        """Return the channel's file number, to wait for frames."""
        return self._channel.fileno()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def send(self, kind: bytes, payload: bytes | memoryview) -> None:
        """Send a frame.

        Raises:
            EndedError: the process is gone.
        """
        try:
            self._channel.sendall(HEADER.pack(kind, len(payload)))
            self._channel.sendall(payload)
        except ConnectionError as error:
            raise EndedError from error

    def send_place(self) -> None:
        """Set its import path and its directory to the driver's."""
        directory = "."
        with suppress(OSError):
            directory = os.getcwd()
        place = json.dumps({"path": _path(jars=True), "directory": directory}).encode()
        if place != self._place:
            self.send(PLACE, place)
            self._place = place

    def received(self) -> list[tuple[bytes, bytes]]:
        """Return the frames that have come since the last call; wait for at least some bytes.

        Raises:
            EndedError: the process is gone.
        """
        try:
            data = self._channel.recv(_RECEIVED)
        except ConnectionError as error:
            raise EndedError from error
        if not data:
            raise EndedError
        self._received += data
        frames, start = [], 0
        while len(self._received) - start >= HEADER.size:
            kind, size = HEADER.unpack_from(self._received, start)
            end = start + HEADER.size + size
            if len(self._received) < end:
                break
            frames.append((kind, bytes(memoryview(self._received)[start + HEADER.size : end])))
            start = end
        del self._received[:start]
        return frames

    def let_end(self) -> None:
        """Let the process end, which it soon does if it is idle."""
        self._channel.close()

    def end(self, seconds: float = 0) -> None:
        """End the process: kill it, unless it ends by itself in ``seconds``."""
        self._channel.close()
        if seconds:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
        self._process.kill()
        self._process.wait()


class Workers:
    """A pool of workers.

    Args:
        most: the most workers; by default as many as this process may use cores.

    Attributes:
        most: the same.
        unfit: workers cannot be started here.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = most or cores()
        self.unfit = False
        self._freed = threading.Condition()
        self._all: set[Worker] = set()
        self._idle: list[Worker] = []
        self._modules = _Modules()
        self._expected: set[str] = set()
        self._generation = 0
        weakref.finalize(self, _end_all, self._all, os.getpid())

    def expect(self, module: str) -> None:
        """Have a worker start now, if there is none, that a call will soon ask for.

        Args:
            module: the module of this library that functions are sent from; workers import it
                before they are ready.
        """
        with self._freed:
            self._expected.add(module)
            if not self._all and not self.unfit:
                self._idle.append(self._started())

    def take(self) -> Worker | None:
        """Lend a worker, once one is free; return None if none can be started."""
        with self._freed:
            if self._modules.have_changed():
                self._generation += 1
                self._end([one for one in self._idle if one.generation != self._generation])
            while not self.unfit:
                worker = self._available(start=True)
                if worker is not None:
                    return worker
                self._freed.wait()
        return None

    def take_another(self, *, start: bool) -> Worker | None:
        """Lend a call one more worker, if one is idle, or may be started."""
        with self._freed:
            return self._available(start=start)

    def give_back(self, worker: Worker) -> None:
        """Take back a worker that has responded."""
        with self._freed:
            if worker.generation == self._generation:
                self._idle.append(worker)
            else:
                self._end([worker])
            self._freed.notify()

    def drop(self, worker: Worker) -> None:
        """End a worker that has been lent."""
        with self._freed:
            self._end([worker])
            self._freed.notify()

    def give_up(self, worker: Worker) -> None:
        """End a worker that has been lent and never was ready; start no other."""
        with self._freed:
            self.unfit = True
            self._end([worker])
            self._freed.notify_all()

    def close(self) -> None:
        """End all workers; new ones start if there is more to do."""
        with self._freed:
            self._idle.clear()
            _end_all(self._all, os.getpid())

    def _available(self, *, start: bool) -> Worker | None:
        self._end([one for one in self._idle if one.has_ended])
        if self._idle:
            worker = next((one for one in reversed(self._idle) if one.ready), self._idle[-1])
            self._idle.remove(worker)
            return worker
        if not start or len(self._all) >= self.most:
            return None
        return self._started()

    def _started(self) -> Worker:
        worker = Worker(self._generation, sorted(self._expected))
        self._all.add(worker)
        return worker

    def _end(self, workers: Iterable[Worker]) -> None:
        for worker in workers:
            worker.end()
            self._all.discard(worker)
            if worker in self._idle:
                self._idle.remove(worker)


def process_workers() -> Workers:
    """Return the pool of this process; a forked process has its own."""
    return _workers_of(os.getpid())


@cache
def _workers_of(pid: int) -> Workers:
    del pid
    return Workers()


def _end_all(workers: set[Worker], pid: int) -> None:
    """End the workers that a process started, unless this is a fork of it."""
    if os.getpid() != pid:
        return
    for worker in workers:
        worker.let_end()
    end = time.monotonic() + _END_SECONDS
    while workers:
        worker = workers.pop()
        worker.end(max(end - time.monotonic(), 0) if worker.ready else 0)


class _Modules:
    """The driver's modules, to notice which were reloaded.

    A worker continues with the module that it has imported, and would call a function that is no
    longer the driver's.
    """

    def __init__(self) -> None:
        self._modules: list[object] = []
        self._namespaces: list[dict[str, Any]] = []
        self._specs: list[object] = []
        self._known: dict[str, object] = {}

    def have_changed(self) -> bool:
        """Return whether a known module has been reloaded since the last call."""
        modules: list[object] = [*sys.modules.values()]
        specs = [one.get("__spec__") for one in self._namespaces]
        if _are(modules, self._modules) and _are(specs, self._specs):
            return False  # as nearly always, and a version asks for each call of a function
        named = [
            (name, object.__getattribute__(module, "__dict__"))  # loads no lazy one
            for name, module in [*sys.modules.items()]
            if name != "__main__" and isinstance(module, ModuleType)
        ]
        self._modules, self._namespaces = modules, [namespace for _, namespace in named]
        self._specs = [one.get("__spec__") for one in self._namespaces]
        known = {name: spec for (name, _), spec in zip(named, self._specs, strict=True)}
        changed = any(self._known.get(name, spec) is not spec for name, spec in known.items())
        self._known |= known
        return changed


def _are(objects: Sequence[object], others: Sequence[object]) -> bool:
    """Return whether these are the same objects in the same order."""
    return len(objects) == len(others) and all(map(is_, objects, others))


def _path(*, jars: bool) -> list[str]:
    """Return the driver's path, with jars last: Spark puts those of `spark.jars.packages` first.

    Python takes a second to read their contents, when it looks for a module there.
    """
    entries = [entry for entry in sys.path if isinstance(entry, str)]
    others = [entry for entry in entries if not entry.endswith(".jar")]
    return [*others, *(entry for entry in entries if jars and entry.endswith(".jar"))]


def _errors() -> int:
    """Return where Spark's workers print to: the driver's standard error."""
    try:
        os.fstat(2)
    except OSError:
        return subprocess.DEVNULL
    return 2


def _environment() -> dict[str, str]:
    """Return the driver's environment, with the hash seed and threads that Spark's workers have."""
    return {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", **os.environ}
