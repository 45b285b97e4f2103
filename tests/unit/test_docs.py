"""The docs pages: all are in the site, their links work, and excerpts are Python."""

import doctest
import inspect
import re
import tomllib
from pathlib import Path

import pytest

import deltaproduce as dp
from deltaproduce import pipeline

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def names(nav: object) -> list[str]:
    """The pages of a navigation, in order."""
    match nav:
        case str():
            return [nav]
        case dict():
            return [name for one in nav.values() for name in names(one)]
        case list():
            return [name for one in nav for name in names(one)]
    raise TypeError(nav)


def anchors(page: Path) -> set[str]:
    """What links may point to in a page: its headings, as the site and Git hosts name them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    bare = (re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings)
    return {re.sub(r"\s", "-", heading) for heading in bare}


def test_all_pages_are_in_the_site():
    settings = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]
    assert sorted(names(settings["nav"])) == [page.name for page in PAGES]
    index = (ROOT / "docs" / "index.md").read_text()
    assert {page.name for page in PAGES} - {"index.md"} <= set(LINK.findall(index))


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_what_pages_link_to_is_there(page):
    for target in LINK.findall(page.read_text()):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = page.parent / path if path else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


def test_pages_of_the_site_link_to_pages_of_the_site():
    """Not to folders, nor to what the repository has beside them: the site has neither."""
    docs = ROOT / "docs"
    for page in sorted(docs.rglob("*.md")):
        for target in LINK.findall(page.read_text()):
            if "://" not in target:
                there = (
                    (page.parent / target.partition("#")[0]).resolve() if target[0] != "#" else page
                )
                assert there.is_file(), (page.name, target)
                assert there.is_relative_to(docs), (page.name, target)


def test_the_reference_has_all_that_is_exported():
    """Classes and functions by name or with their module; not aliases, which signatures spell."""
    told = re.findall(r"^::: (\S+)$", (ROOT / "docs" / "reference.md").read_text(), re.MULTILINE)
    exported = [getattr(dp, name) for name in dp.__all__]
    named = [one for one in exported if inspect.isclass(one) or inspect.isfunction(one)]
    left_out = [
        one.__qualname__
        for one in named
        if not {one.__module__, f"{one.__module__}.{one.__qualname__}"} & {*told}
    ]
    assert len(named) > 60
    assert left_out == []


def test_excerpts_that_are_not_run_are_python():
    for page in PAGES:
        for code in re.findall(r"^```py\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
            compile(code, page.name, "exec")


def test_examples_in_docstrings_run():
    ran = doctest.testmod(pipeline)
    assert (ran.failed, ran.attempted > 5) == (0, True)


def test_they_are_in_no_other_module():
    with_examples = [
        path.name
        for path in (ROOT / "deltaproduce").rglob("*.py")
        if re.search(r"^ +>>> ", path.read_text(), re.MULTILINE)
    ]
    assert with_examples == ["pipeline.py"]
