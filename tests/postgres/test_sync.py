"""A database equals the store after any series of versions, synced at any moments."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC

import pyarrow as pa
import pytest
from copies import assert_same, rows, without_nul
from hypothesis import strategies as st
from local_stores import IN_PARTS, as_rows
from selecting import chosen
from series import drawn, instructed

from deltaproduce import Limits, MissingPartitionsError, Pipeline, Store, postgres
from deltaproduce.testing import Change, Delete, Upsert, strategies
from deltaproduce.types.columns import Columns, row_schema
from deltaproduce.types.row_writers import rows_writer

WAYS = {
    "small": Limits(),
    "runs": Limits(small_table_rows=0, replaced_percent=900, group_rows=3),
    "in parts": IN_PARTS,
}


@pytest.mark.parametrize("number", chosen(range(12), 2))
def test_tables_equal_the_store_after_any_series(
    address: str, location: str, number: int, long_run: bool
) -> None:
    """After each of many versions, or several at once; across rollbacks and refreshes."""
    versions = 50 if long_run else 8
    (pipeline,) = drawn(strategies.pipelines(strict=True), 1, 7_000 + number)
    (history,) = drawn(instructed(pipeline, versions), 1, 7_000 + number)
    chance, stages = random.Random(number), [stage.name for stage in pipeline.stages]
    made = [stage.name for stage in pipeline.stages if stage.feeders]
    limits = WAYS[[*WAYS][number % len(WAYS)]]
    with Store(None, location, pipeline, limits=limits) as store:
        sync = postgres.Sync(store, address)
        for batch, told in history:
            with suppress(MissingPartitionsError):
                store.update(as_rows(pipeline, clean(batch)), **told)
            if chance.random() < 0.1:
                store.rollback(chance.randrange(store.head.number + 1))
            if chance.random() < 0.1 and made:
                store.refresh(chance.choice(made))
            if chance.random() < 0.6:
                assert sync.run().version == store.head.number
                assert_same(store, pipeline, address, stages)
        sync.run()
        assert_same(store, pipeline, address, stages)
        assert not any(one.deleted or one.inserted or one.reason for one in sync.run().tables)


def clean(batch: Mapping[str, Sequence[Change]]) -> dict[str, list[Change]]:
    """A batch without NULs."""
    return {
        source: [
            Upsert(without_nul(change.key), without_nul(change.value))
            if isinstance(change, Upsert)
            else Delete(without_nul(change.key))
            for change in changes
        ]
        for source, changes in batch.items()
    }


ATOMS = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(7,3)"),
    *("decimal(38,0)", "decimal(38,38)", "string", "binary", "date", "timestamp"),
    "timestamp_ntz",
)
NO_KEYS = {"float", "double"}


def test_values_of_every_type_are_what_they_were(address: str, location: str) -> None:
    """As values, as keys, and as parts of others; edges, nulls and nothing among them."""
    nested = (
        *(f"array<{atom}>" for atom in ATOMS),
        *(f"map<{atom},array<{atom}>>" for atom in ATOMS if atom not in NO_KEYS),
        *(f'struct<`a"b\\`:{atom},c:map<string,{atom}>>' for atom in ATOMS),
    )
    keys = [atom for atom in ATOMS if atom not in NO_KEYS]
    key = ", ".join(f"k{n} {kind}" for n, kind in enumerate(keys))
    value = ", ".join(f"v{n} {kind}" for n, kind in enumerate((*ATOMS, *nested)))
    schema = row_schema(key, value, stage="all")
    pipeline = Pipeline("types")
    pipeline.source("all", key=key, value=value)
    one = st.tuples(strategies.keys(schema.key), strategies.values(schema.value))
    with Store(None, location, pipeline) as store:
        sync = postgres.Sync(store, address)
        for number in range(4):
            given = [without_nul(key + value) for key, value in drawn(one, 25, number)]
            columns = Columns((*schema.key, *schema.value))
            arrays = rows_writer(columns, UTC)(given)
            store.load({"all": pa.table(dict(zip(columns.names, arrays, strict=True)))})
            sync.run()
            assert len(rows(address, "all")) > 20
            assert_same(store, pipeline, address, ["all"])
