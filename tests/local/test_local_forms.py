"""Stages in several forms and with several feeders, without a session, against the oracle.

`tests/spark/test_forms.py` and `tests/spark/test_joins.py` have the same pipelines in Spark.
"""

from collections.abc import Mapping

import pytest
from forms import in_rows, in_rows_and_arrow
from local_stores import as_rows, assert_same_here, plain_table
from selecting import chosen
from series import drawn, packed, packed_histories
from several_feeders import several

from deltaproduce import Limits, Store
from deltaproduce.testing import Oracle, strategies

SERIES, VERSIONS = 8, 3

WAYS: Mapping[str, Limits] = {
    "small": Limits(),
    "runs, often folded": Limits(
        small_table_rows=0,
        replaced_percent=900,
        compaction_commits=2,
        compaction_rows=3,
        overlay_runs=3,
    ),
}


@pytest.mark.parametrize("way", chosen(WAYS, "small"))
def test_stages_of_several_feeders_equal_the_oracle(location: str, way: str) -> None:
    exact = strategies.histories(several(), min_versions=VERSIONS, max_versions=VERSIONS)
    pipeline = packed(several())
    oracle = Oracle(pipeline)
    with Store(None, location, pipeline, limits=WAYS[way]) as store:
        for batch in packed_histories(drawn(exact, SERIES, [*WAYS].index(way))):
            version = store.update(as_rows(pipeline, batch))
            assert version.number == oracle.update(batch)
            assert_same_here(store, oracle, pipeline, [version.number])


@pytest.mark.parametrize("way", chosen(WAYS, "runs, often folded"))
def test_both_forms_make_the_tables_of_the_oracle(location: str, way: str) -> None:
    """A stage over tables has the rows and the figures of its twin over rows."""
    exact = strategies.histories(in_rows(), min_versions=VERSIONS, max_versions=VERSIONS)
    modelled, pipeline = packed(in_rows()), packed(in_rows_and_arrow())
    oracle = Oracle(modelled)
    with Store(None, location, pipeline, limits=WAYS[way]) as store:
        for batch in packed_histories(drawn(exact, SERIES, [*WAYS].index(way))):
            version = store.update(as_rows(pipeline, batch))
            assert version.number == oracle.update(batch)
            assert_same_here(store, oracle, modelled, [version.number])
            for stage in modelled.graph().producers:
                twin = f"{stage.name}_arrow"
                for table in ("content", "key_mappings", "updates"):
                    rows, of_twin = (
                        plain_table(getattr(store, table)(name, ordered=True))
                        for name in (stage.name, twin)
                    )
                    assert rows == of_twin, f"{table} of {twin} at version {version.number}"
                one, other = version.stages[stage.name], version.stages[twin]
                assert one.changed_keys == other.changed_keys > 0
