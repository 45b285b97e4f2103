"""Stores without a session: what they do and refuse, and what Spark then reads from them."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pytest

import deltaproduce as dp
from deltaproduce import CorruptStoreError, Pipeline, SessionError, Store
from deltaproduce.engines.local.workers import Workers
from deltaproduce.stages.sources.given import kind as given_kind


def totals() -> Pipeline:
    pipeline = Pipeline("shop")
    orders = pipeline.source("orders", key="id bigint", value="customer bigint, amount bigint")

    @pipeline.producer(orders, key="customer bigint", value="id bigint, amount bigint")
    def by_customer(key, values):
        for value in values:
            yield value.customer, (key, value.amount)

    @pipeline.producer(by_customer, key="customer bigint", value="total bigint")
    def total(customer, values):
        yield customer, sum(value.amount for value in values)

    return pipeline


def test_a_process_that_makes_versions_starts_no_java(tmp_path: Path) -> None:
    """Nor does it look for it: there is none on its path."""
    script = f"""
import json, deltaproduce as dp
pipeline = dp.Pipeline("shop")
rows = pipeline.source("rows", key="k int", value="n int")

@pipeline.producer(rows, key="odd boolean", value="n int")
def odd(k, values):
    for n in values:
        yield bool(n % 2), n

with dp.Store(None, {str(tmp_path / "store")!r}, pipeline) as store:
    store.update({{"rows": [{{"k": k, "n": k * k}} for k in range(9)]}})
    store.update({{"rows": [{{"k": 1, "_change_type": "delete"}}]}})
    rows = store.content("odd", ordered=True).to_pylist()
from pyspark import SparkContext
print(json.dumps([rows, SparkContext._gateway is None, store.head.number]))
"""
    environment = {"PATH": str(Path(sys.executable).parent), "HOME": str(tmp_path)}
    found = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    rows, without_java, head = json.loads(found.stdout)
    assert without_java
    assert head == 2
    expected = [(k * k % 2 == 1, k, k * k) for k in range(9) if k != 1]
    assert [(r["odd"], r["_source_k"], r["n"]) for r in rows] == sorted(expected)


def test_a_worker_is_expected_before_rows_are_checked_that_a_function_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for a batch that is published already, and not for a source that no function reads."""
    expected, checked = list[str](), list[int]()
    table_of = given_kind.table_of

    def expect(pool: Workers, module: str) -> None:
        expected.append(module)

    def checking(*args: object, **kwargs: object) -> pa.Table:
        checked.append(len(expected))
        return table_of(*args, **kwargs)

    monkeypatch.setattr(Workers, "expect", expect)
    monkeypatch.setattr(given_kind, "table_of", checking)
    shop = totals()
    shop.source("notes", key="id bigint", value="note string")
    with Store(None, tmp_path / "store", shop) as store:
        store.update({"orders": [{"id": 1, "customer": 1, "amount": 1}]}, "monday")
        assert expected == ["deltaproduce.stages.functions.by_key"] * 2
        store.update({"orders": [{"id": 1, "customer": 1, "amount": 1}]}, "monday")
        store.update({"notes": [{"id": 1, "note": "a"}]})
    assert checked == [2, 2]


@pytest.mark.parametrize(
    "wrong",
    [
        5,
        datetime(2026, 1, 1),
        datetime(1969, 12, 31, 23, 59, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=timezone(timedelta(hours=1))),
    ],
)
def test_a_time_that_no_version_has_is_refused_before_anything_is_written(
    tmp_path: Path, wrong: object
) -> None:
    """No store could read a version of such a time again."""
    place = tmp_path / "store"
    with Store(None, place, totals(), clock=lambda: wrong) as store:  # type: ignore[arg-type]
        with pytest.raises(dp.InvalidArgumentError) as caught:
            store.update({"orders": [{"id": 1, "customer": 1, "amount": 1}]})
        assert caught.value.argument == "clock"
    assert not place.exists()


def test_what_is_written_has_no_more_rights_than_the_umask_leaves(tmp_path: Path) -> None:
    script = f"""
import os, deltaproduce as dp
os.umask(0o077)
pipeline = dp.Pipeline("shop")
pipeline.source("rows", key="k int", value="n int")
with dp.Store(None, {str(tmp_path / "store")!r}, pipeline) as store:
    store.update({{"rows": [{{"k": 1, "n": 2}}]}})
"""
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", script], cwd=root, check=True)
    found = list((tmp_path / "store").rglob("*"))
    assert len(found) > 5
    assert not [path for path in found if path.stat().st_mode & 0o077]


def test_what_needs_spark_says_so(tmp_path: Path, location: str) -> None:
    pipeline = totals()
    with pytest.raises(SessionError, match="Spark"):
        Store(None, "lake", pipeline)  # a schema
    with pytest.raises(SessionError, match="session"):
        Store(None, "abfss://lake@account/shop", pipeline)
    with_query = totals()
    with_query.sql("hashes", "SELECT customer, xxhash64(total) AS n FROM total", key="customer")
    with_view = totals()
    with_view.sql("view", "SELECT xxhash64(total) AS n, count(*) AS c FROM total GROUP BY total")
    with_table = Pipeline("others")
    with_table.delta_source("rows", table=str(tmp_path / "table"), key="k")
    for one, stage in ((with_query, "hashes"), (with_view, "view"), (with_table, "rows")):
        with pytest.raises(SessionError, match="session") as caught:
            Store(None, location, one)
        assert caught.value.stage == stage
    assert not Path(location).exists()


def test_what_does_not_fit_in_memory_is_done_in_parts(location: str) -> None:
    def orders(numbers: range) -> dict[str, list[dict[str, int]]]:
        return {"orders": [{"id": number, "customer": 7, "amount": number} for number in numbers]}

    with Store(None, location, totals()) as store:
        for number in range(3):
            store.update(orders(range(number, number + 1)))
    with Store(None, location, totals(), limits=dp.Limits(local_rows=2)) as store:
        store.update(orders(range(3, 6)))
        assert store.content("total").column("total").to_pylist() == [15]
        store.load(orders(range(4)))
        assert store.content("total").column("total").to_pylist() == [6]
        assert len(store.changes("total", 0, mode="complete")) == 9
        assert store.verify(recompute=True) == ()
        assert store.repair().number == 5


def test_a_key_is_forgotten(location: str) -> None:
    with Store(None, location, totals()) as store:
        for id in (1, 2):
            store.update({"orders": [{"id": id, "customer": 7, "amount": id}]})
        forgotten = store.forget("orders", 1)
        assert forgotten.version.number == 3
        content = next(r for r in forgotten.remains if (r.stage, r.table) == ("orders", "content"))
        assert content.versions == (1, 2)
        assert store.content("total").column("total").to_pylist() == [2]


def test_a_table_that_was_damaged_is_named(location: str) -> None:
    with Store(
        None, location, totals(), limits=dp.Limits(small_table_rows=0, replaced_percent=900)
    ) as store:
        store.update({"orders": [{"id": 1, "customer": 1, "amount": 5}]})
    for file in Path(location, "by_customer", "content").glob("*.parquet"):
        file.write_bytes(b"no rows")
    with pytest.raises(CorruptStoreError, match="repair") as error:
        Store(None, location, totals()).content("by_customer")
    assert error.value.table == "by_customer/content"


def test_a_definition_with_other_columns_makes_its_tables_anew(location: str) -> None:
    """Types, names and lookup columns, so properties of the tables too."""
    rows = [{"id": 1, "a": 5, "b": "x"}, {"id": 2, "a": 6, "b": "y"}]
    for key, value, emitted in (
        ("a bigint", "b string", lambda id, v: (v.a, v.b)),
        ("a string", "b string", lambda id, v: (str(v.a), v.b)),
        ("b string", "id bigint, a bigint", lambda id, v: (v.b, (id, v.a))),
        ("b string, id bigint", "a int", lambda id, v: ((v.b, id), v.a)),
    ):
        pipeline = Pipeline("redefined")
        source = pipeline.source("rows", key="id bigint", value="a bigint, b string")

        @pipeline.producer(source, key=key, value=value, name="made")
        def made(id, values, emitted=emitted):
            for each in values:
                yield emitted(id, each)

        with Store(None, location, pipeline) as store:
            version = store.update({"rows": rows}, f"with key {key}")
            names = [c.split()[0] for c in f"{key}, {value}".split(", ")]
            found = store.content("made", ordered=True).select(names)
            assert len(found) == 2
            expected = pa.table([found.column(name) for name in names], names)
            assert found.equals(expected)
            assert len(store.updates("made", version=version.number)) == 2
            assert store.versions()[-1] == version


def test_tables_are_taken_and_given(location: str) -> None:
    pd = pytest.importorskip("pandas")
    store = Store(None, location, totals())
    assert store.head.number == 0
    assert len(store.content("total")) == 0
    store.update({"orders": pa.table({"id": [1, 2], "customer": [7, 7], "amount": [5, 6]})})
    store.update({"orders": pd.DataFrame({"id": [2], "customer": [8], "amount": [9]})})
    found = store.content("total", ordered=True).select(["customer", "total"]).to_pylist()
    assert found == [{"customer": 7, "total": 5}, {"customer": 8, "total": 9}]
    assert store.load({"orders": [{"id": 3, "customer": 7, "amount": 1}]}).number == 3
    assert store.content("total").to_pylist()[0]["total"] == 1
    mode = store.updates("total", ordered=True).to_pylist()
    assert [(row["_change_type"], row["customer"]) for row in mode] == [
        ("update", 7),
        ("delete", 8),
    ]
    store.close()


def test_a_struct_may_be_null_whose_fields_may_not(location: str) -> None:
    pipeline = Pipeline("structs")
    given = pipeline.source("given", key="id int", value="s struct<n: int not null, t: string>")

    @pipeline.producer(given, key="id int", value="s struct<n: int not null, t: string>")
    def copied(key, values):
        for s in values:
            yield key, s

    rows = [{"id": 1, "s": None}, {"id": 2, "s": {"n": 3, "t": None}}]
    with Store(None, location, pipeline) as store:
        store.update({"given": rows})
        store.update({"given": [{"id": 2, "s": None}]})
        assert store.content("given", 1).select(["id", "s"]).to_pylist() == rows
        assert store.content("copied").column("s").to_pylist() == [None, None]


def test_nothing_is_done_to_a_store_without_versions(location: str) -> None:
    with Store(None, location, totals()) as store:
        store.compact()
        assert store.verify() == ()
        made = (store.repair(), store.rollback(0), store.refresh(), store.update({}))
        assert [version.number for version in made] == [0, 0, 0, 0]
        assert store.vacuum(1).files == 0
    assert not Path(location).exists()


def test_a_version_says_what_was_read_of_each_table_of_a_stage(location: str) -> None:
    """Of the content and of the key mappings, which are read meanwhile: a row group each."""
    pipeline = Pipeline("copies")
    given = pipeline.source("given", key="id int", value="n int")

    @pipeline.producer(given, key="id int", value="n int")
    def copied(key, values):
        for n in values:
            yield key, n

    limits = dp.Limits(small_table_rows=0, replaced_percent=900, group_rows=3)
    with Store(None, location, pipeline, limits=limits) as store:
        store.update({"given": [{"id": key, "n": key} for key in range(9)]})
        version = store.update({"given": [{"id": 4, "n": 0}]})
    assert {name: f.rows_read for name, f in version.stages.items()} == {"given": 3, "copied": 6}


def test_a_foreign_commit_that_says_nothing_is_not_undone(tmp_path: Path) -> None:
    """Delta does not demand that a commit says what it did."""
    place, rows = tmp_path / "store", [{"id": 1, "customer": 1, "amount": 1}]
    with Store(None, place, totals()) as store:
        store.update({"orders": rows})
        log = place / "total" / "content" / "_delta_log"
        newest = max(log.glob("*.json"))
        mine = log / f"{int(newest.stem) + 1:020}.json"
        mine.write_text(json.dumps({"txn": {"appId": "mine", "version": 1}}))
    with Store(None, place, totals()) as store:
        with pytest.raises(CorruptStoreError):
            store.update({"orders": [{**rows[0], "amount": 2}]})
        assert max(log.glob("*.json")) == mine
        assert "foreign" in {finding.what for finding in store.verify()}
