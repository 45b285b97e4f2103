"""The display of values: one short line, aligned text, and HTML with everything escaped."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deltaproduce as dp
from deltaproduce.shown.html import html
from deltaproduce.shown.tabular import Tabular
from deltaproduce.shown.text import text

CELLS = st.none() | st.integers(-(10**9), 10**9) | st.floats(-1e6, 1e6) | st.text(max_size=12)


@st.composite
def tables(draw: st.DrawFn) -> dp.Table:
    """Any table, with text of others in it."""
    names = draw(st.lists(st.text("abc", min_size=1, max_size=5), min_size=1, max_size=4))
    rows = draw(st.lists(st.tuples(*(CELLS for _ in names)), max_size=4))
    return dp.Table(
        draw(st.text(max_size=9)),
        tuple(names),
        tuple(rows),
        tuple(draw(st.lists(CELLS.map(str), max_size=2))),
    )


class Seen(HTMLParser):
    """What a browser makes of HTML: its tags, and the text in them."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.cells: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.cells += [""] * (tag == "td")

    def handle_data(self, data: str) -> None:
        if self.cells:
            self.cells[-1] += data


@given(tables())
def test_text_has_a_line_for_each_row_and_drives_no_terminal(table: dp.Table) -> None:
    found = text([table]).split("\n")
    assert len(found) == 3 + len(table.rows) + len(table.notes)
    assert all(line.isprintable() for line in found)


@given(tables())
def test_no_cell_of_html_is_markup(table: dp.Table) -> None:
    seen = Seen(html([table]))
    assert set(seen.tags) <= {"table", "caption", "b", "thead", "tbody", "tr", "th", "td", "p"}
    assert seen.tags.count("td") == len(table.rows) * len(table.columns)


def test_html_shows_the_text_of_others_as_it_is() -> None:
    seen = Seen(html([dp.Table("t", ("a",), (("<script>alert(1)</script>&amp;",),))]))
    assert seen.cells == ["<script>alert(1)</script>&amp;"]


def test_numbers_are_to_the_right_and_wide_characters_are_two_columns() -> None:
    found = text([dp.Table("t", ("name", "rows"), (("日本", 1_234), ("ab", 7), ("c", None)))])
    assert found.split("\n") == [
        "t",
        "name   rows",
        "----  -----",
        "日本  1,234",
        "ab        7",
        "c",
    ]


def joins(count: int) -> dp.Pipeline:
    """A chain of stages, each of which joins the one before with itself, made anew."""
    pipeline = dp.Pipeline("chain")
    last: dp.Stage = pipeline.source("rows", key="id bigint", value="n bigint")

    def both(key: int, ones: Any, others: Any) -> Any:
        yield key, sum(ones) + sum(others)

    def one(key: int, values: Any) -> Any:
        yield from ((key, value) for value in values)

    for i in range(count):
        copy = pipeline.producer(last, key="id bigint", value="n bigint", name=f"copy_{i}")(one)
        make = pipeline.producer(last, copy, key="id bigint", value="n bigint", name=f"join_{i}")
        last = make(both)
    return pipeline


def test_a_repr_does_not_grow_with_the_stages_before() -> None:
    pipeline = joins(20)
    assert all(len(repr(stage)) < 120 for stage in pipeline.stages)
    assert len(repr(pipeline.graph())) < 120
    assert len(str(pipeline).splitlines()) == 3 + len(pipeline.stages)
    assert len(str(pipeline)) < 150 * (3 + len(pipeline.stages))


FIGURES = dp.StageFigures("seek", reason="x" * 300, changed_keys=2, rows=7)
SOME = {f"stage_{i}": FIGURES for i in range(30)}
VERSION = dp.Version(2, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "update", "i" * 300, SOME)
SOURCE = dp.Pipeline("shop").source("orders", key="id int", value="n int")
MANY = tuple(range(500))


@pytest.mark.parametrize(
    "value",
    [
        *joins(2).stages,
        *(stage.kind for stage in joins(1).stages),
        joins(9),
        joins(9).graph(),
        dp.merge(*joins(9).stages),
        dp.agg.sum("a" * 300),
        FIGURES,
        VERSION,
        dp.Version(0, None, "empty", None, {}),
        dp.Step(SOURCE, "changes", "r" * 300),
        dp.Finding("totals", "content", "rows", "w" * 300),
        dp.Vacuumed(MANY, ("old/content",) * 40, 5, 700, ("a", "b") * 200),
        dp.Remaining("totals", "updates", MANY),
        dp.Forgotten(VERSION, (dp.Remaining("totals", "updates", MANY),) * 9),
        dp.Lineage("totals", "k" * 300, 1, {"a": pa.table({"id": MANY})}, {}),
        dp.Progress("update", "totals", 1, 3),
        dp.WindowMove(1, 500, MANY, MANY, why="w" * 300),
        dp.Altered("value columns", "n int, " * 99, "n bigint, " * 99),
        dp.Loss("totals", "stage", 3, "s" * 300),
        dp.KeyDiff("changed", {"k": "x" * 300}, ({"n": 1},) * 99, ()),
        dp.StageDiff(1, 2, 3, 4, 5),
        dp.Diff(1, 2, {f"s{i}": dp.StageDiff(1) for i in range(99)}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_repr_is_one_short_line_and_names_the_class(value: object) -> None:
    found = repr(value)
    assert len(found) < 120
    assert found.isprintable()
    assert re.match(rf"{type(value).__name__}\(.*\)$", found)
    if isinstance(value, Tabular):
        assert str(value).startswith(value.as_tables()[0].title[:20])
        assert value._repr_html_().startswith("<table>")


def test_a_version_tells_what_it_did_to_each_stage() -> None:
    figures = dp.StageFigures("full", "first", changed_keys=2, rows_added=3, rows=3, seconds=0.5)
    version = dp.Version(1, VERSION.committed_at, "load", None, {"totals": figures})
    (table,) = version.as_tables()
    assert table.title == "version 1: load, 2026-01-02 03:04:05+00:00"
    assert dict(zip(table.columns, table.rows[0], strict=True)) == {
        "stage": "totals",
        "mode": "full",
        "keys changed": 2,
        "rows added": 3,
        "rows removed": 0,
        "rows": 3,
        "seconds": 0.5,
        "why": "first",
    }
