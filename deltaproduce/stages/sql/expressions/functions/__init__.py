"""Functions and operators that the driver computes: each has one entry, with its types and kernel.

A function is added in the module of its sort, and in the list of `docs/expressions.md`, which a
test compares with `table`.
"""
