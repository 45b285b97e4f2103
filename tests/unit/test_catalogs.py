"""In-memory catalogs: the schemas that are refused, and the messages."""

from dataclasses import replace

from deltaproduce.storage.opening.catalogs import Schema, refusal

MADE = Schema("lake", "`lake`", exists=True)


def test_a_schema_that_was_made_in_this_process_is_taken() -> None:
    assert refusal(MADE) is None


def test_a_schema_that_is_not_there_may_be_meant_as_a_path() -> None:
    said = refusal(replace(MADE, exists=False))
    assert said is not None
    for part in ("'lake'", "'./lake'", "catalogImplementation", "CREATE SCHEMA `lake`"):
        assert part in said


def test_files_that_the_catalog_does_not_know_are_named() -> None:
    said = refusal(replace(MADE, unknown_log="file:/w/lake.db/_versions"))
    assert said is not None
    for part in ("'lake'", "'file:/w/lake.db/_versions'", "catalogImplementation"):
        assert part in said
