"""The page in a real browser: everything is drawn, keys suffice, nothing overflows."""

from __future__ import annotations

from pathlib import Path

import pytest
from browsing import NARROW, WIDE, opened
from made import HOSTILE, layered, made
from playwright.sync_api import Browser, Page

from deltaproduce.report import page as report_page

FEW = made(("orders", "by_customer", "totals"), {(0, 1), (1, 2)}, 4, "a text")
MANY = made(tuple(f"stage_{n}_of_many" for n in range(200)), layered(200, 20), 2_000, "a text")
MOST_BYTES = 1_500_000
SIZES = {"few": FEW, "many": MANY}


def stored(folder: Path, report) -> Path:
    path = folder / "report.html"
    path.write_text(report_page.html(report), encoding="utf-8")
    return path


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    return page.evaluate("document.documentElement.scrollWidth - innerWidth")


def drawn_edges(page: Page) -> set[tuple[int, int]]:
    found = page.locator(".edge").evaluate_all(
        "edges => edges.map(e => [e.dataset.from, e.dataset.to, e.getTotalLength()])"
    )
    assert all(length > 1 for _, _, length in found)
    return {(int(source), int(target)) for source, target, _ in found}


def focused(page: Page) -> str:
    return page.evaluate("document.activeElement.id")


@pytest.mark.parametrize(
    ("size", "width", "dark"),
    [
        ("few", WIDE, False),
        pytest.param("few", NARROW, True, marks=pytest.mark.long),
        pytest.param("many", WIDE, True, marks=pytest.mark.long),
        ("many", NARROW, False),
        pytest.param("few", WIDE, True, marks=pytest.mark.long),
        pytest.param("few", NARROW, False, marks=pytest.mark.long),
        pytest.param("many", WIDE, False, marks=pytest.mark.long),
        pytest.param("many", NARROW, True, marks=pytest.mark.long),
    ],
)
def test_all_stages_and_edges_are_drawn_and_fit(
    browser: Browser, tmp_path: Path, size: str, width: int, dark: bool
) -> None:
    report = SIZES[size]
    path = stored(tmp_path, report)
    assert path.stat().st_size < MOST_BYTES
    with opened(browser, path, width=width, dark=dark) as page:
        names = [stage.name for stage in report.stages]
        assert page.locator(".node-name").all_inner_texts() == names
        places = {name: place for place, name in enumerate(names)}
        wanted = {(places[f], place) for place, s in enumerate(report.stages) for f in s.feeders}
        assert drawn_edges(page) == wanted
        boxes = page.locator(".node").evaluate_all(
            "nodes => nodes.map(n => `${n.style.left} ${n.style.top}`)"
        )
        assert len(set(boxes)) == len(names)
        assert page.locator(".chart canvas").count() == 3
        assert overflow(page) <= 0
        page.evaluate("location.hash = '#stage-1'")
        page.locator("#stage-1").wait_for(state="visible")
        assert overflow(page) <= 0


TELEPHONE = 390
CUT_OFF = """elements => elements
  .filter(e => e.offsetParent && e.scrollWidth > e.clientWidth + 1)
  .map(e => `${e.id || e.className}: ${e.scrollWidth} of ${e.clientWidth}`)"""


@pytest.mark.parametrize("size", SIZES)
def test_nothing_is_cut_off_on_a_telephone(browser: Browser, tmp_path: Path, size: str) -> None:
    """Graph, code and tables are as wide as the page, in letters of their usual size."""
    with opened(browser, stored(tmp_path, SIZES[size]), width=TELEPHONE) as page:
        assert overflow(page) <= 0
        assert page.locator("#graph, pre, .scroll").evaluate_all(CUT_OFF) == []
        boxes = page.locator(".node").evaluate_all("ns => ns.map(n => n.getBoundingClientRect())")
        assert {round(box["height"]) for box in boxes} == {78}
        assert all(box["x"] >= 0 and box["x"] + box["width"] <= TELEPHONE for box in boxes)
        cells = page.locator(".stage:visible tbody td").evaluate_all(
            "cells => cells.map(c => c.dataset.of)"
        )
        assert cells
        assert all(cells)
        page.set_viewport_size({"width": WIDE, "height": 800})
        assert page.locator("thead:visible").count() > 0
        assert len({box["x"] for box in page.locator(".node").evaluate_all(
            "ns => ns.map(n => n.getBoundingClientRect())")}) > 1  # fmt: skip


def test_keys_suffice(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, stored(tmp_path, FEW)) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        for _ in range(12):
            page.keyboard.press("Tab")
            if focused(page) == "node-0":
                break
        assert focused(page) == "node-0"
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.evaluate(outline) == "solid"
        page.keyboard.press("Enter")
        page.locator("#stage-0-title:focus").wait_for()
        assert page.locator(".stage:visible").evaluate_all("s => s.map(x => x.id)") == ["stage-0"]
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")  # back to the graph
        page.locator("#node-0:focus").wait_for()
        assert page.locator("[aria-current=true].node").get_attribute("id") == "node-0"


def test_a_stage_is_found_by_name(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, stored(tmp_path, MANY)) as page:
        page.fill("#find", "STAGE_17_")
        assert page.locator("#found").inner_text() == "1 of 200"
        assert page.locator("#stage-table tbody tr:visible").count() == 1
        page.press("#find", "Enter")
        page.locator("#stage-17").wait_for(state="visible")


def test_charts_are_read_by_keys(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, stored(tmp_path, MANY)) as page:
        reading = page.locator("#reading")
        assert reading.inner_text().startswith("Version 2,000 · ")
        page.focus("#charts")
        page.keyboard.press("Home")
        assert reading.inner_text() == (
            "Version 1 · update · 2026-01-01 01:00:00 UTC · 333,333 of 1,000,000 keys changed"
            " · 1,000,010 rows · 0.04 s"
        )
        page.keyboard.press("ArrowRight")
        assert reading.inner_text().startswith("Version 2 · update · 2026-01-01 02:00:00 UTC")
        page.click("#by-time")
        assert page.get_attribute("#by-time", "aria-pressed") == "true"
        assert page.locator(".chart canvas").count() == 3


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_texts_of_rows_are_inert(browser: Browser, tmp_path: Path, width: int) -> None:
    edges = {(place, place + 1) for place in range(len(HOSTILE) - 1)}
    text = " ".join(HOSTILE)
    report = made(HOSTILE, edges, 5, text)
    with opened(browser, stored(tmp_path, report), width=width) as page:
        names = page.locator(".node-name").evaluate_all("names => names.map(n => n.textContent)")
        assert names == list(HOSTILE)
        assert page.locator("#stage-0 pre").text_content() == text
        assert page.locator("#stage-0 .sample td").nth(2).text_content() == text
        assert drawn_edges(page) == edges
        assert page.locator("img").count() == 0
        assert page.locator("svg").count() == 1
        assert overflow(page) <= 0


def test_a_script_that_is_not_the_pages_does_not_run(browser: Browser, tmp_path: Path) -> None:
    path = stored(tmp_path, FEW)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("</body>", "<script>document.title = 'ran'</script></body>"))
    context = browser.new_context()
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.title() == "shop, version 4"
    assert page.locator(".edge").count() == 2
    context.close()


def test_tables_say_what_their_cells_are_of(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, stored(tmp_path, FEW)) as page:
        assert page.locator("thead th").count() > 20
        assert page.locator("thead th:not([scope=col])").count() == 0
        assert page.locator("tbody th:not([scope=row])").count() == 0
        for landmark in ("header", "main", "nav[aria-label]"):
            assert page.locator(landmark).count() == 1
        assert page.locator("h1").count() == 1


def test_print_shows_every_stage_in_light_colours(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, stored(tmp_path, FEW), dark=True) as page:
        page.emulate_media(media="print", color_scheme="dark")
        assert page.locator(".stage:visible").count() == 3
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
            "rgb(255, 255, 255)"
        )
        assert not page.locator("#find").is_visible()


def test_without_scripts_all_is_there(browser: Browser, tmp_path: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(stored(tmp_path, FEW).as_uri())
    assert page.locator(".stage:visible").count() == 3
    assert page.locator("#charts").is_hidden()
    context.close()
