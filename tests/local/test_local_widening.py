"""Sources with new columns that take nulls: their stored rows stay, in stores without a session."""

from __future__ import annotations

import random
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import deltaproduce as dp
from deltaproduce import DefinitionError, Limits, Pipeline, Store, agg

DAYS = [date(2022, 3, day) for day in range(1, 8)]
COLUMNS = {  # name -> its declarations, each of which holds the values of the one before
    "n": ["n int NOT NULL", "n int", "n bigint"],
    "t": ["t string"],
    "a": ["a decimal(5, 2)", "a decimal(9, 3)"],
    "s": ["s struct<x: int, y: string>"],
    "b": ["b bigint"],
}


def shop(columns: list[str], **more: Any) -> Pipeline:
    """Rows by day and id, in some columns, and stages of each kind that read them."""
    made = Pipeline("shop")
    rows = made.source("rows", key="day date, id bigint", value=", ".join(columns), **more)

    def texts(key: Any, values: Any) -> Any:
        for value in values:
            yield key.id % 3, str(value)  # depends on columns that it does not name

    made.producer(rows, key="part bigint", value="text string", name="texts")(texts)
    sums = {"n": agg.sum("n"), "most": agg.max("n"), "rows": agg.count()}
    made.aggregate("sums", rows, key="day", values=sums)
    made.aggregate("last", rows, key="", values=sums, window=dp.window("day", last=3))
    made.index("by_n", rows, key="n", include="day AS of_day")
    return made


def given(random: random.Random, declared: list[str], count: int) -> list[dict[str, Any]]:
    """Random rows in these columns, and deletes."""
    names = {column.split()[0] for column in declared}
    keys = random.sample([(day, id) for day in DAYS for id in range(6)], count)
    made = list[dict[str, Any]]()
    for day, id in keys:
        for _ in range(random.choice([1, 1, 2])):
            values = {
                "n": random.randrange(9),
                "t": random.choice(["x", "y", None]),
                "a": random.choice([None, Decimal("1.25")]),
                "s": random.choice([None, {"x": 1, "y": None}]),
                "b": random.choice([None, 2**40]),
            }
            row = {name: value for name, value in values.items() if name in names}
            made.append({"day": day, "id": id, **row})
    gone = [(day, id) for day in DAYS for id in range(6) if (day, id) not in keys]
    for day, id in random.sample(gone, 2):
        made.append({"day": day, "id": id, "n": 0, "_change_type": "delete"})
    return made


def plain(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def assert_like_one_load(store: Store, pipeline: Pipeline, location: str) -> None:
    """Content and mappings are those of one load of the source's rows, and updates fold to it."""
    rows = store.content("rows", ordered=True).to_pylist()
    with Store(None, location, pipeline) as other:
        other.load({"rows": [{k: v for k, v in row.items() if k[0] != "_"} for row in rows]})
        for stage in pipeline.stages:
            assert plain(store.content(stage.name)) == plain(other.content(stage.name)), stage.name
            if stage.name in {"texts", "by_n"}:
                assert plain(store.key_mappings(stage.name)) == plain(
                    other.key_mappings(stage.name)
                )
    assert store.verify(recompute=True) == ()


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 12))]
)
def test_rows_stay_in_columns_that_hold_them(seed: int, location: str, long_run: bool) -> None:
    """After any series of batches and wider columns, all is as of one load of the final rows.

    So the updates of the last definition, folded, give the content, which verification checks.
    """
    drawn = random.Random(seed)
    levels = {"n": 0, "t": 0}
    limits = Limits(small_table_rows=20_000 * (seed % 2))
    for version in range(1, 7 if long_run else 5):
        declared = [COLUMNS[name][level] for name, level in levels.items()]
        drawn.shuffle(declared)
        pipeline = shop(declared)
        with Store(None, location, pipeline, limits=limits) as store:
            batch = {"rows": given(drawn, declared, 4)} if drawn.random() < 0.7 else {}
            if version == 1:
                batch = {"rows": given(drawn, declared, 20)}
            store.update(batch)
            assert store.verify() == ()
            if version in (4, 6):
                assert_like_one_load(store, pipeline, f"{location}_{version}")
        free = [name for name in COLUMNS if name not in levels]
        wider = [name for name, level in levels.items() if level + 1 < len(COLUMNS[name])]
        if free and (not wider or drawn.random() < 0.6):
            levels[drawn.choice(free)] = 0
        elif wider:
            levels[drawn.choice(wider)] += 1


def test_a_stage_that_takes_nulls_now_is_not_damaged(location: str) -> None:
    """Its updates begin again with all of its keys, though no value differs."""
    for value in ("n int NOT NULL", "n int", "n int NOT NULL"):
        made = Pipeline("p")
        made.source("rows", key="id bigint", value="n int")
        made.producer("rows", key="id bigint", value=value, name="same")(echoed)
        with Store(None, location, made) as store:
            given = {"rows": [{"id": id, "n": id} for id in (1, 2)]}
            version = store.update(given, update_id=value if store.head.number < 2 else "again")
            assert version.stages["same"].changed_keys == 2
            assert store.verify(recompute=True) == ()


def echoed(id: int, values: Any) -> Any:
    for n in values:
        yield id, n


ROW = {"id": 1, "n": 5, "t": "x"}


def orders(value: str, key: str = "id bigint") -> Pipeline:
    made = Pipeline("orders")
    made.source("orders", key=key, value=value)
    made.source("other", key="id bigint", value="n int")
    made.aggregate("sums", "orders", key="id", values={"rows": agg.count()})
    return made


def test_a_new_column_is_null_in_stored_rows_whatever_is_given(location: str) -> None:
    """With a batch of the source, of another one, or none."""
    with Store(None, location, orders("n int, t string")) as store:
        store.update({"orders": [ROW, {**ROW, "id": 2}]})
    with Store(None, location, orders("n int, t string, c string")) as store:
        (step, *_) = store.plan()
        assert (step.stage.name, step.how, step.redefined) == ("orders", "changes", True)
        assert "c" in step.reason
        version = store.update({"other": [{"id": 1, "n": 1}]})
        assert version.stages["orders"].changed_keys == 2
        assert store.content("orders", ordered=True).column("c").to_pylist() == [None, None]
        assert store.content("orders", version=1).column_names == ["id", "n", "t", "_ordinal"]
        assert {u["_change_type"] for u in store.updates("orders").to_pylist()} == {"update"}
        assert store.update({}) == store.head
        assert store.update({"orders": [{**ROW, "c": "new"}]}).stages["orders"].changed_keys == 1
    with Store(None, location, orders("n int, t string, c string, d date")) as store:
        store.update({"orders": [{**ROW, "id": 3, "c": "x", "d": None}]})
        assert store.content("orders", ordered=True).column("c").to_pylist() == ["new", None, "x"]
        assert store.verify(recompute=True) == ()


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("n int", "t is gone"),
        ("n int, text string", "t is gone.*text is new"),
        ("n int, t int", "t is int, and was string"),
        ("n smallint, t string", "n is smallint, and was int"),
        ("n int NOT NULL, t string", "n is NOT NULL"),
        ("n int, t string, c int NOT NULL", "c is new and NOT NULL"),
        ("n int, t string, id2 int", None),
    ],
)
def test_columns_that_do_not_hold_the_rows_are_named(
    location: str, value: str, told: str | None
) -> None:
    with Store(None, location, orders("n int, t string")) as store:
        store.update({"orders": [ROW]})
    with Store(None, location, orders(value)) as store:
        if told is None:
            store.update({})
            return
        for act in (store.plan, lambda: store.update({})):
            with pytest.raises(DefinitionError, match=told) as caught:
                act()
            assert caught.value.stage == "orders"
        assert store.head.number == 1


def test_another_key_needs_all_rows(location: str) -> None:
    with Store(None, location, orders("n int, t string")) as store:
        store.update({"orders": [ROW]})
    with Store(None, location, orders("n int, t string", "id int")) as store:
        with pytest.raises(DefinitionError, match="key"):
            store.update({})
        assert store.load({"orders": [ROW]}).number == 2


def test_a_strict_store_refuses_new_columns_unless_all_rows_are_given(location: str) -> None:
    with Store(None, location, orders("n int, t string")) as store:
        store.update({"orders": [ROW]})
    with Store(None, location, orders("n int, t string, c int"), policy="strict") as store:
        with pytest.raises(DefinitionError, match="strict") as caught:
            store.update({})
        assert caught.value.stage == "orders"
        assert store.load({"orders": [{**ROW, "c": 1}]}).number == 2


def test_a_batch_must_have_the_new_column(location: str) -> None:
    """A row replaces all values of its key, so a column that is left out would lose its values."""
    with Store(None, location, orders("n int, t string")) as store:
        store.update({"orders": [ROW]})
    with Store(None, location, orders("n int, t string, c int")) as store:
        with pytest.raises(dp.InvalidChangesError, match="'c' is missing"):
            store.update({"orders": pa.table({"id": [1], "n": [2], "t": ["x"]})})
        store.update({"orders": [{"id": 1, "n": 2, "t": "x"}]})  # of dicts each may lack a value


@pytest.mark.parametrize("expire", ["delete", "forget"])
def test_a_source_that_does_not_keep_all_rows_may_have_new_columns(
    location: str, expire: str
) -> None:
    """What was made of forgotten rows stays, and the roll-up goes on."""

    def pipeline(value: str) -> Pipeline:
        made = Pipeline("kept")
        window = dp.window("day", last=2)
        made.source("rows", key="day date, id bigint", value=value, retain=window, expire=expire)
        made.aggregate("sums", "rows", key="day", values={"n": agg.sum("n")})
        return made

    def rows(day: int, **more: Any) -> dict[str, Any]:
        made = {"day": date(2022, 3, day), "n": day, **more}
        return {"rows": [{**made, "id": id} for id in (1, 2)]}

    with Store(None, location, pipeline("n int")) as store:
        for day in (1, 2, 3):
            store.update(rows(day))
    with Store(None, location, pipeline("n int, c string")) as store:
        version = store.update(rows(4, c="new"))
        assert version.stages["rows"].rows_expired == 2
        assert store.content("rows", ordered=True).column("c").to_pylist() == [
            None, None, "new", "new"
        ]  # fmt: skip
        kept = [6, 8] if expire == "delete" else [2, 4, 6, 8]
        assert store.content("sums", ordered=True).column("n").to_pylist() == kept
        store.update(rows(5, c="new"))
        assert store.content("sums", ordered=True).column("n").to_pylist() == (
            [8, 10] if expire == "delete" else [2, 4, 6, 8, 10]
        )
        assert store.verify() == ()
