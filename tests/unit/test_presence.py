"""Presence: the existing partitions of sources, for rows that are given, arrive or are named."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deltaproduce import Pipeline
from deltaproduce.engines.choice import Engines
from deltaproduce.model.limits import Limits
from deltaproduce.stages.partitioned.presence import presence_batches


@dataclass
class Arrived:
    """What has come into a source that is read in place."""

    table: pa.Table

    def content(self) -> Any:
        return self

    def rows(self) -> pa.Table:
        return self.table


def test_what_arrives_is_named_or_is_given_is_present() -> None:
    """By its partition columns alone, each partition once."""
    pipeline = Pipeline("shop")
    pipeline.source("given", key="day string, id int", value="n int", partition="day")
    pipeline.source("whole", key="id int", value="n int")
    columns = {"key": "id int", "value": "day string, n int", "table": "a/b"}
    pipeline.delta_source("theirs", **columns, partition="day")
    pipeline.delta_source("quiet", **columns, partition="day")
    sources = [s for s in pipeline.graph().sources if not s.name.startswith("_")]
    rows = pa.table(
        {"id": [1, 2, 3], "day": ["b", "a", "b"], "n": [1, 1, 1], "_ordinal": [0, 0, 0]}
    )
    arrived: Any = {"theirs": Arrived(rows)}
    named = {"theirs": [("c",), ("a",)], "given": [("d",)]}
    found = presence_batches(sources, {}, arrived, named, Engines(None, Limits()))
    days = {name: sorted(batch.upserts().to_pydict()["day"]) for name, batch in found.items()}
    assert {name.split("_")[-1]: of for name, of in days.items()} == {
        "theirs": ["a", "b", "c"],
        "given": ["d"],
    }
