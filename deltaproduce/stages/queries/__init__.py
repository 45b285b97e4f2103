"""SQL queries as stages: parsed, checked to be key-local, and edited to return source keys.

A step computes a stage for the affected source keys only. So a query can be a stage only if each of
its rows comes from rows of one source key, and says which: it is *key-local*. `key_local` decides
this from the query's text and the names of its feeders' columns.

The invariant: the package needs no Spark session, and it only inserts into a query's text.
"""

from deltaproduce.stages.queries.query import Query, key_local

__all__ = ["Query", "key_local"]
