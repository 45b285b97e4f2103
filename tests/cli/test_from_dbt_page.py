"""The page on dbt: its commands print what it shows, of a project in `examples`, without dbt."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from consoles import DOCS, printed, steady

EXAMPLE = DOCS.parent / "examples" / "dbt_cafe"


def test_commands_print_what_the_page_shows(
    call: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "deltaproduce" / "examples" / "dbt_cafe")
    monkeypatch.chdir(tmp_path)
    done = list(printed("from-dbt", lambda *args: call(*args).stdout, monkeypatch))
    assert len(done) == 12
    for command, said in done:
        assert steady(said) == steady(command.shown), command.line


def test_the_unit_test_of_the_page_passes() -> None:
    text = (DOCS / "from-dbt.md").read_text()
    (code,) = re.findall(r"^```py\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    exec(code, names)
    names["test_orders_are_counted"]()


def test_the_manifest_is_that_of_the_projects_files() -> None:
    """Whoever edits a model records the manifest again: `tests/cli/dbt_projects/record.py`."""
    manifest = (EXAMPLE / "target" / "manifest.json").read_text()
    for model in (EXAMPLE / "models").glob("*.sql"):
        lines = model.read_text().strip().splitlines()
        assert all(json.dumps(line)[1:-1] in manifest for line in lines), model.name
