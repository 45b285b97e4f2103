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

import pytest
from hypothesis import HealthCheck, settings

# `ci` is the default: bounded, and the same examples in each run, so that a failure is always of
# the change at hand. `long` searches at random; what it finds becomes an example in a test. Spark
# takes its time with the first jobs, so neither has a deadline.
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=15, print_blob=True)
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
    "test_mixed_engines.py",
    "test_delta_sources.py",
    "test_expressions.py",
    "test_user_errors.py",
    "test_aggregates.py",
    "test_shared_session.py",
    "test_odd_paths.py",
    "test_tables.py",
    "test_consumers.py",
    "test_described.py",
    "test_time_zones.py",
    "test_random_series.py",
    "test_record_index_spark.py",
    "test_sql_views.py",
    "test_given_batches.py",
    "test_local_batches.py",
    "test_costs.py",
    "test_producers.py",
    "test_vacuum.py",
    "test_worked_examples.py",
    "test_views.py",
    "test_kept_store.py",
    "test_odd_keys.py",
    "test_streams.py",
    "test_recovery.py",
    "test_plain_readers.py",
    "test_engines.py",
    "test_compaction.py",
    "test_crashes.py",
    "test_checks.py",
    "test_local_tasks.py",
    "test_local_windows.py",
    "test_local_crashes.py",
    "test_connect.py",
    "test_object_stores.py",
    "test_local_ordered.py",
    "test_page.py",
    "test_record_index_crashes.py",
    "test_queries.py",
    "test_workers.py",
    "test_stored.py",
    "test_local_own.py",
    "test_local_retained_sources.py",
    "test_local_partials.py",
    "test_processes.py",
    "test_local_series.py",
    "test_local_verification.py",
    "test_delta_rules.py",
    "test_local_logs.py",
    "test_local_tpch.py",
    "test_readme.py",
    "test_tutorial.py",
    "test_local_window_crashes.py",
    "test_strategies.py",
    "test_local_wide.py",
    "test_local_views.py",
    "test_documentation.py",
    "test_dataset_absorbing.py",
    "test_arrow_producers.py",
)
"""Files that take longest, by seconds of CPU: they come first, so that no worker ends with one.

Those of Spark are in the order of what they take, which `pytest_xdist_make_scheduler` shares out.
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="all cases of every law, for hours")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--long"):
        left_out = [item for item in items if item.get_closest_marker("long")]
        items[:] = [item for item in items if not item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=left_out)
    order = {name: place for place, name in enumerate(DEAREST)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))


def pytest_collection_finish() -> None:
    """What was collected stays to the end, and is no garbage to be looked for again and again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """At the end of the process it is: extensions would print what they still have."""
    gc.unfreeze()


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist, which some runs are without
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """In a short run two workers share the tests with Spark, and the others have the rest.

    Java compiles twice then, but both cores have work to the end. A worker that is done takes files
    of the rest. A long run is mostly of Spark, and each worker has a session.
    """
    if config.getoption("--long") or config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class TwoSessions(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            if not file.startswith(f"{SPARK}/"):
                return file
            return f"{SPARK} {halves.setdefault(file, (0, 1, 1, 0)[len(halves) % 4])}"

    halves: dict[str, int] = {}  # of each file of Spark, in the order of the run

    return TwoSessions(config, log)


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
