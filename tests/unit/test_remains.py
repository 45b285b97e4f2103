"""The places where a forgotten key can still be read, decided from versions and figures alone."""

import pytest

from deltaproduce.reading.remains import Remaining, alive_in, remains
from deltaproduce.storage.figures import Base, StageFigures
from deltaproduce.storage.versions import Version

TABLES = {"content": 0, "key_mappings": 0, "updates": 0}


def version(number, stages):
    return Version(number, None, "update", None, stages)


def figures(*, runs=0, folded=0, tables=TABLES):
    return StageFigures("seek", delta_versions=tables, base=Base(runs=runs, folded=folded))


def versions(*found):
    return [version(number, {"totals": stage}) for number, stage in enumerate(found, start=1)]


def remaining(found, alive):
    return {r.table: r.versions for r in remains(found, ["totals"], alive)}


@pytest.mark.parametrize(
    ("changes", "alive"),
    [
        ({}, set()),
        ({2: True}, {2, 3, 4}),
        ({1: True, 2: True, 3: False}, {1, 2}),
        ({1: True, 2: False, 4: True}, {1, 4}),
    ],
)
def test_a_key_is_alive_from_the_version_that_adds_it_to_the_one_that_deletes_it(changes, alive):
    assert alive_in(versions(*[figures()] * 4), changes) == alive


def test_copies_are_as_old_as_their_version_and_updates_are_kept():
    found = remaining(versions(*[figures()] * 4), {2, 3})
    assert found == {"content": (2, 3), "key_mappings": (2, 3), "updates": (2, 3, 4)}


def test_a_table_with_runs_beside_it_is_as_old_as_it_was_folded():
    with_runs = {**TABLES, "runs": 0}
    found = versions(
        figures(folded=1),
        figures(folded=1, runs=1, tables=with_runs),  # deletes the key
        figures(folded=1, runs=2, tables=with_runs),
        figures(folded=3, tables=with_runs),
    )
    assert remaining(found, {1}) == {
        "content": (1, 2, 3),
        "key_mappings": (1, 2, 3),
        "updates": (1, 2, 3, 4),
        "runs": (2, 3, 4),
    }


def test_a_stage_that_came_after_the_key_has_nothing_of_it():
    found = versions(figures(tables={}), figures(tables={}), figures(), figures())
    assert remaining(found, {1}) == {}
    assert remaining(found, {1, 2, 3}) == {
        "content": (3,),
        "key_mappings": (3,),
        "updates": (3, 4),
    }


def test_stages_are_named_in_order_and_unknown_ones_left_out():
    found = [version(1, {"a": figures(), "b": figures()})]
    assert remains(found, ["b", "a", "c"], {1})[::3] == (
        Remaining("b", "content", (1,)),
        Remaining("a", "content", (1,)),
    )
    assert remains(found, ["a"], set()) == ()
