"""Queries of one version share the changes of equal joins, and get what each would get alone."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from delta_feeders import UTC, InMemory, are_same, next_rows, outcome
from view_queries import STAGES, contents, tables

from deltaproduce.stages.sql.operators.changes import shared as shared_changes
from deltaproduce.stages.sql.operators.changes.shared import SharedChanges
from deltaproduce.stages.sql.operators.changes.sharing import Sharing
from deltaproduce.stages.sql.operators.changes.signed import changed
from deltaproduce.stages.sql.operators.changes.subplans import Key, subplans
from deltaproduce.stages.sql.operators.computing import QueryError
from deltaproduce.stages.sql.operators.following import Following
from deltaproduce.stages.sql.resolve import Resolved, resolved

TABLES = {"x": "t", "y": "u", "z": "f"}
COLUMNS = {"x": "kabs", "y": "kna", "z": "kxa"}
LINKS = ("x.k = y.k", "x.a <=> y.n", "y.a = z.a", "z.k = x.k", "x.a + 1 = y.a")
FILTERS = ("x.b > 1", "x.s = 'x'", "y.n IS NOT NULL", "z.x > 0.4", "x.a < y.n", "6 / x.b > 2")


def of_comma(random: Random) -> tuple[str, list[str]]:
    names = random.sample([*TABLES], random.choice((2, 3)))
    able = [one for one in (*LINKS, *FILTERS) if {*"xyz"} & {*one} <= {*names}]
    where = random.sample(able, min(len(able), random.choice((1, 2, 2, 3))))
    source = ", ".join(f"{TABLES[name]} AS {name}" for name in names)
    return f"{source} WHERE {' AND '.join(where) or 'true'}", names


def of_joins(random: Random) -> tuple[str, list[str]]:
    kind = random.choice(("LEFT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "RIGHT JOIN", "JOIN"))
    rest = "" if kind == "FULL JOIN" else random.choice(("", " AND x.a < y.n", " AND 4 / y.n > 1"))
    names = ["x"] if "SEMI" in kind else ["x", "y"]
    other = random.choice(
        (
            "u",
            "(SELECT a, k, n FROM u WHERE n > 0)",
            "(SELECT u.k, u.n, f.a FROM f JOIN u ON f.k = u.k)",
        )
    )
    source = f"t AS x {kind} {other} AS y ON x.k = y.k{rest}"
    if random.random() < 0.4:
        source, names = f"{source} JOIN f AS z ON z.a = x.a", [*names, "z"]
    return source + random.choice(("", " WHERE x.b > 1")), names


def query(random: Random) -> str:
    """A query of one of few joins, with tables and conditions in any order."""
    source, names = random.choice((of_comma, of_joins))(random)
    columns = [f"{name}.{c}" for name in names for c in COLUMNS[name]]
    own = random.sample(columns, random.choice((1, 2, 3)))
    listed = ", ".join(f"{one} AS c{n}" for n, one in enumerate(own))
    if random.random() < 0.5:
        return f"SELECT {listed} FROM {source}"
    return f"SELECT {listed}, count(*) AS n FROM {source} GROUP BY {', '.join(own)}"


def sharing_of(queries: list[Resolved]) -> SharedChanges:
    every = (plan for one in queries for plan in subplans(one.relation).values())
    return SharedChanges.of(every)


def check(
    query: Resolved, shared: SharedChanges, old: dict[str, pa.Table], new: dict[str, pa.Table]
) -> None:
    """Q(new) is Q(old) and the change, which fails exactly if Q(new) does."""
    before, after = outcome(query, old), outcome(query, new)
    if before is None:
        return
    feeders = {name: InMemory(old[name], new[name], len(old[name]) // 3) for name in old}
    following = Following(feeders, UTC, sharing=Sharing(shared, query.relation))
    try:
        change = following.change(query.relation)
    except QueryError:
        assert after is None, query.text
        return
    assert after is not None, query.text
    assert are_same(query.relation, changed(before, change), after), query.text


@pytest.mark.parametrize("part", range(4))
def test_a_query_beside_others_has_the_rows_that_it_has_alone(part: int, long_run: bool) -> None:
    """With other columns, orders of tables and conditions; all stages change at once."""
    taken = Counter[str]()
    for seed in range(600 if long_run else 5):
        random = Random(f"shared-{part}-{seed}")
        queries = [resolved(query(random), STAGES) for _ in range(12)]
        rows = tables(contents(random))
        for _ in range(3):
            following, shared = (
                next_rows(random, rows, tables(contents(random))),
                sharing_of(queries),
            )
            for one in queries:
                known = len(shared.kept)
                check(one, shared, rows, following)
                taken["made"] += len(shared.kept) - known
            taken["equal"] += len(shared.columns)
            rows = following
    assert taken["equal"] > 20
    assert taken["made"] > 10


SAME = (
    (
        "SELECT x.s FROM t x, u y WHERE x.k = y.k AND x.b > 1",
        "SELECT y.n, count(*) AS c FROM u y, t x WHERE x.b > 1 AND y.k = x.k GROUP BY y.n",
        "SELECT v.a FROM (SELECT * FROM t WHERE b > 1) v JOIN u ON v.k = u.k",
    ),
    (
        "SELECT x.s FROM t x LEFT JOIN u y ON x.k = y.k AND x.a < y.n",
        "SELECT y.a FROM t x LEFT JOIN u y ON y.k = x.k AND x.a < y.n",
    ),
    (
        "SELECT x.s FROM t x JOIN u y ON x.k = y.k JOIN f z ON z.a = y.a",
        "SELECT z.x FROM f z, t x, u y WHERE y.a = z.a AND x.k = y.k",
    ),
)
OTHER = (
    ("SELECT x.s FROM t x JOIN u y ON x.k = y.k", "SELECT x.s FROM t x JOIN u y ON x.k = y.a"),
    ("SELECT x.s FROM t x JOIN u y ON x.k = y.k", "SELECT x.s FROM t x JOIN f y ON x.k = y.k"),
    ("SELECT x.s FROM t x JOIN u y ON x.k = y.k", "SELECT s FROM t x LEFT JOIN u y ON x.k = y.k"),
    ("SELECT x.s FROM t x JOIN u y ON x.k = y.k", "SELECT x.s FROM t x JOIN u y ON x.k <=> y.k"),
    (
        "SELECT x.s FROM t x JOIN u y ON x.k = y.k WHERE x.s = 'a `n#5`'",
        "SELECT x.s FROM t x JOIN u y ON x.k = y.k WHERE x.s = 'a `0.n`'",
    ),
    (
        "SELECT x.s FROM t x JOIN t y ON x.k = y.a WHERE x.b > 1",
        "SELECT x.s FROM t x JOIN t y ON x.k = y.a WHERE y.b > 1",
    ),
    (
        "SELECT x.s FROM t x LEFT JOIN u y ON x.k = y.k AND 1 / y.n > 0 AND 1 / x.a > 0",
        "SELECT x.s FROM t x LEFT JOIN u y ON x.k = y.k AND 1 / x.a > 0 AND 1 / y.n > 0",
    ),
)


def top(text: str) -> Key:
    """The key of the last join of a query, with its filters."""
    return [*subplans(resolved(text, STAGES).relation).values()][-1].key


@pytest.mark.parametrize("texts", SAME)
def test_the_order_of_tables_and_conditions_is_no_difference(texts: tuple[str, ...]) -> None:
    assert len({*map(top, texts)}) == 1


@pytest.mark.parametrize("texts", OTHER)
def test_other_joins_are_others(texts: tuple[str, ...]) -> None:
    assert len({*map(top, texts)}) == len(texts)


def test_a_query_does_not_get_rows_that_move_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row changes for it, and a hundred for the other query."""
    rows: dict[str, Any] = {
        n: [{"k": k, "a": 0, "b": 0, "s": "x"} for k in range(100)] for n in "t"
    }
    rows["u"] = [{"k": k, "n": k, "a": 0} for k in range(100)]
    old = tables(rows)
    new = tables({**rows, "t": [{**row, "b": 1, "a": int(row["k"] == 7)} for row in rows["t"]]})
    few, many = (
        resolved(f"SELECT x.{c}, y.n FROM t x JOIN u y ON x.k = y.k", STAGES) for c in "ab"
    )

    def moved(one: Resolved, shared: SharedChanges) -> int:
        feeders = {name: InMemory(old[name], new[name]) for name in old}
        following = Following(feeders, UTC, sharing=Sharing(shared, one.relation))
        return len(following.change(one.relation))

    shared = sharing_of([few, many])
    assert moved(few, shared) == 2
    assert not shared.kept
    assert moved(many, shared) == 200
    assert len(shared.kept) == 1
    assert moved(few, shared) == 2
    monkeypatch.setattr(shared_changes, "memory_bytes", lambda: 64)
    shared = sharing_of([few, many])
    assert moved(many, shared) == 200
    assert not shared.kept  # there is no room
