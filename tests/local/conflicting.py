"""Writers that create one store at the same time, wherever it is."""

from __future__ import annotations

from threading import Barrier, Thread

from crashing import batch, frames, orders, run_ahead
from local_stores import assert_same_here

from deltaproduce import Store
from deltaproduce.testing import Oracle

OTHERS = batch((7, 1, 70), (8, 3, 80))


def one_that_publishes(location: str) -> None:
    Store(None, location, orders()).update(frames(None, OTHERS))


def one_that_dies(location: str) -> None:
    run_ahead(None, location)


def assert_all_publish(location: str, writers: int) -> None:
    """Each tries again until it has published: all rows are there, and each version is one's."""
    together, failures = Barrier(writers), list[BaseException]()

    def write(number: int) -> None:
        try:
            with Store(None, location, orders(), on_conflict="retry") as store:
                together.wait()
                store.update(frames(None, batch((number, number % 2, number))), f"{number}")
        except BaseException as failure:  # noqa: BLE001 it is looked at below
            failures.append(failure)

    threads = [Thread(target=write, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    store, oracle = Store(None, location, orders()), Oracle(orders())
    for version in store.versions():
        number = int(version.update_id or "")
        oracle.update(batch((number, number % 2, number)), version.update_id)
    assert oracle.head == writers
    assert_same_here(store, oracle, orders(), range(writers + 1))
    assert not store.verify()
