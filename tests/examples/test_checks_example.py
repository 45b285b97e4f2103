"""The example of checks: what it says of each batch."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from loading import load_example
from rich.console import Console


def test_no_version_has_what_breaks_its_rules(tmp_path: Path) -> None:
    example, said = load_example("05_checks"), Console(record=True, width=200, file=StringIO())
    with example.run(tmp_path, said) as store:
        assert store.head.number == 3
        assert len(store.content("flights")) == 27_004
        assert not [one for one in store.check() if one.failed]
        assert len(store.content("flights__rejected")) == 0
        (aside,) = store.content("flights__rejected", 2).to_pylist()
        assert (aside["_rule"], aside["dep_delay"]) == ("flights_left_on_time", 99_999)
    text = said.export_text()
    assert "in flights__rejected: 1" in text
    assert "flights_refers_carrier" in text
    assert "flights_deleted" in text
