"""Spark Connect: the core suite passes in a server's session, in a separate process."""

import os
import subprocess
import sys
from pathlib import Path

from conftest import QUICK_JAVA

ROOT = Path(__file__).parents[2]


IN_A_SHORT_RUN = ("-k", "session_is or views_show")
"""Two versions, written and read."""
SECONDS = 5_400
"""Beyond what the suite takes beside other work: only one that hangs is cut off."""


def test_the_core_suite_passes_by_connect(long_run: bool, tmp_path: Path) -> None:
    suite = ROOT / "tests" / "connect" / "core.py"
    some = () if long_run else IN_A_SHORT_RUN
    without = ("-p", "no:cacheprovider", "-p", "no:xdist")
    said = tmp_path / "said"  # a file, so that it can be read while the suite runs
    with said.open("w") as out:
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-v", *without, suite, *some],
            cwd=ROOT,
            env={**os.environ, **QUICK_JAVA, "PYTHONPATH": str(ROOT)},
            stdout=out,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
        )
    assert ran.returncode == 0, said.read_text()
