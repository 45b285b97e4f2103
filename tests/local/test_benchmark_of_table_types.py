"""The benchmark of the table types runs without a session, and compares what they store."""

from pathlib import Path

import pytest

from benchmarks import plain


def test_both_table_types_store_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--rows", "2000", "--changed", "10", "--steps", "2", "--directory", str(tmp_path)]
    assert plain.main(given) == 0
    told = capsys.readouterr().out
    assert "| 2,000 | 10 | copy_on_write |" in told
    assert "The stores are alike." in told
