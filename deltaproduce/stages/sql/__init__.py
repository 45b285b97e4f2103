"""SQL shared by kinds with SQL in their definitions: its grammar, and its expressions.

It may not contain anything of one kind, or anything that knows stages or stores.
"""
