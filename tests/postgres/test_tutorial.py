"""The tutorial: its commands print, in order, what it shows; its code is the sample's."""

import re
import sys
from pathlib import Path

import pytest
from consoles import DOCS, printed, steady
from typer.testing import CliRunner

from deltaproduce.cli.app import application
from deltaproduce.cli.examination import checkup


def test_commands_print_what_the_tutorial_shows(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(*args: str) -> str:
        sys.modules.pop("pipeline", None)  # which the tutorial edits
        result = CliRunner().invoke(application(args), args)
        assert result.exit_code == 0, (args, result.output, result.exception)
        return result.stdout

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", address)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))  # where there is none
    absent = dict.fromkeys(("pyspark", "delta-spark", "pandas"))  # there without an extra
    monkeypatch.setattr(checkup, "find_spec", lambda name: None)
    installed = checkup._installed
    monkeypatch.setattr(
        checkup, "_installed", lambda name: None if name in absent else installed(name)
    )
    done = list(printed("tutorial", call, monkeypatch))
    del sys.modules["pipeline"]  # other tests have another one
    for command, said in done:
        assert steady(said) == steady(command.shown), command.line
    (code,) = re.findall(r"^```py\n(.*?)^```", (DOCS / "tutorial.md").read_text(), re.S | re.M)
    assert code in (tmp_path / "shop" / "pipeline.py").read_text()
    verbs = {command.line.split()[1] for command, _ in done if command.line[:5] == "delta"}
    assert verbs >= {"init", "plan", "run", "updates", "diff", "report", "sync", "doctor"}
