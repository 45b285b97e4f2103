"""A store's life, after each version of which readers without the library open all of its tables.

`Life` does random things with a store and with its model: updates by both engines in turn, crashes
and what comes after them, rollbacks, compactions. After each version `Life.read` opens each table
whose path has no part that begins with ``_``, and the version log, by its path. What a reader did
with which table is remembered (`Life.seen`), which the table of docs/reading.md says.
"""

import random
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any, Final

from comparing import as_frames
from crashing import CrashAt, CrashError, fail
from deltalake import DeltaTable
from other_readers import Read, assert_read
from pyspark.sql import SparkSession

from deltaproduce import Limits, Pipeline, Store, agg, window
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import Layout
from deltaproduce.storage import failpoints
from deltaproduce.testing import Change, Delete, Oracle, Upsert, plain_rows
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import LongType, StringType

MARKING: Final = Limits(small_table_rows=0, group_rows=3, replaced_percent=900, merged_commits=3)
"""Rows are marked however few there are, and small files are often merged."""
KEYS: Final = 40
LOG_COLUMNS: Final = (Column("number", LongType()), Column("operation", StringType()))
MEMBERS: Final = "Mitglieder, größe"
RANKED: Final = f"""
SELECT v.member, count(*) AS visits, max(m.rank) AS best
FROM visits v JOIN `{MEMBERS}` m ON v.member = m.member GROUP BY v.member
"""
IN_TURN: Final = """
SELECT v.id, count(b.id) AS earlier
FROM visits v LEFT JOIN visits b ON v.member = b.member AND b.day < v.day GROUP BY v.id
"""
TABLES: Final = ("content", "key_mappings", "updates", "_versions")


def visits(*, as_model: bool = False) -> Pipeline:
    """Visits, by member and by day: a stage of each kind, some of odd names.

    Args:
        as_model: a key-local query is a function with the same rows, which the oracle knows.
    """
    pipeline = Pipeline("Besuche, größe & 100 %41")
    value = "day date, member string, pages int, tags map<string,int>"
    source = pipeline.source("visits", key="id bigint", value=value)
    by_day = {"partition": "day", "order": "member desc"}
    pipeline.source(MEMBERS, key="member string", value="day date, rank int", stored=by_day)

    @pipeline.producer(source, key="member string", value="id bigint, pages int")
    def by_member(key: int, values: Iterator[Any]) -> Iterator[Any]:
        for visit in values:
            yield visit.member, (key, visit.pages)

    @pipeline.producer(source, key="day date, id bigint", value="pages int", name="days: 2%")
    def days(key: int, values: Iterator[Any]) -> Iterator[Any]:
        for visit in values:
            yield (visit.day, key), visit.pages

    values = {"visits": agg.count(), "pages": agg.sum("pages"), "most": agg.max("pages")}
    pipeline.aggregate("pages by ~member", by_member, key="member", values=values)
    last = {"window": window("day", last=2), "values": {"pages": agg.sum("pages")}}
    pipeline.aggregate("last_days", days, key="day", **last)
    pipeline.index("by_day", source, key="day", include="pages")
    pipeline.sql("ranked", RANKED, key="member")
    pipeline.sql("in_turn", IN_TURN, key="id")
    if not as_model:
        pipeline.sql("doubled", "SELECT id, 2 * pages AS pages FROM visits", key="id")
        return pipeline

    @pipeline.producer(source, key="id bigint", value="pages int")
    def doubled(key: int, values: Iterator[Any]) -> Iterator[Any]:
        for visit in values:
            yield key, None if visit.pages is None else 2 * visit.pages

    return pipeline


def drawn(draw: random.Random, count: int) -> dict[str, list[Change]]:
    """Changes of so many visits, and of fewer members."""
    changes: list[Change] = []
    for key in draw.sample(range(KEYS), count):
        day, member = date(2026, 1, draw.randint(1, 4)), draw.choice(["m1", "m2", "é", None])
        pages = draw.choice([None, *range(9)])
        value = (day, member, pages, {"a": draw.randint(0, 3)})
        changes.append(Upsert((key,), value) if draw.random() < 0.8 else Delete((key,)))
    members: list[Change] = [
        Upsert((f"m{n}",), (date(2026, 1, draw.randint(1, 3)), draw.randint(0, 9)))
        for n in draw.sample(range(KEYS), max(1, count // 2))
    ]
    return {"visits": changes, MEMBERS: members[: draw.randint(0, len(members))]}


@dataclass
class Life:
    """A store and its model.

    Attributes:
        sessions: what the store is opened with, in turn; None is no session.
        pipeline: the store's definition.
        model: the same as the oracle has it.
        draw: decides what is done.
        batches: draws the changes of some keys.
        limits: the store's limits.
        seen: whether readers read tables, or refused them, by reader, kind and "head" or "older".
    """

    location: str
    sessions: list[SparkSession | None]
    pipeline: Pipeline
    model: Pipeline
    draw: random.Random
    batches: Callable[[random.Random, int], Mapping[str, list[Change]]] = drawn
    limits: Limits = MARKING
    seen: dict[tuple[str, str, str], set[bool]] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        self.oracle = Oracle(self.model)
        self.log_versions: dict[int, int] = {}
        self._read = set[tuple[str, str, int | None, int]]()
        self._feeds: dict[tuple[str, int], list[Any]] = {}
        self._turn = 0
        self._open()

    def _open(self) -> None:
        self.session = self.sessions[self._turn % len(self.sessions)]
        self._turn += 1
        self.store = Store(self.session, self.location, self.pipeline, limits=self.limits)

    def step(self) -> None:
        """Do something that makes a version, and perhaps more."""
        before = self.oracle.head
        if self.sessions[1:] and before:
            self._reopen()
        while self.oracle.head == before:
            match self.draw.randint(0, 9) if before else 0:
                case 0 | 1 | 2 | 3:
                    self._update(self._drawn())
                case 4:
                    self._crash(resumes=True)
                case 5:
                    self._crash(resumes=False)
                case 6:
                    number = self.draw.randrange(1, before + 1)
                    assert self.store.rollback(number).number == self.oracle.rollback(number)
                case 7:
                    self.store.compact()
                case _:
                    self._reopen()
        assert self.store.head.number == self.oracle.head
        self.log_versions[self.oracle.head] = DeltaTable(f"{self.location}/_versions").version()

    def update(self) -> None:
        """Change some keys, or give all of them at first."""
        self._update(self._drawn())
        self.log_versions[self.oracle.head] = DeltaTable(f"{self.location}/_versions").version()

    def read(self, readers: Mapping[str, Read], most: int | None = None) -> None:
        """Each table of the head and of one version before, by each reader.

        A table that has not moved since is not read again.

        Args:
            most: only so many tables, and the log; all if None.
        """
        versions = {version.number: version for version in self.store.versions()}
        older = self.draw.randrange(1, self.oracle.head) if self.oracle.head > 1 else None
        tables = [*self.tables()]
        for stage, kind, path in tables if most is None else self.draw.sample(tables, most):
            for number in filter(None, (self.oracle.head, older)):
                at = versions[number].delta_version(stage.name, kind)
                if at is None:
                    continue
                expected, columns = self._expected(stage, kind, number), shown(stage, kind)
                newest = DeltaTable(path).version()
                ats: list[int | None] = [at]
                if number == self.oracle.head and not self._is_ahead(path, at):
                    ats.append(None)
                for (name, read), one in product(readers.items(), ats):
                    if (name, path, one, newest) in self._read:  # nothing has moved
                        continue
                    told = name, kind, "older" if number == older else "head"
                    self.seen[told].add(assert_read(read, path, one, columns, expected))
                    self._read.add((name, path, one, newest))
        self._read_log(readers, older, {n: v.operation for n, v in versions.items()})

    def tables(self) -> Iterator[tuple[Stage, str, str]]:
        """The tables that are to be read by path: stage, kind and path."""
        for stage in self.store._opened.graph.shown:
            for kind in ("content", "key_mappings", "updates"):
                if kind != "key_mappings" or stage.source_key:
                    yield stage, kind, f"{self.location}/{folder(stage.name)}/{kind}"

    def assert_no_others(self) -> None:
        """No other table could be taken for one of those; a stage without rows has none."""
        versions = self.store.versions()
        known = {
            Path(path).relative_to(self.location)
            for stage, kind, path in self.tables()
            if any(version.delta_version(stage.name, kind) is not None for version in versions)
        }
        logs = [log.parent for log in Path(self.location).rglob("_delta_log")]
        found = {log.relative_to(self.location) for log in logs}
        assert {path for path in found if not any(part[0] == "_" for part in path.parts)} == known

    def _reopen(self) -> None:
        self.store.close()
        self._open()

    def _drawn(self) -> Mapping[str, list[Change]]:
        most = KEYS if not self.oracle.head else 6
        return self.batches(self.draw, self.draw.randint(most // 2, most))

    def _update(self, batch: Mapping[str, list[Change]], update_id: str | None = None) -> None:
        given = as_frames(self.session, self.pipeline, batch)
        assert self.store.update(given, update_id).number == self.oracle.update(batch, update_id)

    def _crash(self, *, resumes: bool) -> None:
        """An update ends somewhere; it is done again under its id, or something else comes."""
        batch, update_id = self._drawn(), f"crash {self.oracle.head}"
        point = CrashAt(self.draw.randint(0, 20), fail)
        with suppress(CrashError), failpoints.armed(point):
            self.store.update(as_frames(self.session, self.pipeline, batch), update_id)
        self._open()  # the process has ended
        if resumes or self.store.head.number > self.oracle.head:
            self._update(batch, update_id)
        else:
            self._update(self._drawn())

    def _expected(self, stage: Stage, kind: str, number: int) -> list[Any]:
        if kind != "updates":
            return plain_rows(getattr(self.oracle, kind)(stage.name, number))
        numbers = range(1, number + 1)
        for n in numbers:
            if (stage.name, n) not in self._feeds:
                self._feeds[stage.name, n] = plain_rows(self.oracle.updates(stage.name, n))
        return [row for n in numbers for row in self._feeds[stage.name, n]]

    def _is_ahead(self, path: str, at: int) -> bool:
        """Whether a table has commits of an update that crashed; a later version undoes them."""
        newer = [c for c in DeltaTable(path).history() if c["version"] > at]
        return any(commit["operation"] != "OPTIMIZE" for commit in newer)

    def _read_log(
        self, readers: Mapping[str, Read], older: int | None, operations: Mapping[int, str]
    ) -> None:
        """It has a row for each version that was published by then."""
        path = f"{self.location}/_versions"
        for number in filter(None, (self.oracle.head, older)):
            rows = [(n, operation) for n, operation in operations.items() if n <= number]
            ats = [self.log_versions[number], *([None] if number == self.oracle.head else [])]
            for (name, read), at in product(readers.items(), ats):
                told = name, "_versions", "older" if number == older else "head"
                self.seen[told].add(assert_read(read, path, at, LOG_COLUMNS, rows))


def folder(stage: str) -> str:
    """The name of a stage's folder, as docs/reading.md says."""
    return "".join(
        character
        if character.isascii() and (character.isalnum() or character in "'!$&()+,;=@-._")
        else "".join(f"~{byte:02X}" for byte in character.encode())
        for character in stage
    )


def shown(stage: Stage, kind: str) -> list[Column]:
    """The columns of a table that readers see, as the oracle has them."""
    layout = Layout.of(stage)
    columns = layout.shown if kind == "content" else layout.columns(kind)
    return [column for column in columns if not column.is_hidden]


def assert_documented(
    seen: Mapping[tuple[str, str, str], Collection[bool]], *, whole: Collection[str] = ()
) -> None:
    """The table of docs/reading.md says what readers have done.

    Args:
        whole: readers that have read all kinds of tables, marked ones and others.
    """
    told = documented()
    for (reader, kind, when), outcomes in seen.items():
        cell = told[reader][kind, when]
        assert cell in ("yes", "unless marked"), (reader, kind, when)
        if reader in whole:
            assert {*outcomes} == ({True} if cell == "yes" else {True, False}), (reader, kind, when)
        assert False not in outcomes or cell == "unless marked", (reader, kind, when)
    kinds = {*product(TABLES, ("head", "older"))}
    assert all({(kind, when) for name, kind, when in seen if name == r} == kinds for r in whole)


def documented() -> dict[str, dict[tuple[str, str], str]]:
    """The table of docs/reading.md, by reader."""
    page = Path(__file__).parents[2].joinpath("docs", "reading.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    assert rows[0][1::2] == ["content", "key mappings", "updates", "log"]
    assert rows[0][2::2] == [f"older {name}" for name in rows[0][1::2]]
    columns = [*product(TABLES, ("head", "older"))]
    return {name: dict(zip(columns, cells, strict=True)) for name, *cells in rows[2:]}


def recipes(location: str, stage: str, pinned: int | None) -> dict[str, list[str]]:
    """The lines of a reader in the text of a store's folder, about a stage."""
    text = Path(location, "_README.txt").read_text()
    text = text.replace("STORE", location).replace("STAGE", stage)
    text = re.sub(r"\b0\b", f"{pinned}", text)
    found: dict[str, list[str]] = {}
    for reader, line in re.findall(r"^  (\w+(?: \w+)?)   +(.*)$", text, re.MULTILINE):
        found.setdefault(reader, []).append(line)
    return found
