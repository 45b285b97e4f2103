"""Hidden stages: a tree of them, shared by several stages, one without updates (S16)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from crashing import CrashAt, CrashError, fail
from damaging import remove_files
from hidden_trees import GROUPS, VALUES, trees
from local_stores import as_rows, assert_same_here, update_both
from selecting import chosen

from deltaproduce import Limits, Store
from deltaproduce.storage import failpoints
from deltaproduce.testing import Change, Delete, Oracle, Upsert

LARGE = Limits(small_table_rows=0, replaced_percent=900, group_rows=2)
WAYS: Mapping[str, Mapping[str, Any]] = {
    "small": {},
    "runs": {"limits": LARGE, "table_type": "merge_on_read"},
    "replaced": {"limits": LARGE},
}


@pytest.fixture(autouse=True)
def in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltaproduce.operations.publisher._WRITERS", 1)


class Life:
    """A store, and the same operations on its oracle.

    Attributes:
        oldest: the oldest version that the store can read.
    """

    def __init__(self, location: str, number: int) -> None:
        self.location, self.way = location, WAYS[list(WAYS)[number % len(WAYS)]]
        self.chance, self.pipeline, self.oldest = random.Random(number), trees(), 0
        self.oracle, self.turn = Oracle(self.pipeline), 0
        self.batches = batches(self.chance)

    def opened(self) -> Store:
        return Store(None, self.location, self.pipeline, **self.way)

    def operate(self) -> None:
        """Do one operation, and check all that can be read of two versions."""
        self.turn += 1
        operations = ("update", "rollback", "redefine", "repair", "crash", "vacuum")
        weights = (1, 0, 0, 0, 0, 0) if self.turn < 3 else (6, 2, 2, 2, 4, 1)
        (name,) = self.chance.choices(operations, weights)
        getattr(self, name)()
        with self.opened() as store:
            versions = {max(self.oldest, self.oracle.head - 1), self.oracle.head}
            assert_same_here(store, self.oracle, self.pipeline, versions)
            assert store.verify(recompute=True) == ()

    def update(self) -> None:
        with self.opened() as store:
            update_both(store, self.oracle, self.pipeline, next(self.batches))

    def rollback(self) -> None:
        back = self.chance.randint(max(self.oldest, 1), self.oracle.head)
        functions = [self.oracle._versions[number].functions for number in (back, -1)]
        if functions[0] == functions[1]:
            with self.opened() as store:
                assert store.rollback(back).number == self.oracle.rollback(back)

    def redefine(self) -> None:
        self.pipeline = trees(self.chance.choice((None, 1, 2)), self.chance.choice((2, 5)))
        self.oracle._graph = self.pipeline.graph()
        self.update()

    def repair(self) -> None:
        damaged = self.chance.choice((VALUES, GROUPS, "again"))
        remove_files(Path(self.location) / damaged / "content")
        with self.opened() as store:
            before = store.head.number
            store.repair()
            if store.head.number > before:
                self.oracle.update({}, f"repair {self.turn}")
        self.oldest = self.oracle.head  # files that older versions have are gone

    def crash(self) -> None:
        """Stop an update before an effect, and do it again under its id."""
        batch, name, at = next(self.batches), f"crash {self.turn}", self.chance.randrange(14)
        with self.opened() as store, suppress(CrashError), failpoints.armed(CrashAt(at, fail)):
            store.update(as_rows(self.pipeline, batch), name)
        with self.opened() as store:
            update_both(store, self.oracle, self.pipeline, batch, name)

    def vacuum(self) -> None:
        with self.opened() as store:
            store.vacuum(keep_versions=2, unfinished_hours=0)
        self.oldest = max(self.oldest, self.oracle.head - 1)


def batches(chance: random.Random) -> Iterator[dict[str, list[Change]]]:
    """Changes of a few rows with few values, so that groups come and go."""
    values = (None, 0, 1, 2, 3)
    while True:
        keys = chance.sample(range(12), chance.randint(1, 6))
        yield {"rows": [_change(chance, key, values) for key in keys]}


def _change(chance: random.Random, key: int, values: tuple[int | None, ...]) -> Change:
    if chance.random() < 0.4:
        return Delete((key,))
    return Upsert((key,), (chance.choice(values[:4]), chance.choice(values)))


@pytest.mark.parametrize("number", chosen(range(12), 0, 1))
def test_random_operations_equal_the_oracle(location: str, number: int, long_run: bool) -> None:
    """After each operation, all tables of the user's stages; and nothing is wrong with any."""
    life = Life(location, number)
    for _ in range(24 if long_run else 9):
        life.operate()
    tables = {path.name for path in (Path(location) / GROUPS).iterdir()}
    assert "updates" not in tables
    assert "updates" in {path.name for path in (Path(location) / VALUES).iterdir()}
