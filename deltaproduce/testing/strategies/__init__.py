"""Hypothesis strategies: data of any schema, histories of changes, and small random pipelines.

Invariant: what is drawn is legal input, and depends on Hypothesis' choices alone. Keys come from
small spaces, so that in a few versions they collide, vanish, come back and move.

It needs Hypothesis.
"""

from deltaproduce.testing.strategies.batches import changes, histories, key_pools, snapshots
from deltaproduce.testing.strategies.pipelines import pipelines
from deltaproduce.testing.strategies.typed_values import keys, values
from deltaproduce.testing.strategies.windows import partitioned, window_arguments

__all__ = [
    "changes",
    "histories",
    "key_pools",
    "keys",
    "partitioned",
    "pipelines",
    "snapshots",
    "values",
    "window_arguments",
]
