"""Text from rows and names prints as it is, and never controls a terminal."""

import pytest

from deltaproduce.cli.answers.answer import Answer
from deltaproduce.cli.answers.console import print_answer, print_error
from deltaproduce.shown.table import Table

HOSTILE = "[red]\x1b[31m\x9b\ud800\u202e"
ANSWER = Answer(
    {HOSTILE: HOSTILE},
    (HOSTILE + "\nnext line", Table(HOSTILE, (HOSTILE, "n"), ((HOSTILE, 1234), (None, 5)))),
)


@pytest.mark.parametrize("as_json", [True, False])
def test_nothing_drives_a_terminal(capsys, as_json):
    print_answer(ANSWER, as_json=as_json)
    print_error(HOSTILE + "\nerror: of another")
    out, err = capsys.readouterr()
    assert all(character == "\n" or character.isprintable() for character in out + err)
    assert "[red]" in out  # it is no markup
    assert err.count("\n") == 1


def test_numbers_are_set_to_the_right(capsys):
    print_answer(Answer(None, (Table("", ("a", "n"), (("x", 1234), (None, 5))),)), as_json=False)
    assert capsys.readouterr().out.splitlines()[2:] == ["x   1,234", "        5"]
