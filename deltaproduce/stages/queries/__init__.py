"""SQL queries as stages: parsed, checked to be key-local, and edited to return source keys.

A step computes a stage for the affected source keys only. So a query can be a stage only if each of
its rows comes from rows of one source key, and says which: it is *key-local*. `key_local` decides
this by a pass over the query's relation (`key_locality`).

The invariant: the package needs no Spark session to decide, and it only inserts into the text of a
query.
"""

from deltaproduce.stages.queries.query import Query, key_local

__all__ = ["Query", "key_local"]
