"""Keys, values and names that break quoting, without a session: each type alone as a key.

`tests/spark/test_odd_keys.py` has them in Spark, where they become literals and hashes.
"""

import pytest
from local_stores import as_rows, assert_same_here
from odd_columns import NAMES, batches, odd
from selecting import chosen

from deltaproduce import Limits, Store
from deltaproduce.testing import Oracle


@pytest.mark.parametrize("small_table_rows", chosen([0, 20_000], 0))
def test_odd_keys_and_names_at_every_stage(location: str, small_table_rows: int) -> None:
    names = [f"stage {number}" for number in range(len(NAMES))]
    pipeline = odd(1, names)
    oracle = Oracle(pipeline)
    with Store(None, location, pipeline, limits=Limits(small_table_rows=small_table_rows)) as store:
        for number, batch in enumerate(batches(), start=1):
            version = store.update(as_rows(pipeline, {names[0]: batch}))
            assert version.number == oracle.update({names[0]: batch}) == number
        assert_same_here(store, oracle, pipeline, (1, 2))
