"""Pages in a browser."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page

WIDE, NARROW = 1280, 360
"""Pixels: a laptop's window, and a telephone's."""


@contextmanager
def opened(
    browser: Browser,
    path: Path,
    *,
    width: int = WIDE,
    dark: bool = False,
    asked: Sequence[Path] = (),
) -> Iterator[Page]:
    """A page from the disk; at the end nothing was wrong, and only it and these were asked for."""
    context = browser.new_context(
        viewport={"width": width, "height": 800},
        color_scheme="dark" if dark else "light",
        offline=True,
    )
    page, said, found = context.new_page(), [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("request", lambda request: found.append(request.url))
    page.goto(path.as_uri())
    yield page
    context.close()
    assert not said
    assert found == [one.as_uri() for one in (path, *asked)]
