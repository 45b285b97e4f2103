"""Versions: the start of complete updates, dropped versions, SQL readability, and figures."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from deltaproduce import CorruptStoreError, InvalidArgumentError, Limits, NotFoundError, Pipeline
from deltaproduce.engines.choice import Engines
from deltaproduce.storage import version_log
from deltaproduce.storage.figures import (
    Base,
    Past,
    StageColumns,
    StageFigures,
    figures_from_json,
    figures_of,
    figures_to_json,
)
from deltaproduce.storage.locations import Location
from deltaproduce.storage.tables.access import TableAccess
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.storage.version_log import VersionLog, _version
from deltaproduce.storage.versions import (
    EMPTY,
    Version,
    check_there,
    columns_of,
    stage_at,
    updates_known_since,
)

FIGURES = StageFigures(
    "seek", delta_versions={"content": 3, "updates": 4}, columns=StageColumns("k int")
)


def versions(*found, first=1):
    return [
        Version(number, None, "update", None, {} if figures is None else {"leaf": figures})
        for number, figures in enumerate(found, first)
    ]


def test_a_stage_has_the_columns_that_its_tables_had():
    pipeline = Pipeline("now")
    orders = pipeline.source("orders", key="id bigint", value="n int, t string")

    @pipeline.producer(orders, key="k int desc", value="n bigint", surrogate="n")
    def leaf(key, values):
        yield 1, None

    columns = {
        "orders": StageColumns("id bigint", "n int", ""),
        "leaf": StageColumns("k string", "n int", "id int DESC"),
    }
    figures = {name: StageFigures("full", columns=known) for name, known in columns.items()}
    version = Version(1, None, "update", None, figures)
    then = {stage.name: stage_at(version, stage) for stage in pipeline.stages}
    assert {name: columns_of(stage) for name, stage in then.items()} == columns
    assert [stage.kind for stage in then.values()] == [orders.kind, leaf.kind]
    assert [stage_at(EMPTY, stage) is stage for stage in pipeline.stages] == [True, True]


@pytest.mark.parametrize(
    ("figures", "first", "since"),
    [
        ([FIGURES, FIGURES], 1, (1, True)),
        ([FIGURES, FIGURES], 5, (5, False)),
        ([None, FIGURES], 5, (6, True)),
        ([replace(FIGURES, columns=StageColumns("k string")), FIGURES], 5, (6, True)),
        ([FIGURES, None, FIGURES, FIGURES], 5, (7, True)),
        ([FIGURES, replace(FIGURES, past=Past(6)), replace(FIGURES, past=Past(6))], 5, (6, True)),
        ([StageFigures("skipped"), FIGURES], 5, (6, True)),
    ],
)
def test_updates_say_all_since_they_were_begun(figures, first, since):
    assert updates_known_since(versions(*figures, first=first), "leaf") == since


def test_older_versions_of_a_table_that_was_made_anew_are_refused():
    old, new = versions(FIGURES, replace(FIGURES, past=Past(remade={"content": 2})))
    check_there(new, old, ["leaf", "none"], "updates")
    check_there(new, new, ["leaf"], "content")
    check_there(new, EMPTY, ["leaf"], "content")
    with pytest.raises(NotFoundError):
        check_there(new, old, ["leaf"], "updates", "content")


def test_a_delta_version_that_lacks_rows_is_not_given_away():
    """With merge on read the rows that came since a table was written are in its runs."""
    pins = {"content": 1, "key_mappings": 2, "updates": 3, "runs": 4}
    (plain, beside) = versions(
        *(
            StageFigures("seek", delta_versions=pins, base=Base(folded=1, runs=runs))
            for runs in (0, 1)
        )
    )
    for kind, pinned in pins.items():
        assert plain.delta_version("leaf", kind) == pinned
        assert beside.pinned("leaf", kind) == pinned
    assert [beside.delta_version("leaf", kind) for kind in ("updates", "runs")] == [3, 4]
    for kind in ("content", "key_mappings"):
        with pytest.raises(InvalidArgumentError) as refused:
            beside.delta_version("leaf", kind)
        assert refused.value.argument == "kind"
        assert f"store.{kind}('leaf', 2)" in str(refused.value)
    for version in (plain, beside, EMPTY):
        assert version.delta_version("none", "content") is None
        assert version.delta_version("leaf", "nothing") is None


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
    assert figures_of({"mode": "merge", **wrong}) is None


def test_figures_of_a_later_release_are_passed_over() -> None:
    found = figures_of({"mode": "merge", "seconds": 1, "surrogate": None, "of_later": {"x": "y"}})
    assert found is not None
    assert (found.mode, found.seconds) == ("merge", 1)
    assert figures_from_json(figures_to_json({"a": found})).stages == {"a": found}


@pytest.mark.parametrize(
    "wrong",
    [
        {"number": None},
        {"committed_at": None},
        {"committed_at": datetime(1969, 12, 31, tzinfo=UTC)},
        {"fingerprints": {"orders": None}},
    ],
)
def test_a_row_of_the_log_that_no_store_has_written_is_refused(wrong):
    row = {
        "number": 1,
        "committed_at": datetime(2026, 1, 1, tzinfo=UTC),
        "operation": "update",
        "update_id": None,
        "fingerprints": {},
        "figures": None,
        "attempt": "a",
    }
    assert _version(row).number == 1
    with pytest.raises(CorruptStoreError) as error:
        _version(row | wrong)
    assert error.value.table == "_versions"


def test_names_of_tables_are_looked_at_once_for_all_versions_that_have_them(monkeypatch):
    """Of four versions with the same tables one is looked at; a wrong name is found in any."""
    log = VersionLog(
        Tables(TableAccess(Engines(None, Limits()), Location("/lake", in_catalog=False)))
    )
    asked = []

    def fault(version, location):
        asked.append(version.number)
        return fault_of(version, location)

    fault_of = version_log._fault_of_names
    monkeypatch.setattr(version_log, "_fault_of_names", fault)
    log._check_rows(versions(*[FIGURES] * 4), None)
    assert asked == [1]
    wrong = replace(FIGURES, delta_versions={"content": 3, "../updates": 4})
    with pytest.raises(CorruptStoreError, match=r"version 5 has a table '\.\./updates'"):
        log._check_rows(versions(*[FIGURES] * 4, wrong), None)
    assert asked == [1, 1, 5]
