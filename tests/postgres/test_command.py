"""The command syncs a project's store and reports the result."""

import json
from pathlib import Path

import pytest
from copies import rows
from typer.testing import CliRunner

from deltaproduce.cli.app import application


def test_the_command_syncs_a_project(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def called(*args: str) -> str:
        result = CliRunner().invoke(application(args), args)
        assert result.exit_code == 0, result.output
        return result.stdout

    called("init", str(tmp_path / "shop"))
    monkeypatch.chdir(tmp_path / "shop")
    called("run")
    found = json.loads(called("sync", "--to", address, "orders", "--json"))
    assert (found["version"], [table["table"] for table in found["tables"]]) == (1, ["orders"])
    assert found["tables"][0]["rows"] == len(rows(address, "orders")) > 0
    assert "all of version 1" in called("sync", "--to", address)
