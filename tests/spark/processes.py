"""Processes that do operations and are killed or stopped in the middle of them.

`main` is such a process. It does many operations, each on a store and in a thread of its own, and
holds each at a given fail point: so one end of a process is the end of many operations. The
invariant: a kill or stop hits the whole process group, including Java.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeAlias

from crashing import ALL_OPERATIONS, FACTOR
from limiting import limit
from pyspark.sql import SparkSession

from deltaproduce import Store, local_session
from deltaproduce.operations import publisher
from deltaproduce.storage import failpoints

Stop: TypeAlias = int | tuple[str, str]
"""Which fail point to be held at: after so many others, or the first of that time and effect."""

TO_THE_END: Stop = ("at", "the end")

TIMEOUT_SECONDS = 600
"""How long a process may be silent, on a busy machine: it starts, or comes to a late fail point."""


def started(
    module: str, *arguments: object, output: int | IO[str] = subprocess.PIPE
) -> subprocess.Popen[str]:
    """A Python process with a process group of its own, talked to by lines."""
    here = Path(__file__).parent
    folders = [here, here.with_name("local"), here.parents[1]]
    path = os.pathsep.join([*map(str, folders), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-m", module, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable},
        text=True,
        process_group=0,  # in the same session: stopped ones end with whoever started them
    )


@contextmanager
def all_started(
    module: str, outputs: Mapping[Path, Sequence[object]]
) -> Iterator[dict[Path, subprocess.Popen[str]]]:
    """Processes by the file that each writes to, with its arguments; killed at the end."""
    processes: dict[Path, subprocess.Popen[str]] = {}
    try:
        for path, arguments in outputs.items():
            with path.open("w") as output:
                processes[path] = started(module, *arguments, output=output)
        yield processes
    finally:
        for process in processes.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=TIMEOUT_SECONDS)


class Child:
    """A process that does operations and holds them at fail points; see `main`.

    Args:
        settings: of its session; None for a process that has none.
    """

    def __init__(self, settings: Mapping[str, str] | None) -> None:
        if settings is not None:
            # Spark would take what was stopped for minutes for lost when it goes on.
            settings = {**settings, "spark.network.timeout": "1h"}
        self._process = started("processes", json.dumps(settings))
        self._lines: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def start(self, location: str, name: str, number: int, stop: Stop) -> list[Any]:
        """Let it do an operation up to a fail point; returns what it says."""
        self._tell("start", location, name, number, stop)
        return self.said()

    def go_on(self, stop: Stop, *locations: str) -> None:
        """Let it go on with some operations at once, each up to another fail point."""
        self._tell("go on", stop, *locations)

    def said(self) -> list[Any]:
        """What it says next: ``at``, a location and a fail point; or ``ended`` and the outcome.

        Raises:
            queue.Empty: it says nothing.
        """
        found = self._lines.get(timeout=TIMEOUT_SECONDS)
        assert found is not None, "the process has ended by itself"
        return list(found)

    def signal(self, number: signal.Signals) -> None:
        """Signal the process, its Java process and whatever else is in their group."""
        os.killpg(self._process.pid, number)

    def kill(self) -> list[list[Any]]:
        """End it, and all of its group, at once; returns what else it has said."""
        with suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)
        self._listener.join(TIMEOUT_SECONDS)  # until Java has closed its end, too
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        self._process.wait(TIMEOUT_SECONDS)
        rest = []
        while not self._lines.empty():
            rest.append(self._lines.get())
        return [line for line in rest if line is not None]

    def _tell(self, *told: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(told)}\n")
        self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(json.loads(line))
        self._lines.put(None)


class Held:
    """An operation that is done in a thread, and held at a fail point."""

    def __init__(self, location: str, stop: Stop) -> None:
        self.location = location
        self._stop = stop
        self._going_on = threading.Semaphore(0)

    def reach(self, *point: str) -> None:
        """Come to a fail point."""
        if isinstance(self._stop, int):
            self._stop -= 1
        if self._stop == -1 or self._stop == point[:2]:
            _say("at", self.location, *point)
            self._going_on.acquire()

    def go_on(self, stop: Stop) -> None:
        """Be held again at another fail point."""
        self._stop = stop
        self._going_on.release()


def main(settings: str) -> None:
    """Do what lines of input say, in JSON: ``start`` an operation, or ``go on`` with some."""
    _keep_to_itself()
    limit(small_table_rows=0, replaced_percent=900)
    publisher._WRITERS = 1
    config = json.loads(settings)
    spark = None
    if config is not None:
        spark = local_session("processes", cores=2, memory="2g", config=config)
    held: dict[str, Held] = {}
    _hand_down()

    def reach(*point: str) -> None:
        held[_mine()].reach(*point)

    with failpoints.armed(reach):
        for line in sys.stdin:
            what, *told = json.loads(line)
            if what == "go on":
                for location in told[1:]:
                    held[location].go_on(_stop(told[0]))
                continue
            location, name, number, stop = told
            held[location] = Held(location, _stop(stop))
            target, session = _do, _session_like(spark)
            thread = threading.Thread(target=target, args=(session, location, name, number))
            thread.operation = location  # type: ignore[attr-defined]
            thread.start()
    os._exit(0)  # whoever started it is gone


def _stop(told: Any) -> Stop:
    return told if isinstance(told, int) else (told[0], told[1])


def _do(spark: SparkSession | None, location: str, name: str, number: int) -> None:
    """Do an operation, and say how it ended."""
    operation, FACTOR[0] = ALL_OPERATIONS[name], 1
    try:
        store = Store(spark, location, operation.beforehand.subject.pipeline())
        operation.run(store, spark, number)
        store.wait()
        outcome = "done"
    except BaseException as error:  # noqa: BLE001 whoever watches is told
        outcome = f"{type(error).__name__}: {error}"
    _say("ended", location, outcome)


def _session_like(spark: SparkSession | None) -> SparkSession | None:
    """A session of its own, because what an operation sets in one would be seen by others."""
    if spark is None:
        return None
    session = spark.newSession()
    for name in ("spark.sql.shuffle.partitions", "spark.sql.codegen.wholeStage"):
        session.conf.set(name, spark.conf.get(name) or "")
    return session


def _hand_down() -> None:
    """Have each thread know which operation it works for: that of the thread that starts it."""
    start = threading.Thread.start

    def starting(thread: threading.Thread) -> None:
        if not hasattr(thread, "operation"):
            thread.operation = _mine()  # type: ignore[attr-defined]
        start(thread)

    threading.Thread.start = starting  # type: ignore[method-assign]


def _mine() -> str:
    return getattr(threading.current_thread(), "operation", "")


_SPEAKING = threading.Lock()


def _keep_to_itself() -> None:
    """Let no one else write to standard output: Java does, at the end of a VACUUM."""
    sys.stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)


def _say(*what: object) -> None:
    with _SPEAKING:
        print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
