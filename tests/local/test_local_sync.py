"""Changes for a copy in any database: a copy that applies them equals the store."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from copied import Copy, assert_copied
from local_stores import IN_PARTS, as_rows
from selecting import chosen
from series import drawn, instructed
from test_local_series import WAYS

from deltaproduce import (
    InvalidArgumentError,
    Limits,
    MissingPartitionsError,
    NotFoundError,
    Pipeline,
    Store,
    SyncError,
    sync,
)
from deltaproduce.sync import Position
from deltaproduce.testing import strategies


@pytest.mark.parametrize("way", chosen(WAYS, "runs", "copy on write"))
def test_a_copy_that_takes_what_it_lacks_is_equal(location: str, way: str) -> None:
    """Whichever versions it takes; across rollbacks and refreshes."""
    number = 8_000 + list(WAYS).index(way)
    (pipeline,) = drawn(strategies.pipelines(strict=True), 1, number)
    (history,) = drawn(instructed(pipeline, 8), 1, number)
    chance, copy = random.Random(number), Copy()
    made = [stage.name for stage in pipeline.stages if stage.feeders]
    with Store(None, location, pipeline, **WAYS[way]) as store:
        for batch, told in history:
            with suppress(MissingPartitionsError):
                store.update(as_rows(pipeline, batch), **told)
            if chance.random() < 0.2:
                store.rollback(chance.randrange(store.head.number + 1))
            if chance.random() < 0.2 and made:
                store.refresh(chance.choice(made))
            if chance.random() < 0.6:
                copy.take(store, chance.randrange(copy.version, store.head.number + 1))
                assert_copied(copy, store, pipeline)
        copy.take(store)
        copy.take(store)  # of which there is nothing
        assert copy.version == store.head.number
        assert_copied(copy, store, pipeline)


def words() -> Pipeline:
    made = Pipeline("words")
    made.source("lines", key="id bigint", value="words string")
    return made


@pytest.mark.parametrize("limits", [Limits(), IN_PARTS])
def test_changes_are_what_another_store_takes(location: str, limits: Limits) -> None:
    """So a store can be a copy of another, of stages that are its sources."""
    one = Store(None, f"{location}/one", words(), limits=limits)
    other = Store(None, f"{location}/other", words())
    position = None
    for number in range(6):
        rows = [{"id": n, "words": f"{n} {number}"} for n in range(number, number + 40)]
        one.update({"lines": rows})
        one.update({"lines": [{"id": number, "words": None, "_change_type": "delete"}]})
        changes = sync.changes_since(one, position)
        for batch in changes.stages[0].batches():
            other.update({"lines": batch})
        position = changes.position
        found, expected = (
            sorted(map(repr, store.content("lines").to_pylist())) for store in (other, one)
        )
        assert found == expected


def test_batches_are_small_where_rows_are_large(location: str) -> None:
    """None holds more than 16 MiB, in a first load and of changes."""
    store = Store(None, location, words())
    store.update({"lines": [{"id": n, "words": "x" * (1 << 20)} for n in range(40)]})
    (stage,) = sync.changes_since(store, None).stages
    position = sync.changes_since(store, None).position
    store.update({"lines": [{"id": n, "words": "y" * (1 << 20)} for n in range(40)]})
    (changed,) = sync.changes_since(store, position).stages
    for found in (stage, changed):
        sizes = [batch.nbytes for batch in found.batches()]
        assert len(sizes) > 2
        assert max(sizes) <= 17 << 20


def test_what_is_wrong_is_refused(location: str) -> None:
    store = Store(None, location, words())
    store.update({"lines": [{"id": 1, "words": "a"}]})
    position = sync.changes_since(store, None).position
    store.update({"lines": [{"id": 1, "words": "b"}]})
    newer = sync.changes_since(store, position).position
    for error, given in (
        (NotFoundError, {"stages": ["nowhere"]}),
        (NotFoundError, {"until": 9}),
        (InvalidArgumentError, {"stages": "lines"}),
        (InvalidArgumentError, {"on_break": "never"}),
        (InvalidArgumentError, {"position": newer, "until": 1}),
    ):
        with pytest.raises(error):
            sync.changes_since(store, **{"position": position, **given})
    with pytest.raises(SyncError, match="another store") as caught:
        sync.changes_since(store, Position("x", 1, "y", position.definitions))
    assert caught.value.stage == "lines"
    for text in ("", "[]", '{"store_id": "x"}', '{"version": "1"}'):
        with pytest.raises(InvalidArgumentError):
            Position.from_json(text)
