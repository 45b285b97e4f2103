"""Dates and times that a store takes and Python cannot hold: shown as text, named in errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaproduce import Dataset, InvalidChangesError, Pipeline, ProducerError, Store, agg
from deltaproduce.cli.answers.readings import of_lineage, printed

FAR = ["+10000-01-01", "-0001-01-01", "+210050-12-07"]
DAYS = pa.array([2_932_897, -719_893, 76_000_000], pa.int32()).cast(pa.date32())
MICROS = pa.array([253_402_300_800_000_000, -62_198_755_200_000_000, 0], pa.int64())
ROWS = pa.table(
    {
        "d": DAYS,
        "id": [1, 2, 3],
        "t": MICROS.cast(pa.timestamp("us", "UTC")),
        "ds": pa.array([[day] for day in DAYS], pa.list_(pa.date32())),
    }
)
KEY, VALUE = "d date, id bigint", "t timestamp, ds array<date>"


def filled(location: str) -> Store:
    pipeline = Pipeline("far")
    source = pipeline.source("s", key=KEY, value=VALUE)
    pipeline.aggregate("a", source, key="d", values={"latest": agg.max("t")})
    pipeline.index("i", source, key="t")
    store = Store(None, location, pipeline)
    store.update({"s": ROWS})
    return store


def test_what_shows_rows_shows_them_as_text(location: str, tmp_path: Path) -> None:
    store = filled(location)
    found = store.diff(0, 1)
    assert {one.key["d"] for one in found.stages["s"].sample} == {*FAR}
    assert {day for one in found.stages["s"].sample for day in one.after[0]["ds"]} == {*FAR}
    assert all(text in json.dumps(found.as_dict()) and text in str(found) for text in FAR)
    page = Path(store.report(tmp_path / "report.html")).read_text()
    assert all(text in page for text in FAR)
    for kind in (store.updates, store.content):
        data = printed(kind("s"), 10).data
        assert all(text in json.dumps(data) for text in FAR)
    assert store.lookup("s", ROWS.select(["d", "id"])).keys == 3
    lineage = store.lineage("s", (None, 1))
    assert not of_lineage(lineage, 10).data["downstream"]["a"]["keys"]


def test_wrong_batches_name_their_keys(location: str) -> None:
    store = filled(location)
    both = pa.concat_tables([ROWS, ROWS])
    types = pa.array(["upsert"] * 3 + ["delete"] * 3)
    with pytest.raises(InvalidChangesError) as raised:
        store.update({"s": both.append_column("_change_type", types)})
    assert [(key.d, key.id) for key in raised.value.keys] == list(zip(FAR, [1, 2, 3], strict=True))
    assert all(text in str(raised.value) for text in FAR)


class _Count:
    state, type = "bigint", "bigint"

    def zero(self) -> int:
        return 0

    def add(self, state: int, value: Any) -> int:
        return state + 1

    merge = subtract = add

    def result(self, state: int) -> int:
        return state


@pytest.mark.parametrize("column", ["d", "t", "ds"])
def test_a_function_fails_with_stage_key_and_column(location: str, column: str) -> None:
    pipeline = Pipeline("far")
    is_key = column == "d"
    key = "d date" if is_key else "id bigint"
    value = "id bigint" if is_key else f"{column} {'timestamp' if column == 't' else 'array<date>'}"
    source = pipeline.source("s", key=key, value=value)

    @pipeline.producer(source, key="n bigint", value="m bigint")
    def made(key: Any, values: Any) -> Any:
        yield 1, 1

    rows = ROWS.select([column, "id"]).slice(0, 1)
    with pytest.raises(ProducerError) as raised:
        Store(None, location, pipeline).update({"s": rows})
    assert (raised.value.stage, raised.value.column) == ("made", column)
    assert raised.value.key == (FAR[0] if is_key else 1)
    assert f"column {column!r} has {FAR[0]}" in str(raised.value)


def test_an_aggregate_of_ones_own_fails_with_its_value_and_key(location: str) -> None:
    pipeline = Pipeline("far")
    source = pipeline.source("s", key="id bigint", value="d date")
    pipeline.aggregate("a", source, key="id", values={"n": agg.own(_Count(), "d")})
    with pytest.raises(ProducerError) as raised:
        Store(None, location, pipeline).update({"s": ROWS.select(["id", "d"])})
    assert (raised.value.stage, raised.value.key, raised.value.column) == ("a", 1, "n")
    assert FAR[0] in str(raised.value)


def test_no_partition_has_such_a_date(location: str) -> None:
    pipeline = Pipeline("far")
    pipeline.source("s", key=KEY, value=VALUE, stored={"partition": "d"})
    store = Store(None, location, pipeline)
    with pytest.raises(InvalidChangesError, match=r"'d', which is \+10000-01-01") as raised:
        store.update({"s": ROWS.slice(0, 1)})
    assert raised.value.keys == ((FAR[0], 1),)
    assert store.head.number == 0
    rows = Dataset.create(None, f"{location}_set", schema="d date, id bigint", partition="d")
    with (
        pytest.raises(InvalidChangesError, match=r"column 'd' is \+10000-01-01"),
        rows.writer() as w,
    ):
        w.write(ROWS.select(["d", "id"]))
    assert not rows.files()
