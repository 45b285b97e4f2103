"""Keys, values and names that break quoting, without a session: each type alone as a key.

`tests/spark/test_odd_keys.py` has them in Spark, where they become literals and hashes.
"""

from pathlib import Path

import pytest
from local_stores import as_rows, assert_same_here
from odd_columns import NAMES, batches, odd
from other_readers import READERS, refuses
from selecting import chosen

from deltaproduce import DefinitionError, Limits, Pipeline, Store
from deltaproduce.testing import Oracle
from deltaproduce.types.ddl import identifier

ODDEST = ("größe %41", "~7E 100 %", "it's \"`0`\\ [日] #?")


@pytest.mark.parametrize("small_table_rows", chosen([0, 20_000], 0))
def test_odd_keys_and_names_at_every_stage(location: str, small_table_rows: int) -> None:
    pipeline, oracle = odd(1), Oracle(odd(1))
    source = NAMES[0]
    with Store(None, location, pipeline, limits=Limits(small_table_rows=small_table_rows)) as store:
        for number, batch in enumerate(batches(), start=1):
            version = store.update(as_rows(pipeline, {source: batch}))
            assert version.number == oracle.update({source: batch}) == number
        assert_same_here(store, oracle, pipeline, (1, 2))


def test_stages_of_any_name_are_stored_and_read_by_path(tmp_path: Path) -> None:
    """Readers disagree about paths with letters such as ``ö``, spaces and ``%``.

    A table is created, marked, merged, checkpointed, overwritten, set back and cleaned.
    """
    at = Limits(small_table_rows=0, group_rows=3, replaced_percent=900, merged_commits=3)
    pipeline, location = Pipeline("größe, 100 %"), tmp_path / "store"
    for name in ODDEST:
        pipeline.source(name, key="k int", value="n int")
        total = f"SELECT sum(n) AS n FROM {identifier(name)}"
        pipeline.sql(f"total: {name}", total)
    with Store(None, location, pipeline, limits=at) as store:
        store.update({name: [{"k": k, "n": 0} for k in range(20)] for name in ODDEST})
        for number in range(1, 12):
            store.update({name: [{"k": number, "n": number}] for name in ODDEST})
        store.compact()
        store.load({name: [{"k": k, "n": 1} for k in range(30)] for name in ODDEST})
        store.rollback(11)
        store.vacuum(keep_versions=3, unfinished_hours=0)
    with Store(None, location, pipeline, limits=at) as store:
        store.update({name: [{"k": 0, "n": 100}] for name in ODDEST})
        assert store.verify(recompute=True) == ()
        wanted = {k: k for k in range(20)} | {0: 100} | dict.fromkeys(range(11, 20), 0)
        folders = sorted(path for path in location.iterdir() if path.name[0] != "_")
        assert len(folders) == 2 * len(ODDEST)
        for folder in folders:
            path = str(folder / "content")
            for reader in READERS.values():
                if refuses(reader, path, None):
                    continue
                rows = reader(path, None)
                if "k" in rows.column_names:
                    assert {row["k"]: row["n"] for row in rows.to_pylist()} == wanted
                else:
                    assert rows.column("n").to_pylist() == [sum(wanted.values())]


def test_a_name_whose_folder_is_too_long_is_refused(location: str) -> None:
    """Of letters beyond ASCII, each of which takes several in a folder's name."""
    pipeline = Pipeline("long")
    pipeline.source("日" * 40, key="k int", value="n int")
    with pytest.raises(DefinitionError, match="255") as caught:
        Store(None, location, pipeline)
    assert caught.value.stage == "日" * 40
