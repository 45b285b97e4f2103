"""The code of the README, which starts Spark, in a process of its own.

It is no test of `tests/spark`: the process that has their session would only wait for it.
"""

from pathlib import Path

from conftest import one_at_a_time
from test_documentation import README, fences, run_in_new_process


def test_the_readme_works_as_pasted_and_again_in_another_process(
    tmp_path: Path, long_run: bool
) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    shown = [block for language, block in fences(README) if language == ""]
    assert any(block.startswith("+--") for block in shown)
    for _ in range(2 if long_run else 1):
        with one_at_a_time():
            printed = run_in_new_process(README, tmp_path / "pasted.py", folder)
        assert all(block in printed for block in shown if not block.startswith(("pip", "make")))
    assert {path.name for path in folder.iterdir()} <= {"lake", "spark-warehouse"}
    assert (folder / "lake" / "library" / "_versions").is_dir()
