"""A project in a folder of its own, with the command in this process; nothing starts Java."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from deltaproduce.cli.app import app

Call = Callable[..., Result]


@pytest.fixture(autouse=True)
def own_modules() -> Iterator[None]:
    """Modules of a project are forgotten after a test: the next has others of the same name."""
    path, modules = [*sys.path], {*sys.modules}
    yield
    for name in {*sys.modules} - modules:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if "pytest" in file and "site-packages" not in file:
            del sys.modules[name]
    sys.path[:] = path


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Call:
    """Calls the command; with an exit code that it must have, 0 unless another is given."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")

    def called(*args: object, code: int = 0) -> Result:
        result = CliRunner().invoke(app, [str(one) for one in args])
        assert result.exit_code == code, (args, result.output, result.exception)
        return result

    return called


@pytest.fixture
def asked(call: Call) -> Callable[..., Any]:
    """Calls the command with ``--json``, and returns what that prints."""

    def called(*args: object, code: int = 0) -> Any:
        return json.loads(call(*args, "--json", code=code).stdout)

    return called


@pytest.fixture
def project(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sample project; its folder is the current directory."""
    call("init", tmp_path / "shop")
    monkeypatch.chdir(tmp_path / "shop")
    return tmp_path / "shop"
