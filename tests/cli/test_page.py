"""The docs page on the command line: its commands print what it shows; its project file works."""

import re

from consoles import DOCS, printed, steady

from deltaproduce.cli.verbs import VERBS
from deltaproduce.projects.file import parsed

PAGE = (DOCS / "command-line.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_commands_print_what_the_page_shows(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = list(printed("command-line", lambda *args: call(*args).stdout, monkeypatch))
    assert len(done) == 13
    for command, said in done:
        assert steady(said) == steady(command.shown), command.line


def test_the_project_file_is_read(tmp_path):
    (text,) = blocks("toml")
    file = parsed(text.replace('engine = "local" ', 'engine = "spark" '), tmp_path)
    assert file.spark["spark.sql.session.timeZone"] == "UTC"
    assert file.inputs["orders"].mode == "changes"


def test_all_verbs_are_on_the_page():
    told = set(re.findall(r"^\| `([a-z]+)", PAGE, re.MULTILINE))
    assert told >= {verb.__name__ for verbs in VERBS.values() for verb in verbs}
