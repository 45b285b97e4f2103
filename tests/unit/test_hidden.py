"""Hidden stages: their names, what figures record of them, and who shares them."""

import json
from dataclasses import replace

import pytest
from hidden_trees import GROUPS, VALUES, trees

from deltaproduce import DefinitionError
from deltaproduce.model.graph import Graph
from deltaproduce.model.hidden import Hidden, hidden_name, hidden_name_fault, role_of_name
from deltaproduce.storage.figures import StageFigures, figures_from_json, figures_to_json


def test_a_log_says_which_stages_are_hidden_and_one_of_before_is_read_by_names():
    names = {
        **dict.fromkeys(("orders", "tasks_1_orders", "sorted"), ""),
        "_sorted_0_by_day": "multiset",
        "_sorted_12_by_day": "multiset",
        "_tasks_1_stores": "records",
        "_tasks_2_sales": "digests",
    }
    before = {name: StageFigures("seek") for name in names}
    stages = figures_from_json(figures_to_json(before)).stages
    assert {name: one.role for name, one in stages.items()} == names
    told = {"_kept_1_view": StageFigures("seek", role="kept"), "view": StageFigures("seek")}
    text = figures_to_json(told)
    assert figures_from_json(text).stages == told
    assert [name for name, one in json.loads(text).items() if "role" in one] == ["_kept_1_view"]
    assert role_of_name("_kept_1_view") == ""  # it is not known by its name


@pytest.mark.parametrize(
    "name", ["_versions", "_delta_log", "orders", "_kept_1_", "_kept_1_..", "_kept_1_a/b", "_1_a"]
)
def test_a_name_in_a_log_that_leads_elsewhere_is_refused(name: str):
    assert hidden_name_fault(name) is not None


def test_a_name_is_one_of_a_hidden_stage_whatever_its_owner_is_called():
    for owner in ("orders", "a_1_b", "Größe", "two words"):
        assert hidden_name_fault(hidden_name("kept", 3, owner)) is None


def test_a_hidden_stage_has_the_owners_of_all_who_define_it():
    graph = trees().graph()
    names = [stage.name for stage in graph.stages]
    assert names == ["rows", VALUES, GROUPS, "twice", "again", "values"]
    owners = [hidden.owners for hidden in (one.hidden for one in graph.stages) if hidden]
    assert owners == [("twice", "again", "values"), ("twice", "again")]
    assert graph.stage("again").feeders[1:] == (graph.stage(GROUPS), graph.stage(VALUES))
    assert [stage.name for stage in graph.shown] == ["rows", "twice", "again", "values"]


def test_two_definitions_under_one_name_are_refused():
    stages = trees().graph().stages
    values = next(stage for stage in stages if stage.name == VALUES)
    other = replace(values, revision="2", hidden=Hidden("values", ("other",)))
    with pytest.raises(DefinitionError, match="'twice', 'again', 'values', 'other' read a hidden"):
        Graph.joined((*stages, other))
