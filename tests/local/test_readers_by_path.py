"""Readers without the library get the rows of exactly one version, or an error: no old rows.

`tests/spark/test_readers_by_path.py` has Spark among the readers and the writers.
"""

import random
from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pytest
from local_stores import plain_table, shop
from other_readers import READERS, with_delta
from reading_by_path import Life, assert_documented, recipes, visits
from selecting import chosen
from series import drawn

import deltaproduce
from deltaproduce import Store
from deltaproduce.testing import Change, strategies


def test_each_reader_opens_each_table_by_its_path_after_each_version(
    location: str, long_run: bool
) -> None:
    """Stages of each kind, over updates, crashes, rollbacks and compactions; as docs say.

    A short run reads a few tables of two versions.
    """
    life = Life(location, [None], visits(), visits(as_model=True), random.Random(7))
    for _ in range(30 if long_run else 2):
        life.step()
        life.read(READERS, None if long_run else 4)
    life.assert_no_others()
    assert_documented(life.seen, whole=[*READERS] if long_run else [])


@pytest.mark.parametrize("number", chosen(range(12), 3))
def test_each_reader_opens_tables_of_any_columns(
    location: str, number: int, long_run: bool
) -> None:
    (pipeline,) = drawn(strategies.pipelines(), 1, 800 + number)
    histories = strategies.histories(pipeline, min_versions=8, max_versions=8)
    batches = cycle(drawn(histories, 1, 800 + number)[0])

    def batch(*_: object) -> Mapping[str, list[Change]]:
        return next(batches)

    life = Life(location, [None], pipeline, pipeline, random.Random(number), batch)
    for _ in range(1 + long_run):
        life.step()
        life.read(READERS)
    life.assert_no_others()
    assert_documented(life.seen)


def test_the_text_in_a_store_s_folder_is_right(location: str) -> None:
    """Its lines for DuckDB, Polars and Python read a stage; `tests/spark` has those for Spark."""
    with Store(None, location, shop()) as store:
        store.update({"orders": [{"id": 1, "customer": "a", "amount": 5}]})
        store.update({"orders": [{"id": 2, "customer": "b", "amount": 6}]})
        expected, pinned = store.content("orders"), store.head.delta_version("orders", "content")
    told = recipes(location, "orders", pinned)
    found: dict[str, Any] = {
        "DuckDB": with_delta().sql(told["DuckDB"][0]).to_arrow_table(),
        "Polars": eval(told["Polars"][0], {"polars": polars}).to_arrow(),
        "Python": eval(told["Python"][0], {"deltaproduce": deltaproduce}),
    }
    for reader, rows in found.items():
        table = pa.table(rows).select(["id", "customer", "amount"])
        wanted = expected.select(table.column_names)
        assert sorted(plain_table(table)) == sorted(plain_table(wanted)), reader


def test_the_text_is_written_once_and_is_no_part_of_the_store(location: str) -> None:
    """A store that is opened or written again leaves it as it is, or as somebody has left it."""
    text = Path(location, "_README.txt")
    given = [{"orders": [{"id": n, "customer": "a", "amount": n}]} for n in range(3)]
    with Store(None, location, shop()) as store:
        assert not text.exists()  # it is not written by a reader
        store.update(given[0])
        text.write_text("ours")
        store.update(given[1])
        store.vacuum(keep_versions=1, unfinished_hours=0)
        assert text.read_text() == "ours"
        text.unlink()
        store.update(given[2])
        assert not text.exists()
        assert store.verify() == ()


def test_a_folder_in_which_the_text_cannot_be_written_has_a_store(location: str) -> None:
    Path(location, "_README.txt").mkdir(parents=True)
    with Store(None, location, shop()) as store:
        store.update({"orders": [{"id": 1, "customer": "a", "amount": 5}]})
        assert store.head.number == 1
