"""A process killed at any fail point or in any effect leaves one whole version.

No side has a session, so a kill takes a second. `tests/spark` kills processes with Spark, and
processes of one engine where the other goes on. In a long run some stores have moving windows over
a source that keeps some days: a version records the place of a window and the existing days like
any row.
"""

from pathlib import Path

import pytest
from crashing import FACTOR, MOVES, OPERATIONS
from killing import Stores, all_cases, as_table, killed, some_cases
from limiting import limited

HERE = {**OPERATIONS, **MOVES}


@pytest.mark.parametrize("which", ["some", pytest.param("all", marks=pytest.mark.long)])
def test_killed_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    limited(monkeypatch, small_table_rows=0, replaced_percent=900)
    monkeypatch.setattr("deltaproduce.operations.publisher._WRITERS", 1)
    FACTOR[0] = 1
    stores = Stores(None, tmp_path, None)
    if which == "some":
        wanted, least = some_cases(OPERATIONS), 2 * len(OPERATIONS)
    else:
        wanted, least = all_cases(stores, HERE), 200
    outcomes = [*killed(stores, wanted, at_once=20)]
    print(f"\n\n{as_table(outcomes)}\n")
    assert len(outcomes) >= least
    assert not [outcome for outcome in outcomes if outcome.is_wrong]
