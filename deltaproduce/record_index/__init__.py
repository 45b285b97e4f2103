"""The record index: where each record of someone else's Delta table is, by its key.

The index maps a key to a *file group*: a file, and those that take its place as rows in it are
replaced, as in Hudi (https://hudi.apache.org/docs/indexes). So a rewritten file costs the index one
row, however many records are in it.
"""
