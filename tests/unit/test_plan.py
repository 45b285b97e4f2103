"""What an update looks at, and why: decided without Spark."""

from dataclasses import replace

import pytest

from deltaproduce.errors import CorruptStoreError, DefinitionError, NotFoundError
from deltaproduce.fingerprints import Fingerprint, fingerprint
from deltaproduce.pipeline import Pipeline
from deltaproduce.plan import plan
from deltaproduce.recovery import action
from deltaproduce.versions import (
    EMPTY,
    Commit,
    StageFigures,
    Version,
    figures_from_json,
    figures_to_json,
    find,
)

pipeline = Pipeline("tree")
left = pipeline.source("left", key="k int", value="v int")
right = pipeline.source("right", key="k int", value="v int")


@pipeline.producer(left, key="k int", value="v int")
def middle(k, values):
    yield from ((k, v) for v in values)


@pipeline.producer(middle, key="k int", value="v int")
def leaf(k, values):
    yield from ((k, v) for v in values)


@pipeline.producer(right, key="k int", value="v int")
def other(k, values):
    yield from ((k, v) for v in values)


GRAPH = pipeline.graph()
DEFINITIONS = {stage.name: fingerprint(stage) for stage in GRAPH.stages}
TABLES = {"content": 0, "updates": 0}


def head(*with_tables: str) -> Version:
    stages = {
        stage.name: StageFigures("full", delta_versions=TABLES if stage.name in with_tables else {})
        for stage in GRAPH.stages
    }
    return Version(1, None, "update", None, stages, DEFINITIONS)


def planned(version, definitions=DEFINITIONS, **options):
    return {step.stage.name: step.how for step in plan(GRAPH, version, definitions, **options)}


EVERYTHING = head("left", "right", "middle", "leaf", "other")


def test_the_first_version_makes_what_is_reached():
    expected = {"left": "changes", "middle": "full", "leaf": "full"}
    assert planned(EMPTY, given=["left"]) == expected


def test_later_versions_are_incremental_downstream_of_the_changes():
    assert planned(EVERYTHING, given=["right"]) == {"right": "changes", "other": "incremental"}
    assert planned(EVERYTHING, given=["left"]) == {
        "left": "changes",
        "middle": "incremental",
        "leaf": "incremental",
    }
    assert planned(EVERYTHING) == {}


def test_a_new_stage_is_made_from_what_its_feeder_has():
    assert planned(head("left", "right", "middle", "other")) == {"leaf": "full"}


def test_a_refresh_is_full_and_reaches_what_follows():
    assert planned(EVERYTHING, refreshed=["middle"]) == {"middle": "full", "leaf": "incremental"}


def test_a_changed_function_is_noticed_and_says_so():
    edited = {**DEFINITIONS, "middle": replace(DEFINITIONS["middle"], function="edited")}
    assert planned(EVERYTHING, edited) == {"middle": "full", "leaf": "incremental"}
    steps = plan(GRAPH, EVERYTHING, edited)
    assert "function" in steps[0].reason


def test_a_changed_layout_is_refused_unless_there_are_no_tables():
    widened = {**DEFINITIONS, "leaf": Fingerprint("other columns", DEFINITIONS["leaf"].function)}
    with pytest.raises(DefinitionError) as refused:
        planned(EVERYTHING, widened, given=["left"])
    assert refused.value.stage == "leaf"
    assert planned(head("left", "middle"), widened)["leaf"] == "full"


@pytest.mark.parametrize(
    ("pinned", "newest", "expected"),
    [(None, None, "build"), (None, 3, "build"), (4, 4, "write"), (4, 6, "restore")],
)
def test_what_a_table_needs_before_it_is_written(pinned, newest, expected):
    commits = [] if newest is None else [Commit(newest, "someone")]
    assert action("leaf/content", pinned, commits) == expected


@pytest.mark.parametrize("newest", [None, 2])
def test_a_table_that_is_gone_or_older_is_corrupt(newest):
    commits = [] if newest is None else [Commit(newest, None)]
    with pytest.raises(CorruptStoreError) as found:
        action("leaf/content", 3, commits)
    assert found.value.table == "leaf/content"


def test_versions_are_found_by_number():
    assert find([EVERYTHING], 1) is EVERYTHING
    assert find([], 0) is EMPTY
    for missing in (-1, 2):
        with pytest.raises(NotFoundError):
            find([EVERYTHING], missing)


def test_figures_survive_the_log_and_later_fields():
    figures = {"leaf": StageFigures("seek", "few keys", 3, 2, 1, 1, 9, 0.25, TABLES)}
    text = figures_to_json(figures)
    assert figures_from_json(text) == figures
    assert figures_from_json(text.replace('"mode"', '"later": 1, "mode"')) == figures
    assert figures["leaf"].carried() == StageFigures(
        "skipped", "not reached", rows=9, delta_versions=TABLES
    )
