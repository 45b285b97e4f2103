"""The output on the PostgreSQL page is what its code prints."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "postgres.md"


def test_the_page_prints_what_it_shows(
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", address)
    names = {"__name__": "__main__"}
    blocks = re.findall(r"^```([^`\n]*)\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    for (language, code), (_, shown) in zip(blocks[::2], blocks[1::2], strict=True):
        assert language == "python"
        exec(code, names)
        assert capsys.readouterr().out == shown
