"""The oracle: what every table of a pipeline must hold, computed from plain lists by brute force.

Invariant: each version is computed from the full state of the sources alone, every stage from
scratch, and updates by comparing two versions. Nothing here is incremental, and nothing is shared
with the code that it judges beyond the pipeline's definition.

A few lines for each rule, named after it in the contract (S1, S2, …), so that reading the code is
enough to believe it: `store` has the versions and their queries, `sources` applies changes to a
source, and `producers` computes a stage from its feeders. `rows` and `values` are the data, and
`windows` computes the positions of windows.
"""

from deltaproduce.testing.oracle.sources import Change, Delete, Upsert
from deltaproduce.testing.oracle.store import Oracle
from deltaproduce.testing.oracle.values import Value, plain, plain_rows, record_items, sort_key

__all__ = [
    "Change",
    "Delete",
    "Oracle",
    "Upsert",
    "Value",
    "plain",
    "plain_rows",
    "record_items",
    "sort_key",
]
