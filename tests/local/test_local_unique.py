"""Unique sources: a key that is twice in one batch is refused, with the positions of its rows."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from deltaproduce import DefinitionError, InvalidChangesError, Pipeline, Store
from deltaproduce.engines.choice import Engines
from deltaproduce.model.graph import Source
from deltaproduce.model.limits import Limits
from deltaproduce.stages.kind import stage_kind


def shop(unique: bool = True) -> Pipeline:
    made = Pipeline("shop")
    made.source("orders", key="id bigint, who string", value="n int", unique=unique)
    return made


def row(id: int | None, who: str | None, n: int = 0, **more: Any) -> dict[str, Any]:
    return {"id": id, "who": who, "n": n, **more}


def refused(store: Store, rows: object, verb: str = "update") -> InvalidChangesError:
    with pytest.raises(InvalidChangesError) as caught:
        getattr(store, verb)({"orders": rows})
    return caught.value


@pytest.mark.parametrize("verb", ["update", "load"])
def test_a_key_twice_is_refused_with_both_positions(location: str, verb: str) -> None:
    with Store(None, location, shop()) as store:
        rows = [row(1, "a"), row(2, None), row(3, "a"), row(2, None, 5), row(1, "b")]
        for given in (rows, pa.Table.from_pylist(rows)):
            found = refused(store, given, verb)
            assert found.rows == (1, 3)
            assert (found.source, found.keys) == ("orders", ((2, None),))
            assert "rows 1 and 3" in str(found)
        assert store.head.number == 0
        getattr(store, verb)({"orders": rows[:3]})
        assert store.update({"orders": [row(1, "a", 7)]}).number == 2  # another batch replaces it


def test_deletes_may_repeat_and_rows_before_an_update_do_not_count(location: str) -> None:
    """Positions count all rows that are given, also those that are ignored."""
    with Store(None, location, shop()) as store:
        gone = row(1, "a", _change_type="delete")
        before = row(2, "b", _change_type="update_preimage")
        after = row(2, "b", 5, _change_type="update_postimage")
        store.update({"orders": [gone, gone, before, after]})
        assert store.content("orders").column("n").to_pylist() == [5]
        found = refused(store, [gone, before, after, before, {**after, "n": 6}])
        assert found.rows == (2, 4)


def test_keys_of_a_source_may_repeat_unless_it_says_otherwise(location: str) -> None:
    with Store(None, location, shop(unique=False)) as store:
        assert store.update({"orders": [row(1, "a"), row(1, "a")]}).number == 1
    with Store(None, location, shop()) as store:  # what it has stays
        assert not store.plan()
        assert store.content("orders").num_rows == 2
        assert store.update({"orders": [row(1, "a")]}).stages["orders"].rows == 1


def test_what_is_no_choice_is_refused() -> None:
    with pytest.raises(DefinitionError, match="unique"):
        Pipeline("p").source("s", key="id int", value="n int", unique="id")  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("local_rows", [4, 100_000], ids=["in parts", "at once"])
def test_it_is_refused_exactly_if_a_key_is_there_twice(seed: int, local_rows: int) -> None:
    """By a plain count of keys, also where the rows are processed in parts."""
    drawn = random.Random(seed)
    kinds = ["upsert", "delete", "update_preimage"]
    source = shop().stages[0]
    assert isinstance(source, Source)
    engines = Engines.opened(None, Limits(local_rows=local_rows))
    for _ in range(6):
        rows = [
            row(drawn.choice([None, *range(9)]), drawn.choice("ab"))
            | {"_change_type": drawn.choice(kinds[: 1 + (seed % 3 > 0) * 2])}
            for _ in range(drawn.randrange(8))
        ]
        deleted = {(r["id"], r["who"]) for r in rows if r["_change_type"] == "delete"}
        rows = [
            r for r in rows if r["_change_type"] != "upsert" or (r["id"], r["who"]) not in deleted
        ]
        places = dict[tuple[Any, Any], list[int]]()
        for place, one in enumerate(rows):
            if one["_change_type"] == "upsert":
                places.setdefault((one["id"], one["who"]), []).append(place)
        twice = {key: found for key, found in places.items() if len(found) > 1}
        take = stage_kind(source).taken
        if not twice:
            assert take(rows, source, engines).count >= len(places)
            continue
        with pytest.raises(InvalidChangesError) as caught:
            take(rows, source, engines)
        found = caught.value
        assert {*found.keys} == twice.keys()
        assert list(found.rows) == twice[found.keys[0]][:2]
