"""Calls of functions that never repeat themselves: each key that changed is one call (S4)."""

import os
import uuid
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from local_stores import plain_table
from pyspark.sql import SparkSession

from deltaproduce import Limits, Pipeline, Store


def wandering_and_counted(calls):
    """A stage that is different at each call, one that reads it, and a line in a file per call."""
    pipeline = Pipeline("calls")
    items = pipeline.source("items", key="k int", value="n int")

    def note(line):
        log = os.open(calls, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(log, f"{line}\n".encode())
        finally:
            os.close(log)

    @pipeline.producer(items, key="target string", value="call string, n int")
    def wandering(key, values):
        note(f"wandering {key}")
        call = uuid.uuid4().hex
        target = os.urandom(1).hex()
        for n in values:
            yield target, (call, n)

    @pipeline.producer(wandering, key="target string", value="n_rows bigint")
    def arrived(target, values):
        note(f"arrived {target}")
        yield target, len(list(values))

    return pipeline


BATCHES = [
    [(k, n, "upsert") for k in range(40) for n in (k, k + 30)],
    # Some keys get other values, some go, some come, and some are sent again as they are.
    [
        *((k, 5 * k, "upsert") for k in range(10)),
        *((k, None, "delete") for k in range(10, 15)),
        *((k, k % 3, "upsert") for k in range(40, 45)),
        *((k, n, "upsert") for k in range(20, 25) for n in (k, k + 30)),
    ],
    # More go, one of 10 to 14 comes back, and one changes one of its two values.
    [
        *((k, None, "delete") for k in range(1, 10)),
        *((0, 7, "upsert"), (10, 10, "upsert"), (31, 32, "upsert"), (31, 61, "upsert")),
    ],
]


def test_functions_that_never_repeat_themselves(tmp_path: Path, long_run: bool) -> None:
    """In a short run of two batches."""
    assert_called_once(None, tmp_path, BATCHES if long_run else BATCHES[:2])


def assert_called_once(
    spark: SparkSession | None, tmp_path: Path, batches: Sequence[Sequence[Any]]
) -> None:
    """A function is called once for each key that changed, and never for another.

    Args:
        spark: where it runs; None beside the driver.
    """
    calls = tmp_path / "calls"
    pipeline, place = wandering_and_counted(str(calls)), str(tmp_path / "store")
    limits = Limits() if spark is None else Limits(local_rows=0)
    store, reader = Store(spark, place, pipeline, limits=limits), Store(None, place, pipeline)
    alive: dict[int, list[int]] = {}
    folded: dict[str, list[tuple[str, int]]] = {}
    last: dict[int, set[tuple[str, str]]] = {}
    for number, batch in enumerate(batches, start=1):
        calls.write_text("")
        given = [dict(zip(("k", "n", "_change_type"), row, strict=True)) for row in batch]
        assert store.update({"items": given}).number == number
        changed = dict.fromkeys(k for k, *_ in batch)
        before, alive = alive, {k: ns for k, ns in alive.items() if k not in changed}
        for k, n, word in batch:
            if word == "upsert":
                alive.setdefault(k, []).append(n)
        changed = [k for k in changed if alive.get(k) != before.get(k)]

        content = plain_table(reader.content("wandering", ordered=True))
        found: dict[int, list[int]] = {}
        made: dict[int, set[tuple[str, str]]] = {}
        for target, call, n, source, _ in content:
            found.setdefault(source, []).append(n)
            made.setdefault(source, set()).add((target, call))
        assert found == alive  # no orphan, and nothing lost
        assert all(len(one) == 1 for one in made.values())  # one call, one target
        assert len({call for ((_, call),) in made.values()}) == len(made)
        assert {k: made[k] for k in made if k not in changed} == {
            k: last[k] for k in last if k not in changed
        }  # who did not change was not called
        last = made
        mappings = plain_table(reader.key_mappings("wandering"))
        assert len(mappings) == len(set(mappings))
        assert set(mappings) == {(source, target) for target, _, _, source, _ in content}

        updates = plain_table(reader.updates("wandering", ordered=True))
        touched = {row[2] for row in updates if row[1] != "delete"}
        for target in {row[2] for row in updates}:
            folded.pop(target, None)
        for _, word, target, _, call, n in updates:
            if word != "delete":
                folded.setdefault(target, []).append((call, n))
        values: dict[str, list[tuple[str, int]]] = {}
        for target, call, n, *_ in content:
            values.setdefault(target, []).append((call, n))
        assert folded == values
        sizes = {target: n_rows for target, n_rows, *_ in plain_table(reader.content("arrived"))}
        assert sizes == {target: len(found) for target, found in values.items()}

        assert Counter(calls.read_text().splitlines()) == Counter(
            [
                *(f"wandering {k}" for k in changed if k in alive),
                *(f"arrived {target}" for target in touched),
            ]
        )


def test_all_rows_are_of_the_function_as_it_was_when_all_were_computed(tmp_path: Path) -> None:
    """What it captures changes meanwhile; a refresh, or a store that is opened, has the new one."""
    factors, location = [2], str(tmp_path)
    pipeline = Pipeline("factors")
    items = pipeline.source("items", key="k int", value="n int")

    @pipeline.producer(items, key="k int", value="n int")
    def multiplied(k: int, values: Any) -> Any:
        for n in values:
            yield k, n * factors[0]

    def rows(store: Store) -> list[int]:
        return store.content("multiplied").sort_by("k").column("n").to_pylist()

    with Store(None, location, pipeline) as store:
        store.update({"items": [{"k": 1, "n": 10}]})
        factors[0] = 3
        store.update({"items": [{"k": 2, "n": 10}]})
        assert rows(store) == [20, 20]
        store.refresh("multiplied")
        assert rows(store) == [30, 30]
        factors[0] = 4
    with Store(None, location, pipeline) as store:
        assert store.update({"items": [{"k": 3, "n": 10}]}).stages["multiplied"].mode == "full"
        assert rows(store) == [40, 40, 40]
