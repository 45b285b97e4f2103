"""Plans: the stages that an update examines, and why, decided without Spark."""

from dataclasses import replace

import pytest

from deltaproduce.errors import (
    CorruptStoreError,
    DefinitionError,
    InvalidArgumentError,
    NotFoundError,
)
from deltaproduce.model.fingerprints import fingerprint
from deltaproduce.model.limits import Limits
from deltaproduce.operations.step import plan as planning
from deltaproduce.operations.step.plan import (
    Causes,
    Policy,
    Step,
    StepSize,
    compactions,
    rolled_back,
    weighed,
    writing,
)
from deltaproduce.pipeline import Pipeline
from deltaproduce.storage.attempts import Attempt, Commit
from deltaproduce.storage.decisions.recovery import action, compacted, current
from deltaproduce.storage.figures import (
    Base,
    Origin,
    StageFigures,
    figures_from_json,
    figures_of,
    figures_to_json,
)
from deltaproduce.storage.versions import EMPTY, Version, find, span, unbroken

pipeline = Pipeline("tree")
left = pipeline.source("left", key="k int", value="v int")
right = pipeline.source("right", key="k int", value="v int")

LIMITS = Limits()


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


def plan(graph, version, definitions, *, policy: Policy = "auto", **causes):
    return planning.plan(graph, version, definitions, Causes(**causes), policy)


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


def test_a_snapshot_is_a_step_of_its_source_and_says_so():
    steps = plan(GRAPH, EVERYTHING, DEFINITIONS, given=["left", "right"], snapshots=["right"])
    reasons = {step.stage.name: step.reason for step in steps if step.how == "changes"}
    assert reasons == {"left": "changes given", "right": "all rows given"}


def test_what_is_new_in_a_source_s_own_table_is_a_step_that_says_so():
    existing = Pipeline("existing")
    existing.delta_source("left", table="a/b", key="k int", value="v int")
    graph = existing.graph()
    definitions = {stage.name: fingerprint(stage) for stage in graph.stages}
    (step,) = plan(graph, EMPTY, definitions, arrived={"left": "it moved"})
    assert (step.how, step.reason) == ("changes", "it moved")
    in_place = replace(
        EVERYTHING, stages={"left": replace(EVERYTHING.stages["left"], origin=Origin("a/b"))}
    )
    assert plan(graph, in_place, definitions) == ()
    with pytest.raises(DefinitionError) as caught:  # its rows are in the store's own tables
        plan(graph, EVERYTHING, definitions)
    assert caught.value.stage == "left"
    with pytest.raises(DefinitionError) as caught:
        plan(GRAPH, in_place, DEFINITIONS)
    assert caught.value.stage == "left"


def test_a_new_stage_is_made_from_what_its_feeder_has():
    assert planned(head("left", "right", "middle", "other")) == {"leaf": "full"}


def test_a_refresh_is_full_and_reaches_what_follows():
    assert planned(EVERYTHING, refreshed=["middle"]) == {"middle": "full", "leaf": "incremental"}


@pytest.mark.parametrize(
    ("stage", "changed", "rows", "policy", "how"),
    [
        ("middle", 9 * LIMITS.full_rows, 10 * LIMITS.full_rows, "auto", "full"),
        ("middle", 9 * LIMITS.full_rows - 1, 10 * LIMITS.full_rows, "auto", "incremental"),
        ("middle", LIMITS.full_rows - 1, LIMITS.full_rows - 1, "auto", "incremental"),
        ("middle", 9 * LIMITS.full_rows, 10 * LIMITS.full_rows, "incremental", "incremental"),
        ("middle", 9 * LIMITS.full_rows, 10 * LIMITS.full_rows, "strict", "incremental"),
        ("kept", 9 * LIMITS.full_rows, 10 * LIMITS.full_rows, "auto", "incremental"),
    ],
)
def test_a_stage_is_produced_in_full_where_nearly_all_that_it_reads_changed(
    stage, changed, rows, policy, how
):
    tree = Pipeline("weighed")
    source = tree.source("left", key="k int", value="v int")
    tree.producer(source, key="k int", value="v int")(middle)
    tree.producer(
        source, key="k int", value="v int", name="kept", preserve=lambda value, example: value
    )(leaf)
    reached = Step(tree.graph().stage(stage), "incremental", "reached through left")
    found = weighed(reached, changed, rows, policy, LIMITS)
    assert found.how == how
    assert (found == reached) == (how == "incremental")
    assert how == "incremental" or "450,000 of 500,000 rows" in found.reason


def test_a_stage_that_nothing_reached_is_not_produced_in_full():
    reached = Step(GRAPH.stage("middle"), "incremental", "reached through left")
    assert weighed(reached, 0, 0, "auto", Limits(full_rows=0)) == reached


def test_a_changed_function_is_noticed_and_says_so():
    edited = {**DEFINITIONS, "middle": replace(DEFINITIONS["middle"], function="edited")}
    assert planned(EVERYTHING, edited) == {"middle": "full", "leaf": "incremental"}
    steps = plan(GRAPH, EVERYTHING, edited)
    assert "function" in steps[0].reason


def test_a_stage_that_was_rolled_back_to_nothing_is_made_again_in_full():
    before = replace(head("left", "middle"), number=1)
    now = replace(EVERYTHING, number=2)
    definitions = rolled_back(now, before)
    assert {name: definitions[name] for name in ("left", "middle")} == {
        name: DEFINITIONS[name] for name in ("left", "middle")
    }
    after = replace(now, number=3, definitions=definitions)
    assert planned(after) == {"leaf": "full", "other": "full"}
    assert planned(after, given=["left"]) == {
        "left": "changes",
        "middle": "incremental",
        "leaf": "full",
        "other": "full",
    }
    assert planned(replace(after, definitions={**definitions, **DEFINITIONS})) == {}


def test_a_rollback_brings_the_old_function_back():
    edited = {**DEFINITIONS, "middle": replace(DEFINITIONS["middle"], function="edited")}
    now = replace(EVERYTHING, number=2, definitions=edited)
    after = replace(now, number=3, definitions=rolled_back(now, EVERYTHING))
    assert planned(after) == {}
    assert planned(after, edited) == {"middle": "full", "leaf": "incremental"}


def changed_layout(name):
    return {**DEFINITIONS, name: replace(DEFINITIONS[name], layout="other columns")}


def test_a_stage_with_other_columns_is_produced_in_full():
    (step,) = plan(GRAPH, EVERYTHING, changed_layout("leaf"))
    assert (step.stage.name, step.how, step.redefined) == ("leaf", "full", True)
    (left, *_) = plan(GRAPH, head("left", "middle"), changed_layout("leaf"), given=["left"])
    assert not left.redefined


def test_a_source_with_other_columns_needs_all_its_rows():
    definitions = changed_layout("left")
    for given in ([], ["left"], ["right"]):
        with pytest.raises(DefinitionError) as refused:
            plan(GRAPH, EVERYTHING, definitions, given=given)
        assert refused.value.stage == "left"
    step, *_ = plan(GRAPH, EVERYTHING, definitions, given=["left"], snapshots=["left"])
    assert (step.stage.name, step.how, step.redefined) == ("left", "changes", True)


@pytest.mark.parametrize("changed", [{"layout": "other"}, {"function": "other"}])
def test_a_strict_policy_refuses_changed_definitions_only(changed):
    definitions = {**DEFINITIONS, "leaf": replace(DEFINITIONS["leaf"], **changed)}
    with pytest.raises(DefinitionError) as refused:
        plan(GRAPH, EVERYTHING, definitions, policy="strict")
    assert refused.value.stage == "leaf"
    assert plan(GRAPH, EVERYTHING, DEFINITIONS, policy="strict", refreshed=["leaf"])
    assert plan(GRAPH, head("left", "middle"), definitions, policy="strict")


@pytest.mark.parametrize(
    ("pinned", "newest", "expected"),
    [(None, None, "build"), (None, 3, "build"), (4, 4, "write"), (4, 6, "restore")],
)
def test_what_a_table_needs_before_it_is_written(pinned, newest, expected):
    commits = [] if newest is None else [Commit(newest, Attempt("someone", 9))]
    assert action("leaf/content", pinned, commits) == expected


def folded(delta_version, base):
    return Commit(delta_version, Attempt("fold", 7, base))


@pytest.mark.parametrize(
    ("later", "newest"),
    [
        ([], 4),
        ([folded(5, 4)], 5),
        ([folded(6, 5), folded(5, 4)], 6),
        ([folded(6, 4)], None),  # what came between is not known
        ([folded(6, 4), Commit(5, Attempt("someone", 8))], None),  # it was overtaken
        ([Commit(6, Attempt("someone", 8)), folded(5, 4)], None),
        ([Commit(5, None, "SET TBLPROPERTIES")], 5),
        ([Commit(6, Attempt("us", 8), "RESTORE"), Commit(5, Attempt("someone", 8))], None),
        ([Commit(5, None, "OPTIMIZE")], 5),
        ([Commit(6, None, "OPTIMIZE"), folded(5, 4)], 6),
        ([Commit(6, None, "OPTIMIZE"), Commit(5, Attempt("someone", 8))], None),
    ],
)
def test_a_table_may_be_compacted_and_still_have_the_rows_that_are_pinned(later, newest):
    commits = [*later, Commit(4, Attempt("us", 6)), Commit(3, Attempt("us", 5))]
    assert current(4, commits) == newest
    assert len(compacted(4, commits)) == (len(later) if newest else 0)
    assert action("leaf/content", 4, commits) == ("restore" if newest is None else "write")


def test_what_a_commit_says_of_itself_can_be_read_back():
    for attempt in (Attempt("a", 1), Attempt("b", 2, 3)):
        assert Attempt.parse(attempt.metadata("leaf/content")) == attempt
    for strange in (None, "", "text", "[1]", '{"attempt": "a"}'):
        assert Attempt.parse(strange) is None


@pytest.mark.parametrize(
    ("figures", "due", "at_once"),
    [
        ({}, [], []),
        ({"runs": 3, "run_rows": 9}, [], ["fold"]),
        ({"runs": 100, "run_rows": 9}, ["fold"], ["fold"]),
        ({"runs": 3, "run_rows": 200_000}, ["fold"], ["fold"]),
        ({"added": {"updates": 101, "content": 9}}, [], ["merge", "feed"]),
        ({"added": {"updates": 101, "content": 16}}, ["merge"], ["merge", "feed"]),
        ({"added": {"content": 16}, "runs": 1}, [], ["fold"]),
        ({"added": {"updates": 200}, "runs": 100}, ["fold", "feed"], ["fold", "feed"]),
    ],
)
def test_when_tables_are_compacted(figures, due, at_once):
    found = figures_of({"mode": "seek", **figures})
    assert compactions(found, LIMITS) == due
    assert compactions(found, LIMITS, at_once=True) == at_once
    assert compactions(None, LIMITS) == []


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


def numbered(number: int, *with_tables: str) -> Version:
    return replace(head(*with_tables), number=number)


def test_spans_are_versions_from_one_to_another():
    versions = [numbered(n, "left") for n in (1, 2, 3)]
    assert [v.number for v in span(versions, 1, 2)] == [1, 2]
    assert [v.number for v in span(versions, 0)] == [0, 1, 2, 3]
    assert [v.number for v in span(versions, 3)] == [3]
    assert span([], 0) == (EMPTY,)
    for since, until in ((4, None), (0, 4), (-1, 2)):
        with pytest.raises(NotFoundError):
            span(versions, since, until)
    with pytest.raises(InvalidArgumentError) as refused:
        span(versions, 2, 1)
    assert refused.value.argument == "since"


def test_a_stage_is_followed_as_long_as_it_is_in_the_pipeline():
    versions = [EMPTY, numbered(1), numbered(2, "left"), numbered(3, "left")]
    assert unbroken(versions, "left")
    assert not unbroken([*versions, numbered(4)], "left")
    assert not unbroken([*versions, numbered(4), numbered(5, "left")], "left")
    assert unbroken([numbered(4), numbered(5, "left")], "left")


def test_figures_survive_the_log_and_later_fields():
    base = Base({"content": 4}, folded=3, runs=2, run_rows=7)
    kept = {"rows": 9, "row_bytes": 24, "delta_versions": TABLES, "base": base}
    figures = {"leaf": StageFigures("seek", "few keys", 3, 2, 1, 1, seconds=0.25, **kept)}
    text = figures_to_json(figures)
    assert figures_from_json(text).stages == figures
    assert figures_from_json(text.replace('"mode"', '"later": 1, "mode"')).stages == figures
    assert figures["leaf"].carried() == StageFigures("skipped", "not reached", **kept)


def written(table_type, **differs):
    few = {
        "complete": False,
        "rows": 10_000_000,
        "row_bytes": 50,
        "pairs_changed": 2_000,
        "pairs_replaced": 1_000,
        "run_rows": 2_000,
        "overlay_rows": 0,
        "overlay_runs": 0,
        "added": 0,
    }
    return writing(table_type, LIMITS, StepSize(**{**few, **differs}))


@pytest.mark.parametrize(
    ("differs", "copied", "merged"),
    [
        ({}, "replace", "run"),
        ({"pairs_changed": 0, "pairs_replaced": 0, "rows": 1}, "nothing", "nothing"),
        ({"complete": True}, "rewrite", "rewrite"),
        ({"rows": LIMITS.small_table_rows}, "rewrite", "rewrite"),
        ({"rows": LIMITS.small_table_rows + 1}, "rewrite", "run"),
        ({"rows": LIMITS.rewritten_rows}, "rewrite", "run"),
        ({"rows": LIMITS.rewritten_rows, "pairs_replaced": 0}, "replace", "run"),
        ({"rows": LIMITS.rewritten_rows, "row_bytes": 1_000}, "replace", "run"),
        ({"pairs_changed": 2 * LIMITS.seek_keys}, "rewrite", "run"),
        ({"pairs_changed": 2 * LIMITS.seek_keys, "pairs_replaced": 0}, "replace", "run"),
        ({"run_rows": 310_000}, "replace", "rewrite"),
        ({"overlay_rows": 799_000, "overlay_runs": 7}, "rewrite", "rewrite"),
        ({"overlay_rows": 5_000, "overlay_runs": 7}, "rewrite", "run"),
        ({"run_rows": 2_000, "row_bytes": 1_000_000}, "replace", "rewrite"),
        ({"overlay_rows": 100, "overlay_runs": 200}, "rewrite", "rewrite"),
        ({"added": 100}, "rewrite", "run"),
    ],
)
def test_how_a_step_is_written(differs, copied, merged):
    assert written("copy_on_write", **differs) == copied
    assert written("merge_on_read", **differs) == merged
