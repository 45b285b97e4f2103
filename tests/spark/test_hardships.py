"""A full disk, no write permission, an interrupting user: a clear error, and no loss."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from comparing import assert_same
from crashing import VERSIONS, built, drawn, frames, orders
from pyspark.sql import SparkSession
from selecting import long

from deltaproduce import StorageError, Store
from deltaproduce.storage import failpoints
from deltaproduce.testing import Oracle


def assert_goes_on(spark: SparkSession, location: str, oracle: Oracle) -> None:
    store = Store(spark, location, orders())
    assert store.head.number == oracle.head
    for number in (10, 11):
        assert store.update(frames(spark, drawn(number))).number == oracle.update(drawn(number))
    for version in range(oracle.head + 1):
        assert_same(store, oracle, orders(), version)


@contextmanager
def mounted(place: Path, size: str) -> Iterator[None]:
    """A disk of its own; skips the test for whoever may not mount one."""
    place.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    if subprocess.run(options, capture_output=True, check=False).returncode:
        pytest.skip("takes the right to mount a file system")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill_up(filler: Path) -> None:
    with suppress(OSError), filler.open("wb") as file:
        while True:
            file.write(b"x" * 4096)
            file.flush()


def test_a_full_disk(spark: SparkSession, tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "20m"):
        location, filler = str(tmp_path / "disk" / "store"), tmp_path / "disk" / "filler"
        oracle = built(None, location)

        def fill(when: failpoints.When, name: str, table: str) -> None:
            if (when, name, table) == ("before", "commit", "by_customer/updates"):
                fill_up(filler)

        store = Store(spark, location, orders())
        with failpoints.armed(fill), pytest.raises(StorageError) as caught:
            store.update(frames(spark, drawn(10)))
        assert caught.value.table
        filler.unlink()
        assert_goes_on(spark, location, oracle)


@long
def test_a_store_that_cannot_be_written(spark: SparkSession, tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "20m"):
        place = tmp_path / "disk"
        location = str(place / "store")
        oracle = built(None, location)
        store = Store(spark, location, orders())
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        try:
            with pytest.raises(StorageError):
                store.update(frames(spark, drawn(10)))
            reader = Store(spark, location, orders())
            for number in range(oracle.head + 1):
                assert_same(reader, oracle, orders(), number)
        finally:
            subprocess.run(["mount", "-o", "remount,rw", str(place)], check=True)
        assert_goes_on(spark, location, oracle)


@contextmanager
def interrupted(delay: float) -> Iterator[None]:
    """Ctrl-C after some seconds, and again every ten, as a user would if nothing happens.

    Py4J tells Java in finalizers which objects are dropped, and Python prints what is raised in a
    finalizer, and goes on: an interrupt that meets one is lost.
    """
    over = threading.Event()

    def press() -> None:
        seconds = delay
        while not over.wait(seconds):
            os.kill(os.getpid(), signal.SIGINT)
            seconds = 10

    keyboard = threading.Thread(target=press)
    keyboard.start()
    try:
        yield
    finally:
        over.set()
        keyboard.join()


def do_nothing_for_long(store: Store, changes: dict[str, object]) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        store.update(changes)
        time.sleep(0.01)


@long
def test_an_interrupted_update(spark: SparkSession, location: str) -> None:
    """Ctrl-C: in a fail point, and somewhere in Spark."""
    oracle = built(None, location)
    store = Store(spark, location, orders())

    def interrupt(when: failpoints.When, name: str, table: str) -> None:
        raise KeyboardInterrupt

    with failpoints.armed(interrupt), pytest.raises(KeyboardInterrupt):
        store.update(frames(spark, drawn(10)))
    nothing = frames(spark, drawn(VERSIONS - 1))  # as it is; an interrupt is for the store alone
    for delay in (0.1, 0.7):
        with pytest.raises(KeyboardInterrupt), interrupted(delay):
            do_nothing_for_long(store, nothing)
    assert_goes_on(spark, location, oracle)
