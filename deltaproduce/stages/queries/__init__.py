"""SQL queries as stages: read, checked to be key-local, and rewritten to say each row's source key.

A stage is computed for the source keys that are affected, and for no others. So a query can only be
a stage if each of its rows comes from rows of one source key, and says which: it is *key-local*.
`key_local` finds that out from the query's text and the names of its feeders' columns.

Invariant: the package needs no Spark session, and it only inserts into a query's text.
"""

from deltaproduce.stages.queries.keys import key_columns
from deltaproduce.stages.queries.query import Query, key_local

__all__ = ["Query", "key_columns", "key_local"]
