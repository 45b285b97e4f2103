"""Metadata of commits: ours reads back, and other metadata is neither ours nor an error."""

import json
from dataclasses import fields, replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaproduce import CorruptStoreError
from deltaproduce.storage.attempts import Attempt, AttemptPart
from deltaproduce.storage.figures import (
    Numbering,
    Past,
    RecordedFigures,
    StageFigures,
    figures_from_json,
    figures_of,
    figures_to_json,
)

FIGURES = StageFigures(
    "seek",
    reason="keys of 'orders' changed",
    rows=3,
    seconds=0.5,
    delta_versions={"content": 3, "updates": 4},
    numbering=Numbering(surrogate="id"),
    past=Past(begun_at=-1, remade={"content": 2}),
)
PART = AttemptPart(
    ("orders", "totals"), {"orders": {"content": 5}}, ("content", "updates"), FIGURES
)
ATTEMPT = Attempt(
    "0f" * 16, 7, 6, datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), "a digest", PART, 9
)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["\ud800", "2026-01-01", 10**400, -1, "1.0"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = ["table", "version", "attempt", "folds", "started_at", "given", "part", "turn"]


def read(found):
    return Attempt.parse(json.dumps(found))


@pytest.mark.parametrize(
    "attempt",
    [ATTEMPT, Attempt("a", 1), Attempt("a", 0, started_at=datetime(2026, 1, 1, tzinfo=UTC))],
)
def test_ours_reads_back(attempt):
    found = Attempt.parse(attempt.metadata("totals/content"))
    assert found == attempt
    for name in (
        "started_at",
        "given",
        "part",
        "fencing_token",
    ):  # they do not count in comparisons
        assert getattr(found, name) == getattr(attempt, name)


def test_what_a_later_release_adds_is_passed_over():
    found = json.loads(ATTEMPT.metadata("totals/content"))
    found |= {"more": [1], "part": {**found["part"], "more": 1}}
    found["part"]["figures"]["more"] = {}
    assert read(found) == ATTEMPT


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        "",
        "null",
        "no JSON",
        "[" * 100_000,
        "1" * 10_000,
        '{"attempt": 1, "version": "1.0", "started_at": 1700000000}',
        '{"attempt": "a", "version": "1"}',
        '{"attempt": "a", "version": true, "table": "t"}',
        '{"attempt": "a", "version": 1, "table": "t", "turn": null}',
        '{"attempt": "a", "version": 1, "table": "t", "started_at": "yesterday"}',
        '{"attempt": "a", "version": 1, "table": "t", "part": {}}',
        '{"attempt": "\\ud800", "version": 1, "table": "t"}',
        '{"attempt": "a", "version": 9223372036854775808, "table": "t"}',
    ],
)
def test_what_is_like_ours_is_not_ours(metadata):
    assert Attempt.parse(metadata) is None


@given(st.text() | values.map(json.dumps))
def test_no_text_is_an_error(metadata):
    Attempt.parse(metadata)


@given(st.dictionaries(st.sampled_from(NAMES), values))
def test_no_object_is_an_error(found):
    attempt = read(found)
    if attempt is not None:
        assert Attempt.parse(attempt.metadata(found["table"])) == attempt


def places(found, path=()):
    """Where the values of an object are, at every depth."""
    for name, value in found.items() if isinstance(found, dict) else enumerate(found):
        yield (*path, name)
        if isinstance(value, dict | list):
            yield from places(value, (*path, name))


def mutated(found, place, value):
    """A copy with another value at a place."""
    copy = json.loads(json.dumps(found))
    inner = copy
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    return copy


OURS = json.loads(ATTEMPT.metadata("totals/content"))


def kind(value):
    return "number" if type(value) in (int, float) else type(value).__name__


@pytest.mark.parametrize("place", list(places(OURS)), ids=lambda place: ".".join(map(str, place)))
@given(value=values)
def test_a_value_of_another_kind_makes_it_another_s(place, value):
    original = OURS
    for name in place:
        original = original[name]
    found = read(mutated(OURS, place, value))
    if kind(value) != kind(original) and not (place[-1] == "surrogate" and value is None):
        assert found is None
    elif found is not None:
        assert Attempt.parse(found.metadata("totals/content")) == found


def test_figures_read_back():
    assert figures_from_json(figures_to_json({"totals": FIGURES})) == RecordedFigures(
        {"totals": FIGURES}
    )
    assert figures_of({"mode": "skipped", "more": 1}) == StageFigures("skipped")


@pytest.mark.parametrize(
    "text",
    ["", "no JSON", "[]", "1", '{"totals": null}', '{"totals": {}}', '{"totals": {"mode": 1}}']
    + [json.dumps({"totals": {"mode": "seek", "rows": rows}}) for rows in ("3", None, True, 1.5)],
)
def test_figures_that_no_store_has_written(text):
    with pytest.raises(CorruptStoreError) as caught:
        figures_from_json(text)
    assert caught.value.table == "_versions"


@given(st.text() | values.map(json.dumps) | st.dictionaries(st.text(), values).map(json.dumps))
def test_no_figures_are_another_error(text):
    try:
        found = figures_from_json(text)
    except CorruptStoreError:
        return
    assert (
        figures_from_json(figures_to_json(*(getattr(found, one.name) for one in fields(found))))
        == found
    )


def test_a_naive_time_of_an_earlier_release_is_one():
    found = replace(ATTEMPT, started_at=datetime(2026, 1, 1))
    assert read(json.loads(found.metadata("t"))) == found
