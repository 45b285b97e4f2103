"""Since when updates say all, which older versions there are no more, and figures as text."""

from dataclasses import replace

import pytest

from deltaproduce import NotFoundError
from deltaproduce.versions import (
    EMPTY,
    StageFigures,
    Version,
    check_there,
    figures_from_json,
    figures_of,
    figures_to_json,
    told_since,
)

FIGURES = StageFigures("seek", delta_versions={"content": 3, "updates": 4}, key="k int")


def versions(*found, first=1):
    return [
        Version(number, None, "update", None, {} if figures is None else {"leaf": figures})
        for number, figures in enumerate(found, first)
    ]


@pytest.mark.parametrize(
    ("figures", "first", "since"),
    [
        ([FIGURES, FIGURES], 1, (1, True)),
        ([FIGURES, FIGURES], 5, (5, False)),
        ([None, FIGURES], 5, (6, True)),
        ([replace(FIGURES, key="k string"), FIGURES], 5, (6, True)),
        ([FIGURES, None, FIGURES, FIGURES], 5, (7, True)),
        ([FIGURES, replace(FIGURES, begun=6), replace(FIGURES, begun=6)], 5, (6, True)),
        ([StageFigures("skipped"), FIGURES], 5, (6, True)),
    ],
)
def test_updates_say_all_since_they_were_begun(figures, first, since):
    assert told_since(versions(*figures, first=first), "leaf") == since


def test_older_versions_of_a_table_that_was_made_anew_are_refused():
    old, new = versions(FIGURES, replace(FIGURES, remade={"content": 2}))
    check_there(new, old, ["leaf", "none"], "updates")
    check_there(new, new, ["leaf"], "content")
    check_there(new, EMPTY, ["leaf"], "content")
    with pytest.raises(NotFoundError):
        check_there(new, old, ["leaf"], "updates", "content")


@pytest.mark.parametrize(
    "wrong",
    [
        {"delta_versions": {"content": "0; DROP TABLE x"}},
        {"delta_versions": {"content": True}},
        {"delta_versions": [1]},
        {"added": {"content": 1.5}},
        {"folded": "1"},
        {"runs": None},
        {"seconds": "0"},
        {"table": 1},
        {"mode": ["merge"]},
    ],
    ids=str,
)
def test_figures_of_other_types_are_none(wrong: dict[str, object]) -> None:
    """They are read from a table, and delta versions go into statements."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        figures_of({"mode": "merge", **wrong})


def test_figures_of_a_later_release_are_passed_over() -> None:
    found = figures_of({"mode": "merge", "seconds": 1, "surrogate": None, "of_later": {"x": "y"}})
    assert (found.mode, found.seconds) == ("merge", 1)
    assert figures_from_json(figures_to_json({"a": found})) == {"a": found}
