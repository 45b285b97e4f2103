"""A cluster on this machine: Spark's own master and workers, each a process of its own.

A worker starts an executor for a session, which is one more Java process and starts Python workers
of its own. So nothing reaches a task but what Spark sends to it, or what is installed there.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyspark

HOME: Final = Path(pyspark.__file__).parent
ROOT: Final = Path(__file__).parents[1]
SECONDS: Final = 120
"""Beyond what a process takes to start beside other work."""
_DEATH_SIGNAL: Final = 1
"""Linux sends a process a signal when the one that started it is gone, if it is asked to."""


@dataclass
class Cluster:
    """A master and its workers.

    Attributes:
        master: the address that a session names.
        place: the folder of the processes' logs, and of what executors work on.
        memory: that of a worker, in Spark's units.
        java: options of each Java process.
        installed: a folder of Python modules that the executors find, and the driver does not.
        workers: those that run.
    """

    master: str
    place: Path
    memory: str
    java: str
    installed: Path
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _started: int = 0

    def start_worker(self) -> None:
        """Start one more worker, of one core; it is there once the master knows it."""
        self._started += 1
        host = f"127.0.0.{self._started + 1}"  # Spark attempts a task twice only on two hosts
        log = self.place / f"worker-{self._started}.log"
        arguments = ("--cores", "1", "--memory", self.memory, "--webui-port", "0")
        work = ("--work-dir", str(self.place / f"work-{self._started}"))
        command = ("worker.Worker", *arguments, *work, self.master)
        path = os.pathsep.join((str(ROOT), str(self.installed)))
        worker = _started(command, host, log, _environment(path, host, self.java))
        self.workers.append(worker)
        _said(log, worker, r"Successfully registered with master")

    def kill_worker(self) -> None:
        """Kill the oldest worker as a machine that loses its power: at once, with its executor."""
        worker = self.workers.pop(0)
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()


@contextmanager
def started(
    place: Path, workers: int = 2, *, memory: str = "2g", java: str = ""
) -> Iterator[Cluster]:
    """Start a cluster that runs meanwhile, on addresses of the loopback interface.

    Args:
        place: a folder for what its processes write.
        workers: how many, of one core each.
        memory: that of a worker, in Spark's units.
        java: options of each Java process.
    """
    log, installed = place / "master.log", place / "installed"
    installed.mkdir(parents=True)
    host = "127.0.0.1"
    command = ("master.Master", "--port", "0", "--webui-port", "0")
    master = _started(command, host, log, _environment(str(ROOT), host, java))
    cluster = None
    try:
        address = _said(log, master, r"Starting Spark master at (spark://\S+)")
        cluster = Cluster(address, place, memory, java, installed)
        for _ in range(workers):
            cluster.start_worker()
        yield cluster
    finally:
        for process in (*(cluster.workers if cluster else ()), master):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until something holds.

    Raises:
        TimeoutError: it does not, in two minutes.
    """
    end = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"after {SECONDS} s there is still no {what}")
        time.sleep(0.05)


def _started(
    command: tuple[str, ...], host: str, log: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a process of the cluster, which leads a group of its own, with its executors."""
    name, *arguments = command

    def end_with_this() -> None:
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)

    with log.open("wb") as out:
        return subprocess.Popen(
            [
                *(str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"),
                *("--host", host, *arguments),
            ],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_this,
        )


def _environment(path: str, host: str, java: str) -> Mapping[str, str]:
    """Return what a process of the cluster has: nothing of the session that will use it."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    return {
        **own,
        **({"JAVA_TOOL_OPTIONS": java} if java else {}),
        "PYTHONPATH": path,
        "SPARK_HOME": str(HOME),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_IP": host,
    }


def _said(log: Path, process: subprocess.Popen[bytes], pattern: str) -> str:
    """Return what a process has written that has a pattern: its last group, once it is there."""
    matches = list[str]()

    def is_there() -> bool:
        if process.poll() is not None:
            raise RuntimeError(log.read_text())
        match = re.search(pattern, log.read_text())
        matches.extend([] if match is None else [match[match.lastindex or 0]])
        return bool(matches)

    wait_for(is_there, pattern)
    return matches[0]
