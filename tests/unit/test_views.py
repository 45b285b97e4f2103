"""Views, as far as they are decided without a catalog."""

from dataclasses import replace

import pytest

from deltaproduce.operations.views import SqlView, faults, superseded
from deltaproduce.storage.figures import StageFigures
from deltaproduce.storage.versions import EMPTY


def head_of(*stages: str):
    return replace(EMPTY, number=3, stages={stage: StageFigures("full") for stage in stages})


@pytest.mark.parametrize("view", [SqlView("totals", None, "d"), SqlView("totals", 12, "d")])
def test_properties_say_what_a_view_shows(view):
    told = view.properties("/lake")
    assert SqlView.parse(told, "/lake") == view
    assert SqlView.parse(told, "/other") is None
    for name in told:
        assert SqlView.parse({**told, name: "x"}, "/lake") != view
        without = {other: value for other, value in told.items() if other != name}
        assert SqlView.parse(without, "/lake") != view
    assert SqlView.parse({}, "/lake") is None


def test_names_of_views():
    assert [SqlView("totals", None).name, SqlView("totals", 0).name] == ["totals", "totals__at_0"]


def test_stages_that_cannot_have_a_view():
    assert faults(["orders", "by_customer", "a__at_b", "at_3"]) == {}
    names = ["a b", "a-b", "ü", "a__at_3", "a__AT_3"]
    assert list(faults(["total", *names])) == names


def test_views_of_stages_and_versions_that_are_gone_go():
    head = head_of("orders", "elsewhere")
    shown, at = SqlView("orders", None), SqlView("orders", 2)
    found = [shown, at, SqlView("gone", None), SqlView("gone", 2), SqlView("elsewhere", None)]
    wanted = [SqlView("orders", None, "new")]
    assert superseded(found, wanted, head) == [at, SqlView("gone", None), SqlView("gone", 2)]
    assert superseded(found, [*wanted, at], head) == [SqlView("gone", None), SqlView("gone", 2)]
