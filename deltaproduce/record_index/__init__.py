"""The record index: maps each key of someone else's Delta table to the file of its record.

The index maps a key to a *file group*: a file, and the files that replace it as its rows are
replaced, as in Hudi (https://hudi.apache.org/docs/indexes). So a rewritten file costs the index one
row, however many records are in it.
"""
