"""Console sessions of the docs: the commands, their output, and the parts that vary."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `make newcomer` has nothing installed beforehand
    import pytest

DOCS = Path(__file__).parents[2] / "docs"
TOOLS = ("bash", "cat", "cp", "env", "mv", "psql", "sed")
"""The programs that pages need beside the command itself; `make newcomer` has no others."""
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"^\$ (.*? <<END\n(?:.*\n)*?END|.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
_VARIES = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "TIME"),
    (r"((?: +\d+){5}) +\d+\.\d\d$", r"\1 SECONDS"),  # behind the figures of a stage
    (r"((?: +\d+){3}) +\d+\.\d+(?=$| )", r"\1 SECONDS"),  # behind those of a database's table
    (r"^(ok|failed|not needed) +(\S+(?: \S+)*)   .*", r"\1 \2"),  # what doctor found
    (r"^ *what +found +mend$", "what found mend"),
    (r"─+$", "───"),
)


@dataclass(frozen=True)
class Command:
    """What is typed, and what the page shows below it."""

    line: str
    shown: str


def commands(page: str) -> list[Command]:
    """The commands of a page, in order."""
    blocks = _BLOCK.findall((DOCS / f"{page}.md").read_text())
    return [Command(*found) for block in blocks for found in _COMMAND.findall(block)]


def steady(text: str) -> str:
    """A text without times, seconds behind figures, and what was found of a machine."""
    lines = [line.rstrip() for line in text.strip().splitlines()]
    for pattern, word in _VARIES:
        lines = [re.sub(pattern, word, line) for line in lines]
    return "\n".join(lines)


def printed(
    page: str, deltaproduce: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Command, str]]:
    """Carries the commands of a page out in the current folder; yields what each prints.

    Args:
        deltaproduce: calls the command in this process, and returns what it prints.
    """
    for command in commands(page):
        match command.line.split(maxsplit=1):
            case ["cd", folder]:
                monkeypatch.chdir(folder)
                yield command, ""
            case ["deltaproduce", args]:
                yield command, deltaproduce(*shlex.split(args))
            case [program, *_]:
                assert program in TOOLS, f"add it to TOOLS: {command.line}"
                shell = ["bash", "-c", command.line]
                yield command, subprocess.check_output(shell, text=True, env=os.environ)
