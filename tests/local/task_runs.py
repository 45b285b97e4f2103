"""Pipelines with tasks, and processes that run them: two at once, or killed.

``python -m task_runs at-once LOCATION`` prints that it is ready, waits for a line, runs all tasks
and prints the tasks that it made. ``python -m task_runs killed PLACE…`` runs the tasks of each
store in a process of its own, which kills itself at a fail point. ``python -m task_runs
backfilled`` reads places and seconds, one a line, and backfills each store in a process that is
killed after so long.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from datetime import date
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


def days_shop() -> Pipeline:
    """Ten days, the day before each of which is read, too; a day whose n is 0 fails."""
    pipeline = Pipeline("shop")
    pipeline.source("sales", key="day date, n int", value="sold int", partition="day")
    scopes = "FOR t IN timeseries('1 day', 10), LET at = CAST(t AS date)"
    of_day = "SELECT n, sold DIV n AS each FROM sales WHERE sales.day = at"
    pipeline.partitioned("days", of_day, key="n", partition="day = at", scopes=scopes)
    pairs = "SELECT n, day AS made_on, each FROM days WHERE days.day BETWEEN date_sub(at, 1) AND at"
    given: dict[str, Any] = {"partition": "day = at", "scopes": scopes}
    pipeline.partitioned("pairs", pairs, key="n, made_on", **given)
    more = "SELECT n, made_on, each + 1 AS more FROM pairs WHERE pairs.day = at"
    pipeline.partitioned("more", more, key="n, made_on", **given)
    return pipeline


TEN = [date(2022, 3, n) for n in range(22, 32)]
AGAIN = {"day": (TEN[2], TEN[7])}
"""What `_backfilled` makes again: six days, and seven of each stage downstream."""


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


def _backfilled() -> None:
    """Prints for each line, JSON of a location and seconds, whether it was killed, and when."""
    for line in sys.stdin:
        location, seconds = json.loads(line)
        process, began = os.fork(), time.monotonic()  # nothing has begun a thread yet
        if not process:
            tasks.PER_VERSION = 2  # type: ignore[misc]
            with Store(None, location, days_shop()) as store:
                store.backfill("days", AGAIN)
            os._exit(0)
        ended, status = os.waitpid(process, os.WNOHANG)
        while not ended and time.monotonic() < began + seconds:
            time.sleep(0.001)
            ended, status = os.waitpid(process, os.WNOHANG)
        if not ended:
            os.kill(process, signal.SIGKILL)
            _, status = os.waitpid(process, 0)
        assert ended == 0 or status == 0
        print(json.dumps([not ended, time.monotonic() - began]), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "at-once":
        _at_once(sys.argv[2])
    elif sys.argv[1] == "backfilled":
        _backfilled()
    else:
        _killed(sys.argv[2:])
