"""Consumers of a store without a session: changes between versions, and lineage.

The oracle checks them, as `tests/spark/test_consumers.py` does in Spark. The cases include keys
that no version has, old versions and wrong arguments.
"""

import os
import random
from itertools import combinations_with_replacement
from typing import Any

import pyarrow as pa
import pytest
from comparing import assert_changes, assert_lineage
from local_stores import as_rows
from selecting import in_turn
from series import drawn
from test_local_series import HALVES, WAYS
from wording import text

from deltaproduce import (
    InvalidArgumentError,
    Limits,
    NotFoundError,
    Store,
)
from deltaproduce.testing import Oracle, strategies
from deltaproduce.types.columns import NO_KEY

PIPELINES = int(os.environ.get("LOCAL_PIPELINES", "3"))
VERSIONS = 4


@pytest.mark.parametrize(
    ("number", "way"),
    in_turn(PIPELINES, WAYS, 3, longer="LOCAL_PIPELINES" in os.environ, kept=HALVES[1]),
)
def test_feeds_and_lineages_equal_the_oracles(
    location: str, number: int, way: str, long_run: bool
) -> None:
    """Between pairs of versions; of keys of every stage, in every version."""
    number = 2_000 + number * len(WAYS) + list(WAYS).index(way)
    (pipeline,) = drawn(strategies.pipelines(), 1, number)
    versions, most = (VERSIONS, 10) if long_run else (3, 4)
    histories = strategies.histories(pipeline, min_versions=versions, max_versions=versions)
    (history,) = drawn(histories, 1, number)
    oracle, chance = Oracle(pipeline), random.Random(number)
    with Store(None, location, pipeline, **WAYS[way]) as store:
        for batch in history:
            assert store.update(as_rows(pipeline, batch)).number == oracle.update(batch)
        assert store.rollback(1).number == oracle.rollback(1)
        pairs = [*combinations_with_replacement(range(oracle.head + 1), 2)]
        for stage in pipeline.stages:
            for since, until in chance.sample(pairs, min(len(pairs), most)):
                for mode in ("net", "complete"):
                    assert_changes(store, oracle, stage.name, since, until, mode)
    with Store(None, location, pipeline, **WAYS[way]) as store:  # opened anew
        for stage in pipeline.stages:
            if stage.schema.key == NO_KEY:
                continue
            width, versions = len(stage.schema.key), range(1, oracle.head + 1)
            every = {row[:width] for v in versions for row in oracle.content(stage.name, v)}
            for version in versions:  # so some keys are of other versions
                for key in chance.sample(sorted(every, key=repr), min(3, len(every))):
                    given = chance.choice(forms(stage.schema.key.names, key))
                    assert_lineage(store, oracle, pipeline, stage.name, given, version)


def forms(names: tuple[str, ...], key: tuple[Any, ...]) -> list[Any]:
    """A key as it may be given."""
    if len(names) == 1:
        return [key[0]]
    return [key, dict(zip(names, key, strict=True)), dict(zip(names[::-1], key[::-1], strict=True))]


@pytest.fixture
def texts(location: str) -> Store:
    """Rows in runs, a key that came, went and came back."""
    store = Store(None, location, text, limits=Limits(small_table_rows=0, replaced_percent=900))
    for file, words in (("a", "to be"), ("b", "or not"), ("a", "to do"), ("a", "to be")):
        store.update({"lines": [{"file": file, "number": 1, "words": words}]})
    return store


def test_what_is_wrong_is_refused_as_in_spark(texts: Store) -> None:
    """Before anything else: there is not even a version, or a table."""
    empty = Store(None, f"{texts._opened.tables.location.address}-empty", text)
    for store in (empty, texts):
        for wrong, error, argument in (
            (lambda s: s.changes("words", 9), NotFoundError, None),
            (lambda s: s.changes("words", 0, 9), NotFoundError, None),
            (lambda s: s.changes("nowhere", 0), NotFoundError, None),
            (lambda s: s.changes("words", "0"), InvalidArgumentError, "since"),
            (lambda s: s.changes("words", 0, mode="all"), InvalidArgumentError, "mode"),
            (lambda s: s.lineage("nowhere", "be"), NotFoundError, None),
            (lambda s: s.lineage("words", "be", version=9), NotFoundError, None),
            (lambda s: s.lineage("words", 1), InvalidArgumentError, "key"),
            (lambda s: s.lineage("lines", ("a",)), InvalidArgumentError, "key"),
        ):
            with pytest.raises(error) as refused:
                wrong(store)
            assert getattr(refused.value, "argument", None) == argument
    with pytest.raises(InvalidArgumentError) as refused:
        texts.changes("words", 2, 1)
    assert refused.value.argument == "since"
    assert len(empty.changes("words", 0)) == 0
    found = empty.lineage("words", "be")
    assert [len(keys) for keys in found.upstream.values()] == [0]
    assert list(found.upstream) == ["lines"]


def test_what_is_beyond_the_limits_is_read_in_parts(texts: Store) -> None:
    few = Limits(small_table_rows=0, replaced_percent=900, local_rows=3, group_rows=1)
    store = Store(None, texts._opened.tables.location.address, text, limits=few)
    assert len(store.content("words")) == 4
    assert len(store.changes("words", 3)) == 2
    assert isinstance(store.changes("words", 3), pa.Table)
    assert store.changes("words", 0).num_rows == texts.changes("words", 0).num_rows > 3
    assert len(store.lineage("words", "to").upstream["lines"]) == 1
