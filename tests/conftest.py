"""What all tests have: the size of a run, Hypothesis profiles, and a place for a store.

A plain run is short and has some cases of each law. ``--long`` adds the tests marked ``long`` and
the remaining cases (`long_run`). README.md beside it says what each run covers.
"""

import gc
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

# `ci` is the default: bounded, and the same examples in each run, so that a failure is always of
# the change at hand. A long run has more of them (`all`). `long` searches at random; what it finds
# becomes an example in a test. Spark takes its time with the first jobs, so none has a deadline.
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=10, print_blob=True)
settings.register_profile("all", settings.get_profile("ci"), max_examples=15)
settings.register_profile(
    "long",
    deadline=None,
    max_examples=2_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

SPARK = "tests/spark"
"""The folder of the tests with Spark."""

DEAREST = (
    "test_local_tasks.py",
    "test_page.py",
    "test_local_crashes.py",
    "test_stored.py",
    "test_local_windows.py",
    "test_local_ordered.py",
    "test_delta_rules.py",
    "test_local_own.py",
    "test_local_verification.py",
    "test_local_logs.py",
    "test_record_index_crashes.py",
    "test_object_stores.py",
    "test_workers.py",
    "test_record_index_rules.py",
    "test_processes.py",
    "test_dataset_absorbing.py",
    "test_queries.py",
    "test_oracle.py",
    "test_strategies.py",
    "test_local_window_crashes.py",
    "test_local_view_crashes.py",
    "test_record_index_deletes.py",
    "test_sql_projects.py",
    "test_local_retained_sources.py",
    "test_local_time_zones.py",
    "test_connect.py",
    "test_cluster.py",
    "test_what_it_cannot_hold.py",
    "test_local_partials.py",
    "test_local_selects.py",
    "test_datasets.py",
    "test_tutorial.py",
    "test_local_vacuum.py",
)
"""Files without Spark that take longest, by seconds of CPU: no worker ends with one of them."""

_BEGUN = pytest.StashKey[bool]()
"""Whether a worker has begun with its first test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="all cases of every law, for hours")
    parser.addoption("--part", metavar="K/N", help="the K-th of N parts, each of every Nth test")


def pytest_configure(config: pytest.Config) -> None:
    """Before tests are imported, which take their number of examples from the profile."""
    if config.getoption("--long") and settings.get_current_profile_name() == "ci":
        settings.load_profile("all")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--long"):
        left_out = [item for item in items if item.get_closest_marker("long")]
        items[:] = [item for item in items if not item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=left_out)
    if part := config.getoption("--part"):
        number, parts = map(int, part.split("/"))
        left_out = [item for item in items if part_of(item.nodeid, parts) != number]
        items[:] = [item for item in items if part_of(item.nodeid, parts) == number]
        config.hook.pytest_deselected(items=left_out)
    order = {name: place for place, name in enumerate(DEAREST, 1)}
    later = len(order) + 1
    items.sort(key=lambda item: 0 if _is_in_spark(item) else order.get(item.path.name, later))


def part_of(nodeid: str, parts: int) -> int:
    """Which of so many parts a test is in, from 1: the same on each machine."""
    return crc32(nodeid.encode()) % parts + 1


def _is_in_spark(item: pytest.Item) -> bool:
    return item.nodeid.startswith(f"{SPARK}/")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """In a short run of several workers the one with Spark has the longest way: it goes first."""
    config = item.config
    if _BEGUN in config.stash:
        return
    config.stash[_BEGUN] = True
    is_worker = hasattr(config, "workerinput") and not config.getoption("--long")
    if is_worker and not _is_in_spark(item) and any(map(_is_in_spark, item.session.items)):
        os.nice(5)


def pytest_collection_finish() -> None:
    """What was collected stays to the end, and is no garbage to be looked for again and again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """At the end of the process it is: extensions would print what they still have."""
    gc.unfreeze()


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist, which some runs are without
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """In a short run one worker has all tests with Spark, and the others begin with the rest.

    So one session starts, and Java compiles Spark once. A worker that is done takes files of the
    rest. A long run is mostly of Spark, and each worker has a session.
    """
    if config.getoption("--long") or config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class OneSession(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return SPARK if file.startswith(f"{SPARK}/") else file

    return OneSession(config, log)


@pytest.fixture(scope="session")
def long_run(request: pytest.FixtureRequest) -> bool:
    """Whether a test has time for all of its cases."""
    return bool(request.config.getoption("--long"))


@pytest.fixture
def location(tmp_path: Path) -> str:
    """A place for a store, where nothing is."""
    return str(tmp_path / "store")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets the machine's time zone."""

    def moved_to(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield moved_to
    monkeypatch.undo()
    time.tzset()
