"""Workers on the driver's machine: the same rows and failures as in this process; none is left."""

import atexit
import importlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaproduce import Pipeline, Producer, ProducerError
from deltaproduce.engines.failures import WorkerError, in_worker
from deltaproduce.engines.local import calls
from deltaproduce.engines.local import worker as said
from deltaproduce.engines.local import workers as workers_of_driver
from deltaproduce.engines.local.arrays import key_ends
from deltaproduce.engines.local.calls import BatchCall, is_sooner_elsewhere, pickled
from deltaproduce.engines.local.worker import START
from deltaproduce.engines.local.workers import Worker, Workers, process_workers

MANY_BYTES = 1 << 28
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    """Two of them, which have started."""
    pool = Workers(2)
    warm = [pool.take(), pool.take()]
    for worker in warm:
        assert worker is not None
        while not worker.received():
            pass
        worker.ready = True
        pool.give_back(worker)
    yield pool
    pool.close()


def stage_of(function: Any) -> Producer:
    pipeline = Pipeline("test")
    source = pipeline.source("source", key="k bigint, t string", value="v bigint")
    return pipeline.producer(source, key="k bigint", value="v bigint", name="stage")(function)


def over_tables(function: Any, *, streaming: bool = False) -> Producer:
    pipeline = Pipeline("test")
    source = pipeline.source("source", key="k bigint, t string", value="v bigint")
    declared = {"key": "k bigint", "value": "v bigint", "name": "stage", "streaming": streaming}
    return pipeline.arrow_producer(source, **declared)(function)


def table_of(rows: Any) -> pa.Table:
    """Rows of the source, by key."""
    columns = {"k": pa.int64(), "t": pa.string(), "v": pa.int64()}
    return pa.table(
        [pa.array([row[n] for row in rows], kind) for n, kind in enumerate(columns.values())],
        names=list(columns),
    )


def keys(count: int) -> pa.Table:
    return table_of([(n, "a", n) for n in range(count)])


def call_of(
    stage: Producer, rows: pa.Table, most_bytes: int = MANY_BYTES, elsewhere: int = 0
) -> BatchCall:
    function = pickled(in_worker(stage.kind.calls(stage, UTC)))
    assert function is not None
    ends = key_ends(rows.select(["k", "t"]))
    return BatchCall("stage", function, rows, ends, 2, most_bytes, elsewhere)


def made(workers: Workers, function: Any, rows: pa.Table) -> list[dict[str, Any]]:
    """What a function over values makes of some rows in the workers."""
    stage = function if isinstance(function, Producer) else stage_of(function)
    found = call_of(stage, rows).run(workers)
    assert found is not None
    return [row for part in found for row in part.to_pylist()]


def failure(workers: Workers, function: Any, rows: pa.Table) -> ProducerError:
    with pytest.raises(ProducerError) as caught:
        made(workers, function, rows)
    assert caught.value.stage == "stage"
    assert made(workers, pids, keys(3))  # what comes next works
    return caught.value


def pids(key: Any, values: Any) -> Any:
    yield key.k, os.getpid()


def one_by_one(key: Any, values: Any) -> Any:
    for number, value in enumerate(values):
        if value is not None and value % 3:
            yield number, value
            yield key.k, None


def sums(table: pa.Table) -> pa.Table:
    """A row for each row."""
    made = table.append_column("_source_k", table["k"]).append_column("_source_t", table["t"])
    return made.drop_columns(["t"])


def last_of_each(batches: Iterator[pa.RecordBatch]) -> Any:
    last = None
    for batch in batches:
        last = batch
    yield sums(pa.Table.from_batches([last.slice(last.num_rows - 1)]))


ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-3, 3),
        st.none() | st.sampled_from(["", "a", "é"]),
        st.none() | st.integers(-9, 9),
    ),
    min_size=1,
    max_size=60,
).map(lambda rows: sorted(rows, key=lambda row: tuple((x is not None, x) for x in row[:2])))


@given(ROWS, st.sampled_from(["rows", "tables", "streams"]))
@settings(max_examples=30)
def test_a_function_makes_the_same_as_in_this_process(
    workers: Workers, rows: list[Any], form: str
) -> None:
    stage = {
        "rows": stage_of(one_by_one),
        "tables": over_tables(sums),
        "streams": over_tables(last_of_each, streaming=True),
    }[form]
    table = table_of(rows)
    here = pa.Table.from_batches
    expected = [
        row
        for batch in stage.kind.calls(stage, UTC)(iter(table.to_batches()))
        for row in here([batch]).to_pylist()
    ]
    found = made(workers, stage, table)
    if form == "tables":  # the rows of a call are numbered; which keys come together is chance
        for row in (*found, *expected):
            del row["_ordinal"]
    assert found == expected


def test_rows_stay_in_order_whoever_makes_them(workers: Workers) -> None:
    def uneven(key: Any, values: Any) -> Any:
        time.sleep(0.02 if key.k % 3 == 0 else 0)
        yield key.k, os.getpid()

    found = made(workers, uneven, keys(60))
    assert [row["k"] for row in found] == [*range(60)]
    assert len({row["v"] for row in found}) == 2


def test_a_few_keys_are_quick(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that hardly moves: they are two parts, to a worker that is there already."""
    ticks, sent, started = count(), list[bytes](), list[int]()
    send, start = Worker.send, Workers._started
    clock = SimpleNamespace(monotonic=lambda: next(ticks) / 1e6)

    def sending(self: Worker, kind: bytes, payload: bytes | memoryview) -> None:
        sent.append(kind)
        send(self, kind, payload)

    def starting(self: Workers) -> Worker:
        started.append(1)
        return start(self)

    call = call_of(stage_of(one_by_one), keys(10))
    call.run(workers)  # the worker has its place then
    monkeypatch.setattr(Worker, "send", sending)
    monkeypatch.setattr(Workers, "_started", starting)
    monkeypatch.setattr(calls, "time", clock)
    call.run(workers)
    assert sent == [said.FUNCTION, said.ROWS, said.ROWS]
    assert not started


def test_a_slow_function_has_all_cores_from_the_first_keys_on(workers: Workers) -> None:
    def slow(key: Any, values: Any) -> Any:
        time.sleep(0.05)
        yield key.k, os.getpid()

    assert len({row["v"] for row in made(workers, slow, keys(4))}) == 2


@pytest.mark.parametrize(
    ("count", "left", "each", "elsewhere", "is_left"),
    [
        (60, 60, 0.03, 100, False),  # 0.9 s here, 1.02 s there
        (60, 60, 0.04, 100, True),  # 1.2 s here, 1.02 s there
        (1_000, 1_000, 0.03, 100, True),  # 15 s here, 1.3 s there
        (1_000, 80, 0.03, 100, False),  # most of it is done
        (1_000, 1_000, 0.03, 2, False),  # as many cores as here
        (1_000, 1_000, 0.0, 100, False),
    ],
)
def test_other_machines_are_sooner_if_they_do_all_before_this_one_does_the_rest(
    count: int, left: int, each: float, elsewhere: int, is_left: bool
) -> None:
    assert is_sooner_elsewhere(count, left, each, 2, elsewhere) == is_left


# The machine may be busy, and then a row takes longer than the function sleeps. So each of these
# holds for rows that take many times as long.
@pytest.mark.parametrize(
    ("seconds", "at_first", "count", "elsewhere", "is_left"),
    [
        (0.03, 0, 1_000, 100, True),  # 15 s here, 1.3 s there
        (0.03, 0, 20, 0, False),
        (0.03, 0, 10, 100, False),
        (0.03, 0, 100, 2, False),  # as many cores as here
        (0.0, 1.5, 200, 100, False),  # a model is loaded, in each worker once
    ],
)
def test_what_a_cluster_would_end_sooner_is_left_to_it(
    workers: Workers,
    tmp_path: Path,
    *,
    seconds: float,
    at_first: float,
    count: int,
    elsewhere: int,
    is_left: bool,
) -> None:
    loaded = str(tmp_path)

    def slow(key: Any, values: Any) -> Any:
        place = Path(loaded, str(os.getpid()))
        if at_first and not place.exists():
            place.touch()
            time.sleep(at_first)
        Path(loaded, f"called-{key.k}").touch()
        time.sleep(seconds)
        yield key.k, 0

    found = call_of(stage_of(slow), keys(count), elsewhere=elsewhere).run(workers)
    called = len([*tmp_path.glob("called-*")])
    assert (found is None) == is_left
    assert called < 100 if is_left else called == count


def test_a_key_is_one_call_and_rows_that_may_not_be_cut_are_one_worker_s(workers: Workers) -> None:
    def slow(key: Any, values: Any) -> Any:
        time.sleep(0.02)
        yield key.k, len(list(values))

    rows = table_of([(k, "a", v) for k in range(3) for v in range(20_000)])
    assert [row["v"] for row in made(workers, slow, rows)] == [20_000] * 3
    call = call_of(stage_of(pids), keys(50))
    whole = BatchCall("stage", call.function, call.rows, call.ends[-1:], 2, MANY_BYTES)
    (only,) = whole.run(workers) or ()
    assert len(set(only["v"].to_pylist())) == 1


def test_much_goes_and_comes_and_too_much_is_left_to_others(workers: Workers) -> None:
    def many(key: Any, values: Any) -> Any:
        for n in range(20_000):
            yield n, n

    call = call_of(stage_of(many), keys(50))
    found = call.run(workers)
    assert found is not None
    assert sum(map(len, found)) == 1_000_000
    bounded = BatchCall("stage", call.function, call.rows, call.ends, 2, 1 << 20)
    assert bounded.run(workers) is None
    assert len(made(workers, pids, keys(5))) == 5


# ---- failures


class OwnError(Exception):
    def __reduce__(self) -> Any:
        raise TypeError("it cannot be pickled")


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (lambda: KeyError("k"), KeyError),
        (lambda: SystemExit(3), SystemExit),
        (lambda: MemoryError(), MemoryError),
        (lambda: OwnError("own"), Exception),
        (lambda: ValueError("x" * 5_000_000), ValueError),
        (lambda: ValueError("\ud800 \x1b"), ValueError),
        (lambda: ProducerError("said by the function"), Exception),
    ],
)
def test_failures_arrive(workers: Workers, error: Any, cause: type) -> None:
    def fail(key: Any, values: Any) -> Any:
        if key.k == 7:
            raise error()
        yield key.k, 1

    found = failure(workers, fail, keys(9))
    assert found.key == (7, "a")
    assert type(found.__cause__) is cause
    assert "raise error()" in "".join(found.__notes__)
    assert len(str(found)) < 100_000


def test_the_first_failure_is_told(workers: Workers) -> None:
    def fail(key: Any, values: Any) -> Any:
        time.sleep(0.05 if key.k < 2 else 0)
        raise ValueError(key.k)

    for _ in range(3):
        assert failure(workers, fail, keys(4)).key == (0, "a")


@pytest.mark.parametrize("death", ["exit", "kill", "child"])
def test_a_worker_that_dies(workers: Workers, death: str) -> None:
    def die(key: Any, values: Any) -> Any:
        if key.k == 7:
            if death == "child" and os.fork() == 0:
                time.sleep(3)  # holds the channel open
                os._exit(0)
            if death == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(3)
        yield key.k, 1

    found = failure(workers, die, keys(9))
    assert found.key is None
    assert "died" in str(found)
    assert found.__cause__ is None


def test_a_worker_that_dies_idle_is_replaced(workers: Workers) -> None:
    for row in made(workers, pids, keys(1)):
        os.kill(row["v"], signal.SIGKILL)
    end = time.monotonic() + 60  # on a busy machine
    while not any(worker.has_ended for worker in workers._all) and time.monotonic() < end:
        time.sleep(0.01)
    assert made(workers, pids, keys(1))


def test_what_is_no_failure_of_the_function_is_told_too(workers: Workers) -> None:
    def interrupted(key: Any, values: Any) -> Any:
        raise KeyboardInterrupt("\x1b by itself")
        yield

    with pytest.raises(WorkerError, match="KeyboardInterrupt") as caught:
        made(workers, interrupted, keys(2))
    assert "\x1b" not in str(caught.value)


def test_what_cannot_be_sent_is_left_to_others(workers: Workers) -> None:
    class Unreadable:
        def __reduce__(self) -> Any:
            return exec, ("raise SystemExit(3)",)

    lock, unreadable = threading.Lock(), Unreadable()
    assert pickled(lambda: lock) is None
    assert pickled(lambda: unreadable) is not None
    assert pickled(lambda: unreadable, (Unreadable,)) is None
    call = BatchCall("stage", pickled(lambda: unreadable) or b"", keys(3), key_ends(keys(3)), 2, 1)
    assert call.run(workers) is None
    assert made(workers, pids, keys(3))


@pytest.fixture
def interrupted() -> Iterator[None]:
    """Ctrl-C interrupts, also where what started the tests has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupted")
def test_ctrl_c_ends_the_call_and_its_worker(workers: Workers) -> None:
    def endless(key: Any, values: Any) -> Any:
        time.sleep(1_000)
        yield key.k, 1

    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        made(workers, endless, keys(2))
    assert time.monotonic() - start < 5
    assert made(workers, pids, keys(2))


# ---- what functions do beside their work


def test_a_worker_ignores_ctrl_c_before_it_imports_anything(tmp_path: Path) -> None:
    """A terminal sends it to the driver's children, too, and a worker takes a while to start."""
    place = tmp_path / "deltaproduce" / "engines" / "local"
    place.mkdir(parents=True)
    ignored = "signal.getsignal(signal.SIGINT) is signal.SIG_IGN"
    text = f"import signal\ntold = {ignored}\ndef main(*given): print(told, *given)\n"
    (place / "worker.py").write_text(text)
    for package in (place, *place.parents[:2]):
        (package / "__init__.py").touch()
    command = [sys.executable, "-c", START, json.dumps([str(tmp_path), *sys.path]), "3", "5"]
    assert subprocess.run(command, check=True, capture_output=True).stdout == b"True 3 5\n"


def test_nobody_waits_for_workers_that_do_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waited while they were about to start is told that none can be started."""
    monkeypatch.setattr(workers_of_driver, "START", "import time; time.sleep(0.3)")
    pool, found = Workers(1), list[object]()
    call = call_of(stage_of(pids), keys(3))
    threads = [threading.Thread(target=lambda: found.append(call.run(pool))) for _ in range(4)]
    for thread in threads:
        thread.daemon = True
        thread.start()
    for thread in threads:
        thread.join(20)
    assert found == [None] * 4


def test_prints_do_no_harm(workers: Workers) -> None:
    def talkative(key: Any, values: Any) -> Any:
        print("x" * 100_000)
        print("y", file=sys.stderr)
        os.write(1, b"\x00" * 1_000)
        assert not sys.stdin.read()
        yield key.k, 1

    assert len(made(workers, talkative, keys(9))) == 9


def test_a_function_is_new_in_each_call_and_one_during_a_call() -> None:
    calls = [0]

    def counted(key: Any, values: Any) -> Any:
        calls[0] += 1
        yield key.k, calls[0]

    alone = Workers(1)
    try:
        for _ in range(2):
            assert [row["v"] for row in made(alone, counted, keys(9))] == [*range(1, 10)]
    finally:
        alone.close()
    assert calls == [0]


def test_a_module_that_is_loaded_anew_is_so_in_workers(
    workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    file = tmp_path / "user_code_of_workers.py"
    file.write_text("def number(): return 1")
    module = importlib.import_module(file.stem)

    def numbers(key: Any, values: Any) -> Any:
        yield key.k, module.number()

    assert {row["v"] for row in made(workers, numbers, keys(3))} == {1}
    file.write_text("def number(): return 22")
    importlib.reload(module)
    assert {row["v"] for row in made(workers, numbers, keys(3))} == {22}


def test_sets_of_text_are_in_the_same_order_in_all_workers(workers: Workers) -> None:
    def hashes(key: Any, values: Any) -> Any:
        time.sleep(0.02)
        yield key.k, hash("text")

    assert len({row["v"] for row in made(workers, hashes, keys(9))}) == 1


# ---- threads and processes


def test_several_threads_at_once(workers: Workers) -> None:
    def squared(key: Any, values: Any) -> Any:
        time.sleep(0.001)
        yield key.k, key.k**2

    wrong: list[object] = []

    def work(count: int) -> None:
        for _ in range(5):
            found = made(workers, squared, keys(count))
            if [row["v"] for row in found] != [k**2 for k in range(count)]:
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 30, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def is_alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def test_closing_ends_the_workers_and_more_may_be_started() -> None:
    pool = Workers(1)
    (row,) = made(pool, pids, keys(1))
    pool.close()
    assert not is_alive(row["v"])  # nor a zombie
    (other,) = made(pool, pids, keys(1))
    assert other["v"] != row["v"]
    del pool
    assert not is_alive(other["v"])


def test_an_expected_worker_is_the_one_that_is_lent_and_has_imported_the_module() -> None:
    """It starts once, however often it is expected, and imports the module before it is ready."""

    def imported(key: Any, values: Any) -> Any:
        yield key.k, int("deltaproduce.shown.live" in sys.modules)

    pool = Workers(1)
    try:
        pool.expect("deltaproduce.shown.live")
        pool.expect("deltaproduce.shown.live")
        (worker,) = pool._idle
        assert [row["v"] for row in made(pool, imported, keys(1))] == [1]
        assert made(pool, pids, keys(1))[0]["v"] == worker.pid
    finally:
        pool.close()


def test_a_worker_that_nobody_took_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_of_driver, "START", "import time; time.sleep(100)")
    pool = Workers(1)
    pool.expect("deltaproduce.shown.live")
    (worker,) = pool._idle
    monkeypatch.setattr(workers_of_driver, "_END_SECONDS", 100)
    pool.close()
    assert not is_alive(worker.pid)


def test_a_worker_that_ends_calls_what_is_registered_for_its_exit(tmp_path: Path) -> None:
    def registering(key: Any, values: Any) -> Any:
        atexit.register((tmp_path / "ended").touch)
        yield key.k, 1

    pool = Workers(1)
    made(pool, registering, keys(1))
    assert not (tmp_path / "ended").exists()
    pool.close()
    assert (tmp_path / "ended").exists()


def test_each_process_has_its_own_pool() -> None:
    parents = process_workers()
    assert process_workers() is parents
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, b"same" if process_workers() is parents else b"own")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 9) == b"own"
    os.close(reader)
    os.close(writer)


DRIVER = """
    import os, signal, sys, threading, time
    sys.path[:0] = [{root!r}, {tests!r}]
    from test_workers import Workers, keys, made, pids
    def says(key, values):
        print("worker", os.getpid(), file=sys.stderr, flush=True)
        time.sleep({seconds})
        yield key.k, 1
    pool = Workers(1)
    made(pool, pids, keys(1))
    if {killed}:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGKILL)).start()
    made(pool, says, keys(1))
"""


@pytest.mark.parametrize(("killed", "seconds"), [(True, 1_000), (False, 0)])
def test_workers_end_with_their_driver(killed: bool, seconds: int) -> None:
    """Standard error ends, and so `run`, when no process has it open any more."""
    code = textwrap.dedent(DRIVER).format(
        root=str(ROOT), tests=str(Path(__file__).parent), killed=killed, seconds=seconds
    )
    driver = subprocess.run(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, timeout=60, check=False
    )
    assert driver.returncode == (-signal.SIGKILL if killed else 0), driver.stderr.decode()
    assert b"worker" in driver.stderr
