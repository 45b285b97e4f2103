"""The benchmark's competitors and workloads do what they say."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from selecting import chosen, long

from benchmarks import (
    aggregates,
    declarative,
    forms,
    grouped,
    joins,
    lookups,
    memory,
    planner,
    policy,
    record_index,
    report,
    shapes,
    w1,
    windows,
)
from benchmarks.competitors import COMPETITORS, able, all_of_them
from benchmarks.first_load import first_load
from benchmarks.measures import EventLog
from benchmarks.options import changed_keys
from benchmarks.policy import Effort
from benchmarks.runs import Bench, Size, cases
from benchmarks.single_node import DuckDb
from benchmarks.workload import Batch, Table, answers, source_rows
from deltaproduce.testing import Delete, Oracle, Upsert, plain_rows

ROWS = 300
KEYS = 25
ONE_STEP = Effort(warm_up=0, steps=1)


def bench(spark: SparkSession, work: Path) -> Bench:
    events = work / "events"
    events.mkdir()
    return Bench(spark, work, EventLog(events))


def one_case(spark: SparkSession, work: Path, workload, *names: str):
    peers = {name: COMPETITORS[name] for name in names}
    size = Size.of(bench(spark, work), workload, ROWS, peers)
    result = {}
    efforts = {KEYS: dict.fromkeys(peers, ONE_STEP)}
    states = [str(result) for _ in cases(size, efforts, result)]
    assert len(set(states)) == 3, "after the load, the case and the check it can be stored"
    assert result["checked"]
    return result["cases"][0]["competitors"]


@long
@pytest.mark.parametrize("name", sorted({*all_of_them(), "sdp"}))
def test_a_competitor_is_right(spark: SparkSession, tmp_path: Path, name: str) -> None:
    if name == "sdp" and not declarative.available():
        pytest.skip("needs pyspark[pipelines]")
    found = one_case(spark, tmp_path, w1.workload(), name)[name]
    assert "failure" not in found, found
    assert found["median"]["files_written"] > 0
    assert found["feed"]["listed"]["keys"] == found["feed"]["changed"]["keys"]


@long
def test_a_batch_that_changes_nothing_is_measured_too(spark: SparkSession, tmp_path: Path) -> None:
    found = one_case(spark, tmp_path, shapes.no_op(), "ours")["ours"]
    assert found["median"]["commits"] == 0
    assert found["feed"] == {"listed": {"rows": 0, "keys": 0}, "changed": {"rows": 0, "keys": 0}}


def check_of_two_feeders(competitors) -> None:
    assert list(competitors) == ["ours", "recompute", "merge"]
    for found in competitors.values():
        assert "failure" not in found, found
        assert 0 < found["feed"]["listed"]["keys"] == found["feed"]["changed"]["keys"]


@long
def test_a_merge_is_done_by_all_who_can(spark: SparkSession, tmp_path: Path) -> None:
    peers = policy.shape_peers([], able("merge"))
    check_of_two_feeders(one_case(spark, tmp_path, shapes.merge(), *peers))


@long
def test_a_join_is_done_by_all_who_can(spark: SparkSession, tmp_path: Path) -> None:
    found = joins.joins(bench(spark, tmp_path), ROWS, [KEYS], ONE_STEP)
    check_of_two_feeders(found["cases"][0]["competitors"])
    assert found["checked"]
    assert "all are right" in joins.markdown(found)[-1]


@long
def test_the_two_feeders_shapes_have_every_case(spark: SparkSession) -> None:
    def keys(workload, batches):
        rows = answers(workload, source_rows(workload, spark, ROWS, batches))
        return {name: {row["customer_id"] for row in rows[name].collect()} for name in rows}, rows

    batches = [Batch(KEYS, 1)]
    join, merge = shapes.join(), shapes.merge()
    found, rows = keys(join, batches)
    assert found["customers"] - found["baskets"], "a customer without orders stays"
    assert found["baskets"] - found["customers"], "orders of no known customer do not show"
    assert rows["customer_sales"].where("total IS NULL").count() == 3
    before, after = keys(merge, [])[0], keys(merge, batches)[0]
    gone = before["web"] - after["web"]
    assert gone & after["customer_totals"], "deleted on the web, alive at the till"
    assert gone - after["customer_totals"], "deleted, and not at the till"


@pytest.mark.parametrize("name", chosen(shapes.SHAPES, "rekey", "join"))
def test_a_shape_s_functions_do_what_its_queries_do(spark: SparkSession, name: str) -> None:
    shape = shapes.SHAPES[name]()
    oracle = Oracle(shape.pipeline(1))
    changes = {shape.source: shape.changes(spark, ROWS, KEYS, 1)}
    for batch in (shape.loaded(spark, ROWS), changes):
        oracle.update(
            {source: changes_of(shape.tables[source], rows) for source, rows in batch.items()}
        )
    right = answers(shape, source_rows(shape, spark, ROWS, [Batch(KEYS, 1)]))
    for stage, table in shape.tables.items():
        columns = oracle.columns(stage, "content")
        places = [columns.index(column) for column in table.columns]
        found = [tuple(row[place] for place in places) for row in oracle.content(stage)]
        assert sorted(found) == sorted(plain_rows(right[stage].select(*table.columns).collect()))


def changes_of(source: Table, rows: DataFrame) -> list[Delete | Upsert]:
    value = [column for column in source.columns if column not in source.key]
    return [
        Delete(tuple(row[c] for c in source.key))
        if "_change_type" in row and row["_change_type"] == "delete"
        else Upsert(tuple(row[c] for c in source.key), tuple(row[c] for c in value))
        for row in rows.collect()
    ]


class FailsToPrepare(DuckDb):
    name = "fails to prepare"

    def prepare(self, given) -> None:
        if "_change_type" in given.columns:
            raise OSError("no space")


@long
def test_an_error_ends_one_competitor_s_run_and_is_reported(
    spark: SparkSession, tmp_path: Path
) -> None:
    bench = Bench(spark, tmp_path, EventLog(tmp_path))
    peers = {"bad": FailsToPrepare, "duckdb": DuckDb}
    size = Size.of(bench, w1.workload(1), ROWS, peers)
    run = report.empty([], {name: kind.name for name, kind in peers.items()})
    run["sizes"].append(result := {})
    for _ in cases(size, {KEYS: dict.fromkeys(peers, ONE_STEP)}, result):
        report.write(run, tmp_path)
    competitors = result["cases"][0]["competitors"]
    assert competitors["bad"]["failure"] == "failed: OSError (prepare)"
    assert "failure" not in competitors["duckdb"]
    assert report.failed(run)
    assert "failed: OSError (prepare)" in (tmp_path / "RESULTS.md").read_text()


@long
def test_the_forms_are_checked(spark: SparkSession, tmp_path: Path) -> None:
    found = forms.forms(spark, tmp_path, ROWS, KEYS, ONE_STEP)
    assert [(form.name, form.right) for form in found] == [(name, True) for name in forms.FORMS]


@pytest.mark.parametrize("stage", chosen(grouped.STAGES))
def test_aggregates_are_checked(spark: SparkSession, tmp_path: Path, stage: str) -> None:
    workload = grouped.grouped(stage, many=True)
    found = aggregates.steps(
        bench(spark, tmp_path), workload, ROWS, KEYS, dict.fromkeys(aggregates.PEERS, ONE_STEP)
    )
    for competitor in found["cases"][0]["competitors"].values():
        assert "failure" not in competitor, competitor
        assert competitor["feed"]["listed"]["keys"] == competitor["feed"]["changed"]["keys"] > 0
    assert aggregates.markdown(workload, found)[-2] == "All tables are right."


@long
def test_an_aggregate_s_first_load_is_checked(spark: SparkSession, tmp_path: Path) -> None:
    workload = grouped.grouped("invertible", many=False)
    found = first_load(bench(spark, tmp_path), ROWS, aggregates.beside_group_by(workload))
    assert not report.failed(found)
    assert set(found["competitors"]) == {"ours", "plain"}


@long
def test_moves_of_a_window_are_checked(spark: SparkSession, tmp_path: Path) -> None:
    found = windows.moves(bench(spark, tmp_path), ROWS, ONE_STEP)
    assert [one.right for one in found] == [True] * 4
    assert {len(one.steps) for one in found} == {1}


@long
def test_lookups_are_checked(spark: SparkSession, tmp_path: Path) -> None:
    with lookups.stored(bench(spark, tmp_path), 2_000) as store:
        found = dict(lookups.looked_up(store, spark, 2_000, 1))
    assert all(figure.right for figure in found.values())
    assert {name for name, count in found if count == 10} == {*lookups.ways(store, spark)}


def test_upserts_by_a_record_index_are_checked(tmp_path: Path) -> None:
    """By the ways that need no session; what is printed is what was measured."""
    field = record_index.Field(tmp_path, record_index.days(3_000, 500), None, 1)
    record_index.make(field)
    record_index.building(field)
    places = dict(record_index.looked_up(field))
    assert {case for _, case in places} == {"10", "1,000"}
    changes = dict(record_index.upserted(field, ["index", "delta-rs"], 20))
    assert record_index.agree(places)
    assert record_index.agree(changes)
    one_day = changes["index", "one day"]
    assert (one_day.removed, one_day.added) == (1, 1)
    wrong = replace(one_day, result=())
    assert not record_index.agree({**changes, ("index", "one day"): wrong})


@long
def test_large_tables_and_giant_keys_are_checked(spark: SparkSession, tmp_path: Path) -> None:
    found = [*memory.giant_key(spark, tmp_path / "giant", 3_000)]
    assert found == [True, True]
    assert [*memory.large_tables(spark, tmp_path / "large", 2_000)] == [True, True, True]


def test_fractions_become_numbers_of_keys_once() -> None:
    assert changed_keys(["10", "1000", "100000", "10%"], 1_000_000) == [10, 1_000, 100_000]
    assert changed_keys(["10", "1000", "0.1%"], 500) == [10, 1]


def test_a_run_of_all_spares_what_is_known_to_be_dear() -> None:
    slow = policy.of_aggregates(["ours", "merge"], 10_000_000, steps=3)
    assert slow == {"ours": Effort(2, 3), "merge": policy.BRIEF}
    found = policy.efforts(["ours", "refresh"], 10_000_000, [10, 1_000], steps=5, limited=True)
    assert list(found) == [1_000, 10], "the main case comes first"
    assert found[1_000]["ours"] == policy.MAIN
    assert list(found[10]) == ["ours"]
    assert set(policy.LIMITS) == set(COMPETITORS)


def test_who_can_do_a_shape_does() -> None:
    assert policy.shape_peers([], able("map")) == ["ours", "recompute"]
    assert policy.shape_peers(["merge", "duckdb", "ours-cow"], able("join")) == [
        "merge",
        "ours-cow",
    ]
    assert policy.shape_peers(["merge"], able("map")) == ["ours", "recompute"]
    assert policy.shape_peers(["ours-agg"], able("map")) == ["ours", "recompute"]


def test_the_planner_is_judged_by_the_same_stage_in_full() -> None:
    def competitor(mode, seconds):
        stage = {"mode": mode, "reason": "", "affected_keys": 1, "seconds": seconds}
        return {"figures": [{"totals": stage}], "median": {"seconds": seconds}}

    def case(changed, ours, recompute):
        found = {"ours": competitor("seek", ours), "recompute": {"median": {"seconds": recompute}}}
        return {"changed": changed, "competitors": found}

    size = {"rows": 1_000, "cases": [case(10, 1.0, 3.0), case(100, 4.0, 3.0)]}
    size["cases"][0]["competitors"]["refresh"] = competitor("full", 2.0)
    assert [choice.hit for choice in planner.choices([size])] == [True, False]
    assert [ratio for *_, ratio in planner.against_refresh([size])] == [0.5, 2.0]
    assert planner.crossing(size, "recompute") == (0.01, 0.1)
