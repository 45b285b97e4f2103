"""Resolution: a query's text and the columns of stages become a relation of the algebra.

`query.resolved` is the one entry. The invariant: names mean what Spark takes them for; what is
refused here, Spark refuses, or SQL leaves its result undefined.
"""

from deltaproduce.stages.sql.resolve.query import Resolved, resolved

__all__ = ["Resolved", "resolved"]
