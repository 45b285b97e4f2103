"""Measures: time, Spark jobs, commits, files, bytes and memory of a step.

Time is wall time. Jobs and files read come from Spark's event log, so the running session is not
asked; commits and files written are counted in the directory. Memory and bytes read are the totals
of this process, the Java process and its Python workers, as the operating system counts them:
Spark's own count of bytes read misses local files and counts cached blocks. The totals include what
the processes send each other.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

_SAMPLE_SECONDS = 0.1
_FILES_READ = re.compile(rb'"name":"number of files read","accumulatorId":(\d+)')


@dataclass(frozen=True, slots=True)
class Step:
    """The figures of one step.

    Attributes:
        started_ms: milliseconds since the epoch, as in Spark's events.
        peak_memory_bytes: the peak of all processes together.
        bytes_read: by all processes together, from files, pipes and sockets.
        commits: commits to Delta tables.
        files_written: data files, including deletion vectors.
    """

    started_ms: int
    seconds: float
    peak_memory_bytes: int
    bytes_read: int
    commits: int
    files_written: int
    bytes_written: int
    bytes_stored: int


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes that do the work, and so count.

    Attributes:
        root: the id of a process that counts with all its children; None is this process.
        without: the ids of processes that do not count, nor do their children.
    """

    root: int | None = None
    without: frozenset[int] = frozenset()

    def sum(self, of: Callable[[psutil.Process], int]) -> int:
        """Return the sum of a figure over all processes."""
        total = 0
        left_out = {process for pid in self.without for process in _with_children(pid)}
        for process in _with_children(self.root):
            if process not in left_out:
                with suppress(psutil.NoSuchProcess):
                    total += of(process)
        return total

    def memory(self) -> int:
        """Bytes in memory."""
        return self.sum(lambda process: process.memory_info().rss)

    def own_memory(self) -> int:
        """Bytes in memory that the system cannot drop, as it can pages of mapped files."""
        return self.sum(_own_memory)

    def read(self) -> int:
        """Bytes read so far."""
        return self.sum(lambda process: process.io_counters().read_chars)


def measured(
    call: Callable[[], object], directory: Path, processes: Processes, *, own: bool = False
) -> Step:
    """Run a step that writes below a directory.

    Args:
        own: whether to leave out pages of mapped files from memory.
    """
    before = _files(directory)
    read = processes.read()
    with _peak_memory(processes.own_memory if own else processes.memory) as peak:
        started_ms, started = int(time.time() * 1000), time.perf_counter()
        call()
        seconds = time.perf_counter() - started
    after = _files(directory)
    written = {path: size for path, size in after.items() if before.get(path) != size}
    commits = [path for path in written if _is_commit(path)]
    data = [path for path in written if "_delta_log" not in path.parts]
    return Step(
        started_ms,
        round(seconds, 3),
        peak[0],
        processes.read() - read,
        len(commits),
        len(data),
        sum(written[path] for path in written),
        sum(after.values()),
    )


class EventLog:
    """Spark's event logs over the time of a step. It reads on from where it stopped.

    Args:
        directory: the directory where the sessions of this run write their logs, uncompressed.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read_to: dict[Path, int] = {}
        self._jobs: list[int] = []
        self._queries: dict[tuple[Path, int], int] = {}
        self._counters: set[tuple[Path, int]] = set()
        self._files: list[tuple[int, int]] = []

    def read(self) -> None:
        """Read what was logged since the last call."""
        for file in sorted(self._directory.rglob("events_*")):
            with file.open("rb") as lines:
                lines.seek(self._read_to.get(file, 0))
                for line in lines:
                    if not line.endswith(b"\n"):
                        break  # a line that is not complete yet
                    self._read_to[file] = self._read_to.get(file, 0) + len(line)
                    self._take(file.parent, line)

    def counted(self, step: Step) -> dict[str, Any]:
        """Return the step as plain values, with its Spark jobs and the files that Spark scans."""
        first, last = step.started_ms, step.started_ms + int(step.seconds * 1000)
        files = sum(number for at, number in self._files if first <= at <= last)
        jobs = sum(first <= at <= last for at in self._jobs)
        return asdict(step) | {"jobs": jobs, "files_read": files}

    def _take(self, log: Path, line: bytes) -> None:
        if b"SparkListenerJobStart" in line:
            self._jobs.append(json.loads(line)["Submission Time"])
        elif b"SparkListenerSQLExecutionStart" in line:
            event = json.loads(line)
            self._queries[log, event["executionId"]] = event["time"]
            self._counters |= {(log, int(found)) for found in _FILES_READ.findall(line)}
        elif b"SparkListenerDriverAccumUpdates" in line:
            event = json.loads(line)
            at = self._queries.get((log, event["executionId"]), 0)
            self._files += [
                (at, number)
                for counter, number in event["accumUpdates"]
                if (log, counter) in self._counters
            ]


def _with_children(pid: int | None) -> list[psutil.Process]:
    """Return a process and all below it; none if it has ended. Looks once at all processes."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


def _own_memory(process: psutil.Process) -> int:
    memory = process.memory_info()
    return int(memory.rss - getattr(memory, "shared", 0))


def _files(directory: Path) -> dict[Path, int]:
    found = {}
    for path in directory.rglob("*"):
        if path.is_file() and not path.name.endswith(".crc"):
            found[path] = path.stat().st_size
    return found


def _is_commit(path: Path) -> bool:
    return path.parent.name == "_delta_log" and path.suffix == ".json" and path.stem.isdigit()


@contextmanager
def _peak_memory(memory: Callable[[], int]) -> Iterator[list[int]]:
    """Sample the memory; what is shorter than the time between two samples is not disturbed."""
    peak, done = [memory()], threading.Event()

    def sample() -> None:
        while not done.wait(_SAMPLE_SECONDS):
            peak[0] = max(peak[0], memory())

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        yield peak
    finally:
        done.set()
        sampler.join()
        peak[0] = max(peak[0], memory())
