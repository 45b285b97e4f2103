"""A pipeline with tasks, and processes that run them: two at once, or killed at a fail point.

``python -m task_runs at-once LOCATION`` prints that it is ready, waits for a line, runs all tasks
and prints the tasks that it made. ``python -m task_runs killed PLACE…`` runs the tasks of each
store in a process of its own, which kills itself at a fail point.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import deltaproduce as dp
from deltaproduce import Pipeline, Store
from deltaproduce.operations.verbs import tasks
from deltaproduce.storage import failpoints

DAYS = "FOR t IN timeseries('1 day', 3), LET d = date_format(t, 'yyyy-MM-dd')"
STORES = f"{DAYS}, FOR s IN array('Detroit', 'Paris')"
AS_OF = "2022-03-31"


def shop(*, retention: str = "keep", scopes: bool = False, plus: int = 1) -> Pipeline:
    pipeline = Pipeline("shop")
    pipeline.source(
        "sales",
        key="day string, store string, n bigint",
        value="sold bigint",
        partition="day = d, store = s" if scopes else "day, store",
        scopes=STORES if scopes else None,
    )
    pipeline.partitioned(
        "stores",
        f"SELECT n, sold DIV n + {plus} AS sold FROM sales WHERE day = d AND sales.store = s",
        key="n",
        partition="day = d, store = s",
        scopes=STORES,
        retention=retention,
    )
    pipeline.partitioned(
        "recent",
        "SELECT stores.day AS of, store, n, sold FROM stores "
        "WHERE stores.day BETWEEN date_sub(d, 1) AND d AND sold > 0",
        key="of, store, n",
        partition="day = d",
        scopes=DAYS,
        retention=retention,
    )
    return pipeline


def row(day: str, store: str = "Paris", n: int = 1, sold: int = 3) -> dict[str, Any]:
    return {"day": f"2022-03-{day}", "store": store, "n": n, "sold": sold}


class Until:
    """Ends the process without a word at a fail point.

    Args:
        point: after how many others.
    """

    def __init__(self, point: int) -> None:
        self.left = point

    def __call__(self, when: str, effect: str, table: str) -> None:
        del when, effect, table
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1


def _ran(location: str) -> dp.Run:
    tasks.PER_VERSION = 2  # type: ignore[misc]  # several versions a run
    with Store(None, location, shop()) as store:
        return store.run(as_of=AS_OF)


def _at_once(location: str) -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps([str(task) for task in _ran(location).done]), flush=True)


def _killed(places: Sequence[str]) -> None:
    """Each place is a location, and behind a colon the fail point."""
    for place in places:
        location, _, point = place.rpartition(":")
        process = os.fork()  # nothing has begun a thread yet
        if not process:
            with failpoints.armed(Until(int(point))):
                _ran(location)
            os._exit(0)
        _, status = os.waitpid(process, 0)
        print(os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "at-once":
        _at_once(sys.argv[2])
    else:
        _killed(sys.argv[2:])
