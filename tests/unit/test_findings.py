"""What a repair does about which damage, decided from the findings alone."""

import pickle

import pytest

from deltaproduce.operations.verifying.findings import Finding, RepairAction


def mend(*wrong, runs=False, is_source=False):
    findings = [Finding("leaf", table, what, "wrong") for table, what in wrong]
    return RepairAction.of(findings, runs=runs, is_source=is_source)


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


def test_runs_that_are_lost_matter_if_rows_are_in_them():
    assert mend(("runs", "gone"), runs=True).rows == "feeders"
    assert mend(("runs", "gone")).rows == "kept"
    assert mend(("runs", "gone")).runs_lost
    assert not mend(("runs", "foreign"), runs=True).runs_lost


def test_a_finding_can_be_pickled():
    finding = Finding("leaf", "content", "rows", "3 rows, and the version has 4")
    assert pickle.loads(pickle.dumps(finding)) == finding
