"""What is kept of an attempt that stopped, decided from the histories of tables alone."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from deltaproduce.storage.attempts import Attempt, AttemptPart, Commit
from deltaproduce.storage.decisions.resumption import NOTHING_KEPT, resumption
from deltaproduce.storage.figures import StageFigures
from deltaproduce.storage.versions import Version

STAGES = ("orders", "totals", "bands")
KINDS = ("content", "updates")
PINNED = {"content": 4, "updates": 7}
HEAD = Version(
    3, None, "update", None, {name: StageFigures("seek", delta_versions=PINNED) for name in STAGES}
)
GIVEN = "a digest"
FIGURES = StageFigures("seek", changed_keys=2, delta_versions=PINNED)


def attempt(id="first", given=GIVEN, version=4):
    return Attempt(id, version, started_at=datetime(2026, 1, 1, tzinfo=UTC), given=given)


def made(stage, complete, by=None, kinds=KINDS, stages=STAGES):
    """A stage's histories after an attempt has committed to ``kinds`` of its tables."""
    before = {name: {kind: PINNED[kind] + 1 for kind in KINDS} for name in complete}
    part = AttemptPart(stages, before, KINDS, FIGURES)
    told = replace(by or attempt(), part=part)
    pinned = {kind: (Commit(PINNED[kind], None),) for kind in KINDS}
    return {
        kind: (Commit(PINNED[kind] + 1, told), *pinned[kind]) if kind in kinds else pinned[kind]
        for kind in KINDS
    }


def kept(**histories):
    return list(resumption(HEAD, GIVEN, histories).kept)


def test_complete_stages_are_kept_up_to_the_first_that_is_not():
    orders, totals = made("orders", []), made("totals", ["orders"])
    bands = made("bands", ["orders", "totals"])
    half = made("totals", ["orders"], kinds=["content"])
    assert kept(orders=orders, totals=totals, bands=bands) == ["orders", "totals", "bands"]
    assert kept(orders=orders, totals=totals, bands={}) == ["orders", "totals"]
    assert kept(orders=orders, totals=half, bands={}) == ["orders"]
    assert kept(orders=orders, totals=half, bands=bands) == ["orders"]
    assert kept(orders={}, totals=totals, bands=bands) == []


def test_the_figures_have_the_delta_versions_of_its_commits():
    found = resumption(HEAD, GIVEN, {"orders": made("orders", [])})
    assert found.kept["orders"].figures == replace(
        FIGURES, delta_versions={"content": 5, "updates": 8}
    )
    assert found.changed == set(STAGES)


@pytest.mark.parametrize("by", [attempt(given="other"), attempt(given=None), attempt(version=5)])
def test_another_task_keeps_nothing(by):
    assert resumption(HEAD, GIVEN, {"orders": made("orders", [], by)}) == NOTHING_KEPT


def test_a_stage_that_two_attempts_wrote_is_not_kept():
    one, other = made("orders", []), made("orders", [], attempt("second"))
    assert kept(orders={"content": one["content"], "updates": other["updates"]}) == []


def test_a_table_that_moved_since_is_not_kept():
    orders = made("orders", [])
    moved = {
        kind: (Commit(found[0].delta_version + 1, None), *found) for kind, found in orders.items()
    }
    assert kept(orders={**orders, "content": moved["content"]}) == []
    arranged = Commit(6, None, "OPTIMIZE")
    assert kept(orders={**orders, "content": (arranged, *orders["content"])}) == ["orders"]


def test_a_stage_made_from_what_is_there_no_more_is_not_kept():
    again = made("orders", [], attempt("second"))
    again["content"] = (Commit(7, again["content"][0].attempt), Commit(6, None), Commit(4, None))
    assert kept(orders=again, totals=made("totals", ["orders"])) == []


def test_an_attempt_that_carried_on_is_carried_on():
    second = attempt("second")
    histories = {
        "orders": made("orders", []),
        "totals": made("totals", ["orders"], second),
        "bands": made("bands", ["orders", "totals"], second, kinds=["updates"]),
    }
    assert kept(**histories) == ["orders", "totals"]


def test_functions_are_not_run_again_for_what_is_kept_or_did_not_change():
    stages = ("orders", "totals")
    histories = {
        "orders": made("orders", [], stages=stages),
        "totals": made("totals", ["orders"], stages=stages),
    }
    found = resumption(HEAD, GIVEN, histories)
    producers = {"totals": [], "unchanged": [], "more": ["totals", "unchanged"]}
    assert found.settled(producers) == {"totals", "unchanged", "more"}
    part = resumption(HEAD, GIVEN, {"orders": histories["orders"]})
    assert part.settled(producers) == {"unchanged"}
    assert NOTHING_KEPT.settled(producers) == frozenset()


def test_an_attempt_says_all_of_it_in_its_metadata():
    told = replace(attempt(), part=AttemptPart(STAGES, {"orders": {"content": 5}}, KINDS, FIGURES))
    found = Attempt.parse(told.metadata("totals/content"))
    assert (found, found.part, found.given, found.started_at) == (
        told,
        told.part,
        told.given,
        told.started_at,
    )
    assert Attempt.parse('{"not": "ours"}') is None
