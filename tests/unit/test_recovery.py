"""The owner of commits on a table, decided from the table's history alone."""

import pytest

from deltaproduce import ConflictError, CorruptStoreError
from deltaproduce.storage.attempts import Attempt, Commit
from deltaproduce.storage.decisions.recovery import (
    action,
    compacted,
    foreign_change,
    foreign_commits,
    is_ahead,
    overtaken,
)

US, OTHER = Attempt("us", 4), Attempt("other", 4)
PINNED = Commit(5, Attempt("before", 3))


def commits(*later):
    """A table's last commits, from what came after the pinned one."""
    on_top = [
        Commit(number, *(found if isinstance(found, tuple) else (found,)))
        for number, found in enumerate(later, PINNED.delta_version + 1)
    ]
    return [*reversed(on_top), PINNED, Commit(4, Attempt("before", 2))]


@pytest.mark.parametrize("operation", ["WRITE", "DELETE", "RESTORE", "TRUNCATE", "ADD COLUMNS"])
def test_rows_of_someone_else_are_damage(operation):
    for later in ([(None, operation)], [OTHER, (None, operation)], [(None, operation), OTHER]):
        with pytest.raises(CorruptStoreError) as found:
            action("leaf/content", 5, commits(*later))
        assert found.value.table == "leaf/content"
        assert operation in str(found.value)
        assert str(6 + later.index((None, operation))) in str(found.value)


@pytest.mark.parametrize("operation", ["OPTIMIZE", "VACUUM END", "SET TBLPROPERTIES"])
def test_what_changes_no_row_is_none(operation):
    assert action("leaf/content", 5, commits((None, operation), (None, operation))) == "write"
    assert action("leaf/content", 5, commits(OTHER, (None, operation))) == "restore"
    assert foreign_commits(commits((None, operation)), 5) == ()


def test_a_fold_builds_on_the_newest_rows_whatever_property_was_set_since():
    """As after a rollback, when delta-rs sets properties before it writes."""
    prop, fold = (None, "SET TBLPROPERTIES"), Attempt("fold", 3, folds=5)
    assert compacted(5, commits(fold)) == tuple(commits(fold)[:1])
    assert len(compacted(5, commits(prop, fold))) == 2
    assert len(compacted(5, commits(prop, fold, Attempt("next", 3, folds=7)))) == 3
    assert compacted(5, commits(prop, fold, fold)) == ()  # the second was overtaken
    assert compacted(5, commits(prop, Attempt("old", 3, folds=4))) == ()
    assert compacted(5, commits(prop, Attempt("ahead", 3, folds=7))) == ()


def test_a_table_that_was_set_back_by_an_attempt_is_set_back_again():
    assert action("leaf/content", 5, commits(OTHER, (US, "RESTORE"))) == "restore"


def test_a_property_that_a_rollback_sets_says_that_the_table_has_moved():
    assert action("leaf/content", 5, commits((US, "SET TBLPROPERTIES"))) == "restore"
    assert action("leaf/content", 5, commits((US, "OPTIMIZE"))) == "write"


def test_a_table_made_anew_is_damage_even_at_the_same_delta_version():
    assert foreign_change("leaf/content", 5, [Commit(5, None), Commit(4, None)]) is not None
    assert foreign_change("leaf/content", 0, [Commit(0, None, "CREATE TABLE")]) is not None
    assert foreign_change("leaf/content", 5, []) is not None
    assert foreign_change("leaf/content", 5, [Commit(4, US)]) is not None
    assert foreign_change("leaf/content", 5, [PINNED]) is None


def test_who_came_between_decides_the_error():
    assert isinstance(overtaken("t", US, 5, commits(OTHER, US)), ConflictError)
    assert isinstance(overtaken("t", US, 5, commits(OTHER)), ConflictError)
    assert isinstance(overtaken("t", US, None, commits((None, "WRITE"), US)), ConflictError)
    assert isinstance(overtaken("t", US, 5, commits((None, "WRITE"), US)), CorruptStoreError)
    assert isinstance(overtaken("t", US, 5, commits((None, "DELETE"))), CorruptStoreError)


def test_a_commit_that_is_all_there_is_of_a_table_has_found_it_removed():
    for made in (0, 1):
        alone = [Commit(made, US)]
        assert isinstance(overtaken("t", US, made, alone), CorruptStoreError)
        assert isinstance(overtaken("t", US, 5, alone), CorruptStoreError)
    set_back = [Commit(7, OTHER), Commit(6, US, "RESTORE"), PINNED]
    assert isinstance(overtaken("t", US, 6, set_back), ConflictError)


def test_a_table_of_a_later_version_shows_that_the_one_before_was_published():
    assert is_ahead(3, commits(US))
    assert not is_ahead(4, commits(US, (None, "WRITE")))
    assert not is_ahead(3, [Commit(6, Attempt("fold", 4, 5)), PINNED])
