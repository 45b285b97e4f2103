"""The page on the command line: its commands print what it shows, and its project file is one."""

import re
import shlex
from pathlib import Path

from deltaproduce.cli.project.file import parsed
from deltaproduce.cli.verbs import VERBS

PAGE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
COMMAND = re.compile(r"^\$ (.*? <<END\n(?:.*\n)*?END|.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
VARIES = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "TIME"),
    (r"((?: +\d+){5}) +\d+\.\d\d$", r"\1 SECONDS"),
)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def steady(text: str) -> str:
    """A text without what differs each time: times, and seconds behind figures."""
    lines = [line.rstrip() for line in text.splitlines()]
    for pattern, word in VARIES:
        lines = [re.sub(pattern, word, line) for line in lines]
    return "\n".join(lines)


def test_commands_print_what_the_page_shows(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = [found for block in blocks("console") for found in COMMAND.findall(block)]
    assert len(commands) == 13
    for line, shown in commands:
        match line.split(maxsplit=1):
            case ["cd", folder]:
                monkeypatch.chdir(folder)
            case ["cat", text]:
                head, _, rows = text.partition("\n")
                path = head.removeprefix("> ").removesuffix(" <<END")
                Path(path).write_text(rows.removesuffix("END"))
            case ["deltaproduce", args]:
                assert steady(call(*shlex.split(args)).stdout) == steady(shown), line


def test_the_project_file_is_read(tmp_path):
    (text,) = blocks("toml")
    file = parsed(text.replace('engine = "local" ', 'engine = "spark" '), tmp_path)
    assert file.spark["spark.sql.session.timeZone"] == "UTC"
    assert file.inputs["orders"].mode == "changes"


def test_all_verbs_are_on_the_page():
    told = set(re.findall(r"^\| `([a-z]+)", PAGE, re.MULTILINE))
    assert told >= {verb.__name__ for verbs in VERBS.values() for verb in verbs}
