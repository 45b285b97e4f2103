"""Tools for testing pipelines: a model to compare a store with, and strategies for random data.

Invariant: importing this package needs nothing but the library itself. The strategies need
Hypothesis, so they are imported by name: `from deltaproduce.testing import strategies`.

It is for tests only: the library itself does not import it. `dp.testing` loads it on first use.

To test a pipeline's functions without Spark:

    oracle = Oracle(shop)
    oracle.update({"orders": [Upsert((1,), (7, Decimal("9.50")))]})
    assert oracle.content("customer_totals") == [(7, 7, 0, Decimal("9.50"))]

To test one stage, also one of SQL, with rows for the stages that it reads, call `check_stage`:

    rows = {"orders": [{"order_id": 1, "customer_id": 7, "amount": Decimal("9.50")}]}
    check_stage(shop, "customer_totals", rows, [{"customer_id": 7, "total": Decimal("9.50")}])

To test the laws of your own aggregate, call `check_aggregate(MyAggregate(), [1, -1, None])`.
To compare a store with the model, table by table:

    frame = store.content("customer_totals", ordered=True)
    assert plain_rows(frame.collect()) == oracle.content("customer_totals")
"""

from deltaproduce.testing.aggregates import check_aggregate
from deltaproduce.testing.oracle import (
    Change,
    Delete,
    Oracle,
    Upsert,
    plain,
    plain_rows,
    sort_key,
)
from deltaproduce.testing.stages import check_stage

__all__ = [
    "Change",
    "Delete",
    "Oracle",
    "Upsert",
    "check_aggregate",
    "check_stage",
    "plain",
    "plain_rows",
    "sort_key",
]
