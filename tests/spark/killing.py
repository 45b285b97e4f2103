"""A kill at every fail point of every operation, and in the middle of every effect.

A `Case` is one kill; `killed` runs many, some in one process, each on a copy of a store. The
invariant: the oracle alone judges the result of a case, and failures are counted, so that the table
of a run shows them.
"""

import random
import shutil
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from comparing import assert_same
from crashing import (
    ALL_OPERATIONS,
    FACTOR,
    VERSIONS,
    Beforehand,
    Operation,
    Subject,
    built,
    recorded,
    run_ahead,
)
from local_stores import assert_same_here
from processes import Child, Stop
from pyspark.sql import SparkSession

from deltaproduce import Store
from deltaproduce.testing import Oracle


@dataclass(frozen=True, slots=True)
class Case:
    """One kill.

    Attributes:
        number: which of all; it draws what is done afterwards.
        name: the operation.
        stop: the fail point.
        within: in the effect that comes next.
    """

    number: int
    name: str
    stop: Stop
    within: bool = False


@dataclass(slots=True)
class Outcome:
    """What was found after a kill.

    Attributes:
        effect: which effect it was killed at.
        table: that effect's table.
        when: before it, within it, or after it.
        had_ended: it was to be killed within the effect, which was over by then.
        lost: versions that were there and are not.
        doubled: numbers or ids of updates that two versions have.
        failure: what else went wrong.
    """

    case: Case
    effect: str
    table: str
    when: str
    had_ended: bool = False
    lost: int = 0
    doubled: int = 0
    failure: str = ""

    @property
    def is_wrong(self) -> bool:
        """Whether anything was lost or doubled, or went wrong."""
        return bool(self.failure or self.lost or self.doubled)

    def published(self) -> bool | None:
        """Whether the version is to be there; None if either is right."""
        if self.effect != "publish" or self.when == "before":
            return False
        return True if self.when == "after" or self.had_ended else None


@dataclass(slots=True)
class Stores:
    """Stores that are built once and copied, each with its oracle.

    Attributes:
        spark: the session of who builds them and looks at them; None if there is none.
        folder: where they are.
        settings: of the session of the processes that are killed; None if they have none.
    """

    spark: SparkSession | None
    folder: Path
    settings: Mapping[str, str] | None
    _built: dict[Beforehand, tuple[str, Oracle]] = field(default_factory=dict)

    def copy(self, name: str, beforehand: Beforehand) -> tuple[str, Oracle]:
        """A store of one's own, and its oracle."""
        FACTOR[0] = 1
        if beforehand not in self._built:
            self._built[beforehand] = self._build(beforehand)
        origin, oracle = self._built[beforehand]
        location = self.folder / name
        if beforehand.versions:
            shutil.copytree(origin, location)
        return str(location), deepcopy(oracle)

    def _build(self, beforehand: Beforehand) -> tuple[str, Oracle]:
        if not beforehand.ahead:
            location = str(self.folder / f"built-{len(self._built)}")
            return location, built(
                self.spark, location, beforehand.versions, subject=beforehand.subject
            )
        name = f"ahead-{len(self._built)}"
        location, oracle = self.copy(name, replace(beforehand, ahead=False))
        run_ahead(self.spark, location, beforehand.subject)
        return location, oracle


def some_cases(operations: Mapping[str, Operation]) -> Iterator[Case]:
    """Of each operation one in the middle of an effect, and one after the last."""
    for number, (name, operation) in enumerate(operations.items()):
        first, last = operation.effects
        yield Case(2 * number, name, ("before", first), within=True)
        yield Case(2 * number + 1, name, ("after", last))


def all_cases(stores: Stores, operations: Mapping[str, Operation]) -> Iterator[Case]:
    """At each fail point of each operation, and in the middle of each effect.

    Of one that comes after a crash only in what it does about that: the rest is as usual.
    """
    number = 0
    for name, operation in operations.items():
        location, _ = stores.copy(f"recorded-{number}", operation.beforehand)
        for stop, point in enumerate(recorded(stores.spark, location, operation, VERSIONS)):
            if operation.beforehand.ahead and point[1] not in operation.effects:
                continue
            for within in (False, True) if point[0] == "before" else (False,):
                yield Case(number, name, stop, within)
                number += 1


def killed(stores: Stores, wanted: Iterator[Case], *, at_once: int) -> Iterator[Outcome]:
    """What is found after each kill.

    Args:
        at_once: operations that are killed with one process, which takes long to start.
    """
    with ThreadPoolExecutor(1) as pool:
        begun = _begin(pool, stores, islice(wanted, at_once))
        while begun is not None:
            copies, kills = begun
            outcomes = kills.result()
            begun = _begin(
                pool, stores, islice(wanted, at_once)
            )  # while the stores of the last ones are looked at
            for outcome in outcomes:
                location, oracle = copies[outcome.case]
                try:
                    if not outcome.failure:
                        _look(stores.spark, location, oracle, outcome)
                except Exception:  # noqa: BLE001 the others are looked at all the same
                    outcome.failure = traceback.format_exc()
                yield outcome
                if not outcome.failure:
                    shutil.rmtree(location)


Copies = Mapping[Case, tuple[str, Oracle]]


def _begin(
    pool: ThreadPoolExecutor, stores: Stores, wanted: Iterator[Case]
) -> tuple[Copies, Future[list[Outcome]]] | None:
    """Begin with some kills in one process; None if there are none."""
    copies = {
        case: stores.copy(f"killed-{case.number}", ALL_OPERATIONS[case.name].beforehand)
        for case in wanted
    }
    locations = {case: location for case, (location, _) in copies.items()}
    return (copies, pool.submit(_kill, locations, stores.settings)) if copies else None


def _kill(locations: Mapping[Case, str], settings: Mapping[str, str] | None) -> list[Outcome]:
    """Have operations done in a process, and kill them all at once."""
    outcomes, child = [], Child(settings)
    longest = 0.02 if settings is None else 0.4  # about as long as most effects take
    try:
        for case, location in locations.items():
            said, _, *point = child.start(location, case.name, VERSIONS, case.stop)
            if said != "at":
                outcomes.append(Outcome(case, "", "", "before", failure=f"ended: {point}"))
                continue
            when, effect, table = point
            outcomes.append(Outcome(case, effect, table, "within" if case.within else when))
        within = [locations[outcome.case] for outcome in outcomes if outcome.when == "within"]
        child.go_on(0, *within)
        time.sleep(random.Random(min(c.number for c in locations)).uniform(longest / 20, longest))
    finally:
        ended = {location for _, location, *_ in child.kill()}
    for outcome in outcomes:
        outcome.had_ended = locations[outcome.case] in ended
    return outcomes


def _look(spark: SparkSession | None, location: str, oracle: Oracle, outcome: Outcome) -> None:
    """Hold a store against its oracle after a kill, and after what is done next."""
    case, FACTOR[0] = outcome.case, 1
    operation = ALL_OPERATIONS[case.name]
    subject = operation.beforehand.subject
    store = Store(spark, location, subject.pipeline())
    is_there = store.head.number > oracle.head
    _count(store, oracle.head + bool(outcome.published()), outcome)
    assert outcome.published() in (None, is_there)
    if is_there:
        operation.expected(oracle, VERSIONS)
    assert_version(store, oracle, subject, oracle.head)
    before, next_one = oracle.head, 100 + case.number
    if case.number % 2:  # the same again, which is done already if it was published
        operation.run(store, spark, VERSIONS)
        operation.expected(oracle, VERSIONS)
        _count(store, oracle.head, outcome)
    if oracle.head == before:
        subject.update(store, spark, next_one)
        subject.updated(oracle, next_one)
        _count(store, oracle.head, outcome)
    older = random.Random(case.number).choice([found.number for found in store.versions()])
    for version in (oracle.head, older):
        assert_version(store, oracle, subject, version)


def assert_version(store: Store, oracle: Oracle, subject: Subject, version: int) -> None:
    """A version has the oracle's tables, read with the session that the store has, or without."""
    if store._opened.tables.engines.session is None:
        assert_same_here(store, oracle, subject.pipeline(), [version])
    else:
        assert_same(store, oracle, subject.pipeline(), version)


def _count(store: Store, head: int, outcome: Outcome) -> None:
    """Count versions that are missing, and those that are there twice."""
    versions = store.versions()
    outcome.lost += max(0, head - store.head.number)
    names = [version.number for version in versions]
    ids = [version.update_id for version in versions if version.update_id is not None]
    outcome.doubled += len(names) - len(set(names)) + len(ids) - len(set(ids))
    first = names[0] if outcome.case.name == "vacuum" and names else 1
    assert names == [*range(first, store.head.number + 1)]
    assert store.head.number in (head, head + 1)


def as_table(outcomes: Sequence[Outcome]) -> str:
    """The kills as a table in Markdown, and what was found."""
    order = ("before", "within", "after")
    rows = sorted({(o.effect, o.table, order.index(o.when)) for o in outcomes})
    names = list(dict.fromkeys(outcome.case.name for outcome in outcomes))
    kills = Counter((o.effect, o.table, order.index(o.when), o.case.name) for o in outcomes)
    lines = [
        f"| effect | table | killed | {' | '.join(names)} |",
        f"| --- | --- | --- |{' ---: |' * len(names)}",
    ]
    for row in rows:
        cells = [str(kills[*row, name] or "") for name in names]
        lines.append(f"| {row[0]} | {row[1]} | {order[row[2]]} | {' | '.join(cells)} |")
    totals = [str(sum(outcome.case.name == name for outcome in outcomes)) for name in names]
    lines.append(f"| all | | | {' | '.join(totals)} |")
    within = [outcome for outcome in outcomes if outcome.case.within]
    return "\n".join(lines) + (
        f"\n\n{len(outcomes)} kills, {len(within)} of them within an effect, of which "
        f"{sum(outcome.had_ended for outcome in within)} had just ended; "
        f"{sum(outcome.lost for outcome in outcomes)} versions lost, "
        f"{sum(outcome.doubled for outcome in outcomes)} doubled, "
        f"{sum(bool(outcome.failure) for outcome in outcomes)} kills after which anything else "
        "was wrong."
    )
