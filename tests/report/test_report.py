"""A report of a store: its figures match the version log, its sizes match the files."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pytest
from made import HOSTILE, made

import deltaproduce as dp
from deltaproduce.report import figures, gathering, sentences
from deltaproduce.report import page as report_page
from deltaproduce.report.samples import texts
from deltaproduce.shown.update_ids import run_id
from deltaproduce.storage.figures import Mode

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

shop = dp.Pipeline("shop")
orders = shop.source("orders", key="order_id bigint desc", value="customer string, amount bigint")


@shop.producer(orders, key="customer string", value="amount bigint")
def by_customer(order_id, values):
    """An order belongs to its customer."""
    for value in values:
        yield value.customer, value.amount


totals = shop.aggregate(
    "totals",
    by_customer,
    key="customer",
    values={"total": dp.agg.sum("amount"), "least": dp.agg.min("amount")},
    where="amount > 0",
)


def rows(*numbers: int) -> list[dict[str, object]]:
    return [{"order_id": n, "customer": f"c{n % 7}", "amount": n} for n in numbers]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> dp.Store:
    """Four versions: a load, an update with a deletion, a rollback, an update of one key."""
    location = tmp_path_factory.mktemp("reports") / "lake"
    found = dp.Store(None, location, shop, clock=lambda: NOW)
    found.load({"orders": rows(*range(1, 50))}, "first")
    found.update({"orders": [*rows(50), {"order_id": 3, "_change_type": "delete"}]})
    found.rollback(1)
    found.update({"orders": [{"order_id": 8, "customer": HOSTILE[0], "amount": 1}]})
    return found


def report(store: dp.Store, version: int | None = None, samples: int = 4):
    return gathering.report(store._opened, "shop", version, samples, NOW)


def test_figures_are_those_of_the_version_log(store: dp.Store) -> None:
    for number in (*range(5), None):
        found = report(store, number)
        version = next((v for v in store.versions() if v.number == (number or 4)), None)
        if number == 0:
            assert (found.version.number, found.version.committed_at) == (0, None)
            assert all(stage.step is None for stage in found.stages)
            continue
        assert found.version.number == version.number
        for stage in found.stages:
            told = version.stages[stage.name].as_dict()
            step = stage.step
            for name in ("mode", "reason", "affected_keys", "changed_keys", "rows", "seconds"):
                assert getattr(step, name) == told[name]
            assert {t.table: t.delta_version for t in stage.tables} == told["delta_versions"]
        assert found.version.wall_seconds == version.seconds > 0
        assert found.version.changed_keys == sum(f.changed_keys for f in version.stages.values())
    assert [v.operation for v in report(store).versions] == ["load", "update", "rollback", "update"]
    assert [v.update_id for v in report(store).versions] == ["first", "", "", ""]


def test_stages_are_those_that_users_define(store: dp.Store) -> None:
    first, second, third = report(store).stages
    assert [(s.name, s.kind, s.feeders, s.readers) for s in (first, second, third)] == [
        ("orders", "given", (), ("by_customer",)),
        ("by_customer", "rows", ("orders",), ("totals",)),
        ("totals", "aggregate", ("by_customer",), ()),
    ]
    assert [(c.name, c.role, c.type, c.descending) for c in first.columns] == [
        ("order_id", "key", "bigint", True),
        ("customer", "value", "string", False),
        ("amount", "value", "bigint", False),
    ]
    assert second.source_key == ("order_id",)
    assert second.language == "python"
    assert second.definition.startswith("@shop.producer(orders,")
    assert "An order belongs to its customer." in second.definition
    assert third.language == "sql"
    assert third.definition == (
        "SELECT\n  customer,\n  sum(amount) AS total,\n  min(amount) AS least\n"
        "FROM by_customer\nWHERE `amount` > 0\nGROUP BY customer"
    )
    assert [column.origin for column in third.columns] == ["customer", None, None]


def test_sizes_are_those_of_the_files(store: dp.Store) -> None:
    location = Path(store._opened.tables.location.address)
    for stage in report(store).stages:
        for table in stage.tables:
            data = [*(location / stage.name / table.table).glob("*.parquet")]
            if table.table == "updates":  # they are only added to, so all files are the head's
                assert table.files == len(data)
                assert table.bytes == sum(path.stat().st_size for path in data)
            assert 0 < table.files <= len(data)
        assert stage.bytes == sum(table.bytes for table in stage.tables)


def test_samples_are_rows_of_the_updates(store: dp.Store) -> None:
    for stage in report(store, samples=3).stages:
        changing = [v for v in store.versions() if v.stages[stage.name].changed_keys]
        if stage.difference is not None:  # which has the version's own rows
            changing.pop()
        assert [s.version for s in stage.samples] == [v.number for v in changing[:-4:-1]]
        for sample in stage.samples:
            updates = store.updates(stage.name, sample.version).drop_columns(["_version"])
            assert list(sample.columns) == updates.column_names
            written = zip(*(texts(column) for column in updates.columns), strict=True)
            assert set(sample.rows) <= set(written)
            assert len(sample.rows) == min(3, len(updates))
    assert not any(stage.samples for stage in report(store, samples=0).stages)


def test_rows_before_and_after_are_those_that_one_of_two_versions_has(store: dp.Store) -> None:
    """Of the keys that are shown; each with the key of the feeder that it was computed from."""
    for number in range(1, 5):
        for stage in report(store, number, samples=100).stages:
            found = stage.difference
            changed = store.head if number == 4 else store.versions()[number - 1]
            if not changed.stages[stage.name].changed_keys:
                assert found is None
                continue
            sides = [told(store, stage.name, each) for each in (number - 1, number)]
            expected = {"before": sides[0] - sides[1], "after": sides[1] - sides[0]}
            for side, rows_of_it in expected.items():
                shown = Counter(row[1:] for row in found.rows if row[0] == side)
                assert shown == rows_of_it
            assert found.changed_keys == found.keys == changed.stages[stage.name].changed_keys
    (_, by_customer, _) = report(store).stages
    assert by_customer.difference.columns == ("customer", "from order_id", "amount")
    assert not any(stage.difference for stage in report(store, samples=0).stages)


def told(store: dp.Store, stage: str, version: int) -> Counter:
    content = store.content(stage, version)
    names = [name for name in content.column_names if name != "_ordinal"]
    width = len(store._opened.stage(stage).schema.key)
    sources = [name for name in names if name.startswith("_source")]
    shown = [*names[:width], *sources, *(name for name in names[width:] if name not in sources)]
    return Counter(zip(*(texts(content.column(name)) for name in shown), strict=True))


def test_a_version_says_how_long_its_call_took(store: dp.Store) -> None:
    """Whoever reads it; and no less than the stages took, up to what figures are rounded to."""
    reopened = dp.Store(None, store._opened.tables.location.address, shop).versions()
    for version, again in zip(store.versions(), reopened, strict=True):
        assert again.seconds == version.seconds
        assert version.seconds > sum(f.seconds for f in version.shown().stages.values()) - 0.01


def test_one_sentence_says_what_happened(store: dp.Store) -> None:
    found = [sentences.happened(report(store, number)) for number in range(5)]
    assert found == [
        "",
        "49 orders loaded; 2 of 2 stages followed.",
        "2 orders changed; 2 of 2 stages followed.",
        "The store was rolled back: 2 orders changed; 2 of 2 stages followed.",
        "1 order changed; 2 of 2 stages followed.",
    ]
    assert sentences.causes(report(store)) == "orders 8"
    assert sentences.causes(report(store, 1, samples=3)) == "orders 49, 48, 47 and 46 more"
    assert sentences.causes(report(store, samples=0)) == ""


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ({"orders": 1, "customers": 1}, "1 order and 1 customer changed."),
        ({"categories": 1, "boxes": 2, "days": 1}, "1 category, 2 boxes and 1 day changed."),
        ({"store_sales": 1_200}, "1,200 store sales changed."),
        ({"stock": 3, "address": 1}, "3 keys of stock and 1 key of address changed."),
        ({"<b>s": 1}, "1 key of <b>s changed."),
        (dict.fromkeys(("as_", "bees", "cats", "dogs", "emus"), 1),
         "1 key of as_, 1 bee, 1 cat and keys of 2 more sources changed."),
        ({}, "No source changed."),
    ],
)  # fmt: skip
def test_sources_are_named_in_english(sources: dict[str, int], expected: str) -> None:
    plain = made(tuple(sources), set(), 3, "x")
    stages = tuple(
        replace(stage, step=replace(stage.step, changed_keys=number))
        for stage, number in zip(plain.stages, sources.values(), strict=True)
    )
    version = replace(plain.version, operation="update")
    assert sentences.happened(replace(plain, version=version, stages=stages)) == expected


def test_a_step_says_how_much_it_read() -> None:
    report = made(("orders", "totals"), {(0, 1)}, 3, "x")
    first, second = report.stages
    for mode in get_args(Mode):
        step = replace(second.step, mode=mode, rows_read=12, bytes_read=2048, changed_keys=1)
        said = sentences.how(replace(second, step=step), (first, replace(second, step=step)))
        assert said.endswith("; read 12 of 19,753,086 stored rows, 2.0\xa0KiB")
        assert len(said) > 60
    nothing = replace(second.step, mode="seek", rows_read=0, changed_keys=0)
    assert "none of their rows" in sentences.how(replace(second, step=nothing), report.stages)


def test_the_id_of_a_run_is_shown_as_the_files_that_it_took(tmp_path: Path) -> None:
    found = dp.Store(None, tmp_path / "lake", shop, clock=lambda: NOW)
    found.update({"orders": rows(1)}, run_id(1, {"orders": {"2026-01-01.csv": "9f86d0"}}))
    assert report(found).version.update_id == "run 1: orders/2026-01-01.csv"


def test_a_report_is_json(store: dp.Store) -> None:
    found = report(store).as_dict()
    assert json.loads(json.dumps(found))["stages"][2]["name"] == "totals"


def test_an_empty_store_has_a_report(tmp_path: Path) -> None:
    empty = dp.Store(None, tmp_path / "none", shop)
    path = empty.report(tmp_path / "report.html")
    assert "The store has no versions yet." in path.read_text()
    assert not (tmp_path / "none").exists()
    without = dp.Store(None, tmp_path / "none", dp.Pipeline("bare")).report(path)
    assert "The pipeline has no stages." in without.read_text()


def test_a_report_takes_the_place_of_another(store: dp.Store, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    assert store.report(path, 2) == path
    assert "<title>shop, version 2</title>" in path.read_text()
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("given", "refused", "argument"),
    [
        ({"path": 3}, dp.InvalidArgumentError, "path"),
        ({"path": "no/such/report.html"}, dp.InvalidArgumentError, "path"),
        ({"samples": -1}, dp.InvalidArgumentError, "samples"),
        ({"version": "1"}, dp.InvalidArgumentError, "version"),
        ({"version": 9}, dp.NotFoundError, None),
    ],
)
def test_what_cannot_be_is_refused(
    store: dp.Store, tmp_path: Path, given: dict, refused: type, argument: str | None
) -> None:
    path = tmp_path / "report.html"
    with pytest.raises(refused) as caught:
        store.report(**{"path": path, **given})
    assert argument is None or caught.value.argument == argument
    assert not path.exists()


def test_no_text_becomes_markup_or_code() -> None:
    plain = report_page.html(made(("a", "b"), {(0, 1)}, 5, "plain"))
    for text in HOSTILE:
        found = report_page.html(made((text, "b"), {(0, 1)}, 5, text))
        for sign in ("<script", "</script", "<img", "<svg", "<!--"):
            assert found.count(sign) == plain.count(sign)


@pytest.mark.parametrize(
    ("values", "written"),
    [
        (pa.array([1, None]), ["1", None]),
        (pa.array([b"\x00\xff"]), ["00ff"]),
        (pa.array([Decimal("1.50")]), ["1.50"]),
        (pa.array([datetime(2026, 1, 2, tzinfo=UTC)], pa.timestamp("us", "UTC")),
         ["2026-01-02 00:00:00.000000Z"]),
        (pa.array([[1, None], None]), ["[1, None]", None]),
        (pa.array(["\x1b[31m"]), ["\\x1b[31m"]),
        (pa.array([-3_000_000], pa.date32()), None),
    ],
)  # fmt: skip
def test_every_value_has_a_text(values: pa.Array, written: list[str | None] | None) -> None:
    found = texts(pa.chunked_array([values]))
    assert written is None or found == written
    assert len(found) == len(values)


def test_a_long_text_is_cut() -> None:
    (found,) = texts(pa.chunked_array([["x" * 10_000]]))
    assert len(found) < 300


def test_figures_have_units_and_separators() -> None:
    assert figures.count(1234567) == "1,234,567"
    assert [figures.size(n) for n in (0, 1023, 1024, 5 << 30, 900 << 50)] == [
        "0\xa0bytes", "1,023\xa0bytes", "1.0\xa0KiB", "5.0\xa0GiB", "900\xa0PiB",
    ]  # fmt: skip
    assert [figures.seconds(n) for n in (0.0123, 1.234, 12.34, 1234.5)] == [
        "0.012\xa0s", "1.23\xa0s", "12.3\xa0s", "1,234\xa0s",
    ]  # fmt: skip
    assert figures.moment(0) == "1970-01-01 00:00:00 UTC"
    assert {figures.count(None), figures.size(None), figures.seconds(None)} == {figures.UNKNOWN}
    assert figures.share(1, 0) == figures.UNKNOWN


def test_libraries_have_their_licences_beside_them() -> None:
    assets = {path.name for path in files("deltaproduce.report").joinpath("assets").iterdir()}
    libraries = {name.removesuffix(".min.js") for name in assets if name.endswith(".min.js")}
    assert libraries == set(report_page._LIBRARIES)
    html = report_page.html(made(("a",), set(), 1, "x"))
    for library in libraries:
        licence = files("deltaproduce.report").joinpath("assets", f"{library}.LICENSE.txt")
        assert licence.read_text() in html
    assert "sourceMappingURL" not in html
