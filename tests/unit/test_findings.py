"""A repair's response to each kind of damage, decided from the findings alone."""

import pickle
from dataclasses import replace

import pytest

from deltaproduce.operations.verifying.findings import Finding, RepairAction


def mend(*wrong, runs=False, is_source=False, by_tasks=False):
    findings = [Finding("leaf", table, what, "wrong") for table, what in wrong]
    return RepairAction.of(findings, runs=runs, is_source=is_source, by_tasks=by_tasks)


@pytest.mark.parametrize(
    ("wrong", "rows", "before", "begins"),
    [
        ([("content", "foreign")], "kept", "content", False),
        ([("content", "unreadable")], "feeders", "updates", False),
        ([("content", "rows")], "feeders", "updates", False),
        ([("content", "recomputed")], "feeders", "updates", False),
        ([("content", "order")], "content", "content", False),
        ([("key_mappings", "pairs")], "content", "content", False),
        ([("key_mappings", "gone")], "content", "content", False),
        ([("key_mappings", "foreign")], "kept", "content", False),
        ([("updates", "foreign")], "kept", "content", False),
        ([("updates", "gone")], "kept", "content", True),
        ([("updates", "steps")], "kept", "content", True),
        ([("updates", "fold")], "feeders", "updates", False),
        ([("updates", "unreadable"), ("content", "gone")], "feeders", "nothing", True),
        ([("runs", "unreadable")], "kept", "content", False),
    ],
)
def test_what_is_done_about_a_stage(wrong, rows, before, begins):
    found = mend(*wrong)
    assert (found.rows, found.before, found.begins) == (rows, before, begins)
    assert found.set_back == tuple(table for table, what in wrong if what == "foreign")
    assert found.remade == tuple(table for table, what in wrong if what == "gone")


def test_the_rows_of_a_source_are_in_its_updates_or_nowhere():
    assert mend(("content", "unreadable"), is_source=True).rows == "updates"
    assert mend(("updates", "fold"), is_source=True).rows == "content"
    lost = mend(("content", "gone"), ("updates", "gone"), is_source=True)
    assert (lost.rows, lost.before, lost.begins) == ("updates", "nothing", True)
    whole = mend(("content", "gone"), is_source=True)
    assert whole.before == "updates"
    assert whole.without_updates() == mend(("content", "gone"), is_source=True).without_updates()
    assert whole.without_updates().begins


def test_the_rows_that_tasks_made_are_in_the_updates_or_made_again_by_tasks():
    for what in ("gone", "unreadable", "rows"):
        assert mend(("content", what), by_tasks=True).rows == "updates"
    assert mend(("runs", "gone"), runs=True, by_tasks=True).rows == "updates"
    assert mend(("updates", "gone"), by_tasks=True).rows == "kept"
    assert mend(("updates", "fold"), by_tasks=True).rows == "none"
    whole = RepairAction.rebuild(None)
    assert (whole.rows, whole.before, whole.begins) == ("none", "content", False)
    lost = mend(("content", "gone"), ("updates", "gone"), by_tasks=True)
    assert RepairAction.rebuild(lost) == replace(lost, rows="none")


def test_runs_that_are_lost_matter_if_rows_are_in_them():
    assert mend(("runs", "gone"), runs=True).rows == "feeders"
    assert mend(("runs", "gone")).rows == "kept"
    assert mend(("runs", "gone")).runs_lost
    assert not mend(("runs", "foreign"), runs=True).runs_lost


def test_a_finding_can_be_pickled():
    finding = Finding("leaf", "content", "rows", "3 rows, and the version has 4")
    assert pickle.loads(pickle.dumps(finding)) == finding
