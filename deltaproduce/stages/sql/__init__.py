"""SQL: what kinds whose definitions have SQL in them share: its grammar, and its expressions.

What may not be here: anything of one kind, and anything that knows stages or stores.
"""
