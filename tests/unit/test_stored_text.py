"""Texts in a store's log and commits, letter by letter as every release has written them."""

from dataclasses import replace
from datetime import UTC, datetime

from deltaproduce.storage.attempts import Attempt, AttemptPart
from deltaproduce.storage.figures import (
    Base,
    Numbering,
    Origin,
    Past,
    RecordedFigures,
    StageColumns,
    StageFigures,
    figures_from_json,
    figures_to_json,
)

TEXT = (
    '{"totals": {"mode": "seek", "reason": "keys of \'orders\' changed", "affected_keys": 5, '
    '"changed_keys": 4, "rows_added": 3, "rows_removed": 2, "rows": 70, "row_bytes": 24, '
    '"seconds": 0.5, "delta_versions": {"content": 3, "key_mappings": 6, "updates": 4, "runs": 2}, '
    '"added": {"content": 0, "updates": 9}, "folded": 11, "runs": 2, "run_rows": 13, '
    '"surrogates": 17, "surrogate": "id", "key": "`k` INT", "value": "`v` STRING", '
    '"source_key": "`s` BIGINT", "table": "/lake/orders", "table_id": "0f-1", '
    '"table_micros": 1767323045000006, "begun": 19, "begun_at": -1, "remade": {"content": 23}}, '
    '"orders": {"mode": "skipped", "reason": "", "affected_keys": 0, "changed_keys": 0, '
    '"rows_added": 0, "rows_removed": 0, "rows": 0, "row_bytes": 0, "seconds": 0.0, '
    '"delta_versions": {}, "added": {}, "folded": 0, "runs": 0, "run_rows": 0, "surrogates": 0, '
    '"surrogate": null, "key": "", "value": "", "source_key": "", "table": "", "table_id": "", '
    '"table_micros": 0, "begun": 0, "begun_at": 0, "remade": {}}}'
)
FIGURES = {
    "totals": StageFigures(
        "seek",
        "keys of 'orders' changed",
        5,
        4,
        3,
        2,
        rows=70,
        row_bytes=24,
        seconds=0.5,
        delta_versions={"content": 3, "key_mappings": 6, "updates": 4, "runs": 2},
        base=Base({"content": 0, "updates": 9}, folded=11, runs=2, run_rows=13),
        numbering=Numbering(17, "id"),
        columns=StageColumns("`k` INT", "`v` STRING", "`s` BIGINT"),
        origin=Origin("/lake/orders", "0f-1", 1767323045000006),
        past=Past(19, -1, {"content": 23}),
    ),
    "orders": StageFigures("skipped"),
}
METADATA = (
    '{"table": "orders/content", "version": 7, "attempt": "0f0f", "folds": 6, '
    '"started_at": "2026-01-02T03:04:05.000006+00:00", "given": "a digest", "part": {"stages": '
    '["orders", "totals"], "before": {"totals": {"content": 5}}, "kinds": ["content", "updates"], '
    '"figures": ' + TEXT[TEXT.index('{"mode": "skipped"') : -1] + '}, "turn": 9}'
)
PART = AttemptPart(
    ("orders", "totals"), {"totals": {"content": 5}}, ("content", "updates"), FIGURES["orders"]
)
STARTED = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
ATTEMPT = Attempt("0f0f", 7, 6, STARTED, "a digest", PART, 9)


def test_figures_are_written_as_ever() -> None:
    assert figures_to_json(FIGURES) == TEXT
    assert figures_from_json(TEXT) == RecordedFigures(FIGURES)


def test_what_was_read_is_only_there_if_anything_was() -> None:
    read = {name: replace(figures, rows_read=8, bytes_read=99) for name, figures in FIGURES.items()}
    text = TEXT.replace("}}, ", '}, "rows_read": 8, "bytes_read": 99}, ')
    text = text.replace("{}}}", '{}, "rows_read": 8, "bytes_read": 99}}')
    assert figures_to_json(read) == text
    assert figures_from_json(text) == RecordedFigures(read)


def test_commits_say_of_themselves_what_they_ever_did() -> None:
    assert ATTEMPT.metadata("orders/content") == METADATA
    found = Attempt.parse(METADATA)
    assert found is not None
    assert (found, found.started_at, found.given, found.part, found.fencing_token, found.table) == (
        *(ATTEMPT, STARTED, "a digest", PART, 9),
        "orders/content",
    )


def test_a_commit_that_says_the_least() -> None:
    text = '{"table": "t", "version": 0, "attempt": "a"}'
    assert Attempt("a", 0).metadata("t") == text
    assert Attempt.parse(text) == Attempt("a", 0)
