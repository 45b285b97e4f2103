"""A cluster: the core suite passes in a session of Spark standalone, in a separate process."""

import os
import subprocess
import sys
from pathlib import Path

from conftest import QUICK_JAVA

ROOT = Path(__file__).parents[2]

SECONDS = 5_400
"""Beyond what the suite takes beside other work: only one that hangs is cut off."""


def test_the_core_suite_passes_on_a_cluster(long_run: bool, tmp_path: Path) -> None:
    suite = ROOT / "tests" / "cluster" / "core.py"
    without = ("-p", "no:cacheprovider", "-p", "no:xdist")
    said = tmp_path / "said"  # a file, so that it can be read while the suite runs
    with said.open("w") as out:
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-v", *without, suite, *["--long"] * long_run],
            cwd=ROOT,
            env={**os.environ, **QUICK_JAVA, "PYTHONPATH": str(ROOT)},
            stdout=out,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
        )
    assert ran.returncode == 0, said.read_text()
