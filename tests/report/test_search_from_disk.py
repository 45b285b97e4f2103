"""The worker replacement that lets the documentation site search from disk."""

from pathlib import Path
from shutil import copy

from browsing import opened
from playwright.sync_api import Browser

SHIM = Path(__file__).parents[2] / "docs" / "assets" / "search-from-disk.js"
WORKER = """
let turns = 0;
self.addEventListener("message", (event) => {
  self.postMessage(`${event.data}${++turns}`);
});
"""
PAGE = """
<!doctype html><link rel="icon" href="data:,"><script src="search-from-disk.js"></script><script>
  const worker = new Worker("worker.js");
  const said = [];
  let sending = false;
  worker.onmessage = (event) => {
    said.push(sending ? "in between" : event.data);
    if (said.length === 2) ask("c");
    document.title = said.join();
  };
  const ask = (text) => { sending = true; worker.postMessage(text); sending = false; };
  ask("a");
  ask("b");
</script>
"""


def test_messages_come_and_go_in_order_and_later(browser: Browser, tmp_path: Path) -> None:
    """Also those that were sent before the worker's code was there."""
    copy(SHIM, tmp_path)
    (tmp_path / "worker.js").write_text(WORKER)
    page = tmp_path / "page.html"
    page.write_text(PAGE)
    files = ("search-from-disk.js", "worker.js")
    with opened(browser, page, asked=[tmp_path / file for file in files]) as shown:
        shown.wait_for_function("document.title === 'a1,b2,c3'")
