"""A process that is killed, at any fail point or in any effect, leaves one whole version.

Without a session on both sides, which takes a second for a kill; `tests/spark` kills processes with
Spark, and of one engine where the other goes on.
"""

from pathlib import Path

import pytest
from crashing import FACTOR, OPERATIONS
from killing import Stores, all_cases, as_table, killed, some_cases
from limiting import limited


@pytest.mark.parametrize("which", ["some", pytest.param("all", marks=pytest.mark.long)])
def test_killed_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    limited(monkeypatch, small_table_rows=0)
    monkeypatch.setattr("deltaproduce.operations.publisher._WRITERS", 1)
    FACTOR[0] = 1
    stores = Stores(None, tmp_path, None)
    wanted = some_cases(OPERATIONS) if which == "some" else all_cases(stores, OPERATIONS)
    outcomes = [*killed(stores, wanted, at_once=20)]
    print(f"\n\n{as_table(outcomes)}\n")
    assert len(outcomes) >= (2 * len(OPERATIONS) if which == "some" else 100)
    assert not [outcome for outcome in outcomes if outcome.is_wrong]
