"""A key table has each key once, with its assigned id, as long as the key exists."""

from __future__ import annotations

import random

import pytest
from copies import rows, run
from pages import link, site
from selecting import chosen

from deltaproduce import DefinitionError, Limits, Store, SyncError, postgres


def keys_of(store: Store) -> set[tuple[int, str]]:
    return {(row["id"], row["url"]) for row in store.content("pages").to_pylist()}


def found(address: str) -> set[tuple[int, str]]:
    there = rows(address, "pages__keys")
    assert len({number for number, _ in there}) == len({url for _, url in there}) == len(there)
    return {*there}


@pytest.mark.parametrize("number", chosen(range(2), 0))
def test_keys_come_and_go_and_keep_their_ids(address: str, location: str, number: int) -> None:
    """Whenever it is synced; a key that went and came back in between has its new id."""
    chance, urls = random.Random(number), [None, *"abcdefgh"]
    limits = Limits(small_table_rows=0, replaced_percent=900, group_rows=2)
    with Store(None, location, site, limits=limits) as store:
        sync = postgres.Sync(store, address, stages=["pages"], key_tables=["pages"])
        before, touched = set[tuple[int, str]](), 0
        for _ in range(16):
            numbers = chance.sample(range(10), 3)
            some = [
                link(n)
                if chance.random() < 0.4
                else link(n, chance.choice("ab"), "c")
                if chance.random() < 0.1
                else {**link(n, "x"), "origin": chance.choice(urls), "target": chance.choice(urls)}
                for n in numbers
            ]
            store.update({"links": some})
            if chance.random() < 0.6:
                keys, *_ = sync.run().tables
                now = keys_of(store)
                assert found(address) == now
                assert (keys.deleted, keys.inserted) == (len(before - now), len(now - before))
                before, touched = now, touched + keys.deleted
        assert touched


def test_other_tables_may_reference_the_ids(address: str, location: str) -> None:
    """New keys are there before, and old ones until after, whoever refers to them in one step."""
    with Store(None, location, site) as store:
        store.update({"links": [link(1, "a", "b"), link(2, "c", "d")]})
        sync = postgres.Sync(store, address, stages=[], key_tables=["pages"])
        sync.run()
        ids = {url: number for number, url in keys_of(store)}
        run(
            address,
            "CREATE TABLE notes (page bigint REFERENCES pages__keys ON DELETE CASCADE, note text)",
            "CREATE TABLE pins (page bigint REFERENCES pages__keys)",
            f"INSERT INTO notes VALUES ({ids['a']}, 'of a'), ({ids['c']}, 'of c')",
            f"INSERT INTO pins VALUES ({ids['d']})",
        )
        store.update({"links": [link(1), link(3, "e", "b")]})
        sync.run()
        assert rows(address, "notes") == [(ids["c"], "of c")]
        assert found(address) == keys_of(store)
        store.update({"links": [link(2)]})
        with pytest.raises(SyncError, match="pins"):
            sync.run()  # a page that is pinned cannot go
        assert {"c", "d"} < {url for _, url in found(address)}
        run(address, "DELETE FROM pins")
        sync.run()
        assert found(address) == keys_of(store)


def test_after_a_rollback_a_number_may_be_another_keys(address: str, location: str) -> None:
    """The database has it for a key that is gone: what refers to that goes, too, and no more."""
    with Store(None, location, site) as store:
        store.update({"links": [link(1, "a", "b")]})
        store.update({"links": [link(2, "c", "d")]})
        sync = postgres.Sync(store, address, stages=[], key_tables=["pages"])
        sync.run()
        before = {url: number for number, url in keys_of(store)}
        run(
            address,
            "CREATE TABLE notes (page bigint REFERENCES pages__keys ON DELETE CASCADE, url text)",
            "INSERT INTO notes SELECT id, url FROM pages__keys",
        )
        store.rollback(1)
        store.update({"links": [link(2, "d", "e")]})
        assert {url: number for number, url in keys_of(store)} == {
            **{url: before[url] for url in "ab"},
            "d": before["c"],
            "e": before["d"],
        }
        sync.run()
        assert found(address) == keys_of(store)
        assert {url for _, url in rows(address, "notes")} == {"a", "b"}
        store.rollback(1)
        store.update({"links": [link(2, "e", "f")]})
        sync.run()
        assert found(address) == keys_of(store)


def test_keys_that_stay_are_not_touched_when_all_are_given_anew(
    address: str, location: str
) -> None:
    with Store(None, location, site) as store:
        store.update({"links": [link(1, "a", "b"), link(2, "c", "d")]})
        sync = postgres.Sync(store, address, stages=[], key_tables=["pages"], on_break="reload")
        sync.run()
        run(address, "DELETE FROM pages__keys WHERE url = 'a'")
        run(address, "INSERT INTO pages__keys VALUES (99, 'z')")
        run(address, "INSERT INTO pages__keys VALUES (98, 'y')")
        store.update({"links": [link(2)]})
        (keys,) = sync.run().tables
        assert (keys.deleted, keys.inserted) == (4, 1)
        assert "it has 5 rows" in keys.reason
        assert found(address) == keys_of(store)


def test_a_stage_without_ids_has_no_key_table(location: str, address: str) -> None:
    with Store(None, location, site) as store, pytest.raises(DefinitionError) as caught:
        postgres.Sync(store, address, key_tables=["links"])
    assert caught.value.stage == "links"
