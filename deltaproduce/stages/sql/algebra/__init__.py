"""The relational algebra of queries: operators as frozen values, with typed columns.

A query is resolved to it (`resolve`), and it is evaluated over Arrow tables (`operators`). The
invariant: a value that exists is well formed; its constructor checks it. It needs no Spark.
"""
