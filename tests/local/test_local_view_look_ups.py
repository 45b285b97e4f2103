"""Views of one version share what they look up in the stages that they read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from deltaproduce import Limits, Pipeline, Store
from deltaproduce.stages.views.following import FollowedInput
from deltaproduce.storage.parquet import shared_lookups
from deltaproduce.storage.parquet.shared_lookups import Room, Wanted

BOARDS = (
    "SELECT o.id, c.city FROM orders o JOIN customers c ON c.id = o.customer",
    "SELECT c.city, count(*) AS n FROM orders o JOIN customers c ON c.id = o.customer "
    "GROUP BY c.city",
    "SELECT c.name, sum(o.amount) AS s FROM orders o JOIN customers c ON c.id = o.customer "
    "GROUP BY c.name",
    "SELECT o.id, c.name, c.born FROM orders o LEFT JOIN customers c ON c.id = o.customer",
    "SELECT c.born, avg(o.amount) AS a FROM orders o JOIN customers c ON c.id = o.customer "
    "WHERE c.born > 3 GROUP BY c.born",
    "SELECT o.id FROM orders o WHERE EXISTS (SELECT 1 FROM customers c WHERE c.id = o.customer AND "
    "c.city > 'b')",
    "SELECT o.id, (SELECT max(c.born) FROM customers c WHERE c.id = o.customer) AS born "
    "FROM orders o",
    "SELECT c.city, c.name, count(*) AS n FROM orders o JOIN customers c ON c.id = o.customer "
    "WHERE o.amount > 1 GROUP BY c.city, c.name",
    "SELECT c.born, max(o.amount) AS m FROM orders o JOIN customers c ON c.id = o.customer "
    "GROUP BY c.born",
    "SELECT o.amount, count(c.name) AS n FROM orders o JOIN customers c ON c.id = o.customer "
    "GROUP BY o.amount",
)
"""Ten dashboards over the same two stages, each with columns of its own."""


def boards() -> Pipeline:
    pipeline = Pipeline("boards")
    pipeline.source("orders", key="id bigint", value="customer bigint, amount int")
    pipeline.source("customers", key="id bigint", value="city string, name string, born int")
    for n, text in enumerate(BOARDS):
        pipeline.sql(f"v{n}", text, incremental="always")
    return pipeline


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each stage is read for look-ups."""
    found, read = Counter[str](), FollowedInput._read

    def counted(self: FollowedInput, columns: Any, keys: Any) -> pa.Table:
        found[self.input.stage.name] += 1
        return read(self, columns, keys)

    monkeypatch.setattr(FollowedInput, "_read", counted)
    return found


def test_ten_views_read_the_rows_of_a_stage_once(tmp_path: Path, reads: Counter[str]) -> None:
    """By its key, and by another column, for which its rows are read whole."""
    customers = [{"id": n, "city": "abc"[n % 3], "name": f"n{n}", "born": n % 7} for n in range(60)]
    orders = [{"id": n, "customer": n % 50, "amount": n % 5} for n in range(300)]
    limits = Limits(small_table_rows=0)
    with Store(None, str(tmp_path), boards(), limits=limits) as store:
        store.update({"orders": orders, "customers": customers})
        reads.clear()
        store.update({"orders": [{"id": 7, "customer": 3, "amount": 2}]})
        assert reads["customers"] == 1
        reads.clear()
        store.update({"customers": [{"id": 3, "city": "z", "name": "new", "born": 5}]})
        assert reads["orders"] == 1
        assert not store.verify()


def test_rows_of_other_keys_are_not_read_if_all_row_groups_were(
    tmp_path: Path, reads: Counter[str]
) -> None:
    """Views ask for the customers of other orders each; all customers are one row group."""
    pipeline = Pipeline("parts")
    pipeline.source("orders", key="id bigint", value="customer bigint, amount int")
    pipeline.source("customers", key="id bigint", value="city string, name string, born int")
    for n in range(4):
        pipeline.sql(
            f"v{n}",
            "SELECT o.id, c.city FROM orders o JOIN customers c ON c.id = o.customer "
            f"WHERE o.amount = {n}",
        )
    customers = [{"id": n, "city": "abc"[n % 3], "name": f"n{n}", "born": n % 7} for n in range(60)]
    orders = [{"id": n, "customer": n % 50, "amount": n % 5} for n in range(300)]
    with Store(None, str(tmp_path), pipeline, limits=Limits(small_table_rows=0)) as store:
        store.update({"orders": orders, "customers": customers})
        reads.clear()
        store.update({"orders": [{"id": n, "customer": n, "amount": n % 4} for n in range(8)]})
        assert reads["customers"] == 1
        assert not store.verify()


def test_rows_that_were_read_whole_serve_later_versions(
    tmp_path: Path, reads: Counter[str]
) -> None:
    """Until the stage changes, in whatever way, or the store is opened again."""
    customers = [{"id": n, "city": "abc"[n % 3], "name": f"n{n}", "born": n % 7} for n in range(60)]
    orders = [{"id": n, "customer": n % 50, "amount": n % 5} for n in range(300)]
    changes: list[tuple[dict[str, Any], int]] = [
        ({"orders": [{"id": 7, "customer": 3, "amount": 2}]}, 1),
        ({"orders": [{"id": 7, "customer": 4, "amount": 2}]}, 0),
        ({"customers": [{"id": 4, "city": "z", "name": "new", "born": 5}]}, 0),
        ({"orders": [{"id": 8, "customer": 4, "amount": 1}]}, 1),
        ({"orders": [{"id": 9, "customer": 4, "amount": 0}], "customers": [customers[5]]}, 0),
        ({"orders": [{"id": 9, "customer": 5, "amount": 1}]}, 0),
    ]
    limits = Limits(small_table_rows=0)
    with Store(None, str(tmp_path), boards(), limits=limits) as store:
        store.update({"orders": orders, "customers": customers})
        for batch, count in changes:
            reads.clear()
            store.update(batch)
            assert reads["customers"] == count, batch
        store.rollback(3)
        reads.clear()
        store.update({"orders": [{"id": 3, "customer": 4, "amount": 3}]})
        assert reads["customers"] == 1
        assert not store.verify(recompute=True)
    with Store(None, str(tmp_path), boards(), limits=limits) as store:
        reads.clear()
        store.update({"orders": [{"id": 3, "customer": 4, "amount": 4}]})
        assert reads["customers"] == 1
        assert not store.verify(recompute=True)


def test_rows_of_earlier_versions_make_room_for_those_of_a_version() -> None:
    """Those that were used least recently go first, and those of a stage that has changed."""
    room, places = Room(1_000), dict.fromkeys("abcd", 1)

    def read(columns: Any, keys: pa.Table | None) -> pa.Table:
        del keys
        return pa.table({name: pa.array(range(50), pa.int64()) for name in columns})

    def look_up(*stages: str) -> str:
        wanted = [Wanted(name, frozenset(), frozenset("x")) for name in stages]
        for one in room.begin(wanted, places.get).values():
            one.rows(["x"], None, read)
        return "".join(room.idle)

    assert [look_up(stage) for stage in "abcad"] == ["", "a", "b", "c", "a"]
    places["a"] = 2
    assert look_up("b") == "d"
    assert look_up("b", "d") == ""
    assert room.left() == 200


def test_rows_beyond_a_share_of_memory_are_read_again(
    tmp_path: Path, reads: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    customers = [{"id": n, "city": "abc"[n % 3], "name": f"n{n}", "born": n % 7} for n in range(60)]
    orders = [{"id": n, "customer": n % 50, "amount": n % 5} for n in range(300)]
    with Store(None, str(tmp_path), boards(), limits=Limits(small_table_rows=0)) as store:
        store.update({"orders": orders, "customers": customers})
        monkeypatch.setattr(shared_lookups, "memory_bytes", lambda: 64)
        reads.clear()
        store.update({"customers": [{"id": 3, "city": "z", "name": "new", "born": 5}]})
        assert reads["orders"] > len(BOARDS) // 2
        assert not store.verify()


LINES = (
    "SELECT o.id, o.day, sum(l.amount) AS s FROM orders o JOIN lines l ON l.order = o.id "
    "GROUP BY o.id, o.day",
    "SELECT o.day, count(*) AS n FROM orders o WHERE EXISTS (SELECT 1 FROM lines l "
    "WHERE l.order = o.id AND l.amount > 3) GROUP BY o.day",
    "SELECT l.order, l.n, o.day FROM lines l LEFT JOIN orders o ON o.id = l.order",
)


def test_rows_that_the_step_of_a_source_reads_are_read_once(
    tmp_path: Path, reads: Counter[str]
) -> None:
    """It reads all lines of the orders whose lines change, which views look up."""
    pipeline = Pipeline("orders with lines")
    pipeline.source("orders", key="id bigint", value="day int")
    pipeline.source("lines", key="order bigint, n int", value="amount int")
    for n, text in enumerate(LINES):
        pipeline.sql(f"v{n}", text, incremental="always")
    orders = [{"id": n, "day": n % 9} for n in range(500)]
    lines = [{"order": n, "n": m, "amount": (n + m) % 8} for n in range(500) for m in range(4)]
    limits = Limits(small_table_rows=0, group_rows=16)
    with Store(None, str(tmp_path), pipeline, limits=limits) as store:
        store.update({"orders": orders, "lines": lines})
        reads.clear()
        gone = [{"id": 7, "_change_type": "delete"}]
        lines_gone = [{"order": 7, "n": m, "_change_type": "delete"} for m in range(3)]
        store.update(
            {
                "orders": [{"id": 90, "day": 20}, *gone],
                "lines": [
                    {"order": 90, "n": 2, "amount": 100},
                    {"order": 91, "n": 9, "amount": 1},
                    *lines_gone,
                ],
            }
        )
        assert reads == {"orders": 1}  # of 91
        reads.clear()
        new = {"orders": [{"id": 1000, "day": 1}], "lines": [{"order": 1000, "n": 0, "amount": 4}]}
        store.update(new)
        assert not reads
        assert not store.verify(recompute=True)


def test_the_step_of_a_source_reads_no_more_for_views(tmp_path: Path) -> None:
    """A region has many sales, of which one changes."""
    pipeline = Pipeline("sales")
    pipeline.source("regions", key="region int", value="name string")
    pipeline.source("sales", key="region int, id int", value="amount int")
    text = "SELECT r.name, s.id, s.amount FROM sales s JOIN regions r ON r.region = s.region"
    pipeline.sql("named", text, incremental="always")
    sales = [{"region": n % 3, "id": n, "amount": n % 8} for n in range(3000)]
    limits = Limits(small_table_rows=0, group_rows=16)
    with Store(None, str(tmp_path), pipeline, limits=limits) as store:
        store.update(
            {"regions": [{"region": n, "name": f"r{n}"} for n in range(3)], "sales": sales}
        )
        version = store.update({"sales": [{"region": 1, "id": 1501, "amount": 100}]})
        assert version.stages["sales"].rows_read <= 48
        store.update({"regions": [{"region": 1, "name": "other"}]})
        assert not store.verify(recompute=True)


SETS = (
    "SELECT a, b FROM t INTERSECT SELECT b, a FROM u",
    "SELECT a FROM t INTERSECT ALL SELECT b FROM u",
    "SELECT a, b FROM t EXCEPT SELECT b, a FROM u",
    "SELECT a FROM t EXCEPT ALL SELECT b FROM u",
)


def test_set_operations_read_no_rows_of_their_stages(tmp_path: Path, reads: Counter[str]) -> None:
    """They look for equal rows in the table with the counts, by its key."""
    pipeline = Pipeline("sets")
    for name in ("t", "u"):
        pipeline.source(name, key="k bigint", value="a int, b int")
    for n, text in enumerate(SETS):
        pipeline.sql(f"v{n}", text, incremental="always")
    given = [{"k": n, "a": n % 90, "b": n % 7} for n in range(400)]
    with Store(None, str(tmp_path), pipeline, limits=Limits(small_table_rows=0)) as store:
        store.update({"t": given, "u": given[:100]})
        reads.clear()
        store.update({"u": [{"k": 5, "a": 1, "b": 88}], "t": [{"k": 6, "a": 3, "b": 3}]})
        assert not reads["t"]
        assert not reads["u"]
        assert not store.verify()


COUNTS = (
    "SELECT c.id, count(o.id) AS n FROM customers c LEFT JOIN orders o ON o.customer = c.id AND "
    "o.amount > 1 GROUP BY c.id",
    "SELECT c.city, c.born, count(*) AS n, max(c.name) AS name FROM orders o RIGHT JOIN "
    "customers c ON o.customer = c.id GROUP BY c.city, c.born HAVING count(o.amount) > 2",
    "SELECT n, count(*) AS customers FROM (SELECT c.id, count(o.id) AS n FROM customers c "
    "LEFT JOIN orders o ON o.customer = c.id GROUP BY c.id) GROUP BY n",
    "SELECT c.id, (SELECT count(*) FROM orders o WHERE o.customer = c.id) AS n FROM customers c",
)


def test_counts_over_a_left_join_read_no_rows_that_they_count(
    tmp_path: Path, reads: Counter[str]
) -> None:
    """Whether a customer had orders is in the table with the groups of these."""
    pipeline = Pipeline("counts")
    pipeline.source("orders", key="id bigint", value="customer bigint, amount int")
    pipeline.source("customers", key="id bigint", value="city string, name string, born int")
    for n, text in enumerate(COUNTS):
        pipeline.sql(f"v{n}", text, incremental="always")
    customers = [{"id": n, "city": "abc"[n % 3], "name": f"n{n}", "born": n % 7} for n in range(60)]
    orders = [{"id": n, "customer": n % 50, "amount": n % 5} for n in range(300)]
    with Store(None, str(tmp_path), pipeline, limits=Limits(small_table_rows=0)) as store:
        store.update({"orders": orders, "customers": customers})
        reads.clear()
        of_orders = [
            {"id": 7, "customer": 59, "amount": 2},
            {"id": 999, "customer": 3, "amount": 4},
        ]
        store.update({"orders": of_orders})
        assert not reads["orders"]
        assert reads["customers"]
        store.update({"customers": [{"id": 3, "city": "z", "name": "new", "born": 5}]})
        assert not reads["orders"]
        assert not store.verify(recompute=True)


def rows(random: Random) -> pa.Table:
    return pa.table(
        {
            c: pa.array([random.choice((None, 1, 2, 3)) for _ in range(12)], pa.int64())
            for c in "abc"
        }
    )


@pytest.mark.parametrize("seed", range(20))
def test_what_is_looked_up_is_what_is_read(seed: int) -> None:
    """Whatever has been asked before; and no row is read twice by the same columns.

    Where memory is short, less is kept, and its bytes are counted once.
    """
    random = Random(seed)
    size = random.choice((None, 0, 100, 400))
    table, asked = rows(random), Counter[tuple[Any, ...]]()

    def read(columns: Any, keys: pa.Table | None) -> pa.Table:
        if keys is None:
            return table.select(list(columns))
        asked.update((*keys.column_names, *row.values()) for row in keys.to_pylist())
        wanted = {tuple(row.values()) for row in keys.to_pylist()}
        has = [tuple(row.values()) in wanted for row in table.select(keys.column_names).to_pylist()]
        return table.filter(pa.array(has)).select(list(columns))

    every = [Wanted("t", frozenset(by), frozenset("abc")) for by in ("a", "b", "ab", "")]
    room = Room(size)
    looked_up, most = room.begin(every, lambda _: None)["t"], room.left()
    if random.random() < 0.5:
        looked_up.keep(table.select(["b", "a"]), 1, table)
    for _ in range(8):
        columns = random.sample("abc", random.choice((1, 2, 3)))
        by = random.choice((["a"], ["b"], ["a", "b"], ["b", "a"], None))
        if by is None:
            if random.random() < 0.8:
                continue
            keys = None
        else:
            some = [[random.choice((None, 1, 2)) for _ in by] for _ in range(2)]
            distinct = list(dict.fromkeys(map(tuple, some)))
            keys = pa.table(
                {c: pa.array([row[n] for row in distinct], pa.int64()) for n, c in enumerate(by)}
            )
        found = looked_up.rows(columns, keys, read)
        before = Counter(asked)
        wanted = read(columns, keys)
        asked.clear()
        asked.update(before)
        assert found.column_names == columns
        assert Counter(map(str, found.to_pylist())) == Counter(map(str, wanted.to_pylist()))
        kept = {id(one.rows): one.rows.nbytes for one in looked_up.kept.values()}
        assert 0 <= room.left() == most - sum(kept.values())
    assert size is not None or max(asked.values(), default=1) == 1


def test_rows_are_looked_up_by_the_column_that_partitions_the_files(tmp_path: Path) -> None:
    """The files lack this column, and no other tells which rows they are."""
    pipeline = Pipeline("parts")
    value = "c bigint, x bigint"
    pipeline.source("parts", key="id bigint", value=value, stored={"partition": "c"})
    pipeline.source("asked", key="id bigint", value="c bigint")
    text = "SELECT a.id, p.id AS part, p.x FROM asked a JOIN parts p ON p.c = a.c"
    pipeline.sql("v", text, incremental="always")
    with Store(None, str(tmp_path), pipeline, limits=Limits(small_table_rows=0)) as store:
        parts = [{"id": n, "c": n % 3, "x": n} for n in range(30)]
        store.update({"parts": parts, "asked": [{"id": 1, "c": 1}]})
        store.update({"asked": [{"id": 2, "c": 2}]})
        store.update({"parts": [{"id": 5, "c": 1, "x": 7}], "asked": [{"id": 3, "c": 0}]})
        rows = store.content("v").to_pylist()
        found = {n: sorted(row["part"] for row in rows if row["id"] == n) for n in (1, 2, 3)}
        assert found == {
            1: sorted([5, *range(1, 30, 3)]),
            2: [n for n in range(2, 30, 3) if n != 5],
            3: [*range(0, 30, 3)],
        }
        assert not store.verify()
