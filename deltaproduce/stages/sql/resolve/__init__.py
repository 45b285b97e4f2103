"""Resolution: a query's text and the columns of stages become a relation of the algebra.

The functions of `query` are the entries. The invariant: names mean what Spark takes
them for; what is refused here, Spark refuses, or SQL leaves its result undefined.
"""

from deltaproduce.stages.sql.resolve.groups.grouping import is_aggregate
from deltaproduce.stages.sql.resolve.names import Named, Scope
from deltaproduce.stages.sql.resolve.query import (
    Resolved,
    as_written,
    check_told,
    for_spark,
    in_tasks,
    resolved,
)
from deltaproduce.stages.sql.resolve.reading import QueryContext

__all__ = [
    "Named",
    "QueryContext",
    "Resolved",
    "Scope",
    "as_written",
    "check_told",
    "for_spark",
    "in_tasks",
    "is_aggregate",
    "resolved",
]
