"""The versions that a vacuum keeps, what it cuts, and what kept versions then read."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaproduce import InvalidArgumentError, Version
from deltaproduce.storage.decisions.retention import (
    Cut,
    check_kept,
    cuts,
    pins,
    repointed,
    retained,
)
from deltaproduce.storage.figures import Base, StageColumns, figures_of

START = datetime(2026, 1, 1, tzinfo=UTC)


def version(number: int, **figures: Any) -> Version:
    """A version that was published so many days after the start."""
    found = figures_of({"mode": "seek", "key": "k bigint", "value": "n bigint", **figures})
    assert found is not None
    return Version(number, START + timedelta(days=number), "update", None, {"stage": found})


def history(count: int, *, first: int = 1) -> list[Version]:
    """Each version appends to updates and runs; the fourth is the last that was folded."""
    return [
        version(
            number,
            changed_keys=1,
            runs=max(number - 4, 0) if number >= 4 else number,
            folded=4 if number >= 4 else 0,
            delta_versions={"content": number // 4, "updates": number, "runs": number},
        )
        for number in range(first, first + count)
    ]


@given(
    st.integers(1, 20),
    st.none() | st.integers(1, 25),
    st.none() | st.integers(0, 25),
    st.integers(0, 5),
)
def test_the_newest_are_kept(
    count: int, keep_versions: int | None, keep_days: int | None, since: int
) -> None:
    """As many as asked for, and each that was the newest in the days asked for."""
    versions, now = history(count), START + timedelta(days=count + since, hours=1)
    if keep_versions is None and keep_days is None:
        with pytest.raises(InvalidArgumentError):
            check_kept(keep_versions, keep_days)
        return
    check_kept(keep_versions, keep_days)
    kept = retained(versions, keep_versions, keep_days, now)
    newest_in_days = [
        max((v.number for v in versions if v.committed_at and v.committed_at <= time), default=1)
        for hours in range(0 if keep_days is None else keep_days * 24 + 1)
        if (time := now - timedelta(hours=hours))
    ]
    first = min([*newest_in_days, count + 1 - min(keep_versions or 1, count)])
    assert [v.number for v in kept] == [*range(first, count + 1)]


def test_a_store_without_versions() -> None:
    assert retained([], 1, None, START) == ()


def test_updates_are_cut_to_the_kept_versions_and_runs_to_what_is_not_folded() -> None:
    versions = history(8)
    found = cuts(versions, versions[5:])
    assert found == (
        Cut("stage", "updates", 6, frozenset({6, 7, 8})),
        Cut("stage", "runs", 5, frozenset({8})),
    )
    assert [cut.predicate for cut in found] == ["_version < 6", "_version < 5"]
    assert cuts(versions, versions) == ()


def test_nothing_is_cut_that_dropped_versions_did_not_add() -> None:
    versions = history(8)
    untouched = [
        replace(
            v,
            stages={
                "stage": replace(
                    v.stages["stage"],
                    changed_keys=0,
                    base=Base(folded=v.stages["stage"].base.folded),
                )
            },
        )
        for v in versions[:5]
    ]
    assert cuts([*untouched, *versions[5:]], versions[5:]) == ()


def test_updates_that_began_anew_are_read_from_where_they_were() -> None:
    """Versions with other columns keep their delta versions."""
    versions = history(8)
    earlier = [
        replace(
            v,
            stages={
                "stage": replace(v.stages["stage"], columns=StageColumns("k bigint", "t string"))
            },
        )
        for v in versions[:6]
    ]
    (updates, _) = cuts([*earlier, *versions[6:]], (*earlier[4:], *versions[6:]))
    assert updates.versions == {7, 8}


def test_a_stage_that_was_not_there_is_not_looked_at() -> None:
    versions = [replace(v, stages={}) if v.number == 6 else v for v in history(8)]
    (updates, _) = cuts(versions, versions[5:])
    assert updates.versions == {7, 8}
    kept = repointed(versions[5:], {updates: 20})
    assert [v.pinned("stage", "updates") for v in kept] == [None, 20, 20]


def test_kept_versions_are_read_from_what_was_cut() -> None:
    versions = history(8)
    updates, runs = cuts(versions, versions[5:])
    kept = repointed(versions[5:], {updates: 11, runs: 12})
    assert pins(kept, "stage", "updates") == {11}
    assert pins(kept, "stage", "runs") == {6, 7, 12}
    assert pins(kept, "stage", "content") == {1, 2}
    assert pins(kept, "other", "content") == frozenset()
    assert [v.number for v in kept] == [6, 7, 8]
