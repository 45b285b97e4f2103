"""Measures: what a step took in time, Spark jobs, commits, files, bytes and memory.

Time is on the wall. Jobs come from Spark's event log, so that nothing is asked of the running
session; commits and files are counted in the directory. Memory and bytes read are those of this
process, the Java process and its Python workers together, as the operating system counts them:
Spark's own count of bytes read misses local files and counts cached blocks. It includes what the
processes send each other.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

_SAMPLE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Step:
    """What one step took.

    Attributes:
        started_ms: since the epoch, as Spark's events count.
        peak_memory_bytes: of all processes together, at most.
        bytes_read: by all processes together, from files, pipes and sockets.
        commits: commits to Delta tables.
        files_written: data files, deletion vectors included.
    """

    started_ms: int
    seconds: float
    peak_memory_bytes: int
    bytes_read: int
    commits: int
    files_written: int
    bytes_written: int
    bytes_stored: int
    jobs: int = 0


def measured(call: Callable[[], object], directory: Path) -> Step:
    """Run a step that writes below a directory."""
    before = _files(directory)
    read = _read()
    with _peak_memory() as peak:
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
        _read() - read,
        len(commits),
        len(data),
        sum(written[path] for path in written),
        sum(after.values()),
    )


def job_starts(event_log: Path) -> list[int]:
    """When each Spark job started, in milliseconds since the epoch."""
    starts = []
    for file in sorted(event_log.rglob("events_*")):
        with file.open() as lines:
            events = (json.loads(line) for line in lines if "SparkListenerJobStart" in line)
            starts += [event["Submission Time"] for event in events]
    return starts


def with_jobs(step: Step, starts: Sequence[int]) -> dict[str, Any]:
    """The step with the number of Spark jobs that started in its time, as plain values."""
    first, last = step.started_ms, step.started_ms + int(step.seconds * 1000)
    return asdict(step) | {"jobs": sum(first <= at <= last for at in starts)}


def _files(directory: Path) -> dict[Path, int]:
    found = {}
    for path in directory.rglob("*"):
        if path.is_file() and not path.name.endswith(".crc"):
            found[path] = path.stat().st_size
    return found


def _is_commit(path: Path) -> bool:
    return path.parent.name == "_delta_log" and path.suffix == ".json" and path.stem.isdigit()


@contextmanager
def _peak_memory() -> Iterator[list[int]]:
    peak, done = [0], threading.Event()

    def sample() -> None:
        while not done.is_set():
            peak[0] = max(peak[0], _memory())
            done.wait(_SAMPLE_SECONDS)

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        yield peak
    finally:
        done.set()
        sampler.join()


def _memory() -> int:
    return _sum(lambda process: process.memory_info().rss)


def _read() -> int:
    return _sum(lambda process: process.io_counters().read_chars)


def _sum(of: Callable[[psutil.Process], int]) -> int:
    total = 0
    this = psutil.Process()
    for process in (this, *this.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            total += of(process)
    return total
