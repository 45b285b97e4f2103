"""A recorded run of random views: each is right in each version, beside the oracle or Spark itself.

::

    python tests/local/recorded_views.py --queries 5000 --versions 5
    python tests/local/recorded_views.py --queries 500 --versions 5 --spark

Many views share a store of small stages, so that a version costs little for each. After each
version a view's rows are what the oracle's plain interpreter of the query returns over all rows of
its stages, its updates are the oracle's, and the updates of all versions, applied one after the
other, make its rows. At the end a refresh changes nothing, bit for bit. Stores differ in how tables
are stored, and some are opened again before each version. With ``--spark`` every second store has a
session, and Spark runs the text of each query over the stages at the end: ``EXCEPT ALL`` both ways.

A difference is printed with its query, and its store ends; the last line says what was
compared, and the seed.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

import pyarrow as pa
from local_stores import IN_PARTS, WAYS, as_rows
from random_views import batch, stages_alone, view
from view_queries import STAGES, tables, unedited

import deltaproduce as dp
from deltaproduce.stages.sql.resolve import Resolved, resolved
from deltaproduce.stages.views import keys, kind
from deltaproduce.testing import Oracle, plain_rows

PACK = 25
"""How many views share a store."""
LIMITS = [*WAYS.values(), IN_PARTS]


@cache
def read(text: str) -> Resolved:
    """What a query says: most of the time is spent on it unless it is found once."""
    return resolved(text, STAGES)


def reading_once() -> None:
    """Stages and the oracle find what a text says once in the run, and not in each version."""

    def once(text: str, stages: object, constants: object = None) -> Resolved:
        del stages, constants  # queries read the stages of `STAGES`, and name no date
        return read(text)

    kind.__dict__["resolved"] = keys.__dict__["resolved"] = once


@dataclass
class Pack:
    """A store of views, and what is known of it.

    Attributes:
        queries: the views.
        folded: of each view, the rows by key that its updates make.
        modes: how its steps were done, and how often.
        answered: how many queries Spark has answered.
    """

    number: int
    seed: str
    size: int
    place: Path
    spark: Any = None
    queries: dict[str, str] = field(default_factory=dict)
    folded: dict[str, dict[Any, list[Any]]] = field(default_factory=dict)
    modes: Counter[str] = field(default_factory=Counter)
    answered: int = 0

    def __post_init__(self) -> None:
        self.random = Random(f"{self.seed}-{self.number}")
        self.pipeline = stages_alone()
        for n in range(self.size):
            text = view(self.random)
            if self.session is None or self.is_taken(text):
                self.queries[f"v{n}"] = text
                self.pipeline.sql(f"v{n}", text)
        self.folded = {name: {} for name in self.queries}
        self.oracle = Oracle(self.pipeline)

    @property
    def session(self) -> Any:
        """What the store is opened with: in every second store nothing."""
        return self.spark if self.number % 2 else None

    def is_taken(self, text: str) -> bool:
        """Whether Spark takes what the user wrote; else a store with a session does not open."""
        from pyspark.errors import AnalysisException

        names = {name: f"_stage_{name}" for name in STAGES}
        for name, table in tables({}).items():
            frame(self.spark, table, names[name])
        try:
            self.spark.sql(unedited(read(text), names))
        except AnalysisException as error:
            print(f"Spark has no plan for {text}: {str(error).splitlines()[:1]}", flush=True)
            return False
        return True

    def opened(self) -> dp.Store:
        """The store, each time in the same way."""
        limits = LIMITS[self.number // 2 % len(LIMITS)]
        table_type: Any = ("copy_on_write", "merge_on_read")[self.number // 8 % 2]
        return dp.Store(
            self.session, str(self.place), self.pipeline, limits=limits, table_type=table_type
        )

    def run(self, versions: int) -> None:
        """Make the versions; check each."""
        is_reopened = self.random.random() < 0.3
        with ExitStack() as stack:
            store = stack.enter_context(self.opened())
            while self.oracle.head < versions:
                if is_reopened:
                    stack.close()
                    store = stack.enter_context(self.opened())
                self.update(store)
            self.refreshed(store)
            if self.spark is not None:
                self.beside_spark(store)

    def update(self, store: dp.Store) -> None:
        """Make a version, and compare it with the oracle's."""
        changes, before = batch(self.random), self.oracle.head
        number = self.oracle.update(changes)
        version = store.update(as_rows(self.pipeline, changes))
        assert version.number == number
        if number == before:
            return
        store = self.reader(store)
        for name, text in self.queries.items():
            if name in version.stages:
                self.modes[version.stages[name].mode] += 1
            told = f"{self}, version {number}, {name}: {text}"
            found = rows_of(store.content(name, ordered=True))
            assert found == self.oracle.content(name), f"content of {told}"
            updates = rows_of(store.updates(name, ordered=True))
            assert updates == self.oracle.updates(name), f"updates of {told}"
            self.fold(name, updates)
            rows = Counter(row[:-1] for row in found)  # without the number in its key
            assert self.rows_folded(name) == rows, f"feed of {told}"

    def reader(self, store: dp.Store) -> dp.Store:
        """A store that reads as Arrow tables."""
        return store if self.session is None else dp.Store(None, str(self.place), self.pipeline)

    def fold(self, name: str, updates: list[tuple[Any, ...]]) -> None:
        """Apply the updates of a version."""
        folded, width = self.folded[name], self.width(name)
        new = dict[Any, list[Any]]()
        for _, what, *rest in updates:
            key, (_, *values) = tuple(rest[:width]), rest[width:]
            rows = new.setdefault(key, [])
            if what != "delete":
                rows.append(tuple(values))
        for key, rows in new.items():
            folded[key] = rows

    def rows_folded(self, name: str) -> Counter[Any]:
        """The rows that the updates of all versions have made."""
        return Counter((*key, *row) for key, rows in self.folded[name].items() for row in rows)

    def width(self, name: str) -> int:
        """How many columns the key of a view has that readers see."""
        schema = self.pipeline.graph().stage(name).schema
        return sum(not column.is_hidden for column in schema.key)

    def refreshed(self, store: dp.Store) -> None:
        """A refresh finds nothing else."""
        figures = store.refresh().stages
        for name, text in self.queries.items():
            one = figures[name]
            found = one.changed_keys, one.rows_added, one.rows_removed
            assert found == (0, 0, 0), f"refresh of {self}, {name}: {found}: {text}"

    def beside_spark(self, store: dp.Store) -> None:
        """Spark's answers to the text of the queries are the views' rows."""
        local = self.reader(store)
        for name in STAGES:
            columns = list(STAGES[name].names)
            frame(self.spark, local.content(name).select(columns), f"_stage_{name}")
        names = {name: f"_stage_{name}" for name in STAGES}
        for name, text in self.queries.items():
            query = read(text)
            answer = self.answer(query, names)
            if answer is None:
                continue
            wanted = frame(self.spark, answer, "_answer")
            found = frame(self.spark, local.content(name).select(query.names), "_view")
            more, less = wanted.exceptAll(found), found.exceptAll(wanted)
            rows = more.unionAll(less).limit(5).collect()
            assert not rows, f"Spark beside {self}, {name}: {rows}: {text}"
            self.answered += 1

    def answer(self, query: Resolved, names: Mapping[str, str]) -> pa.Table | None:
        """Spark's rows; None if it refuses what the user wrote, or fails at planning it."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import AnalysisException

        failures = AnalysisException, Py4JJavaError
        try:
            return self.spark.sql(query.sql(names)).toArrow()
        except failures as error:
            told = str(error).splitlines()[:1]
        try:
            self.spark.sql(unedited(query, names)).toArrow()
        except failures:
            print(f"Spark has no plan for {query.text}: {told}", flush=True)
            return None
        raise AssertionError(f"Spark runs what the user wrote, and not {query.sql(names)}: {told}")

    def __str__(self) -> str:
        return f"pack {self.number} of seed {self.seed!r}"


def frame(spark: Any, table: pa.Table, name: str) -> Any:
    """A table as a temporary view of Spark."""
    found = spark.createDataFrame(table)
    found.createOrReplaceTempView(name)
    return found


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows in the normal form of the oracle."""
    return plain_rows(zip(*(column.to_pylist() for column in table.columns), strict=True))


def session() -> Any:
    """A session that is quick on a few rows."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "spark"))
    from conftest import SETTINGS

    from deltaproduce.engines.spark.sessions.session import local_session

    # this rule drops the order of a LIMIT with OFFSET that a grouped subquery is read beside
    rule = "org.apache.spark.sql.catalyst.optimizer.EliminateSorts"
    return local_session(cores=2, config={**SETTINGS, "spark.sql.optimizer.excludedRules": rule})


def main(arguments: list[str] | None = None) -> Mapping[str, int]:
    """Run, and print what was compared."""
    parser = argparse.ArgumentParser(description="Random views beside the oracle, or Spark.")
    parser.add_argument("--queries", type=int, default=5000)
    parser.add_argument("--versions", type=int, default=5)
    parser.add_argument("--seed", default="recorded")
    parser.add_argument("--first", type=int, default=0, help="the number of the first store")
    parser.add_argument("--spark", action="store_true", help="compare with Spark, too")
    asked = parser.parse_args(arguments)
    spark, begin = session() if asked.spark else None, monotonic()
    reading_once()
    gc.disable()
    modes, compared, answered, differences = Counter[str](), 0, 0, 0
    packs = range(asked.first, asked.first + -(-asked.queries // PACK))
    for number in packs:
        size = min(PACK, asked.queries - PACK * (number - asked.first))
        with tempfile.TemporaryDirectory() as place:
            pack = Pack(number, asked.seed, size, Path(place) / "store", spark)
            try:
                pack.run(asked.versions)
            except Exception as error:  # noqa: BLE001 whatever it is, it is one of this store
                differences += 1
                place_in_code = traceback.format_exc(limit=-3)
                print(f"DIFFERENCE: {pack}: {error}\n{place_in_code}", flush=True)
        modes, compared = modes + pack.modes, compared + size
        answered += pack.answered
        read.cache_clear()
        gc.collect()
        if not (number + 1) % 4 or number == packs[-1]:
            print(
                f"{monotonic() - begin:.0f} s: seed {asked.seed!r}, stores {packs.start} to "
                f"{number}: {compared} queries x {asked.versions} versions"
                f"{f', {answered} beside Spark' if spark else ''}, steps {dict(modes)}, "
                f"{differences} differences",
                flush=True,
            )
    return {"queries": compared, "differences": differences}


if __name__ == "__main__":
    sys.exit(bool(main()["differences"]))
