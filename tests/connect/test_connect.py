"""Spark Connect: the core suite passes in a server's session, in a separate process."""

import os
import subprocess
import sys
from pathlib import Path

from conftest import QUICK_JAVA

ROOT = Path(__file__).parents[2]


IN_A_SHORT_RUN = ("-k", "session_is or views_show")
"""Two versions, written and read."""


def test_the_core_suite_passes_by_connect(long_run: bool) -> None:
    suite = ROOT / "tests" / "connect" / "core.py"
    some = () if long_run else IN_A_SHORT_RUN
    without = ("-p", "no:cacheprovider", "-p", "no:xdist")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *without, suite, *some],
        cwd=ROOT,
        env={**os.environ, **QUICK_JAVA, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=1_500,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
