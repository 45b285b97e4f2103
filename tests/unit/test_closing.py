"""A closed store has no threads left, and says that it is closed when one is needed."""

import os
import signal
from threading import Event, Timer
from threading import enumerate as threads
from types import SimpleNamespace
from typing import Any

import pytest

from deltaproduce import ClosedError, Pipeline
from deltaproduce.model.limits import Limits
from deltaproduce.operations.compaction import Compactor
from deltaproduce.operations.step.filing import Filing
from deltaproduce.storage.figures import Base, StageFigures
from deltaproduce.storage.versions import Version

shop = Pipeline("shop")
orders = shop.source("orders", key="id int", value="n int")


class Slow:
    """Tables, and a log, of which each is put together when it is told to."""

    def __init__(self) -> None:
        self.location, self.maintenance = self, self
        self.goes_on, self.done = Event(), 0
        self.engines: Any = SimpleNamespace(limits=Limits())

    def table(self, stage: str, kind: str) -> str:
        return f"{stage}/{kind}"

    def log(self) -> Any:
        return SimpleNamespace(name="_versions")

    def compact(self, table: str, *, in_order: bool = True) -> None:
        self.goes_on.wait(10)
        self.done += 1


def compacting() -> list[str]:
    return [t.name for t in threads() if t.name.startswith("deltaproduce-compaction")]


def test_closing_waits_and_ends_the_thread() -> None:
    tables: Any = Slow()
    compactor = Compactor(shop.graph(), tables, None, lambda _: Filing())  # type: ignore[arg-type]
    figures = StageFigures("seek", delta_versions={"updates": 4}, base=Base({"updates": 1_000}))
    version, before = Version(1, None, "update", None, {"orders": figures}), compacting()
    compactor.start(version, at_once=True)
    assert len(compacting()) == len(before) + 1
    compactor.check_open()
    tables.goes_on.set()
    compactor.close()
    assert (tables.done, compacting()) == (2, before)
    compactor.close()
    compactor.start(version, at_once=True)
    assert (tables.done, compacting()) == (2, before)
    with pytest.raises(ClosedError):
        compactor.check_open()


def test_an_interrupted_wait_forgets_no_compaction() -> None:
    """It goes on, and whoever has to wait for it next does."""
    tables: Any = Slow()
    compactor = Compactor(shop.graph(), tables, None, lambda _: Filing())  # type: ignore[arg-type]
    figures = StageFigures("seek", delta_versions={"updates": 4}, base=Base({"updates": 1_000}))
    compactor.start(Version(1, None, "update", None, {"orders": figures}))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            compactor.wait("orders", "feed")
    finally:
        signal.signal(signal.SIGINT, before)
    Timer(0.1, tables.goes_on.set).start()
    compactor.wait("orders", "feed")
    assert tables.done == 1
    compactor.close()


def test_of_a_store_that_published_nothing() -> None:
    tables: Any = Slow()
    compactor = Compactor(shop.graph(), tables, None, lambda _: Filing())  # type: ignore[arg-type]
    compactor.close()
    with pytest.raises(ClosedError):
        compactor.check_open()
