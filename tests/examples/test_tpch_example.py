"""The example of TPC-H: its queries equal DuckDB's after some of its versions."""

from __future__ import annotations

import re
from pathlib import Path

from loading import load_example
from rich.console import Console

import deltaproduce as dp


def test_all_queries_equal_those_of_duckdb(tmp_path: Path, long_run: bool) -> None:
    """A short run has the smallest scale, and no version that takes a change back."""
    example, said = load_example("04_tpch"), Console(record=True, width=100, quiet=True)
    steps = example.refreshes(example.generated(tmp_path, 0.01 if long_run else 0.001))
    some = steps if long_run else {name: steps[name] for name in ("load", "RF1", "RF2", "RF3")}
    assert example.run(tmp_path / "store", said, some)
    if long_run:
        page = (Path(dp.__file__).parent.parent / "docs" / "sql.md").read_text()
        told = dict(re.findall(r"^\| `(q\d\d)` \| .* \| ?(.*) ?\|$", page, re.MULTILINE))
        with dp.Store(None, str(tmp_path / "store"), example.warehouse) as store:
            assert store.head  # what is read last has the sizes
            for name, found in example.tables(store).items():
                kept = ", ".join(f"{kind} {rows:,}" for kind, rows in found)
                assert told[name].strip() == kept, name


def test_rows_that_differ_are_told(tmp_path: Path) -> None:
    example = load_example("04_tpch")
    assert example.agree([(1, 2.0)], [(1, 2.0000000001)])
    assert not example.agree([(1, 2.0)], [(1, 2.1)])
    assert not example.agree([(1, 2.0)], [(1, 2.0), (1, 2.0)])
    assert not example.agree([("a", None)], [("a", 0)])
