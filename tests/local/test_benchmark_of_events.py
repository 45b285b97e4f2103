"""The benchmark of histories runs without a session, and compares them with DuckDB's."""

from pathlib import Path

import pytest

from benchmarks import events


def test_histories_are_those_that_duckdb_computes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--rows", "2000", "--new", "50", "--steps", "2", "--directory", str(tmp_path)]
    assert events.main(given) == 0
    told = capsys.readouterr().out
    assert "The history of 2,000 events, 50 new ones a step" in told
    assert told.count("| yes |") == 2
