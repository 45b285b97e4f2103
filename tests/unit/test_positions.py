"""The attempt, not the number, decides whether a position is one of a store's versions."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from deltaproduce.model.fingerprints import Fingerprint
from deltaproduce.storage.attempts import Attempt
from deltaproduce.storage.figures import StageColumns, StageFigures
from deltaproduce.storage.versions import EMPTY, Version
from deltaproduce.sync.positions import Position, fault

FIGURES = StageFigures(
    "seek", delta_versions={"content": 1}, columns=StageColumns("k int", "v int")
)
MADE = Fingerprint("layout", "function")


def version(number: int, figures: StageFigures = FIGURES) -> Version:
    at = datetime(2026, 1, number, tzinfo=UTC)
    stages, definitions = {"totals": figures}, {"totals": MADE}
    attempt = Attempt(f"attempt {number}", number)
    return Version(number, at, "update", None, stages, definitions, attempt)


VERSIONS = [version(3), version(4), version(5)]
HERE = Position.of("a store", VERSIONS[1], ["totals"])


def test_a_position_is_what_its_text_says():
    assert Position.from_json(HERE.to_json()) == HERE
    nowhere = Position.of(None, EMPTY, ["totals"])
    assert Position.from_json(nowhere.to_json()) == nowhere
    assert (nowhere.store_id, nowhere.version, nowhere.attempt) == ("", 0, "")


def test_a_position_of_the_store_leads_on():
    for known in VERSIONS:
        assert (
            fault(Position.of("a store", known, ["totals"]), "a store", VERSIONS, "totals") is None
        )


OTHER = replace(FIGURES, columns=StageColumns("k int", "v bigint"))
BEGUN = replace(FIGURES, past=replace(FIGURES.past, begun=5))


@pytest.mark.parametrize(
    ("position", "store_id", "versions", "expected"),
    [
        (HERE, "another", VERSIONS, "another store"),
        (HERE, None, [], "another store"),
        (replace(HERE, version=6), "a store", VERSIONS, "newest is 5"),
        (replace(HERE, version=2), "a store", VERSIONS, "dropped by a vacuum"),
        (replace(HERE, attempt="other"), "a store", VERSIONS, "replaced by another"),
        (HERE, "a store", [*VERSIONS[:2], version(5, OTHER)], "other columns"),
        (HERE, "a store", [*VERSIONS[:2], version(5, BEGUN)], "no updates that go on"),
    ],
)
def test_any_other_position_says_why(position, store_id, versions, expected):
    assert expected in fault(position, store_id, versions, "totals")
