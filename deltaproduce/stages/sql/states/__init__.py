"""Aggregate functions: what is kept of a group's rows, and the values that it becomes.

This package holds the calls that users write (`agg`), the states that they keep (`measures`, in
`exact` numbers), and how they are computed (`functions`). It may not contain anything of one kind,
or anything that knows stages or stores.
"""

from deltaproduce.stages.sql.states import agg

__all__ = ["agg"]
