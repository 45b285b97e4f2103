"""The oracle: what every table of a pipeline must hold, computed from plain lists by brute force.

Invariant: each version is computed from the full state of the sources alone, every stage from
scratch, and updates by comparing two versions. Nothing here is incremental, and nothing is shared
with the code that it judges beyond the pipeline's definition.

A few lines a rule, each named after its rule in the contract (S1, S2, …), so that reading it is
enough to believe it: `store` has the versions and what is asked of them, `sources` what changes
make of a source, `producers` what a stage makes of its feeders; `rows` and `values` are what they
are made of, and `windows` where windows are.
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
