"""SQL shared by kinds with SQL in their definitions: grammar, expressions, aggregates.

It may not contain anything of one kind, or anything that knows stages or stores.
"""
