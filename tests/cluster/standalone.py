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

import object_server
import pyspark
from conftest import JAVA

HOME = Path(pyspark.__file__).parent
ROOT = Path(__file__).parents[2]
WORKER_MEMORY = "2g"
SECONDS = 120
"""Beyond what a process takes to start beside other work."""
_DEATH_SIGNAL = 1
"""Linux sends a process a signal when the one that started it is gone, if it is asked to."""


@dataclass
class Cluster:
    """A master and its workers.

    Attributes:
        master: the address that a session names.
        place: the folder of the processes' logs, and of what executors work on.
        installed: a folder of Python modules that the executors find, and the driver does not.
        workers: those that run.
    """

    master: str
    place: Path
    installed: Path
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _started: int = 0

    def start_worker(self) -> None:
        """Start one more worker, of one core; it is there once the master knows it."""
        self._started += 1
        host = f"127.0.0.{self._started + 1}"  # Spark attempts a task twice only on two hosts
        log = self.place / f"worker-{self._started}.log"
        arguments = ("--cores", "1", "--memory", WORKER_MEMORY, "--webui-port", "0")
        work = ("--work-dir", str(self.place / f"work-{self._started}"))
        all_arguments = (*arguments, *work, self.master)
        worker = _started("worker.Worker", *all_arguments, host=host, log=log, path=self._path)
        self.workers.append(worker)
        _said(log, worker, r"Successfully registered with master")

    def kill_worker(self) -> None:
        """Kill the oldest worker as a machine that loses its power: at once, with its executor."""
        worker = self.workers.pop(0)
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    @property
    def _path(self) -> str:
        return os.pathsep.join((str(ROOT), str(self.installed)))


@contextmanager
def started(place: Path, workers: int = 2) -> Iterator[Cluster]:
    """A cluster that runs meanwhile."""
    log, installed = place / "master.log", place / "installed"
    installed.mkdir(parents=True)
    arguments = ("--port", "0", "--webui-port", "0")
    master = _started("master.Master", *arguments, host="127.0.0.1", log=log, path=str(ROOT))
    cluster = None
    try:
        address = _said(log, master, r"Starting Spark master at (spark://\S+)")
        cluster = Cluster(address, place, installed)
        for _ in range(workers):
            cluster.start_worker()
        yield cluster
    finally:
        for process in (*(cluster.workers if cluster else ()), master):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until something holds."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, f"after {SECONDS} s there is still no {what}"
        time.sleep(0.05)


def _started(
    name: str, *arguments: str, host: str, log: Path, path: str
) -> subprocess.Popen[bytes]:
    """A process of the cluster, which leads a group of its own: its executors are in it too."""
    command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]

    def end_with_this() -> None:
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)

    with log.open("wb") as out:
        return subprocess.Popen(
            [*command, "--host", host, *arguments],
            env=_environment(path, host),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_this,
        )


def _environment(path: str, host: str) -> Mapping[str, str]:
    """What a process of the cluster has: nothing of the session that will use it."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    return {
        **own,
        "JAVA_TOOL_OPTIONS": JAVA,
        "PYTHONPATH": path,
        "SPARK_HOME": str(HOME),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_IP": host,
    }


def _said(log: Path, process: subprocess.Popen[bytes], pattern: str) -> str:
    """What a process has written that has a pattern: its last group, once it is there."""
    found: list[str] = []

    def is_there() -> bool:
        assert process.poll() is None, log.read_text()
        match = re.search(pattern, log.read_text())
        found.extend([] if match is None else [match[match.lastindex or 0]])
        return bool(found)

    wait_for(is_there, pattern)
    return found[0]


S3_PACKAGES = (
    "org.apache.hadoop:hadoop-aws:3.5.0",
    *(
        f"software.amazon.awssdk:{name}:2.35.4"
        for name in ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
    ),
)
"""What Spark reads object stores with: of Amazon's client the parts that it needs, not all."""
S3_EXCLUDED = "software.amazon.awssdk:bundle"


def in_object_stores(address: str) -> Mapping[str, str]:
    """The settings with which a session uses the tests' service."""
    own = {
        "endpoint": address,
        "endpoint.region": object_server.REGION,
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "access.key": object_server.KEY,
        "secret.key": object_server.SECRET,
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    }
    return {f"spark.hadoop.fs.s3a.{name}": value for name, value in own.items()}
