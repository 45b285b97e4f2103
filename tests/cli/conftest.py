"""A project in a folder of its own, with the command in this process; nothing starts Java."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from calling import called, forgotten_modules
from typer.testing import Result

Call = Callable[..., Result]


@pytest.fixture(autouse=True)
def own_modules() -> Iterator[None]:
    """Each test has modules of its own."""
    with forgotten_modules():
        yield


@pytest.fixture
def project_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Mapping[str, str]], Path]:
    """Writes the files of a project, their texts by path, and goes into its folder."""

    def written(files: Mapping[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        monkeypatch.chdir(tmp_path)
        return tmp_path

    return written


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Call:
    """Calls the command; with an exit code that it must have, 0 unless another is given."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    return called


@pytest.fixture
def asked(call: Call) -> Callable[..., Any]:
    """Calls the command with ``--json``, and returns what that prints."""

    def answered(*args: object, code: int = 0) -> Any:
        return json.loads(call(*args, "--json", code=code).stdout)

    return answered


@pytest.fixture
def project(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sample project; its folder is the current directory."""
    call("init", tmp_path / "shop")
    monkeypatch.chdir(tmp_path / "shop")
    return tmp_path / "shop"


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample project after its first run, to be copied."""
    folder = tmp_path_factory.mktemp("original") / "shop"
    with forgotten_modules(), pytest.MonkeyPatch.context() as patched:
        called("init", folder)
        patched.chdir(folder)
        called("run")
    return folder


@pytest.fixture
def ran(original: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sample project after its first run; its folder is the current directory."""
    folder = Path(shutil.copytree(original, tmp_path / "shop"))
    monkeypatch.chdir(folder)
    return folder
